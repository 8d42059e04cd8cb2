"""An alert's facts in the reader's words: what the templates put in place. Pure, and never raises."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cache
from importlib.resources import files
from typing import Any, TypeAlias
from urllib.parse import quote, urlsplit
from zoneinfo import ZoneInfo

from channels import escaping

LANGUAGES = ("zh", "en")
MAX_LINE = 300
MAX_TEXT = 4000
MAX_EVIDENCE = 6
MAX_LABELS = 20
MAX_TITLE = 120
SIGNS = {"info": "🔵", "warning": "🟠", "error": "🔴", "critical": "🚨"}
RESOLVED_SIGN = "🟢"

Words: TypeAlias = Mapping[str, Any]


class Link(str):
    """A link of our own making: it goes into a message as it is."""


@dataclass(frozen=True)
class AlertView:
    """What one message tells of. `job` and `event` in the API's form (or None); their sentences may be
    {"zh", "en"}. `thread` joins all messages of an incident."""

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
        """One line: how grave it is, what happened, to which job."""
        sign = RESOLVED_SIGN if view.status == "resolved" else SIGNS.get(view.severity, "🔵")
        name = _text(_of(view.job, "name"))
        if view.item == "custom" or view.item not in self.words["items"]:
            words = _text(view.title) or self.words["items"]["custom"]
            if view.status == "resolved":
                words = self.words["resolved_title"].format(title=words)
        else:
            words = self.words["items"][view.item]
            name = name or ("" if view.title == view.item else _text(view.title))
        return escaping.one_line(f"{sign} {words}" + (f" · {name}" if name else ""), MAX_TITLE)

    def time(self, moment: datetime) -> str:
        """`2026-09-04 14:14:15 +08:00`: the offset is always said."""
        here = moment.astimezone(self.zone)
        offset = here.strftime("%z")
        return f"{here:%Y-%m-%d %H:%M:%S} {offset[:3]}:{offset[3:5]}"

    def duration(self, seconds: float) -> str:
        """To a tenth below a minute, coarser above."""
        if seconds < 60:
            return str(self.words["seconds"].format(n=f"{seconds:.1f}"))
        minutes, rest = divmod(round(seconds), 60)
        if minutes < 60:
            return str(self.words["minutes"].format(m=minutes, n=rest))
        return str(self.words["hours"].format(h=minutes // 60, m=minutes % 60))

    def facts(self, view: AlertView) -> dict[str, Any]:
        """Every name that the templates use; what is not known is empty."""
        event = view.event if isinstance(view.event, Mapping) else {}
        decision = event.get("decision") if isinstance(event.get("decision"), Mapping) else {}
        is_recovery = view.item == "jobRecovered"
        own_text = _clip(_text(view.text), MAX_TEXT)
        return {
            "title": self.title(view),
            "headline": self._said(event.get("reason")) or ("" if view.item == "custom" else own_text),
            "text": own_text if view.item == "custom" or event else "",
            "culprit": self._culprit(event.get("culprit")),
            "fault": self._fault(event),
            "decision": "" if is_recovery else self._decision(decision or {}),
            "why": "" if is_recovery else self._said((decision or {}).get("why")).rstrip("。.") ,
            "advice": "" if is_recovery else self._said(event.get("advice")),
            "recovered": self._recovered(event) if is_recovery else "",
            "job": _clip(_text(_of(view.job, "name")), MAX_LINE),
            "scope": _text(view.scope),
            "progress": self._progress(view.job),
            "time": self.time((view.resolved_at if view.status == "resolved" else None) or view.created_at),
            "delay": "" if is_recovery else self._delay(event, view.created_at),
            "evidence": [] if is_recovery else list(_evidence(event.get("evidence"))),
            "labels": _labels(view.labels),
            "link": self.link(view),
        }  # fmt: skip

    def link(self, view: AlertView) -> Link | None:
        """The job's page on the console, or the delivery's."""
        base = (self.public_url or "").rstrip("/")
        if urlsplit(base).scheme not in ("http", "https"):
            return None
        job_id = _text(_of(view.job, "id"))
        path = (
            f"/jobs/{quote(job_id, safe='')}" if job_id else f"/deliveries/{quote(view.delivery_id, safe='')}"
        )
        return Link(quote(base, safe=":/[]?&=%~-._") + path)

    def event(self, event: Any) -> dict[str, Any] | None:
        """A fault event with its sentences in this language."""
        if not isinstance(event, Mapping):
            return None
        said: dict[str, Any] = {
            name: self._said(event[name]) for name in ("reason", "advice") if name in event
        }
        decision = event.get("decision")
        if isinstance(decision, Mapping) and "why" in decision:
            said["decision"] = {**decision, "why": self._said(decision["why"])}
        return {**event, **said}

    def _said(self, sentence: Any) -> str:
        if isinstance(sentence, Mapping):
            sentence = sentence.get(self.language) or next(iter(sentence.values()), "")
        return _clip(_text(sentence), MAX_LINE)

    def _culprit(self, culprit: Any) -> str:
        if not isinstance(culprit, Mapping):
            return ""
        named = [("rank", "rank"), ("pod", "Pod"), ("node", self.words["node"])]
        return " · ".join(
            f"{label} {_text(culprit[name])}" for name, label in named if culprit.get(name) is not None
        )

    def _fault(self, event: Mapping[str, Any]) -> str:
        kind, cause = _text(event.get("fault_class")), _text(event.get("cause"))
        said = [self.words["fault_classes"].get(kind, kind), self.words["causes"].get(cause, cause)]
        return " · ".join(dict.fromkeys(one for one in said if one))

    def _decision(self, decision: Mapping[str, Any]) -> str:
        action = _text(decision.get("action"))
        said = [self.words["actions"].get(action, action)] if action else []
        nodes = decision.get("isolate_nodes")
        if isinstance(nodes, Sequence) and not isinstance(nodes, str) and nodes:
            said.append(self.words["isolated"].format(nodes=", ".join(map(_text, nodes))))
        if action in ("restart_job", "replace_pods"):
            if decision.get("restart_no"):
                said.append(self.words["restart"].format(no=_text(decision["restart_no"])))
            left = decision.get("budget_left")
            said.append(
                self.words["unlimited"] if left is None else self.words["budget"].format(left=_text(left))
            )
        return " · ".join(said)

    def _recovered(self, event: Mapping[str, Any]) -> str:
        zh = self.language == "zh"
        said = []
        if isinstance(event.get("downtime_s"), int | float):
            said.append(("停训 " if zh else "stood still for ") + self.duration(float(event["downtime_s"])))
        if isinstance(event.get("steps_lost"), int):
            said.append(f"回退 {event['steps_lost']} 步" if zh else f"{event['steps_lost']} steps repeated")
        return " · ".join(said)

    def _progress(self, job: Any) -> str:
        step = _of(job, "step")
        return f"step {step}" if isinstance(step, int) else ""

    def _delay(self, event: Mapping[str, Any], now: datetime) -> str:
        try:
            happened = datetime.fromisoformat(_text(event.get("time")))
            passed = now - happened
        except (ValueError, TypeError):
            return ""
        return self.duration(passed.total_seconds()) if timedelta(0) <= passed else ""


def _of(document: Any, name: str) -> Any:
    return document.get(name) if isinstance(document, Mapping) else None


def _text(value: Any) -> str:
    return "" if value is None else escaping.clean(value if isinstance(value, str) else str(value)).strip()


def _clip(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _evidence(evidence: Any) -> Sequence[str]:
    """`rank 3 · node-2: the line`, one line each."""
    if not isinstance(evidence, Sequence) or isinstance(evidence, str):
        return ()
    lines = []
    for one in evidence[:MAX_EVIDENCE]:
        if not isinstance(one, Mapping):
            continue
        rank = _of(one, "rank")
        where = [
            f"rank {rank}" if rank is not None else "",
            _text(_of(one, "node")),
            _text(_of(one, "source")),
        ]
        said = " · ".join(part for part in where if part)
        lines.append(_clip(" ".join(f"{said}: {_text(_of(one, 'text'))}".split()), MAX_LINE))
    return lines


def _labels(labels: Any) -> list[tuple[str, str]]:
    if not isinstance(labels, Mapping):
        return []
    pairs = [
        (_clip(_text(name), 60), _clip(" ".join(_text(value).split()), 200)) for name, value in labels.items()
    ]
    return pairs[:MAX_LABELS]
