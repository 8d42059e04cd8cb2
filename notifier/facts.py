"""What a message says of an alert, by the names that templates use. Pure, for data of any shape.

Names: `item`, `items`, `severity`, `resolved`, `title`, `what`, `reason`, `ended`, `detail`, `text`;
`culprit`, `rank`, `pod`, `node`, `who` (these three in short); `channel`, `kind`; `fault`, `decision`,
`action`, `restart_no`, `budget_left`, `why`, `advice`; `downtime`, `steps_lost`, `step`; `job`, `run`,
`scope`; `time`, `delay`, `evidence`, `labels`, `link`, `ack`, `again`, `id`.
What is not known is empty. All are text of one line, but for `text` (several), the lists `items`, `evidence`
and `labels`, and `resolved` (true or false). `title` is `what` with its sign and the job.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias

from notifier.wording import (
    CUSTOM,
    MAX_LINE,
    RESOLVED,
    AlertView,
    Speaker,
    clip,
    mapping,
    one_line,
    severity_of,
    text,
)

MAX_TEXT = 20_000
MAX_EVIDENCE = 6
MAX_LABELS = 20
MAX_NODES = 8
RECOVERED = "jobRecovered"
# Labels that the words of these items tell.
ABOUT = {"agentLost": {"pod", "node"}, "nodeFT": {"node"}, "channelFailing": {"channel", "kind"}}
RESTARTS = ("restart_job", "replace_pods")
HEAD = ("again", "was", "culprit", "decision", "why", "detail", "advice")
TAIL = ("fault", "job_line", "lost_line", "scope_line", "time_line", "labels_line", "items_line")

Facts: TypeAlias = dict[str, Any]
Rows: TypeAlias = list[tuple[str, str]]


def facts_of(view: AlertView, speaker: Speaker) -> Facts:
    return _Reader(view, speaker).facts()


def bare_facts(view: AlertView, speaker: Speaker) -> Facts:
    """When the data cannot be read at all: that something happened, and when."""
    what = one_line(f"{view.severity} {view.item}")
    return {
        "item": view.item, "title": what, "what": what, "text": "", "evidence": [],
        "severity": severity_of(view.severity).value, "time": speaker.time(view.created_at), "link": None,
        "ack": None, "again": "",
    }  # fmt: skip


def rows_of(facts: Mapping[str, Any], speaker: Speaker) -> tuple[Rows, Rows]:
    """What is known, each with its name in the reader's words: what comes first (`HEAD`), and the rest."""
    lines, labels = {**facts, **_lines(facts, speaker)}, speaker.words["labels"]

    def rows(names: Sequence[str]) -> Rows:
        return [(labels[name.removesuffix("_line")], str(lines[name])) for name in names if lines.get(name)]

    return rows(HEAD), rows(TAIL)


def event_in(event: Any, speaker: Speaker) -> dict[str, Any] | None:
    """A fault event with its sentences in the reader's language."""
    if not isinstance(event, Mapping):
        return None
    said: dict[str, Any] = {
        name: speaker.said(event[name]) for name in ("reason", "advice") if event.get(name) is not None
    }
    decision = event.get("decision")
    if isinstance(decision, Mapping) and decision.get("why") is not None:
        said["decision"] = {**decision, "why": speaker.said(decision["why"])}
    return {**event, **said}


def _lines(facts: Mapping[str, Any], speaker: Speaker) -> dict[str, str]:
    """Facts that share a line."""
    say = speaker.words
    time, delay, scope = facts.get("time", ""), facts.get("delay"), facts.get("scope", "")
    in_scope = say["in_scope"].format(scope=scope) if scope else ""
    job = f"{facts['job']}{in_scope}" if facts.get("job") else ""
    run = f"run {facts['run']}" if facts.get("run") else ""
    step = f"step {facts['step']}" if facts.get("step") else ""
    labels = [f"{name} = {value}" for name, value in facts.get("labels", ())]
    names = ", ".join([facts.get("item", ""), *facts.get("items", ())])
    names = say["in_scope"].join((names, "")).format(scope=say["severities"][facts["severity"]])
    return {
        "was": facts.get("reason", "") if facts.get("item") == RECOVERED else "",
        "job_line": " · ".join(part for part in (job, run, step) if part and job),
        "lost_line": "" if facts.get("item") == RECOVERED else facts.get("steps_lost", ""),
        "scope_line": "" if job else scope,
        "time_line": say["delayed"].format(time=time, delay=delay) if delay else time,
        "labels_line": " · ".join(labels),
        "items_line": " · ".join(part for part in (names, facts.get("id", "")) if part),
    }


@dataclass(frozen=True)
class _Reader:
    view: AlertView
    speaker: Speaker

    @property
    def event(self) -> Mapping[str, Any]:
        return mapping(self.view.event)

    @property
    def labels(self) -> Mapping[str, Any]:
        return mapping(self.view.labels)

    @property
    def is_over(self) -> bool:
        return self.view.status == RESOLVED or self.view.item == RECOVERED

    def facts(self) -> Facts:
        view, say = self.view, self.speaker
        job = mapping(view.job)
        over = view.resolved_at if view.status == RESOLVED else None
        return {
            "item": one_line(view.item),
            "items": [one_line(item) for item in view.items],
            "severity": severity_of(view.severity).value,
            "resolved": self.is_over,
            "title": say.title(view),
            "what": say.happened(view),
            "reason": say.said(self.event.get("reason")),
            "ended": say.said(view.ended) if view.ended else "",
            **self._words(),
            **self._who(),
            "channel": one_line(self.labels.get("channel")),
            "kind": one_line(self.labels.get("kind")),
            "fault": self._fault(),
            **self._decision(),
            "downtime": say.duration(_number(self.event.get("downtime_s"))),
            "steps_lost": _whole(self.event.get("steps_lost")),
            "step": _whole(self.event.get("step")) or _whole(job.get("step")),
            "job": one_line(job.get("name") or job.get("id")),
            "run": ("" if self.is_over else _whole(self.event.get("run"))) or _whole(job.get("run")),
            "scope": one_line(view.scope),
            "time": say.time(over or view.created_at),
            "delay": self._delay(),
            "evidence": [] if self.is_over else _evidence(self.event.get("evidence")),
            "labels": self._labels(),
            "link": say.link(view),
            "ack": say.ack_link(view),
            "again": say.again(view),
            "id": one_line(self.event.get("id") or view.alert_id or view.delivery_id),
        }

    def _words(self) -> dict[str, str]:
        """What came with the alert: of an item of ours a line is a detail, all else stands by itself."""
        words = clip(text(self.view.text), MAX_TEXT)
        is_detail = self.view.item != CUSTOM and len(words) <= MAX_LINE and "\n" not in words
        return {"detail": words, "text": ""} if is_detail else {"detail": "", "text": words}

    def _who(self) -> dict[str, str]:
        """Rank, pod and node at fault; without a fault event those that the labels name, and no culprit."""
        culprit = mapping(self.event.get("culprit")) if self.event else self.labels
        who = {name: one_line(culprit.get(name), 100) for name in ("rank", "pod", "node")}
        who["who"] = " ".join(
            part for part in (f"rank {who['rank']}" if who["rank"] else "", who["node"] or who["pod"]) if part
        )
        if not self.event:
            return {**who, "culprit": ""}
        named = [("rank", "rank"), ("pod", "Pod"), ("node", self.speaker.words["node"])]
        said = [f"{label} {who[name]}" for name, label in named if who[name]]
        return {**who, "culprit": " · ".join(said)}

    def _fault(self) -> str:
        """Class and cause in words, then as the contract calls them."""
        kind, cause = one_line(self.event.get("fault_class"), 60), one_line(self.event.get("cause"), 60)
        if not kind and not cause:
            return ""
        say = self.speaker.words
        said = [say["fault_classes"].get(kind, ""), say["causes"].get(cause, "") if cause != kind else ""]
        names = "/".join(part for part in dict.fromkeys((kind, cause)) if part)
        words = " · ".join(dict.fromkeys(one for one in said if one))
        return str(say["fault_named"].format(said=words, names=names)) if words else names

    def _decision(self) -> dict[str, str]:
        decision = mapping(self.event.get("decision"))
        if self.is_over:
            return dict.fromkeys(("decision", "action", "restart_no", "budget_left", "why", "advice"), "")
        action = one_line(decision.get("action"), 60)
        return {
            "decision": self._action(decision),
            "action": str(self.speaker.words["actions"].get(action, action)),
            "restart_no": one_line(decision.get("restart_no"), 20) if action in RESTARTS else "",
            "budget_left": one_line(decision.get("budget_left"), 20) if action in RESTARTS else "",
            "why": self.speaker.said(decision.get("why")),
            "advice": self.speaker.said(self.event.get("advice")),
        }

    def _action(self, decision: Mapping[str, Any]) -> str:
        action, say = one_line(decision.get("action"), 60), self.speaker.words
        said = [say["actions"].get(action, action)] if action else []
        nodes = decision.get("isolate_nodes")
        if isinstance(nodes, list | tuple) and nodes:
            named = ", ".join(one_line(one, 80) for one in nodes[:MAX_NODES])
            said.append(say["isolated"].format(nodes=named))
        if action in RESTARTS and "budget_left" in decision:
            number, left = one_line(decision.get("restart_no"), 20), one_line(decision["budget_left"], 20)
            said += [say["restart"].format(no=number)] if number else []
            if not self._is_in_why(left):
                said.append(say["budget"].format(left=left) if left else say["unlimited"])
        return " · ".join(said)

    def _is_in_why(self, left: str) -> bool:
        """Whether the reason counts the restarts itself: `8/10`, `8 of 10`."""
        why = self.speaker.said(mapping(self.event.get("decision")).get("why"))
        return bool(left) and re.search(rf"(?<!\d){re.escape(left)}(/| of )\d", why) is not None

    def _delay(self) -> str:
        """How long after the fault this is told; a recovery has its downtime."""
        try:
            happened = datetime.fromisoformat(one_line(self.event.get("time"), 40))
            passed = (self.view.created_at - happened).total_seconds()
        except (ValueError, TypeError, OverflowError):
            return ""
        return "" if self.is_over else self.speaker.duration(passed)

    def _labels(self) -> Rows:
        told = ABOUT.get(self.view.item, set())
        pairs = [(one_line(name, 60), one_line(value, 200)) for name, value in self.labels.items()]
        return [pair for pair in pairs if pair[0] not in told and pair[1]][:MAX_LABELS]


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:
        return None


def _whole(value: object) -> str:
    """A count as text; nothing if it is none."""
    number = _number(value)
    return str(value) if isinstance(value, int) and number is not None and abs(number) < 1e15 else ""


def _evidence(evidence: object) -> list[str]:
    """`rank 3 · node-2 · node: the line`, one line each."""
    if not isinstance(evidence, list | tuple):
        return []
    return [_witness(one) for one in evidence[:MAX_EVIDENCE] if isinstance(one, Mapping) and one.get("text")]


def _witness(one: Mapping[str, Any]) -> str:
    rank = one_line(one.get("rank"), 20)
    where = (f"rank {rank}" if rank else "", one_line(one.get("node"), 80), one_line(one.get("source"), 40))
    said = " · ".join(part for part in where if part)
    return one_line(f"{said}: {text(one['text'])}" if said else one["text"])
