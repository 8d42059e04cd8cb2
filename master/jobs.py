"""Jobs as their owners know them: created, listed, stopped, deleted."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Select, select
from sqlalchemy.orm import Session

from master import pools
from master.admission import Admission, NotAdmitted, admit
from master.createjob import CreateJob
from master.endings import request_stop
from master.lifecycle import FINAL, JobStatus, is_final
from master.model import Job
from notifier.alertconfigs import check_channels, parsed_config, put_alert_config
from notifier.auth import Principal
from notifier.ids import new_id
from notifier.problems import Problem, conflict, not_found
from notifier.rules import AlertConfigModel


@dataclass(frozen=True)
class Judged:
    """A body that may become a job of `pool`; `alerts` None: the pool's rules tell of it."""

    pool: str
    queue: str
    admission: Admission
    alerts: AlertConfigModel | None

    @property
    def warnings(self) -> list[str]:
        return list(self.admission.warnings)


def judged(
    session: Session, principal: Principal, body: CreateJob, runtime: str, *, lock: bool = False
) -> Judged:
    """What would become of this body. `lock` keeps two creations of one name apart.

    Raises:
        Problem: with every field that is wrong, and its mend.
    """
    pool = _pool_of(principal, body)
    try:
        admission = admit(body, pools.facts(session, pool, runtime, lock=lock))
    except NotAdmitted as error:
        raise Problem(422, errors=error.faults) from None
    same = select(Job.id).where(
        Job.pool == pool, Job.queue == body.queue, Job.name == body.name, Job.status.not_in(FINAL)
    )
    if (other := session.scalar(same.limit(1))) is not None:
        raise conflict(
            f"name: job {other} of queue {body.queue} has the name {body.name} and is not finished; "
            "stop it or choose another name"
        )
    alerts = None
    if body.alert_config is not None:
        alerts = parsed_config(body.alert_config)
        check_channels(session, alerts, pool, body.queue, under="alertConfig")
    return Judged(pool, body.queue, admission, alerts)


def _pool_of(principal: Principal, body: CreateJob) -> str:
    """Which pool the job is for; one outside the token's scope does not exist."""
    pool = body.resource_pool_id or principal.pool or pools.DEFAULT
    if not principal.covers(pool, body.queue):
        if principal.pool in {None, pool}:
            raise not_found("queue", body.queue)
        raise not_found("pool", pool)
    return pool


def create(session: Session, judged: Judged, now: datetime) -> Job:
    admission, spec = judged.admission, judged.admission.spec
    job = Job(
        id=new_id("job", now), pool=judged.pool, queue=judged.queue, name=spec.name, priority=spec.priority,
        spec=spec.document(), fault_tolerance=admission.fault_tolerance.document(),
        warnings=judged.warnings, status=JobStatus.CREATED, created_at=now,
    )  # fmt: skip
    session.add(job)
    session.flush()
    if judged.alerts is not None:
        put_alert_config(session, ("job", job.id), judged.alerts, now)
    return job


def listed(principal: Principal, status: str | None) -> Select[Job]:
    rows = select(Job).where(principal.only(Job.pool, Job.queue), Job.delete_requested.is_(False))
    return rows.where(Job.status == status) if status else rows


def stop(session: Session, job: Job, who: str, now: datetime) -> None:
    """Asking again is no fault; a job that ended by itself cannot be stopped any more."""
    if is_final(job) and job.status != JobStatus.STOPPED:
        raise conflict(f"job {job.id} has ended ({job.status}); there is nothing to stop")
    request_stop(session, job, now, f"stopped by {who}")


def delete(session: Session, job: Job, who: str, now: datetime) -> None:
    """It is gone for everybody at once; what still runs is ended first."""
    request_stop(session, job, now, f"deleted by {who}")
    job.delete_requested = True
