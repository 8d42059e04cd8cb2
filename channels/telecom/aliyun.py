"""Aliyun (Alibaba Cloud): texts by SendSms, calls by SingleCallByTts, and what became of both.

https://help.aliyun.com/zh/sms/developer-reference/api-dysmsapi-2017-05-25-sendsms
https://help.aliyun.com/zh/vms/developer-reference/api-dyvmsapi-2017-05-25-singlecallbytts
"""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta, timezone
from hashlib import sha256
from importlib import import_module
from typing import Any, ClassVar
from urllib.parse import urlsplit

from channels.answers import Reading
from channels.base import Answer, Limit, Outcome, Recipient, Sent
from channels.config import secrets_of
from channels.confined import answer_to
from channels.numbers import Rules, domestic, fitted
from channels.outcomes import aliyun as codes
from channels.telecom.base import PHONE, SMS, Order, Telecom
from channels.telecom.exchange import UNSAID, ask, judged, same, shown
from channels.transport import Network, NotSent, Response, Unanswered

HOSTS = {SMS: "dysmsapi.aliyuncs.com", PHONE: "dyvmsapi.aliyuncs.com"}
MODULES = {SMS: "alibabacloud_dysmsapi20170525", PHONE: "alibabacloud_dyvmsapi20170525"}
CHINA = timezone(timedelta(hours=8))  # in which it counts days and tells times
RULES = {
    # A notification's variable: help.aliyun.com/document_detail/463270.htm. 【】 mark the sign.
    SMS: Rules(each=35, is_web_free=True, unwanted="【】"),
    # "The variables in the template must be less than 250 characters in length" (SingleCallByTts, TtsParam).
    PHONE: Rules(total=240, is_web_free=True, unwanted="【】"),
}
PAGE = 50  # the most rows that QuerySendDetails gives at once: as many as a number may be sent in a day
CALL_PRODUCT = 11010000138001  # ProdId of what SingleCallByTts sends, notifications included
MAX_CALL_REFERENCE = 15  # OutId of a call; a text's has 256


class Aliyun(Telecom):
    name: ClassVar[str] = "aliyun"
    kinds: ClassVar[frozenset[str]] = frozenset({SMS, PHONE})
    module: ClassVar[str] = "alibabacloud_dysmsapi20170525"
    extra: ClassVar[str] = "aliyun"
    rules: ClassVar[Mapping[str, Rules]] = RULES
    receipts_after: ClassVar[Mapping[str, tuple[timedelta, ...]]] = {
        SMS: tuple(timedelta(seconds=s) for s in (5, 25, 60, 300, 900, 3600)),
        # A call's state may lag its end by minutes (help.aliyun.com/zh/vms/support/api-sdk-faq).
        PHONE: tuple(timedelta(seconds=s) for s in (20, 20, 30, 60, 120, 300)),
    }

    def check(self, kind: str, config: Any) -> None:
        if config.template_id is None:
            raise ValueError(
                "template_id: Aliyun sends approved templates only: give its code, such as SMS_1"
            )
        if kind == SMS and config.sign_name is None:
            raise ValueError("sign_name: Aliyun wants the approved signature that the text begins with")
        if isinstance(config.params, tuple) and config.params:
            raise ValueError('params: Aliyun names its variables: give a map, {"job": "{{ job }}"}')
        for field in ("app_id", "from_"):
            if getattr(config, field) is not None:
                raise ValueError(f"{field.rstrip('_')}: Aliyun has no such thing: leave it out")

    def counted(self, kind: str, config: Any) -> tuple[str, ...]:
        # A number's texts by sign and template; its calls by qualification and purpose, that is by account.
        return (config.sign_name, config.template_id) if kind == SMS else ()

    def limits(self, kind: str, now: datetime) -> tuple[Limit, ...]:  # noqa: ARG002  the same all day
        day = timedelta(hours=24)
        if kind == SMS:  # help.aliyun.com/document_detail/2881383.html
            return (Limit(50, day),)
        # help.aliyun.com/document_detail/178344.html
        return (Limit(1, timedelta(minutes=1)), Limit(5, timedelta(hours=1)), Limit(20, day))

    def text(self, order: Order, config: Any, network: Network, now: datetime) -> Answer:
        asked = {
            "phone_numbers": ",".join(domestic(number) for number in order.to),
            "sign_name": config.sign_name,
            "template_code": config.template_id,
            "template_param": _json(fitted(order.params, RULES[SMS])),
            "out_id": order.reference,
        }
        return self._ordered(SMS, "send_sms", asked, order, config, network, now)

    def call(self, order: Order, config: Any, network: Network, now: datetime) -> Answer:
        asked = {
            "called_number": domestic(order.to[0]),
            "called_show_number": config.called_show_number,
            "tts_code": config.template_id,
            "tts_param": _json(fitted(order.params, RULES[PHONE])),
            "play_times": config.play_times,
            "out_id": sha256(order.reference.encode()).hexdigest()[:MAX_CALL_REFERENCE],
        }
        return self._ordered(PHONE, "single_call_by_tts", asked, order, config, network, now)

    def receipts(
        self, kind: str, sent: Sequence[Sent], config: Any, network: Network, now: datetime
    ) -> tuple[Recipient, ...]:
        look = self._text_receipt if kind == SMS else self._call_receipt
        found = (look(one, config, network, now) for one in sent)
        return tuple(one for one in found if one is not None)

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

    def _text_receipt(self, one: Sent, config: Any, network: Network, now: datetime) -> Recipient | None:
        """By BizId; where the answer was lost, by our own id, which it gives back as OutId."""
        rows: list[dict[str, Any]] = []
        for day in sorted({_day(one.at), _day(one.at + timedelta(minutes=1))}):
            asked = {"phone_number": domestic(one.to), "send_date": day, "page_size": PAGE, "current_page": 1}
            known = {"biz_id": one.message_id} if one.message_id else {}
            body = _asked(SMS, "query_send_details", {**asked, **known}, config, network)
            details = _at(body, "SmsSendDetailDTOs", "SmsSendDetailDTO")
            if not isinstance(details, list) or (len(details) >= PAGE and not known):
                return None  # what is missing may stand on another page
            rows += [row for row in details if isinstance(row, dict)]
        if not one.message_id:
            rows = [row for row in rows if row.get("OutId") == one.delivery_id]
        return codes.text_receipt(one, rows, now)

    def _call_receipt(
        self,
        one: Sent,
        config: Any,
        network: Network,
        now: datetime,  # noqa: ARG002  as for texts
    ) -> Recipient | None:
        """A call can be asked for by its CallId only: without one nothing is known of it, ever."""
        if not one.message_id:
            return None
        asked = {
            "call_id": one.message_id,
            "prod_id": CALL_PRODUCT,
            "query_date": int((one.at - timedelta(minutes=5)).timestamp() * 1000),
        }
        body = _asked(PHONE, "query_call_detail_by_call_id", asked, config, network)
        data = body.get("Data") if body is not None else None
        try:
            state = json.loads(data) if isinstance(data, str) and data else {}
        except (ValueError, RecursionError):
            state = {}
        return codes.call_receipt(one, state if isinstance(state, dict) else {})


def _read(kind: str, response: Response, order: Order) -> Any:
    body = response.json_object()
    code, said = body.get("Code"), str(body.get("Message") or "")
    code = code if isinstance(code, str) and code else None
    verdict = judged(response, code, codes.verdict(kind, code, said))
    given = body.get("BizId" if kind == SMS else "CallId")
    message_id = given if isinstance(given, str) and given else None
    if verdict.outcome is Outcome.ACCEPTED and message_id is None:
        verdict = UNSAID
    return same(order, Reading(verdict, code, said), message_id)


def _asked(
    kind: str, action: str, asked: Mapping[str, Any], config: Any, network: Network
) -> dict[str, Any] | None:
    """The body of an answer to a question; None where there was none that says OK."""
    try:
        response = _sdk(kind, action, asked, config, network)
    except (NotSent, Unanswered):
        return None
    body = response.json_object()
    return body if response.status == 200 and response.is_whole and body.get("Code") == "OK" else None


def _sdk(kind: str, action: str, asked: Mapping[str, Any], config: Any, network: Network) -> Response:
    """One call through the official SDK, which retries nothing unless it is told to.

    Raises:
        NotSent, Unanswered: as `Network.request`.
    """
    client, request, runtime = _prepared(kind, action, asked, config, network)
    return answer_to(lambda: getattr(client, f"{action}_with_options")(request, runtime), network)


def _prepared(kind: str, action: str, asked: Mapping[str, Any], config: Any, network: Network) -> Any:
    from alibabacloud_tea_openapi.utils_models import Config
    from darabonba.runtime import RuntimeOptions

    module = import_module(f"{MODULES[kind]}.client")
    models = import_module(f"{MODULES[kind]}.models")
    where = urlsplit(config.url(HOSTS[kind]))
    timeout_ms = int(network.timeout_s * 1000)
    client = module.Client(
        Config(
            access_key_id=config.credentials["access_key_id"].get_secret_value(),
            access_key_secret=config.credentials["access_key_secret"].get_secret_value(),
            # A region's own host is the SDK's to know.
            endpoint=where.netloc if config.endpoint or not config.region else None,
            protocol=where.scheme, region_id=config.region,
            read_timeout=timeout_ms, connect_timeout=timeout_ms, user_agent="Faultcast",
        )
    )  # fmt: skip
    name = "".join(word.capitalize() for word in action.split("_"))
    runtime = RuntimeOptions(autoretry=False, max_attempts=1)
    return client, getattr(models, f"{name}Request")(**asked), runtime


def _json(params: Mapping[str, str]) -> str | None:
    return json.dumps(params, ensure_ascii=False) if params else None


def _day(moment: datetime) -> str:
    return moment.astimezone(CHINA).strftime("%Y%m%d")


def _at(body: Any, *path: str) -> Any:
    for name in path:
        body = body.get(name) if isinstance(body, dict) else None
    return body
