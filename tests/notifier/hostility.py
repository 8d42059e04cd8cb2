"""Any alert on any channel: what is made of it, and all that must be true of that.

`GIVEN` makes the inputs, `faults` says what is wrong. The tests try a few; `bench/hostile.py` tries many.
"""

import email
import email.policy
import json
import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from types import ModuleType
from typing import Any

from channels.base import SERIOUS, ChannelConfig, Message, Part
from channels.cutting import shortened
from channels.email import compose
from channels.feishu import SIGNED
from channels.registry import ADAPTERS
from channels.standin import dingtalk, feishu, wecom
from channels.standin.robots import Request, Robot
from channels.transport import encode
from notifier.composing import WITHOUT_LINK
from notifier.rendering import Rendered, render, render_digest
from notifier.wording import AlertView, words_of
from tests.notifier.dialects import GAP, READERS, Seen
from tests.notifier.hostileinputs import CLUSTERS, GIVEN, Given
from tests.notifier.messages import PUBLIC, SHANGHAI

__all__ = ["GIVEN", "Given", "channels", "faults"]

KEYWORD = "告警"
MOBILE, USER = "13800001111", "zhangsan"
CALLED = {MOBILE, USER, "ou_abc", "all", "@all"}
NOW = datetime(2026, 9, 4, tzinfo=UTC)
PLAYED: Mapping[str, ModuleType] = {"dingtalk": dingtalk, "wecom": wecom, "feishu": feishu}
OWN_TAGS = {"html", "body", "div", "h2", "p", "b", "br", "table", "tr", "td", "a", "pre", "span"}
LINK = f"{PUBLIC}/jobs/job_1"
TOKEN = f"dlv_{'1' * 26}.{'a' * 26}"
ACK = f"{PUBLIC}/ack/{TOKEN}"
LINKS = {LINK, ACK}
MAIL_HEADERS = {
    "From", "To", "Cc", "Subject", "Date", "Message-ID", "In-Reply-To", "References", "Auto-Submitted",
    "List-Id", "X-Priority", "Importance", "MIME-Version", "Content-Type", "Content-Transfer-Encoding",
}  # fmt: skip
_CLUSTER = re.compile("|".join(sorted(map(re.escape, CLUSTERS), key=len, reverse=True)))
_PIECES = set("".join(CLUSTERS)) - set("eo1ก각")
_TAPPABLE = re.compile(
    r"(?i)\b(?:https?|ftp|tel|mailto)://?\S|\bwww\.\w|(?<![\w.])[\w-]+\.(?:com|cn|net|org|io|top|xyz|ru)(?![\w.-])"
    r"|(?<![\w.-])1[3-9]\d{9}(?!\w)"
)
_SPOKEN_MARKS = set("，。、？！,.?! ")
_BOLD = re.compile(r"\\.|\*\*", re.DOTALL)


@cache
def channels() -> tuple[tuple[str, ChannelConfig], ...]:
    """A channel of each kind, and of each robot one that calls people and one that does not."""
    robot, account = "https://robot.example/hook?access_token=x", {"to": ["+8613800001111"]}
    twilio = {
        "provider": "twilio", "credentials": {"account_sid": f"AC{'0' * 32}", "auth_token": "t" * 32},
        "from": "+15005550006", **account,
    }  # fmt: skip
    given = [
        ("dingtalk", {"webhook_url": robot, "keyword": KEYWORD, "at_mobiles": [MOBILE], "at_all": True}),
        ("dingtalk", {"webhook_url": robot, "keyword": KEYWORD}),
        ("wecom", {"webhook_url": robot, "mentioned_user_ids": [USER], "mentioned_mobiles": [MOBILE]}),
        ("feishu", {"webhook_url": robot, "secret": "x", "keyword": KEYWORD, "at_open_ids": ["ou_abc"]}),
        ("email", {"to": ["ops@example.org"], "from": "f@example.org", "smtp_url": "smtp://mail.example"}),
        ("webhook", {"url": "https://hook.example"}),
        ("webhook", {"url": "https://hook.example", "format": "alertmanager"}),
        ("sms", twilio),
        ("phone", twilio),
        ("apprise", {"url": "ntfys://ntfy.example/topic"}),
    ]
    return tuple((kind, ADAPTERS[kind].Config.model_validate(one)) for kind, one in given if kind in ADAPTERS)


def faults(given: Given) -> Iterator[str]:
    """What is wrong with what is made of it, on every channel."""
    told: dict[str, Rendered] = {}
    for kind, config in channels():
        try:
            rendered = told.get(kind) or _rendered(given, kind)
            told[kind] = rendered
            message = replace(rendered.message, is_plain=given.is_plain)
            message = shortened(message) if given.is_shortened else message
            parts = ADAPTERS[kind].parts(message, config)
            found = list(_Look(given, kind, config, message, rendered, parts).faults())
        except Exception as error:  # noqa: BLE001  whatever it is, it is a fault
            where = error.__traceback__
            while where is not None and where.tb_next is not None:
                where = where.tb_next
            line = f"{where.tb_frame.f_code.co_filename}:{where.tb_lineno}" if where is not None else ""
            found = [f"{type(error).__name__}: {error} at {line}"]
        yield from (f"{kind}: {one}" for one in found)


def _rendered(given: Given, kind: str) -> Rendered:
    how = (ADAPTERS[kind], given.language, SHANGHAI, PUBLIC, given.own)
    views = given.views
    if ADAPTERS[kind].format not in WITHOUT_LINK:
        views = tuple(replace(view, ack=TOKEN if _can_be_taken_on(view) else None) for view in views)
    if len(views) > 1:
        return render_digest(views, "dlv_9", *how)
    return render(views[0], *how)


def _can_be_taken_on(view: AlertView) -> bool:
    return view.status == "firing" and view.severity in SERIOUS


@dataclass(frozen=True)
class _Look:
    given: Given
    kind: str
    config: Any
    message: Message
    rendered: Rendered
    parts: list[Part]

    def faults(self) -> Iterator[str]:
        if self.rendered.template_error is not None:
            yield f"the template failed: {self.rendered.template_error}"
        if not 1 <= len(self.parts) <= 3:
            yield f"{len(self.parts)} parts"
        if [(part.n, part.of) for part in self.parts] != [
            (n + 1, len(self.parts)) for n in range(len(self.parts))
        ]:
            yield "parts are not numbered"
        if "\n" in self.message.title or len(self.message.title) > 200:
            yield "the title is no short line"
        for part in self.parts:
            yield from getattr(self, f"_{self.kind}", self._plain_text)(part)
        yield from self._whole()

    def _whole(self) -> Iterator[str]:
        sent = "\n".join(_strings(part.payload) for part in self.parts)
        if self.given.is_clusters and _PIECES & set(_CLUSTER.sub("", sent.replace(GAP, ""))):
            yield "a character is cut in two"
        if self.kind in ("sms", "phone") or self.given.own is not None or self.given.is_shortened:
            return
        if LINK not in sent:
            yield "the link is lost"
        if len(self.given.views) == 1 and _can_be_taken_on(self.given.views[0]) and ACK not in sent:
            yield "nobody can take it on"
        one = len(self.given.views) == 1 and self.given.is_sound and self.message.status == "firing"
        words = words_of(self.given.language)["actions"]["restart_job"]
        if one and self.given.views[0].item != "jobRecovered" and not ("node-2" in sent and words in sent):
            yield "culprit or decision is lost"

    def _dingtalk(self, part: Part) -> Iterator[str]:
        yield from self._robot(part, dict(part.payload))
        if self.kind != "dingtalk" or self.given.is_folded or part.payload["msgtype"] != "actionCard":
            yield from self._read(_marked_up(part), part.payload["msgtype"] == "text")

    _wecom = _dingtalk

    def _feishu(self, part: Part) -> Iterator[str]:
        signed = {**part.payload, **SIGNED}
        if len(encode(signed)) > 20_000:
            yield f"{len(encode(signed))} bytes"
        yield from self._robot(part, dict(part.payload))
        yield from self._read(_marked_up(part))

    def _robot(self, part: Part, payload: dict[str, Any]) -> Iterator[str]:
        body = json.dumps(payload, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
        request = Request("POST", "/", {}, {"content-type": "application/json"}, body)
        robot = Robot(self.kind, "x", "x", keyword=getattr(self.config, "keyword", None))
        reply = PLAYED[self.kind].judge(request, robot, NOW.timestamp())
        if not reply.is_accepted:
            yield f"part {part.n} is refused: {dict(reply.body)}"
        if set(reply.called) - CALLED:
            yield f"calls {reply.called}"

    def _read(self, text: str, is_plain: bool = False) -> Iterator[str]:
        """As the provider's client shows it."""
        ours = [f"@{MOBILE}", f"<@{USER}>", "<at id=ou_abc></at>", '<at user_id="ou_abc"></at>']
        for one in ours:
            text = text.replace(one, "")
        if self.given.is_plain or is_plain:
            yield from self._plain(text)
            return
        seen: Seen = READERS[self.kind](text)
        if set(seen.links) - LINKS:
            yield f"links to {set(seen.links) - LINKS}"
        if seen.tags or seen.calls:
            yield f"tags {seen.tags} calls {seen.calls}"
        for name, link in (("link", LINK), ("ack", ACK)):
            label = words_of(self.given.language)["labels"][name]
            if text.count(f"[{label}]") != text.count(f"[{label}]({link})") + text.count(f"[{label}]{GAP}"):
                yield "a link is cut in two"
        if self.given.own is None and any(self._is_odd(line) for line in text.split("\n")):
            yield "bold is left open"
        yield from _tappable(text)

    def _is_odd(self, line: str) -> bool:
        marks = _BOLD.findall(line) if self.kind == "dingtalk" else re.findall(r"\*\*", line)
        return marks.count("**") % 2 == 1

    def _plain(self, text: str) -> Iterator[str]:
        if re.search(r"@\w|<@|<at\b", text):
            yield "plain text calls somebody"
        yield from _tappable(text)

    def _email(self, part: Part) -> Iterator[str]:
        if not self.given.is_folded:  # which takes longer than all else together
            html = part.payload.get("html", "")
            yield from _tappable(re.sub(r"<[^>]*>", " ", html) + part.payload["text"])
            return
        content = compose(part, self.config, "f@example.org", NOW).as_bytes()
        mail = email.message_from_bytes(content, policy=email.policy.default)
        if set(mail.keys()) - MAIL_HEADERS or mail["To"] != "ops@example.org":
            yield f"headers {set(mail.keys()) - MAIL_HEADERS}"
        html = mail.get_body(("html",))
        if html is not None:
            seen = READERS["email"](html.get_content())
            if set(seen.links) - LINKS or set(seen.tags) - OWN_TAGS:
                yield f"links {seen.links} tags {set(seen.tags) - OWN_TAGS}"
            yield from _tappable(re.sub(r"<[^>]*>", " ", html.get_content()))
        text = mail.get_body(("plain",))
        if text is None or not text.get_content().strip():
            yield "no text part"
        else:
            yield from _tappable(text.get_content())

    def _webhook(self, part: Part) -> Iterator[str]:
        if not isinstance(json.loads(encode(part.payload)), dict):
            yield "is no document"

    def _sms(self, part: Part) -> Iterator[str]:
        text = str(part.payload["text"])
        most = {"zh": 70, "en": 160}[self.given.language] if len(self.given.views) == 1 else 612
        if self.given.own is None and not 1 <= len(text) <= most:
            yield f"{len(text)} characters"
        yield from _tappable(text)

    def _phone(self, part: Part) -> Iterator[str]:
        text = str(part.payload["text"])
        if self.given.own is not None or self.given.is_shortened:
            return
        if not 1 <= len(text) <= 350:
            yield f"{len(text)} characters"
        words = (char for char in text if not (char.isalnum() or char in _SPOKEN_MARKS))
        if odd := {char for char in words if unicodedata.category(char)[0] != "M"}:
            yield f"symbols that nobody speaks: {odd}"

    def _plain_text(self, part: Part) -> Iterator[str]:
        yield from self._plain(_strings(part.payload))


def _marked_up(part: Part) -> str:
    """What a client parses: not the title of DingTalk's preview or of Feishu's header."""
    payload = dict(part.payload)
    form = next(
        (payload[name] for name in ("markdown", "actionCard", "text", "content") if name in payload), None
    )
    if isinstance(form, Mapping):
        return str(form.get("content") or form.get("text"))
    return "\n".join(_strings(one) for one in payload["card"]["elements"])


def _strings(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        return (
            "\n".join(_strings(one) for name, one in value.items() if name not in ("tag", "msgUuid", "url"))
            + "".join(
                f"\n{one}" for name, one in value.items() if name == "url" and value.get("tag") != "button"
            )
            + (f"\n{value['url']}" if value.get("tag") == "button" else "")
        )
    if isinstance(value, list | tuple):
        return "\n".join(_strings(one) for one in value)
    return ""


def _tappable(text: str) -> Iterator[str]:
    for found in _TAPPABLE.findall(text.replace(LINK, " ").replace(ACK, " ")):
        yield f"can be tapped: {found}"
