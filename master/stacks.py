"""The stacks of all ranks merged into one tree: where one rank is and the others are not is where to look.

Frames are called as Baidu's flame graph calls them, less the ranks, which stand beside (FAULTS 1.2).
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from agent.wire import Kind
from master.diagnosis.stacks import odd_ones, poses, sample
from master.model import Job, ObservationRow, Run
from notifier.clock import rfc3339

_NEVER = datetime.min.replace(tzinfo=UTC)
_TYPES = (
    ("dataloader", re.compile(r"torch/utils/data/_utils/worker\.py|^_worker_loop \(")),
    ("compiler", re.compile(r"torch/_inductor|\b(?:nvcc|ptxas|cicc|ninja|triton)\b")),
    ("helper", re.compile(r"multiprocessing[/.](?:resource_tracker|forkserver|semaphore_tracker)")),
)


@dataclass
class _Frame:
    ranks: set[int] = field(default_factory=set)
    below: dict[str, "_Frame"] = field(default_factory=dict)


def collection(session: Session, job: Job) -> dict[str, Any]:
    """The newest stack of each rank of the present run, merged; `errors` of those that could not be read."""
    run = session.get(Run, (job.id, job.run))
    rows = select(ObservationRow).where(
        ObservationRow.job_id == job.id, ObservationRow.run == job.run, ObservationRow.kind == Kind.STACKS
    )
    newest: dict[int, ObservationRow] = {}
    for row in session.scalars(rows.order_by(ObservationRow.id)):
        asked = run.stacks_wanted_at if run else None
        if row.rank is not None and (asked is None or row.received_at >= asked):
            newest[row.rank] = row
    return {"collected_at": _collected_at(newest.values())} | document(
        {n: row.data for n, row in newest.items()}
    )


def document(told: Mapping[int, Mapping[str, Any]]) -> dict[str, Any]:
    """What the agents told of each rank, as people read it.

    Returns:
        `{"ranks", "frames", "errors", "odd", "children", "child_frames"}`: `frames` is the tree of training
        processes, `odd` the ranks that are where most others are not, `children` each rank's child processes
        with their type and stack, `child_frames` one tree for each type of them.
    """
    read = {rank: data["frames"] for rank, data in told.items() if data["frames"]}
    below = {rank: [_child(one) for one in data.get("children") or ()] for rank, data in sorted(told.items())}
    types = sorted({child["type"] for children in below.values() for child in children})
    return {
        "ranks": sorted(told),
        "frames": merged(read),
        "errors": {str(rank): data["error"] for rank, data in sorted(told.items()) if data["error"]},
        "odd": ranges(_odd(told)),
        "children": {str(rank): children for rank, children in below.items() if children},
        "child_frames": {kind: _tree_of(kind, below) for kind in types},
    }


def _odd(told: Mapping[int, Mapping[str, Any]]) -> list[int]:
    """By one look alone: whether it stays there tells a second one."""
    stood = poses({rank: [sample(_NEVER, data)] for rank, data in told.items()})
    return odd_ones(stood, len(told), {rank for rank, data in told.items() if data.get("state") == "R"})


def _child(one: Mapping[str, Any]) -> dict[str, Any]:
    kind = process_type(str(one.get("cmd", "")), one["frames"])
    return {"pid": one["pid"], "type": kind, "cmd": one.get("cmd", ""), "frames": list(one["frames"]),
            "error": one.get("error")}  # fmt: skip


def process_type(command: str, frames: Sequence[str]) -> str:
    """`dataloader`, `compiler`, `helper` (Python's own) or `other`, by the stack and the command line."""
    for kind, form in _TYPES:
        if any(form.search(frame) for frame in frames) or form.search(command):
            return kind
    return "other"


def _tree_of(kind: str, below: Mapping[int, Sequence[Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """A rank stands at a frame where any of its children of that type does."""
    stacks = [
        (rank, child["frames"])
        for rank, children in below.items()
        for child in children
        if child["type"] == kind and child["frames"]
    ]
    return _merged(stacks)


def merged(stacks: Mapping[int, Sequence[str]]) -> list[dict[str, Any]]:
    """One tree, outermost frame first. `stacks`: frames innermost first, by rank."""
    return _merged(list(stacks.items()))


def _merged(stacks: Sequence[tuple[int, Sequence[str]]]) -> list[dict[str, Any]]:
    root = _Frame()
    for rank, frames in stacks:
        place = root
        for name in reversed(frames):
            place = place.below.setdefault(name, _Frame())
            place.ranks.add(rank)
    return _children(root, frozenset(rank for rank, _ in stacks))


def _children(frame: _Frame, everyone: frozenset[int]) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "ranks_in": ranges(child.ranks),
            "ranks_not_in": ranges(everyone - child.ranks),
            "children": _children(child, everyone),
        }
        for name, child in frame.below.items()
    ]


def ranges(ranks: Iterable[int]) -> str:
    """`0-5/7`: neighbours as a range, the rest joined by a slash."""
    parts: list[list[int]] = []
    for rank in sorted(ranks):
        if parts and parts[-1][-1] == rank - 1:
            parts[-1] = [parts[-1][0], rank]
        else:
            parts.append([rank])
    return "/".join("-".join(map(str, part)) for part in parts)


def _collected_at(rows: Iterable[ObservationRow]) -> str | None:
    times: list[datetime] = [row.at for row in rows]
    return rfc3339(max(times)) if times else None
