"""Turns what was seen into signs: one form for log lines, kernel lines, exits and the runtime's words."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from agent.signatures import Isolate, Match, Role, Scanner, Trigger, signature
from agent.wire import Kind
from master.casefile import CaseFile, Cause, Seen, Source
from master.diagnosis.world import World, as_int, captured_of

CUSTOM = "custom"
_SCANNER = Scanner()
TRUSTED = (Source.NODE, Source.RUNTIME, Source.INGEST)


@dataclass(frozen=True)
class Sign:
    """One thing that counts, with its meaning. `cause` is empty where it names none."""

    at: datetime
    name: str
    cause: Cause | None
    role: Role
    trigger: Trigger
    source: Source
    text: str
    node: str
    pod: str | None = None
    rank: int | None = None
    hardware: bool = False
    retryable: bool = True
    isolate: Isolate = Isolate.NEVER
    captured: dict[str, str] = field(default_factory=dict)
    file: str | None = None
    line_no: int | None = None

    @property
    def trusted(self) -> bool:
        return self.source in TRUSTED

    def is_a(self, *prefixes: str) -> bool:
        """Whether the sign's name begins with one of these."""
        return self.name.startswith(prefixes)


def read_lines(case: CaseFile, world: World) -> list[Sign]:
    """Signs of log and kernel lines, oldest first, each line once."""
    signs = [
        sign
        for seen in case.seen
        if seen.kind in (Kind.LOG_MATCH, Kind.KERNEL_LINE)
        if (sign := _line(seen, world)) is not None
    ]
    for seen in case.seen:
        if seen.kind == Kind.PROCESS_EXITED:
            signs += _last_words(seen, world)
    return _once(sorted(signs, key=lambda sign: sign.at))


def _once(signs: Iterable[Sign]) -> list[Sign]:
    """A rank's last lines repeat what its log said already."""
    kept: dict[tuple[str, int | None, str, str, bool], Sign] = {}
    for sign in signs:  # a pod that quotes its node's words does not stand in for them
        kept.setdefault((sign.name, sign.rank, sign.node, sign.text, sign.trusted), sign)
    return list(kept.values())


def _line(seen: Seen, world: World) -> Sign | None:
    name, text = str(seen.data.get("signature", "")), str(seen.data.get("line", ""))
    captured = captured_of(seen)
    if seen.kind == Kind.KERNEL_LINE and seen.node not in world.nodes:
        return None
    if captured.get("faultcast_job") not in (None, "", world.case.job_id):  # another job's, on the same node
        return None
    if name != CUSTOM and signature(name) is None:  # an agent of another version: read the line ourselves
        match = _SCANNER.scan(text, "kernel" if seen.kind == Kind.KERNEL_LINE else "log")
        if match is None:
            return None
        name, captured = match.signature, match.captured
    return _sign(seen, world, Match(name, "", Role.CULPRIT, text, captured))


def _last_words(seen: Seen, world: World) -> list[Sign]:
    lines = seen.data.get("last_lines")
    if not isinstance(lines, list):
        return []
    matches = [_SCANNER.scan(line) for line in lines if isinstance(line, str)]
    return [sign for match in matches if match and (sign := _sign(seen, world, match)) is not None]


def _sign(seen: Seen, world: World, match: Match) -> Sign | None:
    known = signature(match.signature)
    if known is not None and known.role is Role.BENIGN:
        return None
    rank = seen.rank if seen.rank is not None else as_int(match.captured.get("line_rank"))
    if rank is None and (local := as_int(match.captured.get("line_local_rank"))) is not None:
        rank = world.rank_at(seen.pod, seen.node, local)  # torchrun's `[default3]:`
    rank = rank if rank in world.ranks else None
    pod = world.pods.get(seen.pod or "") or (world.pod_of_rank.get(rank) if rank is not None else None)
    return Sign(
        at=seen.at,
        name=match.signature,
        cause=_cause(known.cause if known else Cause.CUSTOM_PATTERN),
        role=known.role if known else Role.CULPRIT,
        trigger=known.trigger if known else Trigger.AT_ONCE,
        source=seen.source,
        text=match.line,
        node=pod.node if pod and not seen.node else seen.node,
        pod=pod.name if pod else seen.pod,
        rank=rank,
        hardware=known.hardware if known else False,
        retryable=known.retryable if known else True,
        isolate=known.isolate if known else Isolate.NEVER,
        captured=match.captured,
        **origin_of(seen),
    )


def origin_of(seen: Seen) -> dict[str, Any]:
    """File and number of the line, after the fact."""
    file, number = seen.data.get("file"), seen.data.get("line_no")
    return {
        "file": file if isinstance(file, str) else None,
        "line_no": number if isinstance(number, int) else None,
    }


def _cause(name: str) -> Cause | None:
    return Cause(name) if name else None
