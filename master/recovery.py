"""Carries out what was decided, stage by stage: stopping → waiting → starting → done.

Each stage can be done again from its beginning: a new master goes on where the old one died.
"""

from datetime import datetime

import structlog
from sqlalchemy import select
from sqlalchemy.orm import Session

from master.hands import Hands
from master.lifecycle import JobStatus, PodStatus, move
from master.model import Job, Recovery, Run
from master.pools import ready_nodes
from master.runs import Rendezvous, begin, pods_of
from notifier.faultpoints import hit

NO_NODE = "waits for a node that is ready: restore one, or add one"

log = structlog.get_logger()


def open_recovery(session: Session, job: Job) -> Recovery | None:
    """What is being carried out for this job."""
    rows = select(Recovery).where(Recovery.job_id == job.id, Recovery.stage != "done")
    return session.scalar(rows.order_by(Recovery.event_id.desc()).limit(1))


def advance(hands: Hands, job: Job, recovery: Recovery, now: datetime, *, is_clean: bool) -> None:
    """Go on as far as is possible now. `is_clean`: no process of an earlier run is left."""
    if recovery.stage == "stopping":
        if is_clean:
            _stopped(hands, recovery, now)
    elif recovery.stage == "waiting":
        if now >= recovery.not_before:
            begin_run(hands, job, recovery.run + 1, now, recovery=recovery)
    elif recovery.stage == "starting":
        _await_start(hands, job, recovery, now)


def _stopped(hands: Hands, recovery: Recovery, now: datetime) -> None:
    """Run n is over before run n+1 begins: ports, devices and files are free."""
    hit("recovery_stopped")
    with hands.write() as session:
        session.get_one(Run, (recovery.job_id, recovery.run), with_for_update=True).ended_at = now
        _to(session, recovery, "waiting", now)


def begin_run(hands: Hands, job: Job, n: int, now: datetime, *, recovery: Recovery | None = None) -> None:
    """Write run `n` and its pods; they are started from their rows."""
    with hands.store.read() as session:
        waits = not ready_nodes(session, job.pool)
    if waits and job.reason == NO_NODE:
        return
    rendezvous = Rendezvous(*hands.runtime.rendezvous(), place=hands.runtime.place)
    with hands.write() as session:
        row = session.get_one(Job, job.id, with_for_update=True)
        if row.stop_requested or session.get(Run, (job.id, n)) is not None:
            return
        if not begin(session, row, n, rendezvous, now):
            row.reason = NO_NODE
            return
        if recovery is None:
            move(row, JobStatus.STARTING, now)
        else:
            _to(session, recovery, "starting", now)
    hit("run_begun")
    log.info("run_begun", job=job.id, run=n)


def _await_start(hands: Hands, job: Job, recovery: Recovery, now: datetime) -> None:
    with hands.store.read() as session:
        pods = pods_of(session, job.id, recovery.run + 1)
    if any(pod.status == PodStatus.PENDING for pod in pods):
        return
    hit("recovery_started")
    with hands.write() as session:
        _to(session, recovery, "done", now)


def _to(session: Session, recovery: Recovery, stage: str, now: datetime) -> None:
    row = session.get_one(Recovery, recovery.event_id, with_for_update=True)
    if row.stage == recovery.stage:  # else another master was quicker
        row.stage, row.updated_at = stage, now
