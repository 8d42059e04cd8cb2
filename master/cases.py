"""The case file of a run and the history of its job, from stored rows alone: any case can be replayed."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from sqlalchemy import select
from sqlalchemy.orm import Session

from agent.wire import FEW_CPU, Kind
from master.casefile import (
    FEW_BYTES,
    Action,
    CaseFile,
    Diagnosis,
    FaultClass,
    History,
    Past,
    PodView,
    RankView,
    Seen,
    Source,
)
from master.evidence import HEARTBEAT_WINDOW
from master.faultargs import FaultTolerance
from master.jobspec import JobSpec
from master.lifecycle import POD_OVER, PodStatus
from master.model import FaultEventRow, Job, ObservationRow, Pod, Run
from master.runs import ranks

NODE_ROWS = 500
TICKS_A_SECOND = 100  # proc(5): sysconf(_SC_CLK_TCK), which is 100 on Linux
STANDS_STILL = (FaultClass.HANG, FaultClass.HEARTBEAT_LOST)
LATE = timedelta(seconds=60)  # a node's word that came too late for the run before counts for this one


def load(
    session: Session, job: Job, run: Run, pods: Sequence[Pod], *, since: datetime | None = None
) -> CaseFile:
    """All evidence of this run that came after its last fault event, and after `since`."""
    rows = _rows(session, job, run, {pod.node for pod in pods})
    beats = [row for row in rows if row.kind == Kind.HEARTBEAT]
    names = {pod.id: pod.name for pod in pods}
    spec = JobSpec.of(job.spec)
    views = [view for pod in pods for view in _rank_views(pod, run, rows)]
    used_up = max(filter(None, (_used_up(session, job, run), since)), default=None)
    return CaseFile(
        job_id=job.id,
        run=run.n,
        started_at=run.started_at,
        pods=tuple(_pod_view(pod, spec, beats) for pod in pods),
        ranks=tuple(sorted(views, key=lambda view: view.rank)),
        seen=tuple(
            _seen(row, names)
            for row in rows
            if row.kind != Kind.HEARTBEAT and not (used_up and row.received_at <= used_up)
        ),
        hang=FaultTolerance.of(job.fault_tolerance).hang,
        first_step_at=run.first_step_at,
        last_step=run.last_step,
        last_step_at=run.last_step_at,
        last_log_at=run.last_log_at,
        rhythm=tuple(run.rhythm),
        nodes_by_address={pod.node: pod.node for pod in pods},
    )


def history(session: Session, job: Job, run: Run) -> History:
    rows = select(FaultEventRow).where(FaultEventRow.job_id == job.id).order_by(FaultEventRow.id.desc())
    past = tuple(
        Past(event.fingerprint, event.step, event.time, Action(event.decision["action"]))
        for event in session.scalars(rows.limit(100))
    )
    return History(job.restarts_used, job.unconditional_used, run.started_at, run.last_step, past)


def is_told(session: Session, job: Job, run: Run, diagnosis: Diagnosis) -> bool:
    """Whether this very run has an event of the same fault that is not over; a standstill is one fault,
    whatever it looks like later."""
    rows = select(FaultEventRow).where(
        FaultEventRow.job_id == job.id, FaultEventRow.run == run.n, FaultEventRow.recovered_at.is_(None)
    )
    stands_still = diagnosis.fault_class in STANDS_STILL
    return any(
        event.fingerprint == diagnosis.fingerprint or (stands_still and event.fault_class in STANDS_STILL)
        for event in session.scalars(rows)
    )


def _rows(session: Session, job: Job, run: Run, nodes: Iterable[str]) -> list[ObservationRow]:
    own = select(ObservationRow).where(ObservationRow.job_id == job.id, ObservationRow.run == run.n)
    of_nodes = (
        select(ObservationRow)
        .where(
            ObservationRow.node.in_(nodes),
            ObservationRow.job_id.is_(None),
            ObservationRow.at >= run.started_at,
        )
        .order_by(ObservationRow.id.desc())
        .limit(NODE_ROWS)
    )
    rows = [*session.scalars(own), *session.scalars(of_nodes)]
    return sorted(rows, key=lambda row: row.id)


def _used_up(session: Session, job: Job, run: Run) -> datetime | None:
    """When the last event of this run was decided that let it go on."""
    decided = select(FaultEventRow.decided_at).where(
        FaultEventRow.job_id == job.id, FaultEventRow.run == run.n
    )
    return session.scalar(decided.order_by(FaultEventRow.id.desc()).limit(1))


def _pod_view(pod: Pod, spec: JobSpec, beats: Sequence[ObservationRow]) -> PodView:
    heard = {int(rank) for row in beats if row.pod_id == pod.id for rank in row.data["ranks"]}
    own = ranks(spec, pod) if spec.nproc_is_known or spec.replicas > 1 or not heard else ()
    return PodView(
        name=pod.name,
        index=pod.index,
        node=pod.node,
        ranks=tuple(sorted(heard | set(own))),
        alive=PodStatus(pod.status) not in POD_OVER,
        exit_code=pod.exit_code if PodStatus(pod.status) in POD_OVER else None,
        agent_seen_at=pod.agent_seen_at,
    )


def _seen(row: ObservationRow, names: dict[str, str]) -> Seen:
    pod = names.get(row.pod_id) if row.pod_id else None
    return Seen(row.at, row.kind, Source(row.source), row.node, pod, row.rank, row.data)


def _rank_views(pod: Pod, run: Run, rows: Sequence[ObservationRow]) -> list[RankView]:
    """Each rank of the pod: its newest heartbeat beside the one a window before."""
    own = [row for row in rows if row.pod_id == pod.id]
    beats = [row for row in own if row.kind == Kind.HEARTBEAT]
    if not beats:
        return []
    newest = beats[-1]
    earlier = [row for row in beats if row.at <= newest.at - HEARTBEAT_WINDOW] or beats
    before = earlier[-1] if earlier is not beats else beats[0]
    known = {rank for row in beats for rank in row.data["ranks"]}
    return [_rank_view(int(rank), pod, (before, newest), _stacks(own, run, int(rank))) for rank in known]


def _rank_view(
    rank: int, pod: Pod, beats: tuple[ObservationRow, ObservationRow], stacks: ObservationRow | None
) -> RankView:
    before, now = (beat.data["ranks"].get(str(rank)) for beat in beats)
    told = now or before or {}
    apart = beats[1].at - beats[0].at
    step_at = told.get("step_at")
    return RankView(
        rank=rank,
        pod=pod.name,
        node=pod.node,
        state=now["state"] if now else "gone",
        step=told.get("step"),
        step_at=datetime.fromisoformat(step_at) if step_at else None,
        # Without a beat to compare with, nothing says that it stands still.
        cpu_moved=cpu_used(before, now, apart) or beats[0] is beats[1],
        io_moved=bytes_moved(before, now) or beats[0] is beats[1],
        stack=tuple(stacks.data["frames"]) if stacks and stacks.data["error"] is None else None,
        stack_error=stacks.data["error"] if stacks else None,
        still=_seconds(told.get("still_s")),
    )


def _seconds(told: float | None) -> timedelta | None:
    return None if told is None else timedelta(seconds=told)


def bytes_moved(before: Mapping[str, int] | None, now: Mapping[str, int] | None) -> bool:
    """Work moves bytes; a thread that tells figures to a service, or looks into /proc, moves a few."""
    if before is None or now is None:
        return False
    return abs(now.get("io_bytes", 0) - before.get("io_bytes", 0)) >= FEW_BYTES


def cpu_used(before: Mapping[str, int] | None, now: Mapping[str, int] | None, apart: timedelta) -> bool:
    """Work takes more CPU than the odd tick of a thread that wakes to see that there is nothing to do."""
    if before is None or now is None:
        return False
    ticks = abs(now.get("cpu_ticks", 0) - before.get("cpu_ticks", 0))
    return ticks > FEW_CPU * TICKS_A_SECOND * apart.total_seconds()


def _stacks(own: Sequence[ObservationRow], run: Run, rank: int) -> ObservationRow | None:
    """The rank's newest stack, if it answers the last request and no step was made since."""
    asked, moved = run.stacks_wanted_at, run.last_step_at
    found = [
        row
        for row in own
        if row.kind == Kind.STACKS
        and row.rank == rank
        and (asked is None or row.received_at >= asked)
        and (moved is None or row.at > moved)
    ]
    return found[-1] if found else None
