"""`/jobs/{id}/logs`, `/jobs/{id}/stacks`: a look into running pods."""

import time
from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import Field
from sqlalchemy.orm import Session

from master.api.deps import JobId, Mastered, own_job
from master.lifecycle import POD_OVER, PodStatus
from master.model import Job, Pod, Run
from master.runs import pods_of, ref
from master.stacks import collection
from notifier.api.deps import Operator, Reader, Served, Services
from notifier.api.openapi import PREFIX
from notifier.clock import utcnow
from notifier.documents import Body, WholeText
from notifier.problems import Problem, conflict

router = APIRouter(prefix=f"{PREFIX}/jobs/{{job_id}}", tags=["jobs"])
MAX_LOG = 1 << 20
STACKS_WITHIN_S = 15.0  # py-spy's own limit is 5 s a process
LOOK_EVERY_S = 0.1


class LogQuery(Body):
    """Which stretch of which log."""

    pod: Annotated[str, Field(max_length=253)] | None = Field(
        default=None, description="the first if not given"
    )
    run: Annotated[WholeText, Field(ge=0, le=1 << 31)] | None = Field(
        default=None, description="default: the newest"
    )
    offset: Annotated[WholeText, Field(ge=0, le=1 << 62)] | None = Field(
        default=None, description="where to read on; the end of the log if not given"
    )
    limit: Annotated[WholeText, Field(ge=1, le=MAX_LOG)] = Field(default=64 * 1024, description="bytes")


@router.get("/logs")
def logs(
    job_id: JobId,
    principal: Reader,
    services: Served,
    controller: Mastered,
    ask: Annotated[LogQuery, Query()],
) -> dict[str, Any]:
    """A stretch of a pod's log. Ask again with `next_offset` to follow; `ended`: nothing more will come."""
    with services.store.read() as session:
        job = own_job(session, principal, job_id)
        found = _pod(session, job, ask.pod, job.run if ask.run is None else ask.run)
    piece = controller.runtime.logs(ref(found), ask.offset, ask.limit)
    is_over = PodStatus(found.status) in POD_OVER
    return {
        "pod": found.name, "run": found.run, "offset": piece.offset, "next_offset": piece.next_offset,
        "text": piece.text, "ended": is_over and piece.offset == piece.next_offset,
    }  # fmt: skip


@router.get("/stacks")
def last_stacks(job_id: JobId, principal: Reader, services: Served) -> dict[str, Any]:
    """The last collection."""
    with services.store.read() as session:
        return collection(session, own_job(session, principal, job_id))


@router.post("/stacks")
def collect_stacks(job_id: JobId, principal: Operator, services: Served) -> dict[str, Any]:
    """Collects every rank's stack now, without a pause of training; what came within 15 s is answered."""
    asked_at = _ask(services, principal, job_id)
    deadline = time.monotonic() + STACKS_WITHIN_S
    while time.monotonic() < deadline:
        with services.store.read() as session:
            job = own_job(session, principal, job_id)
            live = [pod for pod in pods_of(session, job.id, job.run) if PodStatus(pod.status) not in POD_OVER]
            if all(pod.stacks_at is not None and pod.stacks_at >= asked_at for pod in live):
                break
        time.sleep(LOOK_EVERY_S)
    with services.store.read() as session:
        return collection(session, own_job(session, principal, job_id))


def _ask(services: Services, principal: Operator, job_id: str) -> datetime:
    now = utcnow()
    with services.store.write() as session:
        job = own_job(session, principal, job_id)
        run = session.get(Run, (job.id, job.run), with_for_update=True)
        if run is None or run.end_reason or not pods_of(session, job.id, job.run):
            raise conflict(f"job {job.id} is {job.status}: no process runs whose stack could be collected")
        run.stacks_wanted_at = now
    return now


def _pod(session: Session, job: Job, name: str | None, run: int) -> Pod:
    pods = pods_of(session, job.id, run)
    for pod in pods:
        if name is None or pod.name == name:
            return pod
    raise Problem(404, detail=f"run {run} has no pod {name}" if name else f"run {run} has no pod yet")
