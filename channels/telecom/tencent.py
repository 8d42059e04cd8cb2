"""Tencent Cloud: texts by SendSms (2021-01-11), calls by SendTtsVoice (2020-09-02).

https://cloud.tencent.com/document/api/382/55981, https://cloud.tencent.com/document/api/1128/51558
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta, timezone
from importlib import import_module
from itertools import groupby
from typing import Any, ClassVar
from urllib.parse import urlsplit

from channels.answers import Reading
from channels.base import Answer, Limit, Recipient, Sent
from channels.config import secrets_of
from channels.confined import answer_to
from channels.numbers import Rules, fitted, is_chinese
from channels.outcomes import tencent as codes
from channels.telecom.base import PHONE, SMS, Order, Telecom
from channels.telecom.exchange import Told, ask, judged, same, shown
from channels.transport import Network, NotSent, Response, Unanswered

HOSTS = {SMS: "sms.tencentcloudapi.com", PHONE: "vms.tencentcloudapi.com"}
MODULES = {
    SMS: ("tencentcloud.sms.v20210111", "sms_client"),
    PHONE: ("tencentcloud.vms.v20200902", "vms_client"),
}
REGION = "ap-guangzhou"  # the only one that offers both
CHINA = timezone(timedelta(hours=8))
NIGHT_BEGINS, NIGHT_ENDS = 22, 8
NIGHT = timedelta(hours=10)
SOONEST = timedelta(minutes=5)  # clocks differ: so much before a send its receipt is looked for
# A whole text has 500 characters, sign and template included: tencentcloud.com/document/product/382/40659.
TEXT_RULES = Rules(total=400, is_web_free=True, unwanted="【】")
CALL_RULES = Rules(
    total=300, is_web_free=True
)  # 350 for the whole: cloud.tencent.com/document/api/1128/51558
_CODE = re.compile(r"[A-Za-z0-9.]{1,100}")


class Tencent(Telecom):
    name: ClassVar[str] = "tencent"
    kinds: ClassVar[frozenset[str]] = frozenset({SMS, PHONE})
    module: ClassVar[str] = "tencentcloud.sms"
    extra: ClassVar[str] = "tencent"
    rules: ClassVar[Mapping[str, Rules]] = {SMS: TEXT_RULES, PHONE: CALL_RULES}
    # Of calls it tells the end by a callback to a public URL only.
    receipts_after: ClassVar[Mapping[str, tuple[timedelta, ...]]] = {
        SMS: tuple(timedelta(seconds=s) for s in (5, 25, 60, 300, 900, 3600)),
    }

    def check(self, kind: str, config: Any) -> None:
        if config.app_id is None:
            raise ValueError("app_id: Tencent wants the SdkAppId of an application, such as 1400006666")
        if config.template_id is None:
            raise ValueError("template_id: Tencent sends approved templates only: give its number")
        if isinstance(config.params, dict) and config.params:
            raise ValueError('params: Tencent counts its variables: give a list, ["{{ job }}"]')
        for field in ("from_", "called_show_number"):
            if getattr(config, field, None) is not None:
                raise ValueError(f"{field.rstrip('_')}: Tencent has no such thing: leave it out")
        if kind == SMS:
            _check_text(config)

    def limits(self, kind: str, now: datetime) -> tuple[Limit, ...]:
        if kind == SMS:  # cloud.tencent.com/developer/techpedia/1295/8938
            return (Limit(1, timedelta(seconds=30)), Limit(10, timedelta(days=1)))
        # cloud.tencent.com/document/product/213/38004
        usual = (
            Limit(1, timedelta(seconds=30)),
            Limit(2, timedelta(minutes=10)),
            Limit(5, timedelta(days=1)),
        )
        morning = _morning(now)
        return (*usual, Limit(1, NIGHT, morning)) if morning is not None else usual

    def text(self, order: Order, config: Any, network: Network, now: datetime) -> Answer:
        asked = {
            "PhoneNumberSet": list(order.to),
            "SmsSdkAppId": config.app_id,
            "SignName": config.sign_name,
            "TemplateId": config.template_id,
            "TemplateParamSet": list(fitted(order.params, TEXT_RULES).values()),
            "SessionContext": order.reference,
        }
        return self._ordered(SMS, "SendSms", asked, order, config, network, now)

    def call(self, order: Order, config: Any, network: Network, now: datetime) -> Answer:
        asked = {
            "CalledNumber": order.to[0],
            "VoiceSdkAppid": config.app_id,
            "TemplateId": config.template_id,
            "TemplateParamSet": list(fitted(order.params, CALL_RULES).values()),
            "PlayTimes": config.play_times,
            "SessionContext": order.reference,
        }
        return self._ordered(PHONE, "SendTtsVoice", asked, order, config, network, now)

    def receipts(
        self, kind: str, sent: Sequence[Sent], config: Any, network: Network, now: datetime
    ) -> tuple[Recipient, ...]:
        if kind != SMS:
            return ()
        by_number = groupby(sorted(sent, key=lambda one: one.to), key=lambda one: one.to)
        return tuple(
            found
            for number, group in by_number
            for found in _receipts_of(number, list(group), config, network, now)
        )

    def _ordered(
        self, kind: str, action: str, asked: Mapping[str, Any], order: Order, config: Any, network: Network,
        now: datetime,
    ) -> Answer:  # fmt: skip
        known = {name: value for name, value in asked.items() if value is not None}
        return ask(
            lambda: _sdk(kind, action, known, config, network),
            lambda response: _read(kind, response, order),
            order,
            shown(action, config.url(HOSTS[kind]), known),
            secrets_of(config),
            now,
        )


def _check_text(config: Any) -> None:
    homely = [is_chinese(number) for number in config.to]
    if any(homely) and not all(homely):
        raise ValueError("to: Tencent takes numbers of +86 and of elsewhere in channels of their own only")
    if all(homely) and config.sign_name is None:
        raise ValueError("sign_name: Tencent wants the approved signature that the text begins with")


def _morning(now: datetime) -> datetime | None:
    """When the night of the quota ends, if it is night."""
    local = now.astimezone(CHINA)
    if NIGHT_ENDS <= local.hour < NIGHT_BEGINS:
        return None
    ends = local.replace(hour=NIGHT_ENDS, minute=0, second=0, microsecond=0)
    return ends + timedelta(days=1) if local.hour >= NIGHT_BEGINS else ends


def _read(kind: str, response: Response, order: Order) -> tuple[Told, ...]:
    """`Response.Error` is of the whole request; `SendStatusSet` tells of each number by itself."""
    body = _object(response.json_object().get("Response"))
    error = _object(body.get("Error"))
    if error or not body:
        code, said = _code(error.get("Code")), _text(error.get("Message")) or ""
        return same(order, Reading(judged(response, code, codes.verdict(kind, code)), code, said))
    if kind == PHONE:
        call_id = _text(_object(body.get("SendStatus")).get("CallId"))
        code = "Ok" if call_id else None
        return same(order, Reading(judged(response, code, codes.verdict(kind, code)), code), call_id)
    statuses = {_text(one.get("PhoneNumber")): one for one in _objects(body.get("SendStatusSet"))}
    return tuple(_told(number, response, statuses.get(number, {})) for number in order.to)


def _told(number: str, response: Response, status: Mapping[str, Any]) -> Told:
    code, said = _code(status.get("Code")), _text(status.get("Message")) or ""
    verdict = judged(response, code, codes.verdict(SMS, code))
    return Told(number, Reading(verdict, code, said), _text(status.get("SerialNo")))


def _receipts_of(
    number: str, sent: list[Sent], config: Any, network: Network, now: datetime
) -> Iterator[Recipient]:
    """By SerialNo; where the answer was lost, by our own id, which it gives back as SessionContext."""
    asked = {
        "BeginTime": int((min(one.at for one in sent) - SOONEST).timestamp()),
        "EndTime": int((now + SOONEST).timestamp()),
        "Offset": 0,
        "Limit": 100,
        "PhoneNumber": number,
        "SmsSdkAppId": config.app_id,
    }
    try:
        response = _sdk(SMS, "PullSmsSendStatusByPhoneNumber", asked, config, network)
    except (NotSent, Unanswered):
        return
    body = _object(response.json_object().get("Response"))
    rows = _objects(body.get("PullSmsSendStatusSet"))
    for one in sent:
        name, wanted = ("SerialNo", one.message_id) if one.message_id else ("SessionContext", one.delivery_id)
        row = next((row for row in rows if row.get(name) == wanted), {})
        outcome = codes.RECEIPTS.get(_text(row.get("ReportStatus")) or "")
        if outcome is not None:
            message_id = _text(row.get("SerialNo")) or one.message_id
            yield Recipient(number, outcome, _text(row.get("Description")), message_id)


def _sdk(kind: str, action: str, asked: Mapping[str, Any], config: Any, network: Network) -> Response:
    """One call through the official SDK, which retries nothing unless it is told to.

    Raises:
        NotSent, Unanswered: as `Network.request`.
    """
    client, request = _prepared(kind, action, asked, config, network)
    return answer_to(lambda: getattr(client, action)(request), network)


def _prepared(kind: str, action: str, asked: Mapping[str, Any], config: Any, network: Network) -> Any:
    name, client = MODULES[kind]
    credential = import_module("tencentcloud.common.credential")
    profiles = import_module("tencentcloud.common.profile.client_profile")
    where = urlsplit(config.url(HOSTS[kind]))
    http = profiles.HttpProfile(
        protocol=where.scheme, endpoint=where.netloc, reqTimeout=network.timeout_s, keepAlive=False
    )
    keys = (config.credentials[key].get_secret_value() for key in ("secret_id", "secret_key"))
    request = getattr(import_module(f"{name}.models"), f"{action}Request")()
    for field, value in asked.items():
        setattr(request, field, value)
    make = getattr(import_module(f"{name}.{client}"), client.title().replace("_", ""))
    profile = profiles.ClientProfile(httpProfile=http)
    return make(credential.Credential(*keys), config.region or REGION, profile), request


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _objects(value: Any) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _code(value: Any) -> str | None:
    return value if isinstance(value, str) and _CODE.fullmatch(value) else None
