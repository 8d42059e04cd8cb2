"""The stacks of all ranks merged into one tree: where one rank is and the others are not is where to look.

Frames are called as Baidu's flame graph calls them, less the ranks, which stand beside (FAULTS 1.2).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from agent.wire import Kind
from master.model import Job, ObservationRow, Run
from notifier.clock import rfc3339


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
    read = {rank: row.data["frames"] for rank, row in newest.items() if row.data["frames"]}
    return {
        "collected_at": _collected_at(newest.values()),
        "ranks": sorted(newest),
        "frames": merged(read),
        "errors": {str(rank): row.data["error"] for rank, row in sorted(newest.items()) if row.data["error"]},
    }


def merged(stacks: Mapping[int, Sequence[str]]) -> list[dict[str, Any]]:
    """One tree, outermost frame first. `stacks`: frames innermost first, by rank."""
    root = _Frame()
    for rank, frames in stacks.items():
        place = root
        for name in reversed(frames):
            place = place.below.setdefault(name, _Frame())
            place.ranks.add(rank)
    return _children(root, frozenset(stacks))


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
