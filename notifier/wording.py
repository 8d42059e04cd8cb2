"""How an alert is said: its title, times, durations and link, in one language and one time zone. Pure."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from typing import Any, TypeAlias
from urllib.parse import quote, urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from channels import escaping
from channels.base import Severity
from channels.graphemes import border

LANGUAGES = ("zh", "en")
MAX_LINE = 300
MAX_TITLE = 120
MAX_NAME = 40
MAX_READ = 20_000  # characters of one value that are looked at at all
SIGNS = {"info": "🔵", "warning": "🟠", "error": "🔴", "critical": "🚨"}
RESOLVED_SIGN = "🟢"
RESOLVED = "resolved"
CUSTOM = "custom"
_MINUTE, _HOUR, _DAY = 60, 3600, 86_400

Words: TypeAlias = Mapping[str, Any]


class Link(str):
    """A link of our own making: it goes into a message as it is."""


@dataclass(frozen=True)
class AlertView:
    """What one message tells of. `job` and `event` in the API's form (or None); their sentences may be
    {"zh", "en"}. `thread` joins all messages of an incident; `incident` is the alert's own item and
    severity, whatever this message tells of it; `links` came with it.

    What happened outside of a fault event is told by labels: `pod`, `node`, `rank` (who), and of a failing
    channel `channel` and `kind`.

    Attributes:
        trigger: `escalation` and `remind` say that it is told again, after how long (`open_s`), and how often
            it was repeated meanwhile.
        ack: the token of the link by which it is taken on (notifier/acklinks.py).
        acked_by: who has taken it on by now, "" while nobody has.
        ended: why it is over, {"zh", "en"}, where that is not what its item is resolved by.
    """

    delivery_id: str
    alert_id: str | None
    item: str
    items: Sequence[str]
    severity: str
    status: str
    title: str
    text: str
    created_at: datetime
    scope: str = ""
    resolved_at: datetime | None = None
    labels: Mapping[str, Any] = field(default_factory=dict)
    job: Mapping[str, Any] | None = None
    event: Mapping[str, Any] | None = None
    thread: str | None = None
    trigger: str = "alert"
    open_s: float | None = None
    repeats: int = 0
    ack: str | None = None
    incident: Mapping[str, str] = field(default_factory=dict)
    links: Mapping[str, Any] = field(default_factory=dict)
    acked_by: str = ""
    ended: Mapping[str, str] = field(default_factory=dict)


@cache
def words_of(language: str) -> Words:
    """The word table of a language; the default's for one that is not ours."""
    known = language if language in LANGUAGES else LANGUAGES[0]
    table: Words = json.loads((files("templates") / known / "words.json").read_text(encoding="utf-8"))
    return table


@dataclass(frozen=True)
class Speaker:
    """Says things in one language and one time zone."""

    language: str
    zone: ZoneInfo
    public_url: str | None = None

    @property
    def words(self) -> Words:
        return words_of(self.language)

    def title(self, view: AlertView) -> str:
        """One line: how grave it is, what happened, to which job (or whatever it is about)."""
        sign = RESOLVED_SIGN if view.status == RESOLVED else SIGNS[severity_of(view.severity)]
        about = one_line(mapping(view.job).get("name")) or self._about(view)
        happened = self.happened(view)
        if view.status != RESOLVED and view.trigger in self.words["again_titles"]:
            happened = str(self.words["again_titles"][view.trigger]).format(title=happened)
        title = f"{sign} {happened}" + (f" · {about}" if about else "")
        if view.status == RESOLVED or not view.acked_by:
            return one_line(title, MAX_TITLE)
        taken = str(self.words["taken_on"].format(who=one_line(view.acked_by, MAX_NAME)))
        return one_line(title, MAX_TITLE - len(taken)) + taken

    def happened(self, view: AlertView) -> str:
        """The item in words, or an alert's own title."""
        is_custom = view.item not in self.words["items"] or view.item == CUSTOM
        words = one_line(view.title) if is_custom else ""
        words = words or str(self.words["items"].get(view.item, self.words["items"][CUSTOM]))
        if view.status != RESOLVED or view.item == "jobRecovered":
            return words
        over = None if view.ended else self.words["resolved_items"].get(view.item)
        return str(over or self.words["resolved_title"].format(title=words))

    def again(self, view: AlertView) -> str:
        """Why it is told once more; nothing of what is told for the first time."""
        form = view.trigger if view.trigger != "remind" or not view.repeats else "repeated"
        if view.status == RESOLVED or view.trigger not in self.words["again_titles"]:
            return ""
        return str(self.words["again"][form].format(since=self.duration(view.open_s), count=view.repeats))

    def _about(self, view: AlertView) -> str:
        """Without a job: the channel or the node."""
        labels = mapping(view.labels)
        return "" if view.item == CUSTOM else one_line(labels.get("channel") or labels.get("node"))

    def time(self, moment: datetime) -> str:
        """`2026-09-04 14:14:15 +08:00`: the offset is always said."""
        try:
            here = moment.astimezone(self.zone)
        except (OverflowError, ValueError):  # the first or last day that there is
            here = moment.replace(tzinfo=UTC)
        offset = here.strftime("%z")
        return f"{here:%Y-%m-%d %H:%M:%S} {offset[:3]}:{offset[3:5]}"

    def duration(self, seconds: float | None) -> str:
        """To a tenth below ten seconds, coarser above; nothing if that is no duration."""
        if seconds is None or not math.isfinite(seconds) or not 0 <= seconds < 1e9:
            return ""
        say, whole = self.words["durations"], round(seconds)
        if whole < _MINUTE:
            number = f"{seconds:.1f}".removesuffix(".0") if seconds < 9.95 else str(whole)
            return str(say["seconds"].format(s=number))
        if whole < _HOUR:
            return str(say["minutes"].format(m=whole // _MINUTE, s=whole % _MINUTE))
        if whole < _DAY:
            return str(say["hours"].format(h=whole // _HOUR, m=whole % _HOUR // _MINUTE))
        return str(say["days"].format(d=whole // _DAY, h=whole % _DAY // _HOUR))

    def said(self, sentence: Any) -> str:
        """A sentence that may stand there in several languages; without its stop, for other words follow."""
        if isinstance(sentence, Mapping):
            sentence = sentence.get(self.language) or next(iter(sentence.values()), "")
        words = one_line(sentence)
        return words if words.endswith("..") else words.removesuffix("。").removesuffix(".")

    def link(self, view: AlertView) -> Link | None:
        """The job's page on the console, or else the delivery's."""
        job_id = one_line(mapping(view.job).get("id"), 100)
        kind, name = ("jobs", job_id) if job_id else ("deliveries", one_line(view.delivery_id, 100))
        return self._page(f"{kind}/{quote(name, safe='')}")

    def ack_link(self, view: AlertView) -> Link | None:
        """Where whoever reads this can take it on."""
        return self._page(f"ack/{quote(view.ack, safe='')}") if view.ack else None

    def _page(self, path: str) -> Link | None:
        try:
            base = urlsplit(one_line(self.public_url, 500).rstrip("/"))
        except ValueError:
            return None
        if base.scheme not in ("http", "https") or not base.netloc:
            return None
        place = f"{base.scheme}://{base.netloc}{base.path}"
        return Link(f"{quote(place, safe=':/[]%~-._')}/{path}")


def speaker(language: str, timezone: str, public_url: str | None) -> Speaker:
    """For a time zone that is not known it speaks UTC: the offset in the text tells."""
    try:
        zone = ZoneInfo(timezone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        zone = ZoneInfo("UTC")
    return Speaker(language if language in LANGUAGES else LANGUAGES[0], zone, public_url)


def severity_of(value: object) -> Severity:
    """As given; a warning if it is none that we know."""
    try:
        return Severity(str(value))
    except ValueError:
        return Severity.WARNING


def mapping(value: object) -> Mapping[str, Any]:
    """A document of whatever shape the data have: empty if it is none."""
    return value if isinstance(value, Mapping) else {}


def text(value: object) -> str:
    """Any value as clean text, its lines kept."""
    if value is None:
        return ""
    try:
        said = value if isinstance(value, str) else str(value)
    except ValueError:  # a number of thousands of digits
        return "…"
    said = said[: border(said, MAX_READ)]
    return (said if said.isprintable() else escaping.clean(said)).strip()


def one_line(value: object, limit: int = MAX_LINE) -> str:
    return clip(" ".join(text(value).split()), limit)


def clip(words: str, limit: int) -> str:
    """At most `limit` characters, and none of them half."""
    return words if len(words) <= limit else words[: border(words, limit - 1)] + "…"
