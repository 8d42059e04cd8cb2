"""Baidu AI Cloud: texts by version 3 of its SMS. What became of one it tells by a callback only.

https://cloud.baidu.com/doc/SMS/s/Yjwvxrwzb
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from functools import partial
from http.client import HTTPException
from typing import Any, ClassVar
from urllib.parse import urlsplit

from channels.answers import Reading
from channels.base import Answer, Limit, Outcome
from channels.config import secrets_of
from channels.confined import Wire, confined
from channels.numbers import Rules, domestic, fitted, is_chinese
from channels.outcomes.baidu import CODES, SUCCESS
from channels.telecom.base import SMS, Order, Telecom
from channels.telecom.exchange import UNSAID, Told, ask, judged, same, shown
from channels.transport import MAX_BODY, Network, NotSent, Response

REGION = "bj"
# 600 characters are for template and values together; 4608: brackets of any kind are not taken.
RULES = {SMS: Rules(each=200, total=400, is_web_free=True, unwanted="()[]（）【】")}


class Baidu(Telecom):
    name: ClassVar[str] = "baidu"
    kinds: ClassVar[frozenset[str]] = frozenset({SMS})
    module: ClassVar[str] = "baidubce"
    extra: ClassVar[str] = "baidu"
    rules: ClassVar[Mapping[str, Rules]] = RULES

    def check(self, kind: str, config: Any) -> None:  # noqa: ARG002  texts only
        if config.template_id is None:
            raise ValueError(
                "template_id: Baidu sends approved templates only: give its id, such as sms-tmpl-…"
            )
        if config.sign_name is None:
            raise ValueError("sign_name: Baidu wants the id of the approved signature, such as sms-sign…")
        if isinstance(config.params, tuple) and config.params:
            raise ValueError('params: Baidu names its variables: give a map, {"job": "{{ job }}"}')
        for field in ("app_id", "from_"):
            if getattr(config, field) is not None:
                raise ValueError(f"{field.rstrip('_')}: Baidu has no such thing: leave it out")

    def limits(self, kind: str, now: datetime) -> tuple[Limit, ...]:  # noqa: ARG002  the same all day
        # Of notifications, for one number: cloud.baidu.com/doc/SMS/s/Rkih1xo03
        return (
            Limit(3, timedelta(minutes=1)),
            Limit(10, timedelta(hours=1)),
            Limit(50, timedelta(hours=24)),
        )

    def text(self, order: Order, config: Any, network: Network, now: datetime) -> Answer:
        asked = {
            "signature_id": config.sign_name,
            "template_id": config.template_id,
            "mobile": ",".join(map(_mobile, order.to)),
            "content_var_dict": fitted(order.params, RULES[SMS]),
            "custom": order.reference,  # comes back in the callback
        }
        url = config.url(f"smsv3.{config.region or REGION}.baidubce.com")
        return ask(
            lambda: _sdk(url, asked, config, network),
            lambda response: _read(response, order),
            order,
            shown("send_message", url, asked),
            secrets_of(config),
            now,
        )


def _read(response: Response, order: Order) -> tuple[Told, ...]:
    body = response.json_object()
    reading = _reading(response, body)
    if reading.code != SUCCESS or reading.verdict.outcome is not Outcome.ACCEPTED:
        return same(order, reading)
    data = body.get("data")
    rows = [row for row in data if isinstance(row, dict)] if isinstance(data, list) else []
    by_number = {_mobile(str(row.get("mobile") or "")): row for row in rows}
    return tuple(_told(to, by_number.get(_mobile(to)), response) for to in order.to)


def _told(to: str, row: Mapping[str, Any] | None, response: Response) -> Told:
    if row is None:
        return Told(to, Reading(UNSAID))
    message_id = row.get("messageId")
    return Told(to, _reading(response, row), message_id if isinstance(message_id, str) else None)


def _reading(response: Response, said: Mapping[str, Any]) -> Reading:
    code = said.get("code")
    code = code if isinstance(code, str) and code else None
    return Reading(judged(response, code, CODES.get(code or "")), code, str(said.get("message") or ""))


def _sdk(url: str, asked: Mapping[str, Any], config: Any, network: Network) -> Response:
    """One call through the official SDK, its retries off.

    Raises:
        NotSent, Unanswered: as `Network.request`.
    """
    kept: list[Response] = []
    with confined(network) as wire:
        client = _client(url, config, wire)
        # Its own reader keeps neither the HTTP status nor an answer that is no JSON.
        client._send_request = partial(client._send_request, body_parser=partial(_keep, kept))  # noqa: SLF001
        try:
            client.send_message(**asked)
        except Exception:
            if not kept:
                raise
        wire.finish()
        if not kept:
            raise NotSent("the SDK made no request")
        return kept[-1]


def _client(url: str, config: Any, wire: Wire) -> Any:
    from baidubce import protocol
    from baidubce.auth.bce_credentials import BceCredentials
    from baidubce.bce_client_configuration import BceClientConfiguration
    from baidubce.retry.retry_policy import NoRetryPolicy
    from baidubce.services.sms.sms_client import SmsClient

    where, proxy = urlsplit(url), wire.proxy_for(url)
    if proxy is not None and where.scheme == "http":
        raise NotSent("Baidu's SDK speaks to a proxy over TLS only: give an https endpoint")
    through = urlsplit(proxy) if proxy is not None else None
    keys = config.credentials
    return SmsClient(
        BceClientConfiguration(
            credentials=BceCredentials(
                keys["access_key_id"].get_secret_value(), keys["access_key_secret"].get_secret_value()
            ),
            endpoint=where.netloc,
            protocol=protocol.HTTP if where.scheme == "http" else protocol.HTTPS,
            connection_timeout_in_mills=int(wire.network.timeout_s * 1000),
            retry_policy=NoRetryPolicy(),
            proxy_host=through.hostname if through else None,
            proxy_port=(through.port or 80) if through else None,
        )
    )


def _keep(kept: list[Response], raw: Any, _response: Any) -> bool:
    """Takes the place of the SDK's reader of answers."""
    body, is_whole = b"", True
    try:
        while len(body) <= MAX_BODY and (chunk := raw.read(16 * 1024)):
            body += chunk
        is_whole = not raw.length or len(body) > MAX_BODY  # what was announced and never came
    except (OSError, HTTPException):
        is_whole = False
    headers = {name.lower(): value for name, value in raw.getheaders()}
    kept.append(Response(raw.status, headers, body[:MAX_BODY], is_whole))
    raw.close()
    return True


def _mobile(number: str) -> str:
    """Eleven digits in China, elsewhere E.164 with its plus."""
    return domestic(number) if is_chinese(number) else number
