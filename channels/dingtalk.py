"""DingTalk group robots: https://open.dingtalk.com/document/orgapp/custom-robots-send-group-messages"""

import base64
import hashlib
import hmac
import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, ClassVar
from urllib.parse import urlencode

from channels import escaping
from channels.answers import MAX_WAIT, Call, Caller, Reading, Verdict, as_code, settle
from channels.base import ChannelConfig, Limit, Message, Part, mentions
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
from channels.fields import Flag, Keyword, Mobiles, Secret, Url, UserIds, robot_meter, unusual_host
from channels.outcomes import look_up
from channels.outcomes.dingtalk import FLOOD, RATE, TABLE
from channels.transport import Response, encode

HOST = "oapi.dingtalk.com"
MAX_BODY = 20_000  # bytes of the whole JSON body; above it 460101 (timonwong/prometheus-webhook-dingtalk#30)
SPACE = MAX_BODY - 4000  # of a part, less title, names and keyword
MAX_TITLE = 120
LINK = "Details"


class DingTalkConfig(ChannelConfig):
    webhook_url: Url
    secret: Secret | None = None
    keyword: Keyword | None = None
    at_mobiles: Mobiles = ()
    at_user_ids: UserIds = ()
    at_all: Flag = False

    def targets(self) -> tuple[str, ...]:
        return (self.webhook_url.get_secret_value(),)

    def meters(self) -> dict[str, str]:
        return robot_meter("dingtalk", self.webhook_url, "access_token")

    def lint(self) -> tuple[str, ...]:
        found = list(unusual_host(self.webhook_url, HOST))
        if self.secret is None and self.keyword is None:
            found.append("secret, keyword: neither is set; DingTalk then needs this machine in its IP list")
        if self.secret is not None and not self.secret.get_secret_value().startswith("SEC"):
            found.append(
                "secret: DingTalk's begin with SEC; take it from the robot's security settings (加签)"
            )
        if self.at_all:
            found.append("at_all: calls the whole group for every alert of error or critical")
        return tuple(found)


class DingTalk(Caller):
    kind: ClassVar[str] = "dingtalk"
    Config: ClassVar[type[ChannelConfig]] = DingTalkConfig
    limits: ClassVar[tuple[Limit, ...]] = (Limit(20, timedelta(minutes=1)),)
    format: ClassVar[str] = "markdown"

    def escape(self, text: str) -> str:
        return escaping.dingtalk(text)

    def space(self, config: Mapping[str, Any]) -> tuple[int, ...]:  # noqa: ARG002  names and keyword are short
        return tuple(n * SPACE for n in range(1, MAX_PARTS + 1))

    def parts(self, message: Message, config: DingTalkConfig) -> list[Part]:
        def payload(n: int, of: int, body: str) -> dict[str, Any]:
            return _payload(message, config, n=n, suffix=label(n, of), body=body)

        def budget(n: int) -> int:
            frame = _payload(message, config, n=n, suffix=WIDEST_LABEL, body=PLACEHOLDER)
            return MAX_BODY - len(encode(frame)) + len(PLACEHOLDER)

        has_button = _has_button(message, config)
        text = without_link(message) if has_button else body_of(message)
        text = text if message.is_plain else _with_breaks(text)
        tail = tail_for(text, "" if has_button else message.link or "")
        budgets = [budget(n) for n in range(1, MAX_PARTS + 1)]
        bodies = cut(text, budgets, in_json, tail, is_marked=not message.is_plain)
        of = len(bodies)
        return [Part(n, of, payload(n, of, body), message) for n, body in enumerate(bodies, 1)]

    def call(self, part: Part, config: DingTalkConfig, now: datetime) -> Call:
        url = signed_url(config.webhook_url.get_secret_value(), config, now)
        return Call(url, part.payload, secrets_of(config))

    def read(self, response: Response, now: datetime) -> Reading:
        return read(response, now)


def signature(secret: str, timestamp_ms: int) -> str:
    """Base64, not yet percent-encoded."""
    signed = f"{timestamp_ms}\n{secret}".encode()
    return base64.b64encode(hmac.digest(secret.encode(), signed, hashlib.sha256)).decode()


def signed_url(url: str, config: DingTalkConfig, now: datetime) -> str:
    """Encoded exactly once: twice is what DingTalk refuses (wowiwj/ding-notice#11)."""
    url = url.partition("#")[0]
    if config.secret is None:
        return url
    base, _, query = url.partition("?")
    kept = [pair for pair in query.split("&") if pair and pair.partition("=")[0] not in ("timestamp", "sign")]
    stamp = int(now.timestamp() * 1000)
    fresh = urlencode({"timestamp": stamp, "sign": signature(config.secret.get_secret_value(), stamp)})
    return f"{base}?{'&'.join([*kept, fresh])}"


def read(response: Response, now: datetime) -> Reading:
    """Success is `errcode` 0 and nothing else; the flood guard answers by `status`, with or without it."""
    body = response.json_object()
    code, said = as_code(body.get("errcode")), str(body.get("errmsg") or "")
    if as_code(body.get("status")) == FLOOD or body.get("punish") == "deny":
        return Reading(settle(response, _flood(body), now), str(FLOOD), said or "flood guard")
    verdict = None if code is None else look_up(TABLE, code, said)
    return Reading(settle(response, verdict, now), None if code is None else str(code), said)


def _flood(body: Mapping[str, Any]) -> Verdict:
    """It may say how many seconds to `wait`; less than a minute has not been enough."""
    wait = as_code(body.get("wait")) or 0
    told = timedelta(seconds=min(max(wait, 0), int(MAX_WAIT.total_seconds())))
    return replace(RATE, retry_after=max(told, RATE.retry_after or told))


def _payload(message: Message, config: DingTalkConfig, *, n: int, suffix: str, body: str) -> dict[str, Any]:
    title = escaping.one_line(message.title, MAX_TITLE) + suffix
    heading = escaping.unmention(title) if message.is_plain else f"### {escaping.dingtalk(title)}\n"
    calls = n == 1 and mentions(message)
    # In markdown nobody is called unless the text names them too (prometheus-webhook-dingtalk#85).
    called = " ".join(f"@{who}" for who in (*config.at_mobiles, *config.at_user_ids)) if calls else ""
    text = "\n".join(line for line in (heading, body) if line)
    keyword = config.keyword if config.keyword and config.keyword not in text else ""
    text = "\n\n".join(line for line in (text, called, keyword) if line)
    form: dict[str, Any]
    if message.is_plain:
        form = {"msgtype": "text", "text": {"content": text}}
    elif _has_button(message, config):
        form = {"msgtype": "actionCard", "actionCard": {"title": title, "text": text, **_buttons(message)}}
    else:
        form = {"msgtype": "markdown", "markdown": {"title": title, "text": text}}
    if calls and "actionCard" not in form:
        form["at"] = {
            "atMobiles": list(config.at_mobiles),
            "atUserIds": list(config.at_user_ids),
            "isAtAll": config.at_all,
        }
    # Said to make a repeat harmless; nobody has measured it, so nothing relies on it.
    return {**form, "msgUuid": f"{message.id}-{n}"}


def _buttons(message: Message) -> dict[str, Any]:
    if message.ack_link is None:
        return {"singleTitle": message.link_label or LINK, "singleURL": message.link}
    buttons = [{"title": label or LINK, "actionURL": link} for label, link in message.links]
    return {"btnOrientation": "0", "btns": buttons}


def _has_button(message: Message, config: DingTalkConfig) -> bool:
    """An action card has a button for the link, but calls nobody."""
    somebody = config.at_mobiles or config.at_user_ids or config.at_all
    return bool(message.link) and not message.is_plain and not (mentions(message) and somebody)


def _with_breaks(text: str) -> str:
    """DingTalk joins lines as markdown does; two blanks before the newline keep them apart."""
    return re.sub(r"(?<![\n ])[ ]?\n(?!\n)", "  \n", text)
