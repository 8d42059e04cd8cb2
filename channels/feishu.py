"""Feishu and Lark group robots: https://open.feishu.cn/document/client-docs/bot-v3/add-custom-bot"""

import base64
import hashlib
import hmac
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Annotated, Any, ClassVar

from pydantic import Field

from channels import escaping
from channels.answers import (
    BAD_FORM,
    DELIVERED,
    TOO_LONG,
    Call,
    Reading,
    Verdict,
    as_code,
    ask,
    settle,
)  # fmt: skip
from channels.base import (
    Adapter,
    Answer,
    ChannelConfig,
    Limit,
    Mend,
    Message,
    Outcome,
    Part,
    Severity,
    mentions,
)
from channels.config import secrets_of
from channels.cutting import MAX_PARTS, PLACEHOLDER, WIDEST_LABEL, body_of, cut, in_json, label, tail_for
from channels.fields import Keyword, Secret, Url, UserIds, robot_meter, unusual_host
from channels.transport import Network, Response, encode

HOSTS = ("open.feishu.cn", "open.larksuite.com")
MAX_BODY = 20_000  # "20 KB" of the whole request; whether a KB is 1000 or 1024 bytes is not said
MAX_TITLE = 120
SIGNED = {"timestamp": "0" * 10, "sign": "0" * 44}  # what the signature will take up

RATE = Verdict(Outcome.THROTTLED, retry_after=timedelta(seconds=1), repeated_after=timedelta(minutes=1))
BROKEN_TOKEN = Verdict(Outcome.CHANNEL_BROKEN, hint="the token in webhook_url is not known to Feishu")

# Mostly with HTTP 200; 9499 with 400 too (ccfos/nightingale#1437). A code that is not listed is not success.
OUTCOMES: Mapping[int, Verdict] = {
    0: DELIVERED,
    11232: RATE,  # frequency limited; the full and the half hour are the busy ones
    99991400: RATE,
    19021: Verdict(
        Outcome.CHANNEL_BROKEN, Mend.SIGN_AGAIN, hint="the channel's secret is wrong, or this machine's clock"
    ),
    19022: Verdict(Outcome.CHANNEL_BROKEN, hint="the robot's IP list does not hold this machine's address"),
    19024: Verdict(Outcome.REFUSED, hint="the robot asks for a keyword: set the channel's keyword to it"),
    19001: BAD_FORM,
    19002: BAD_FORM,
    19036: BAD_FORM,
    11246: BAD_FORM,  # parse card json err: as text it may still get through
    200621: BAD_FORM,
}
COLOURS = {
    Severity.INFO: "blue",
    Severity.WARNING: "orange",
    Severity.ERROR: "red",
    Severity.CRITICAL: "carmine",
}
RESOLVED = "green"


class FeishuConfig(ChannelConfig):
    webhook_url: Url
    secret: Secret | None = None
    keyword: Keyword | None = None
    at_open_ids: Annotated[UserIds, Field(description="open_id (ou_…) or user_id")] = ()
    at_all: bool = False

    def targets(self) -> tuple[str, ...]:
        return (self.webhook_url.get_secret_value(),)

    def meters(self) -> dict[str, str]:
        return robot_meter("feishu", self.webhook_url)

    def lint(self) -> tuple[str, ...]:
        found = list(unusual_host(self.webhook_url, *HOSTS))
        if self.at_all:
            found.append("at_all: where the group does not allow @all, Feishu refuses the whole card")
        return tuple(found)


class Feishu(Adapter):
    kind: ClassVar[str] = "feishu"
    Config: ClassVar[type[ChannelConfig]] = FeishuConfig
    limits: ClassVar[tuple[Limit, ...]] = (Limit(5, timedelta(seconds=1)), Limit(100, timedelta(minutes=1)))
    format: ClassVar[str] = "lark"

    def escape(self, text: str) -> str:
        return escaping.lark(text)

    def parts(self, message: Message, config: FeishuConfig) -> list[Part]:
        def payload(n: int, suffix: str, body: str) -> dict[str, Any]:
            return _payload(message, config, n=n, suffix=suffix, body=body)

        def budget(n: int) -> int:
            frame = {**payload(n, WIDEST_LABEL, PLACEHOLDER), **SIGNED}
            return MAX_BODY - len(encode(frame)) + len(PLACEHOLDER)

        text = body_of(message)
        budgets = [budget(n) for n in range(1, MAX_PARTS + 1)]
        bodies = cut(text, budgets, in_json, tail_for(text, message.link or ""))
        of = len(bodies)
        return [Part(n, of, payload(n, label(n, of), body), message) for n, body in enumerate(bodies, 1)]

    def send(
        self,
        part: Part,
        config: FeishuConfig,
        network: Network,
        now: datetime,
        only: frozenset[str] | None = None,  # noqa: ARG002  a robot has no recipients
    ) -> Answer:
        payload = {**part.payload, **signed(config, now)}
        url = config.webhook_url.get_secret_value()
        call = Call(url, payload, secrets_of(config), shown=part.payload)
        return ask(network, call, lambda response: read(response, now))


def signature(secret: str, timestamp_s: int) -> str:
    """The secret is part of the key, and nothing is the message: not as DingTalk does it."""
    key = f"{timestamp_s}\n{secret}".encode()
    return base64.b64encode(hmac.digest(key, b"", hashlib.sha256)).decode()


def signed(config: FeishuConfig, now: datetime) -> dict[str, str]:
    """What a signed robot wants in the body: seconds, as text."""
    if config.secret is None:
        return {}
    stamp = int(now.timestamp())
    return {"timestamp": str(stamp), "sign": signature(config.secret.get_secret_value(), stamp)}


def read(response: Response, now: datetime) -> Reading:
    """Success is `code` 0, or `StatusCode` 0 in older replies; where both are given, both must be."""
    body = response.json_object()
    codes = [as_code(body[name]) for name in ("code", "StatusCode") if name in body]
    code = next((found for found in codes if found != 0), 0) if codes else None
    said = str(body.get("msg") or body.get("StatusMessage") or "")
    verdict = None if code is None else classify(code, said)
    return Reading(settle(response, verdict, now), None if code is None else str(code), said)


def classify(code: int, msg: str) -> Verdict | None:
    """9499 is two things, the rate limit and a bad body, and only the message tells."""
    words = msg.lower()
    if code == 9499:
        if "too many" in words or "frequency" in words or "limit" in words:
            return RATE
        return TOO_LONG if "large" in words or "size" in words else BAD_FORM
    if code == 19001 and "token" in words:  # param invalid: incoming webhook access token invalid
        return BROKEN_TOKEN
    return OUTCOMES.get(code)


def _payload(message: Message, config: FeishuConfig, *, n: int, suffix: str, body: str) -> dict[str, Any]:
    title = escaping.one_line(message.title, MAX_TITLE) + suffix
    called = _called(message, config) if n == 1 and mentions(message) else ""
    keyword = config.keyword if config.keyword and config.keyword not in body else ""
    if message.is_plain:
        words = "\n".join(line for line in (escaping.unmention(title), body, called, keyword) if line)
        return {"msg_type": "text", "content": {"text": words}}
    content = "\n".join(line for line in (body, called, keyword) if line)
    colour = COLOURS[message.severity] if message.status == "firing" else RESOLVED
    card = {
        "config": {"wide_screen_mode": True},
        "header": {"template": colour, "title": {"tag": "plain_text", "content": title}},
        "elements": [{"tag": "div", "text": {"tag": "lark_md", "content": content}}],
    }
    return {"msg_type": "interactive", "card": card}


def _called(message: Message, config: FeishuConfig) -> str:
    """Cards and texts call people by different tags."""
    who = [*(["all"] if config.at_all else []), *config.at_open_ids]
    form = '<at user_id="{}"></at>' if message.is_plain else "<at id={}></at>"
    return " ".join(form.format(one) for one in who)
