"""The rows of what was seen: kept within bounds, so that no flood of an agent fills the database."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import delete, func, select
from sqlalchemy.orm import Session

from agent.wire import Kind
from master.casefile import Source
from master.model import ObservationRow
from master.reports import Saw

HEARTBEAT_WINDOW = timedelta(seconds=3)  # RECOVERY: hang evidence is read in windows of 3 s
ROWS_KEPT = 2000  # of one pod or one node: a flood proves no more than its beginning
STACKS_KEPT = 16  # of each rank: enough to see for how long it has not moved
_DECISIVE = frozenset(
    {Kind.PROCESS_EXITED, Kind.STACKS}
)  # these find room where matches of a log no longer do


@dataclass(frozen=True)
class Origin:
    """Who saw it, and of what."""

    source: Source
    node: str
    job_id: str | None = None
    run: int | None = None
    pod_id: str | None = None


def keep(session: Session, origin: Origin, seen: Sequence[Saw], now: datetime) -> None:
    """Rows for what agents saw (not for heartbeats)."""
    if not seen:
        return
    room = ROWS_KEPT - _count(session, origin)
    for one in seen:
        if room > 0 or (one.kind in _DECISIVE and room > -ROWS_KEPT):
            session.add(_row(origin, one, now))
        room -= 1
    session.flush()
    if any(one.kind is Kind.STACKS for one in seen):
        _forget_old_stacks(session, origin, {one.rank for one in seen if one.kind is Kind.STACKS})
    if origin.job_id is None:
        _forget_old_node_lines(session, origin.node)


def keep_heartbeat(session: Session, origin: Origin, one: Saw, now: datetime) -> None:
    """The newest heartbeat of a pod and those of the window before it; older ones go."""
    session.add(_row(origin, one, now))
    session.flush()
    beats = _of(origin, Kind.HEARTBEAT)
    edge = select(func.max(ObservationRow.id)).where(*beats, ObservationRow.at <= one.at - HEARTBEAT_WINDOW)
    session.execute(delete(ObservationRow).where(*beats, ObservationRow.id < edge.scalar_subquery()))


def keep_word(
    session: Session, origin: Origin, kind: str, at: datetime, *, data: Mapping[str, Any], now: datetime
) -> None:
    """What the runtime says of a pod, or a trusted third of a node (master/casefile.py: Seen)."""
    session.add(
        ObservationRow(
            job_id=origin.job_id, run=origin.run, pod_id=origin.pod_id, node=origin.node, rank=None,
            source=origin.source, kind=kind, at=at, received_at=now, data=dict(data),
        )
    )  # fmt: skip
    if origin.job_id is None:
        session.flush()
        _forget_old_node_lines(session, origin.node)


def _row(origin: Origin, one: Saw, now: datetime) -> ObservationRow:
    return ObservationRow(
        job_id=origin.job_id, run=origin.run, pod_id=origin.pod_id, node=origin.node, rank=one.rank,
        source=origin.source, kind=one.kind.value, at=one.at, received_at=now,
        data=one.data.model_dump(mode="json"),
    )  # fmt: skip


def _of(origin: Origin, *kinds: Kind) -> list[Any]:
    return [
        ObservationRow.job_id == origin.job_id,
        ObservationRow.run == origin.run,
        ObservationRow.pod_id == origin.pod_id,
        ObservationRow.kind.in_(kinds),
    ]


def _count(session: Session, origin: Origin) -> int:
    if origin.job_id is None:
        return 0  # a node's lines are bounded by forgetting the oldest: they live longer than any job
    rows = select(func.count()).select_from(ObservationRow).where(*_of(origin, *Kind))
    return session.scalar(rows) or 0


def _forget_old_stacks(session: Session, origin: Origin, ranks: Iterable[int | None]) -> None:
    stacks = _of(origin, Kind.STACKS)
    for rank in ranks:
        rows = select(ObservationRow.id).where(*stacks, ObservationRow.rank.is_not_distinct_from(rank))
        old = session.scalars(rows.order_by(ObservationRow.id.desc()).offset(STACKS_KEPT)).all()
        session.execute(delete(ObservationRow).where(ObservationRow.id.in_(old)))


def _forget_old_node_lines(session: Session, node: str) -> None:
    lines = (ObservationRow.node == node, ObservationRow.job_id.is_(None))
    rows = select(ObservationRow.id).where(*lines).order_by(ObservationRow.id.desc())
    edge = session.scalar(rows.offset(ROWS_KEPT).limit(1))
    if edge is not None:
        session.execute(delete(ObservationRow).where(*lines, ObservationRow.id <= edge))
