"""Feishu and Lark group robots: https://open.feishu.cn/document/client-docs/bot-v3/add-custom-bot"""

import base64
import hashlib
import hmac
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Annotated, Any, ClassVar

from pydantic import Field

from channels import escaping
from channels.answers import Call, Caller, Reading, as_code, settle
from channels.base import (
    ChannelConfig,
    Limit,
    Message,
    Part,
    Severity,
    mentions,
)
from channels.config import secrets_of
from channels.cutting import (
    MAX_PARTS,
    PLACEHOLDER,
    WIDEST_LABEL,
    body_of,
    cut,
    in_json,
    label,
    tail_for,
    without_link,
)
from channels.fields import Flag, Keyword, Secret, Url, UserIds, robot_meter, unusual_host
from channels.outcomes import look_up
from channels.outcomes.feishu import TABLE
from channels.transport import Response, encode

HOSTS = ("open.feishu.cn", "open.larksuite.com")
MAX_BODY = 20_000  # "20 KB" of the whole request; whether a KB is 1000 or 1024 bytes is not said
SPACE = MAX_BODY - 4000  # of a part, less title, names and keyword
MAX_TITLE = 120
SHORT = 28  # columns of half a card's width
LINK = "Details"
SIGNED = {"timestamp": "0" * 10, "sign": "0" * 44}  # what the signature will take up

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
    at_all: Flag = False

    def targets(self) -> tuple[str, ...]:
        return (self.webhook_url.get_secret_value(),)

    def meters(self) -> dict[str, str]:
        return robot_meter("feishu", self.webhook_url)

    def lint(self) -> tuple[str, ...]:
        found = list(unusual_host(self.webhook_url, *HOSTS))
        if self.at_all:
            found.append("at_all: where the group does not allow @all, nobody is called")
        if self.secret is None and self.keyword is None:
            found.append("secret, keyword: neither is set; whoever learns the URL can write to the group")
        return tuple(found)


class Feishu(Caller):
    kind: ClassVar[str] = "feishu"
    Config: ClassVar[type[ChannelConfig]] = FeishuConfig
    limits: ClassVar[tuple[Limit, ...]] = (Limit(5, timedelta(seconds=1)), Limit(100, timedelta(minutes=1)))
    format: ClassVar[str] = "lark"

    def escape(self, text: str) -> str:
        return escaping.lark(text)

    def space(self, config: Mapping[str, Any]) -> tuple[int, ...]:  # noqa: ARG002  names and keyword are short
        return tuple(n * SPACE for n in range(1, MAX_PARTS + 1))

    def parts(self, message: Message, config: FeishuConfig) -> list[Part]:
        sheet = _sheet(message, config)
        if sheet is not None and len(encode({**sheet, **SIGNED})) <= MAX_BODY:
            return [Part(1, 1, sheet, message)]
        return self._cut(message, config)

    def _cut(self, message: Message, config: FeishuConfig) -> list[Part]:
        """As many cards of running text as it takes."""

        def payload(n: int, suffix: str, body: str) -> dict[str, Any]:
            return _payload(message, config, n=n, suffix=suffix, body=body)

        def budget(n: int) -> int:
            frame = {**payload(n, WIDEST_LABEL, PLACEHOLDER), **SIGNED}
            return MAX_BODY - len(encode(frame)) + len(PLACEHOLDER)

        has_button = bool(message.link) and not message.is_plain
        text = without_link(message) if has_button else body_of(message)
        tail = tail_for(text, "" if has_button else message.link or "")
        budgets = [budget(n) for n in range(1, MAX_PARTS + 1)]
        bodies = cut(text, budgets, in_json, tail, is_marked=not message.is_plain)
        of = len(bodies)
        return [Part(n, of, payload(n, label(n, of), body), message) for n, body in enumerate(bodies, 1)]

    def call(self, part: Part, config: FeishuConfig, now: datetime) -> Call:
        payload = {**part.payload, **signed(config, now)}
        url = config.webhook_url.get_secret_value()
        return Call(url, payload, secrets_of(config), shown=part.payload)

    def read(self, response: Response, now: datetime) -> Reading:
        return read(response, now)


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
    verdict = None if code is None else look_up(TABLE, code, said)
    return Reading(settle(response, verdict, now), None if code is None else str(code), said)


def _payload(message: Message, config: FeishuConfig, *, n: int, suffix: str, body: str) -> dict[str, Any]:
    called = _called(message, config) if n == 1 and mentions(message) else ""
    keyword = config.keyword if config.keyword and config.keyword not in body else ""
    if message.is_plain:
        title = escaping.unmention(escaping.one_line(message.title, MAX_TITLE) + suffix)
        words = "\n".join(line for line in (title, body, called, keyword) if line)
        return {"msg_type": "text", "content": {"text": words}}
    elements = [_div("\n".join(line for line in (body, called, keyword) if line)), *_button(message)]
    return _card(message, suffix, elements)


def _sheet(message: Message, config: FeishuConfig) -> dict[str, Any] | None:
    """The message as one card with a place for each thing; None if it is not taken apart."""
    sheet = message.sheet
    if sheet is None or message.is_plain:
        return None
    evidence = "\n".join((f"**{sheet.evidence_label}**", *(f"┃ {line}" for line in sheet.evidence)))
    called = _called(message, config) if mentions(message) else ""
    values = (value for _, value in sheet.rows)
    said = "\n".join((sheet.lead, sheet.words, *values, *sheet.evidence))  # not the small print
    keyword = config.keyword if config.keyword and config.keyword not in said else ""
    elements = [
        *([_div(f"**{sheet.lead}**")] if sheet.lead else []),
        *([{"tag": "div", "fields": [_field(*row) for row in sheet.rows]}] if sheet.rows else []),
        *([_div(sheet.words)] if sheet.words else []),
        *([{"tag": "hr"}, _div(evidence)] if sheet.evidence else []),
        *([_div(" ".join(line for line in (called, keyword) if line))] if called or keyword else []),
        *_button(message),
        *([_note(" · ".join(sheet.notes))] if sheet.notes else []),
    ]
    return _card(message, "", elements)


def _card(message: Message, suffix: str, elements: list[dict[str, Any]]) -> dict[str, Any]:
    title = escaping.one_line(message.title, MAX_TITLE) + suffix
    colour = COLOURS[message.severity] if message.status == "firing" else RESOLVED
    card = {
        "config": {"wide_screen_mode": True},
        "header": {"template": colour, "title": {"tag": "plain_text", "content": title}},
        "elements": elements,
    }
    return {"msg_type": "interactive", "card": card}


def _div(content: str) -> dict[str, Any]:
    return {"tag": "div", "text": _mark(content)}


def _field(label: str, value: str) -> dict[str, Any]:
    """Two short ones stand side by side, their labels above them."""
    is_short = len(value) + sum(ord(char) > 0x2E80 for char in value) <= SHORT
    between = "\n" if is_short else ": " if label.isascii() else "："
    return {"is_short": is_short, "text": _mark(f"**{label}**{between}{value}")}


def _note(content: str) -> dict[str, Any]:
    return {"tag": "note", "elements": [_mark(content)]}


def _mark(content: str) -> dict[str, str]:
    return {"tag": "lark_md", "content": content}


def _button(message: Message) -> list[dict[str, Any]]:
    buttons = [
        {
            "tag": "button",
            "type": "primary" if link == message.link else "default",
            "text": {"tag": "plain_text", "content": label or LINK},
            "url": link,
        }
        for label, link in message.links
    ]
    return [{"tag": "action", "actions": buttons}] if buttons else []


def _called(message: Message, config: FeishuConfig) -> str:
    """Cards and texts call people by different tags."""
    who = [*(["all"] if config.at_all else []), *config.at_open_ids]
    form = '<at user_id="{}"></at>' if message.is_plain else "<at id={}></at>"
    return " ".join(form.format(one) for one in who)
