"""Reads the lines of a bundle into a case file: what agent, kernel and runtime would have reported."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from types import MappingProxyType
from typing import Any

from agent.signatures import Scanner, is_progress, step_of
from agent.wire import Kind
from master.bundlestamps import Sort, stamp_of
from master.bundlewords import Told, launcher_words, platform_words, probe_words
from master.casefile import CaseFile, HangSettings, PodView, RankView, Seen, Source

_HANG = HangSettings(
    enabled=True,
    log_timeout=timedelta(minutes=7),
    startup_toleration=timedelta(minutes=15),
    stack_timeout=timedelta(minutes=3),
    adaptive=True,
)
_SCANNER = Scanner()
NodeWorld = tuple[str, str, tuple[int, ...]]  # name, address, ranks
Mark = tuple[datetime, int | None]  # when a step was told of, and its number
NEVER = datetime(1970, 1, 1, tzinfo=UTC)
_LONG_BEFORE = timedelta(days=1)  # beyond what time zones make of a stamp that tells none
_BEFORE = timedelta(seconds=60)  # a node's clock may be behind
_EARLIER = timedelta(hours=1)  # a kernel's log reaches back beyond the job; a job's may begin with its errors


class BundleError(ValueError):
    """Input that cannot be read; the message names file, field and mend."""


@dataclass(frozen=True)
class Bundle:
    """One case to be judged: what is known of it, when it ended, and when which steps were made."""

    case: CaseFile
    ended_at: datetime
    marks: tuple[Mark, ...] = ()


@dataclass(frozen=True)
class Line:
    """One line and where it came from. `source`: stdout, stderr, kernel, k8s, agent, launcher, journal.
    `origin`: file and number."""

    at: datetime
    node: str
    rank: int | None
    source: str
    text: str
    origin: tuple[str, int] = ("", 0)


def read_lines(
    lines: Sequence[Line], nodes: Sequence[NodeWorld], started_at: datetime | None, more: Iterable[Seen] = ()
) -> Bundle:
    """A case out of all its lines. `started_at`: when the job began, if that is known. `more`: what was seen
    beside the lines."""
    in_order = sorted(lines, key=lambda line: line.at)
    seen = [
        one
        for line in in_order
        if not _is_replayed(line, started_at or line.at) and (one := seen_of(line)) is not None
    ]
    marks = [
        (line.at, step_of(line.text))
        for line in in_order
        if line.source in ("stdout", "stderr") and is_progress(line.text)
    ]
    span = (in_order[0].at, in_order[-1].at) if in_order else (NEVER, NEVER)
    seen = of_this_time(
        sorted([*seen, *more], key=lambda one: one.at),
        min((line.at for line in in_order if line.source not in ("kernel", "journal")), default=span[0]),
    )
    return read_seen(seen, marks, nodes, span, started_at=started_at, addresses=_pods(in_order))


def of_this_time(seen: Iterable[Seen], began: datetime) -> list[Seen]:
    """Without what kernels said long before a job's own lines began: it is of another time."""
    return [one for one in seen if one.source is not Source.NODE or one.at >= began - _EARLIER]


def _is_replayed(line: Line, since: datetime) -> bool:
    """Whoever reads a kernel's log from its beginning gets lines now that were written long before."""
    stamp = stamp_of(line.text) if line.source in ("kernel", "journal") else None
    return stamp is not None and stamp.sort is Sort.FULL and stamp.at < since - _LONG_BEFORE


def read_seen(
    seen: Iterable[Seen],
    marks: Sequence[Mark],
    nodes: Sequence[NodeWorld],
    span: tuple[datetime, datetime],
    *,
    started_at: datetime | None = None,
    addresses: Mapping[str, str] = MappingProxyType({}),
) -> Bundle:
    """A case out of what counts in it: a pod a node. `marks`: moments and numbers of steps, oldest first.
    `span`: of the first line and the last. `addresses`: of nodes, beside those in `nodes`."""
    counted = _of_this_run(list(seen), started_at)
    steps = _steps(marks)
    gaps = [(later - earlier).total_seconds() for earlier, later in pairwise(steps)]
    success = _success(counted, nodes)
    case = CaseFile(
        job_id="",
        run=0,
        started_at=min(started_at or span[0], span[0]),
        pods=tuple(
            PodView(
                name=name, index=at, node=name, ranks=ranks, alive=True,
                exit_code=0 if success else None, agent_seen_at=None,
            )
            for at, (name, _, ranks) in enumerate(nodes)
        ),
        ranks=tuple(_views(counted, nodes)),
        seen=tuple(counted),
        hang=_HANG,
        first_step_at=steps[0] if steps else None,
        last_step_at=steps[-1] if steps else None,
        last_log_at=span[1],
        rhythm=tuple(gaps),
        nodes_by_address={**addresses, **{address: name for name, address, _ in nodes if address}},
        after_the_fact=True,
    )  # fmt: skip
    return Bundle(case, span[1], tuple(marks))


def _of_this_run(seen: list[Seen], started_at: datetime | None) -> list[Seen]:
    """Without what kernels said before the job began: it is of another time. A node whose own processes
    spoke before that has a clock that is behind."""
    if started_at is None:
        return seen
    began: dict[str, datetime] = {}
    for one in seen:
        if one.source is Source.AGENT:
            began[one.node] = min(one.at, began.get(one.node, started_at))
    return [
        one
        for one in seen
        if one.source is not Source.NODE or one.at >= began.get(one.node, started_at) - _BEFORE
    ]


def nodes_of(lines: Iterable[Line]) -> list[NodeWorld]:
    """The world as far as the lines themselves tell it."""
    ranks: dict[str, set[int]] = {}
    for line in lines:
        ranks.setdefault(line.node, set()).update(() if line.rank is None else (line.rank,))
    return [(node, "", tuple(sorted(found))) for node, found in sorted(ranks.items())]


def seen_of(line: Line) -> Seen | None:
    """What a line tells, as the agent, the node or the runtime would have reported it."""
    if line.source == "k8s":
        told = platform_words(line.text)
        return _from_words(line, told, Source.RUNTIME) if told else None
    told = probe_words(line.text) if line.source in ("agent", "node", "probe") else None
    told = launcher_words(line.text) if line.source == "launcher" else told
    if told is not None:
        return _from_words(line, told, Source.AGENT)
    kernel = line.source == "kernel"
    match = _SCANNER.scan(line.text, "kernel" if kernel else "log")
    if match is None and line.source == "journal":
        kernel, match = True, _SCANNER.scan(line.text, "kernel")
    if match is None:
        return None
    if line.source == "journal" and match.signature == "cloud.notice":  # a daemon of the machine's
        return _from_words(line, Told("pod_preempted", {"reason": "notice"}), Source.RUNTIME)
    data: dict[str, Any] = {"signature": match.signature, "captured": match.captured, "line": line.text}
    kind = Kind.KERNEL_LINE if kernel else Kind.LOG_MATCH
    source = Source.NODE if kernel else Source.AGENT
    return Seen(line.at, kind, source, line.node, line.node or None, line.rank, data | _origin(line))


def _origin(line: Line) -> dict[str, Any]:
    return {"file": line.origin[0], "line_no": line.origin[1]} if line.origin[0] else {}


def _from_words(line: Line, told: Told, source: Source) -> Seen:
    data = {"text": line.text, **told.data, **_origin(line)}
    source = Source.NODE if told.kind == Kind.KERNEL_LINE else source
    if told.data.get("whole_job"):
        return Seen(line.at, told.kind, source, "", None, None, data)
    return Seen(line.at, told.kind, source, line.node, line.node or None, line.rank, data)


def _steps(marks: Iterable[Mark]) -> list[datetime]:
    """When training went on: each higher step once; where no line has a number, each progress line."""
    moments: list[datetime] = []
    best: int | None = None
    for at, step in marks:
        if step is not None and best is not None and step <= best:
            continue
        best = best if step is None else step
        moments.append(at)
    return moments


def _success(seen: Iterable[Seen], nodes: Sequence[NodeWorld]) -> bool:
    """The job's own word, or a good end on every node."""
    done = {one.node for one in seen if one.kind == "pod_completed"}
    return any(one.kind == "job_succeeded" for one in seen) or (bool(nodes) and done >= {n[0] for n in nodes})


def _views(seen: Iterable[Seen], nodes: Sequence[NodeWorld]) -> Iterable[RankView]:
    states: dict[int, str] = defaultdict(lambda: "S")
    for one in seen:
        if one.rank is not None and one.data.get("state"):
            states[one.rank] = str(one.data["state"])
    for name, _, ranks in nodes:
        for rank in ranks:
            yield RankView(rank, name, name, states[rank], None, None, cpu_moved=False, io_moved=False)


def _pods(lines: Iterable[Line]) -> dict[str, str]:
    """Names of pods, as far as lines say where they ran."""
    known: dict[str, str] = {}
    for line in lines:
        if line.source == "k8s" and line.node and (told := platform_words(line.text)) and told.pod:
            known.setdefault(told.pod, line.node)
    return known
