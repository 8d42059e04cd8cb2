"""Reads the lines of a bundle into a case file: what agent, kernel and runtime would have reported."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from agent.signatures import Scanner, is_progress, step_of
from agent.wire import Kind
from master.bundlewords import Told, platform_words, probe_words
from master.casefile import CaseFile, HangSettings, PodView, RankView, Seen, Source

_HANG = HangSettings(
    enabled=True,
    log_timeout=timedelta(minutes=7),
    startup_toleration=timedelta(minutes=15),
    stack_timeout=timedelta(minutes=3),
    adaptive=True,
)
_SCANNER = Scanner()
NodeWorld = tuple[str, str, tuple[int, ...]]


@dataclass(frozen=True)
class Line:
    """One line and where it came from. `source`: stdout, stderr, kernel, k8s, agent, launcher, journal."""

    at: datetime
    node: str
    rank: int | None
    source: str
    text: str


def read_case(lines: Sequence[Line], nodes: Sequence[NodeWorld], started_at: datetime) -> CaseFile:
    """The case file of a bundle: a pod a node."""
    seen = [one for line in lines for one in _seen(line)]
    steps = _steps(lines)
    gaps = [(later - earlier).total_seconds() for earlier, later in pairwise(steps)]
    success = _success(seen, nodes)
    return CaseFile(
        job_id="",
        run=0,
        started_at=started_at,
        pods=tuple(
            PodView(
                name=f"{name}", index=at, node=name, ranks=ranks, alive=True,
                exit_code=0 if success else None, agent_seen_at=None,
            )
            for at, (name, _, ranks) in enumerate(nodes)
        ),
        ranks=tuple(_views(seen, nodes)),
        seen=tuple(seen),
        hang=_HANG,
        first_step_at=steps[0] if steps else None,
        last_step_at=steps[-1] if steps else None,
        last_log_at=lines[-1].at if lines else None,
        rhythm=tuple(gaps),
        nodes_by_address=_addresses(nodes, lines),
        after_the_fact=True,
    )  # fmt: skip


def _seen(line: Line) -> list[Seen]:
    if line.source == "k8s":
        told = platform_words(line.text)
        return [_from_words(line, told, Source.RUNTIME)] if told else []
    told = probe_words(line.text) if line.source in ("agent", "node", "probe") else None
    if told is not None:
        return [_from_words(line, told, Source.AGENT)]
    kernel = line.source == "kernel"
    match = _SCANNER.scan(line.text, "kernel" if kernel else "log")
    if match is None and line.source == "journal":
        kernel, match = True, _SCANNER.scan(line.text, "kernel")
    if match is None:
        return []
    data: dict[str, Any] = {"signature": match.signature, "captured": match.captured, "line": line.text}
    kind = Kind.KERNEL_LINE if kernel else Kind.LOG_MATCH
    source = Source.NODE if kernel else Source.AGENT
    return [Seen(line.at, kind, source, line.node, _pod(line), line.rank, data)]


def _pod(line: Line) -> str | None:
    return line.node or None


def _from_words(line: Line, told: Told, source: Source) -> Seen:
    data = {"text": line.text, **told.data}
    source = Source.NODE if told.kind == Kind.KERNEL_LINE else source
    return Seen(line.at, told.kind, source, line.node, _pod(line), line.rank, data)


def _steps(lines: Iterable[Line]) -> list[datetime]:
    """When training went on: each higher step once; where no line has a number, each progress line."""
    moments: list[datetime] = []
    best: int | None = None
    for line in lines:
        if line.source not in ("stdout", "stderr") or not is_progress(line.text):
            continue
        step = step_of(line.text)
        if step is not None and best is not None and step <= best:
            continue
        best = best if step is None else step
        moments.append(line.at)
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


def _addresses(nodes: Sequence[NodeWorld], lines: Iterable[Line]) -> dict[str, str]:
    """Addresses of nodes, and names of pods as far as lines say where they ran."""
    known = {address: name for name, address, _ in nodes if address}
    for line in lines:
        if line.source == "k8s" and line.node and (told := platform_words(line.text)) and told.pod:
            known.setdefault(told.pod, line.node)
    return known
