"""WeCom group robots: https://developer.work.weixin.qq.com/document/path/91770"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, ClassVar

from channels import escaping
from channels.answers import Call, Caller, Reading, as_code, settle
from channels.base import (
    SERIOUS,
    ChannelConfig,
    Limit,
    Message,
    Part,
    Severity,
    mentions,
)
from channels.config import secrets_of
from channels.cutting import MAX_PARTS, PLACEHOLDER, WIDEST_LABEL, body_of, cut, label, tail_for, utf8
from channels.fields import Mobiles, Url, UserIds, robot_meter, unusual_host
from channels.outcomes import look_up
from channels.outcomes.wecom import TABLE
from channels.transport import Response

HOST = "qyapi.weixin.qq.com"
MAX_TEXT = 2048  # UTF-8 bytes of `content`
MAX_MARKDOWN = 4096
MAX_TITLE = 100
MAX_CALLED = 512  # bytes of mentions that leave room enough
HEADING = 400  # bytes of a title, at most but for strange ones
EVERYBODY = "@all"


class WeComConfig(ChannelConfig):
    webhook_url: Url
    mentioned_user_ids: UserIds = ()
    mentioned_mobiles: Mobiles = ()

    def targets(self) -> tuple[str, ...]:
        return (self.webhook_url.get_secret_value(),)

    def meters(self) -> dict[str, str]:
        return robot_meter("wecom", self.webhook_url, "key")

    def lint(self) -> tuple[str, ...]:
        found = list(unusual_host(self.webhook_url, HOST))
        if self.mentioned_mobiles or EVERYBODY in self.mentioned_user_ids:
            found.append(
                "mentioned_mobiles: WeCom calls phone numbers and @all in plain text only,"
                " so each serious alert costs a second message of the robot's 20 a minute"
            )
        called = utf8("".join(f"<@{who}>" for who in self.mentioned_user_ids))
        if called > MAX_CALLED:
            found.append(f"mentioned_user_ids: take {called} of the {MAX_MARKDOWN} bytes that a message has")
        return tuple(found)


class WeCom(Caller):
    kind: ClassVar[str] = "wecom"
    Config: ClassVar[type[ChannelConfig]] = WeComConfig
    limits: ClassVar[tuple[Limit, ...]] = (Limit(20, timedelta(minutes=1)),)
    format: ClassVar[str] = "markdown"

    def escape(self, text: str) -> str:
        return escaping.wecom(text)

    def space(self, config: Mapping[str, Any]) -> tuple[int, ...]:
        names = sum(len(who) + 3 for who in config.get("mentioned_user_ids", ()))
        parts = MAX_PARTS - 1 if _calls_apart(config) else MAX_PARTS
        return tuple(n * (MAX_MARKDOWN - HEADING) - names for n in range(1, parts + 1))

    def sends(self, config: Mapping[str, Any], severity: Severity) -> int:
        return 2 if _calls_apart(config) and severity in SERIOUS else 1

    def parts(self, message: Message, config: WeComConfig) -> list[Part]:
        call = _call(message, config)
        room = MAX_PARTS - (1 if call else 0)

        def content(n: int, suffix: str, body: str) -> str:
            return _content(message, config, n=n, suffix=suffix, body=body)

        def budget(n: int) -> int:
            limit = MAX_TEXT if message.is_plain else MAX_MARKDOWN
            return limit - utf8(content(n, WIDEST_LABEL, PLACEHOLDER)) + len(PLACEHOLDER)

        text = body_of(message)
        tail = tail_for(text, message.link or "")
        budgets = [budget(n) for n in range(1, room + 1)]
        bodies = cut(text, budgets, utf8, tail, is_marked=not message.is_plain)
        payloads = [
            _payload(message, config, n=n, content=content(n, label(n, len(bodies)), body))
            for n, body in enumerate(bodies, 1)
        ]
        payloads += [call] if call else []
        return [Part(n, len(payloads), payload, message) for n, payload in enumerate(payloads, 1)]

    def call(self, part: Part, config: WeComConfig, now: datetime) -> Call:  # noqa: ARG002  it signs nothing
        return Call(config.webhook_url.get_secret_value(), part.payload, secrets_of(config))

    def read(self, response: Response, now: datetime) -> Reading:
        return read(response, now)


def read(response: Response, now: datetime) -> Reading:
    """Success is `errcode` 0 and nothing else."""
    body = response.json_object()
    code, said = as_code(body.get("errcode")), str(body.get("errmsg") or "")
    verdict = None if code is None else look_up(TABLE, code, said)
    return Reading(settle(response, verdict, now), None if code is None else str(code), said)


def _payload(message: Message, config: WeComConfig, *, n: int, content: str) -> dict[str, Any]:
    if not message.is_plain:
        return {"msgtype": "markdown", "markdown": {"content": content}}
    text: dict[str, Any] = {"content": content}
    if n == 1 and mentions(message):
        text["mentioned_list"] = list(config.mentioned_user_ids)
        text["mentioned_mobile_list"] = list(config.mentioned_mobiles)
    return {"msgtype": "text", "text": text}


def _content(message: Message, config: WeComConfig, *, n: int, suffix: str, body: str) -> str:
    title = escaping.one_line(message.title, MAX_TITLE) + suffix
    heading = escaping.unmention(title) if message.is_plain else f"### {escaping.wecom(title)}"
    inline = () if message.is_plain or n > 1 or not mentions(message) else _inline(config)
    called = "".join(f"<@{who}>" for who in inline)
    # A line apart, or it would belong to the quotation above it.
    return "\n".join(line for line in (heading, body, f"\n{called}" if called else "") if line)


def _inline(config: WeComConfig) -> tuple[str, ...]:
    return tuple(who for who in config.mentioned_user_ids if who != EVERYBODY)


def _calls_apart(config: Mapping[str, Any]) -> bool:
    return bool(config.get("mentioned_mobiles")) or EVERYBODY in config.get("mentioned_user_ids", ())


def _call(message: Message, config: WeComConfig) -> dict[str, Any] | None:
    """Markdown can call user ids only; for phone numbers and everybody a short text follows."""
    everybody = [EVERYBODY] if EVERYBODY in config.mentioned_user_ids else []
    if message.is_plain or not mentions(message) or not (everybody or config.mentioned_mobiles):
        return None
    content = escaping.unmention(escaping.one_line(message.title, MAX_TITLE))
    text = {
        "content": content,
        "mentioned_list": everybody,
        "mentioned_mobile_list": list(config.mentioned_mobiles),
    }
    return {"msgtype": "text", "text": text}
