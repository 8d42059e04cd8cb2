"""`POST /jobs/{id}/injections`: who wants to break a job on purpose is told where its pods are.

Nothing is broken here: `faultcast inject` does that, on the machine where the pods run.
"""

from typing import Annotated, Any

import structlog
from fastapi import APIRouter
from pydantic import Field
from sqlalchemy import select
from sqlalchemy.orm import Session

from agent.wire import Kind
from master.api.deps import JobId, Mastered, own_job
from master.lifecycle import POD_OVER, PodStatus
from master.model import Job, ObservationRow, Pod
from master.runs import pods_of
from master.runtimes.base import ELSEWHERE
from notifier.api.deps import Operator, Served
from notifier.api.openapi import PREFIX
from notifier.documents import Body
from notifier.problems import conflict

router = APIRouter(prefix=f"{PREFIX}/jobs/{{job_id}}", tags=["jobs"])
LOCAL = "local"

log = structlog.get_logger()


class Injection(Body):
    """What is to be tried."""

    fault: Annotated[str, Field(pattern=r"^[a-z0-9_]{1,64}$", description="its name, as in the log")]


@router.post("/injections")
def ask(
    body: Injection, job_id: JobId, principal: Operator, services: Served, controller: Mastered
) -> dict[str, Any]:
    """For test systems: folders and training processes of the pods that run now; the log keeps who asked."""
    runtime = controller.runtime
    with services.store.read() as session:
        job = own_job(session, principal, job_id)
        if runtime.name != LOCAL:
            raise conflict(f"faults are injected on the local runtime only; this server's is {runtime.name}")
        pods = [pod for pod in pods_of(session, job.id, job.run) if _runs(pod)]
        if not pods:
            raise conflict(f"job {job.id} is {job.status}: no pod runs that a fault could strike")
        if any(pod.handle.get("place") != runtime.place for pod in pods):
            raise conflict(f"job {job.id}: {ELSEWHERE}")
        told = [_pod(session, job, pod) for pod in pods]
    log.warning("fault_injected", job=job_id, run=job.run, fault=body.fault, by=principal.name)
    return {"job_id": job.id, "run": job.run, "place": runtime.place, "pods": told}


def _runs(pod: Pod) -> bool:
    return PodStatus(pod.status) not in POD_OVER and "folder" in pod.handle


def _pod(session: Session, job: Job, pod: Pod) -> dict[str, Any]:
    return {
        "name": pod.name, "index": pod.index, "node": pod.node, "folder": pod.handle["folder"],
        "ranks": _processes(session, job, pod),
    }  # fmt: skip


def _processes(session: Session, job: Job, pod: Pod) -> dict[str, int]:
    """The pid of each training process, as the pod's agent told last."""
    beats = select(ObservationRow).where(
        ObservationRow.job_id == job.id,
        ObservationRow.run == job.run,
        ObservationRow.pod_id == pod.id,
        ObservationRow.kind == Kind.HEARTBEAT,
    )
    newest = session.scalar(beats.order_by(ObservationRow.id.desc()).limit(1))
    return {rank: int(state["pid"]) for rank, state in newest.data["ranks"].items()} if newest else {}
