"""One transaction makes a diagnosis and its decision last: event, job, recovery, isolation, alert."""

from dataclasses import asdict, dataclass
from datetime import datetime, timedelta

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from agent.wire import Kind
from master import news, pools
from master.casefile import Action, Decision, Diagnosis, Evidence
from master.hands import Hands
from master.lifecycle import JobStatus, is_final, move
from master.model import FaultEventRow, Job, ObservationRow, Recovery, Run
from master.runs import is_over
from notifier.clock import rfc3339
from notifier.ids import new_id

MAX_EVIDENCE = 50
# What makes the master look: its arrival is the moment at which a fault could be detected.
TELLING = (Kind.PROCESS_EXITED, Kind.LOG_MATCH, Kind.STACKS, Kind.KERNEL_LINE, "pod_exited", "pod_deleted",
           "pod_vanished", "pod_stopped", "pod_evicted", "node_lost")  # fmt: skip
EARLIER = timedelta(seconds=1)  # clocks and logs are not that exact
FIRST_LOOK = timedelta(seconds=30)  # an agent's answer takes no longer


@dataclass(frozen=True)
class Finding:
    """What was diagnosed of which run, and what is to be done."""

    job_id: str
    run: int
    diagnosis: Diagnosis
    decision: Decision


def record(hands: Hands, finding: Finding, now: datetime) -> FaultEventRow | None:
    """Make it last; None when the job went on meanwhile (stopped, deleted, another run)."""
    with hands.write() as session:
        job = session.get(Job, finding.job_id, with_for_update=True)
        run = session.get(Run, (finding.job_id, finding.run), with_for_update=True)
        if job is None or run is None or job.run != run.n or is_over(run):
            return None
        if is_final(job) or job.stop_requested:
            return None
        isolated = _isolate(session, finding, now)
        event = _event(session, job, run, finding, isolated, now)
        _apply(session, job, run, event, finding.decision, now)
        news.tell_fault(session, job, event, now)
        return event


def _isolate(session: Session, finding: Finding, now: datetime) -> list[str]:
    reason = f"{finding.diagnosis.cause}: {finding.diagnosis.reason['en']}"
    return [name for name in finding.decision.isolate_nodes if pools.isolate(session, name, reason, now)]


def _event(
    session: Session, job: Job, run: Run, finding: Finding, isolated: list[str], now: datetime
) -> FaultEventRow:
    diagnosis, decision = finding.diagnosis, finding.decision
    earlier = select(func.count()).where(FaultEventRow.job_id == job.id, FaultEventRow.run == run.n)
    event = FaultEventRow(
        id=new_id("evt", now), job_id=job.id, pool=job.pool, queue=job.queue, run=run.n,
        incident=session.scalar(earlier) or 0, time=diagnosis.at, fault_class=diagnosis.fault_class,
        cause=diagnosis.cause, reason=diagnosis.reason, advice=diagnosis.advice,
        culprit=asdict(diagnosis.culprit), confidence=diagnosis.confidence, hardware=diagnosis.hardware,
        retryable=diagnosis.retryable, fingerprint=diagnosis.fingerprint, step=run.last_step,
        evidence=[_shown(one) for one in diagnosis.evidence[:MAX_EVIDENCE]],
        decision={
            "action": decision.action, "mode": decision.mode, "isolate_nodes": isolated,
            "restart_no": decision.restart_no, "budget_left": decision.budget_left, "why": decision.why,
            "would": _would(decision.would),
        },
        detected_at=_detected_at(session, job, run, diagnosis, now), decided_at=now,
    )  # fmt: skip
    session.add(event)
    session.flush()
    return event


def _would(decision: Decision | None) -> dict[str, object] | None:
    """What would have been done with fault tolerance on; None: it is on."""
    if decision is None:
        return None
    return {"action": decision.action, "isolate_nodes": list(decision.isolate_nodes), "why": decision.why}


def _shown(evidence: Evidence) -> dict[str, object]:
    told = {**asdict(evidence), "time": rfc3339(evidence.time)}
    return {name: value for name, value in told.items() if name not in ("file", "line_no")}


def _detected_at(session: Session, job: Job, run: Run, diagnosis: Diagnosis, now: datetime) -> datetime:
    """When the first word of it reached the master; of a hang that was looked into for long the first looks
    are not kept: then when it was time for them."""
    nodes = {one.node for one in diagnosis.evidence if one.node}
    first = select(func.min(ObservationRow.received_at)).where(
        ObservationRow.kind.in_(TELLING),
        ObservationRow.at >= diagnosis.at - EARLIER,
        ((ObservationRow.job_id == job.id) & (ObservationRow.run == run.n))
        | (ObservationRow.job_id.is_(None) & ObservationRow.node.in_(nodes)),
    )
    heard = min(session.scalar(first) or now, now)
    suspected = diagnosis.suspected_at
    return heard if suspected is None or heard - suspected < FIRST_LOOK else suspected


def _apply(
    session: Session, job: Job, run: Run, event: FaultEventRow, decision: Decision, now: datetime
) -> None:
    reason = decision.why["en"]
    if decision.action is Action.NONE:
        job.reason = reason
        return
    run.end_reason = f"{event.fault_class}: {event.cause}"
    if decision.action is Action.FAIL_JOB:
        move(job, JobStatus.FAILED, now, reason)
        news.close_all(session, job.id, news.FAILED, now)
        return
    if decision.counts_as == "unconditional":
        job.unconditional_used += 1
    elif decision.counts_as == "restart":
        job.restarts_used += 1
    move(job, JobStatus.RESTARTING, now, reason)
    session.add(
        Recovery(
            event_id=event.id, job_id=job.id, run=run.n, stage="stopping", not_before=now + decision.backoff,
            updated_at=now,
        )
    )  # fmt: skip
