"""Logs that lie on disk, as a case: bundles and log files in, the answer of `faultcast diagnose` out."""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from agent.signatures import is_kernel_line
from master.bundleread import Line, read_case
from master.casefile import Action, CaseFile, Decision, Diagnosis, Evidence, History, Policy, PoolView, Want
from master.decision import decide
from master.diagnosis import diagnose

_RANK_IN_NAME = re.compile(r"rank[_-]?(\d{1,6})")
_NODE_IN_NAME = re.compile(r"node[_-]?([A-Za-z0-9][\w-]*)")
_STAMP = re.compile(r"(\d{4}-\d\d-\d\d)[T _](\d\d:\d\d:\d\d(?:[.,]\d{1,6})?)(Z|[+-]\d\d:?\d\d)?")
_MAX_BYTES = 2 << 30
_LONG_AFTER = timedelta(days=1)


class BundleError(ValueError):
    """Input that cannot be read; the message names file, field and mend."""


@dataclass(frozen=True)
class Bundle:
    """Lines with their source, and the world they come from. `origins`: where each line stood."""

    lines: tuple[Line, ...]
    nodes: tuple[tuple[str, str, tuple[int, ...]], ...]  # name, address, ranks
    started_at: datetime
    origins: dict[tuple[str, int | None, str], tuple[str, int]] = field(default_factory=dict)

    def case(self) -> CaseFile:
        return read_case(self.lines, self.nodes, self.started_at)


def answer(bundle: Bundle, language: str = "zh") -> dict[str, Any]:
    """CONTRACT 6: the document of one bundle. `language`: zh or en."""
    case = bundle.case()
    last = max((line.at for line in bundle.lines), default=case.started_at)
    found = diagnose(case, last + _LONG_AFTER)
    if found is None or isinstance(found, Want):
        return {"faults": [], "symptoms": []}
    return report(found, at_first_occurrence(found, last), bundle, language=language)


def at_first_occurrence(diagnosis: Diagnosis, now: datetime) -> Decision:
    """What the master would decide of a fault it sees for the first time, with fault tolerance on."""
    policy = Policy(
        enabled=True,
        max_restarts=10,
        unconditional_retries=0,
        unconditional_observe=timedelta(hours=1),
        replace=False,
    )
    history = History(restarts_used=0, unconditional_used=0, run_started_at=now, step=None)
    pool = PoolView(fault_isolation=True, isolation_cap=1.0, nodes=1, isolated=frozenset())
    return decide(diagnosis, policy, history, pool, now)


def report(
    diagnosis: Diagnosis, decision: Decision, bundle: Bundle | None = None, *, language: str = "zh"
) -> dict[str, Any]:
    """One diagnosis as CONTRACT 6 prints it."""
    origins = bundle.origins if bundle else {}
    node = diagnosis.culprit.node
    fault = {
        "fault_class": diagnosis.fault_class.value,
        "cause": diagnosis.cause.value,
        "culprit": {"rank": diagnosis.culprit.rank, "node": node},
        "confidence": diagnosis.confidence,
        "hardware": diagnosis.hardware,
        "retryable": diagnosis.retryable,
        "isolate_node": node if diagnosis.hardware else None,
        "action": decision.action.value if decision.action is not Action.REPLACE_PODS else "restart_job",
        "reason": diagnosis.reason[language],
        "advice": diagnosis.advice[language],
        "evidence": _told(diagnosis.evidence, origins),
    }
    return {"faults": [fault], "symptoms": _told(diagnosis.symptoms, origins)}


def _told(
    evidence: Iterable[Evidence], origins: dict[tuple[str, int | None, str], tuple[str, int]]
) -> list[dict[str, Any]]:
    told = []
    for one in evidence:
        file, number = origins.get((one.node or "", one.rank, one.text), (None, None))
        told.append({"file": file, "line_no": number, "rank": one.rank, "node": one.node, "text": one.text})
    return told


def read_paths(paths: Sequence[Path]) -> Iterator[tuple[str, Bundle]]:
    """Every bundle that the paths hold, with its name; plain logs together make one."""
    logs: list[Path] = []
    for path in paths:
        if not path.exists():
            raise BundleError(f"{path}: no such file or folder")
        if path.is_dir():
            logs += sorted(one for one in path.rglob("*") if one.is_file())
        elif path.suffix in (".json", ".jsonl"):
            yield from _bundles_in(path)
        else:
            logs.append(path)
    if logs:
        yield "logs", _from_logs(logs)


def _bundles_in(path: Path) -> Iterator[tuple[str, Bundle]]:
    text = path.read_text(encoding="utf-8", errors="replace")
    documents = [text] if path.suffix == ".json" else text.splitlines()
    for number, document in enumerate(documents, start=1):
        if document.strip():
            where = f"{path}:{number}" if path.suffix == ".jsonl" else str(path)
            yield where, parse(document, where)


def parse(document: str, where: str) -> Bundle:
    """A bundle's JSON."""
    try:
        data = json.loads(document)
    except (ValueError, RecursionError) as error:
        raise BundleError(f"{where}: not JSON ({error})") from None
    return from_document(data, where)


def from_document(data: object, where: str) -> Bundle:
    """`{"world": {…}, "log": [{"t", "node", "rank", "src", "line"}]}`."""
    log, world = (data.get("log"), data.get("world")) if isinstance(data, dict) else (None, None)
    if not isinstance(log, list):
        raise BundleError(f'{where}: "log" must be a list of {{"t", "node", "rank", "src", "line"}}')
    world = world if isinstance(world, dict) else {}
    lines = [_line(entry, f"{where}: log[{at}]") for at, entry in enumerate(log)]
    first = min((line.at for line in lines), default=datetime(1970, 1, 1, tzinfo=UTC))
    start = world.get("job_start")
    started = _time(start, f"{where}: world.job_start") if start is not None else first
    told = world.get("nodes") or []
    if not isinstance(told, list):
        raise BundleError(f"{where}: world.nodes must be a list")
    nodes = [_node(entry, f"{where}: world.nodes[{at}]") for at, entry in enumerate(told)]
    origins = {
        (line.node, line.rank, line.text): (where, at + 1) for at, line in reversed(list(enumerate(lines)))
    }
    return Bundle(tuple(lines), tuple(nodes or _nodes_of(lines)), min(started, first), origins)


def _line(entry: object, where: str) -> Line:
    if not isinstance(entry, dict):
        raise BundleError(f"{where}: must be an object")
    rank, text = entry.get("rank"), entry.get("line")
    if not isinstance(text, str):
        raise BundleError(f'{where}: "line" must be a text')
    if rank is not None and (not isinstance(rank, int) or isinstance(rank, bool) or rank < 0):
        raise BundleError(f'{where}: "rank" must be a whole number or null')
    at = _time(entry.get("t"), f"{where}: t")
    return Line(at, str(entry.get("node") or ""), rank, str(entry.get("src") or "stdout"), text)


def _time(value: object, where: str) -> datetime:
    try:
        at = datetime.fromisoformat(str(value))
    except ValueError:
        raise BundleError(f"{where}: {str(value)[:40]!r} is no RFC 3339 time") from None
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def _node(entry: object, where: str) -> tuple[str, str, tuple[int, ...]]:
    if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
        raise BundleError(f'{where}: must be an object with a "name"')
    ranks = entry.get("ranks") or []
    if not isinstance(ranks, list) or not all(isinstance(rank, int) for rank in ranks):
        raise BundleError(f'{where}: "ranks" must be a list of whole numbers')
    return entry["name"], str(entry.get("ip") or ""), tuple(ranks)


def _nodes_of(lines: Iterable[Line]) -> list[tuple[str, str, tuple[int, ...]]]:
    """The world as far as the lines themselves tell it."""
    ranks: dict[str, set[int]] = {}
    for line in lines:
        ranks.setdefault(line.node, set()).update(() if line.rank is None else (line.rank,))
    return [(node, "", tuple(sorted(found))) for node, found in sorted(ranks.items())]


def _from_logs(paths: Iterable[Path]) -> Bundle:
    """Log files: a name that holds `rank<N>` or `node<NAME>` names the source; others count as one rank."""
    lines: list[Line] = []
    origins: dict[tuple[str, int | None, str], tuple[str, int]] = {}
    base = datetime(2000, 1, 1, tzinfo=UTC)
    for path in paths:
        if path.stat().st_size > _MAX_BYTES:
            raise BundleError(f"{path}: larger than {_MAX_BYTES >> 30} GiB; give the part around the fault")
        for number, line in _file_lines(path, base):
            lines.append(line)
            origins.setdefault((line.node, line.rank, line.text), (str(path), number))
    lines.sort(key=lambda line: line.at)
    first = min((line.at for line in lines), default=base)
    return Bundle(tuple(lines), tuple(_nodes_of(lines)), first, origins)


def _file_lines(path: Path, base: datetime) -> Iterator[tuple[int, Line]]:
    rank = _RANK_IN_NAME.search(path.name)
    node = _NODE_IN_NAME.search(path.name)
    named_kernel = any(word in path.name for word in ("kern", "dmesg", "kmsg"))
    at = base
    with path.open(encoding="utf-8", errors="replace") as file:
        for number, raw in enumerate(file, start=1):
            text = raw.rstrip("\r\n")[:8192]
            at = _stamp_of(text) or at + timedelta(milliseconds=1)
            kernel = named_kernel or (rank is None and "NVRM" in text and is_kernel_line(text))
            number_of = int(rank[1]) if rank else (None if kernel else 0)
            yield number, Line(at, node[1] if node else "", number_of, "kernel" if kernel else "stderr", text)


def _stamp_of(text: str) -> datetime | None:
    found = _STAMP.search(text[:120])
    if not found:
        return None
    try:
        at = datetime.fromisoformat(f"{found[1]}T{found[2].replace(',', '.')}{found[3] or '+00:00'}")
    except ValueError:
        return None
    return at.astimezone(UTC)
