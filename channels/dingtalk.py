"""DingTalk group robots: https://open.dingtalk.com/document/orgapp/custom-robots-send-group-messages"""

import base64
import hashlib
import hmac
import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, ClassVar
from urllib.parse import urlencode

from channels import escaping
from channels.answers import (
    BAD_FORM,
    BROKEN,
    DELIVERED,
    REFUSED,
    TEMPORARY,
    TOO_LONG,
    Call,
    Reading,
    Verdict,
    as_code,
    ask,
    settle,
)  # fmt: skip
from channels.base import Adapter, Answer, ChannelConfig, Limit, Mend, Message, Outcome, Part, mentions
from channels.config import secrets_of
from channels.cutting import MAX_PARTS, PLACEHOLDER, WIDEST_LABEL, body_of, cut, in_json, label, tail_for
from channels.fields import Keyword, Mobiles, Secret, Url, UserIds, robot_meter, unusual_host
from channels.transport import Network, Response, encode

HOST = "oapi.dingtalk.com"
MAX_BODY = 20_000  # bytes of the whole JSON body; above it 460101 (timonwong/prometheus-webhook-dingtalk#30)
MAX_TITLE = 120

# Over 20 a minute the robot is shut for ten minutes, so a second refusal waits that long.
RATE = Verdict(Outcome.THROTTLED, retry_after=timedelta(minutes=1), repeated_after=timedelta(minutes=10))
NO_TOKEN = Verdict(Outcome.CHANNEL_BROKEN, hint="the access token in webhook_url is not known to DingTalk")
KEYWORD = Verdict(Outcome.REFUSED, hint="the robot asks for a keyword: set the channel's keyword to it")
SIGNATURE = Verdict(
    Outcome.CHANNEL_BROKEN, Mend.SIGN_AGAIN, hint="the channel's secret is wrong, or this machine's clock"
)
ADDRESS = Verdict(Outcome.CHANNEL_BROKEN, hint="the robot's IP list does not hold this machine's address")

# All of them come with HTTP 200. A code that is not listed is not success.
OUTCOMES: Mapping[int, Verdict] = {
    0: DELIVERED,
    -1: TEMPORARY,  # the system is busy
    130101: RATE,  # send too fast, exceed 20 times per minute
    410100: RATE,  # the same in Chinese
    # The organisation's quota for the month is used up: only another channel helps.
    90030: Verdict(Outcome.CHANNEL_BROKEN, hint="the organisation's quota of robot messages is used up"),
    300005: NO_TOKEN,
    400101: NO_TOKEN,
    400013: Verdict(Outcome.CHANNEL_BROKEN, hint="the group was disbanded"),
    400102: Verdict(Outcome.CHANNEL_BROKEN, hint="the robot was stopped"),
    400106: Verdict(Outcome.CHANNEL_BROKEN, hint="the robot is no longer in the group"),
    400105: BAD_FORM,  # unknown message type
    43002: REFUSED,  # not a POST: a relay changed it
    43004: REFUSED,  # Content-Type
    460101: TOO_LONG,
    101002: TOO_LONG,
}
BAD_PARAMETER = range(400402, 400500)  # 400402, 400403 "miss param : markdown->text", …


class DingTalkConfig(ChannelConfig):
    webhook_url: Url
    secret: Secret | None = None
    keyword: Keyword | None = None
    at_mobiles: Mobiles = ()
    at_user_ids: UserIds = ()
    at_all: bool = False

    def targets(self) -> tuple[str, ...]:
        return (self.webhook_url.get_secret_value(),)

    def meters(self) -> dict[str, str]:
        return robot_meter("dingtalk", self.webhook_url)

    def lint(self) -> tuple[str, ...]:
        found = list(unusual_host(self.webhook_url, HOST))
        if self.secret is None and self.keyword is None:
            found.append("secret, keyword: neither is set; DingTalk then needs this machine in its IP list")
        return tuple(found)


class DingTalk(Adapter):
    kind: ClassVar[str] = "dingtalk"
    Config: ClassVar[type[ChannelConfig]] = DingTalkConfig
    limits: ClassVar[tuple[Limit, ...]] = (Limit(20, timedelta(minutes=1)),)
    format: ClassVar[str] = "markdown"

    def escape(self, text: str) -> str:
        return escaping.dingtalk(text)

    def parts(self, message: Message, config: DingTalkConfig) -> list[Part]:
        def payload(n: int, of: int, body: str) -> dict[str, Any]:
            return _payload(message, config, n=n, suffix=label(n, of), body=body)

        def budget(n: int) -> int:
            frame = _payload(message, config, n=n, suffix=WIDEST_LABEL, body=PLACEHOLDER)
            return MAX_BODY - len(encode(frame)) + len(PLACEHOLDER)

        text = body_of(message)
        text = text if message.is_plain else _with_breaks(text)
        budgets = [budget(n) for n in range(1, MAX_PARTS + 1)]
        bodies = cut(text, budgets, in_json, tail_for(text, message.link or ""))
        of = len(bodies)
        return [Part(n, of, payload(n, of, body), message) for n, body in enumerate(bodies, 1)]

    def send(
        self,
        part: Part,
        config: DingTalkConfig,
        network: Network,
        now: datetime,
        only: frozenset[str] | None = None,  # noqa: ARG002  a robot has no recipients
    ) -> Answer:
        url = signed_url(config.webhook_url.get_secret_value(), config, now)
        call = Call(url, part.payload, secrets_of(config))
        return ask(network, call, lambda response: read(response, now))


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
    """Success is `errcode` 0 and nothing else; the flood guard answers without it."""
    body = response.json_object()
    code, said = as_code(body.get("errcode")), str(body.get("errmsg") or "")
    if as_code(body.get("status")) == 1111 or body.get("punish") == "deny":
        return Reading(settle(response, RATE, now), "1111", said or "flood guard")
    verdict = None if code is None else classify(code, said)
    return Reading(settle(response, verdict, now), None if code is None else str(code), said)


def classify(code: int, errmsg: str) -> Verdict | None:
    """Three codes mean more than one thing, and only the message tells."""
    words = errmsg.lower()
    if code == 310000:
        return _safety_setting(words)
    if code == 300001:  # no such token, and elsewhere too many messages
        return RATE if re.search("too fast|limit|frequen|频|限流", words) else NO_TOKEN
    if code == 40035:  # a parameter is missing; the token is the one that the owner can mend
        return NO_TOKEN if "access_token" in words else BAD_FORM
    return BAD_FORM if code in BAD_PARAMETER else OUTCOMES.get(code)


def _safety_setting(words: str) -> Verdict:
    if re.search("keyword|关键词", words):
        return KEYWORD
    if re.search("sign|签名|timestamp|时间戳", words):
        return SIGNATURE
    if re.search(r"\bip\b|whitelist|白名单", words):
        return ADDRESS
    return BROKEN


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
    else:
        form = {"msgtype": "markdown", "markdown": {"title": title, "text": text}}
    if calls:
        form["at"] = {
            "atMobiles": list(config.at_mobiles),
            "atUserIds": list(config.at_user_ids),
            "isAtAll": config.at_all,
        }
    # Said to make a repeat harmless; nobody has measured it, so nothing relies on it.
    return {**form, "msgUuid": f"{message.id}-{n}"}


def _with_breaks(text: str) -> str:
    """DingTalk joins lines as markdown does; two blanks before the newline keep them apart."""
    return re.sub(r"(?<![\n ])[ ]?\n(?!\n)", "  \n", text)
