"""A job ends because somebody said so: stopped, deleted."""

from datetime import datetime

from sqlalchemy import delete, select, update
from sqlalchemy.orm import Session

from master import news
from master.hands import Hands
from master.lifecycle import JobStatus, is_final, move
from master.model import AgentLife, FaultEventRow, Job, ObservationRow, Pod, Recovery, Run
from notifier.clock import utcnow
from notifier.model import AlertConfig, Token

STOPPED = "stopped"


def request_stop(session: Session, job: Job, now: datetime, reason: str) -> bool:
    """Say that the job shall end; whether there was anything to end. The caller has locked its row."""
    if is_final(job) or job.stop_requested:
        return False
    job.stop_requested = True
    move(job, JobStatus.STOPPING, now, reason)
    run = session.get(Run, (job.id, job.run), with_for_update=True)
    if run is not None and not run.end_reason:
        run.end_reason = STOPPED
    session.execute(update(Recovery).where(Recovery.job_id == job.id).values(stage="done", updated_at=now))
    return True


def stopped(hands: Hands, job: Job, now: datetime) -> None:
    """Nothing of it runs any more."""
    with hands.write() as session:
        row = session.get_one(Job, job.id, with_for_update=True)
        if row.status != JobStatus.STOPPING:
            return
        run = session.get(Run, (job.id, row.run), with_for_update=True)
        if run is not None:
            run.ended_at = run.ended_at or now
        move(row, JobStatus.STOPPED, now, row.reason)
        news.close_all(session, job.id, news.STOPPED, now)


def note_reason(hands: Hands, job_id: str, reason: str) -> None:
    """Say on the job why it does not get on."""
    with hands.store.read() as session:
        job = session.get(Job, job_id)
        if job is None or job.reason == reason or is_final(job):
            return
    with hands.write() as session:
        session.get_one(Job, job_id, with_for_update=True).reason = reason


def run_ended(hands: Hands, job: Job, now: datetime) -> None:
    """Nothing is left of the last run of a job that came to its end by itself."""
    with hands.write() as session:
        session.get_one(Run, (job.id, job.run), with_for_update=True).ended_at = now


def purge(hands: Hands, job: Job) -> None:
    """Forget a deleted job; its deliveries stay in the log until they are too old."""
    hands.runtime.purge(job.id)
    with hands.write() as session:
        pods = list(session.scalars(select(Pod.id).where(Pod.job_id == job.id)))
        session.execute(delete(AgentLife).where(AgentLife.owner.in_([f"pod:{pod}" for pod in pods])))
        session.execute(delete(Token).where(Token.pod_id.in_(pods)))
        news.close_all(session, job.id, news.DELETED, utcnow())
        session.execute(
            delete(AlertConfig).where(AlertConfig.owner_kind == "job", AlertConfig.owner_id == job.id)
        )
        for table in (ObservationRow, FaultEventRow, Recovery, Pod, Run):
            session.execute(delete(table).where(table.job_id == job.id))
        session.execute(delete(Job).where(Job.id == job.id))
