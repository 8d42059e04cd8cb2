"""`/jobs`: submitted, listed, read, stopped, deleted."""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Response
from fastapi.responses import JSONResponse

from master import jobs
from master.api.deps import JobId, Language, Mastered, Name, language_of, own_job
from master.createjob import CreateJob
from master.documents import job_document, job_line
from master.lifecycle import JobStatus
from master.model import Job, Run
from master.runs import pods_of, ref
from master.timeline import timeline
from notifier.api.deps import Asked, IdempotencyKey, Operator, Reader, Served, Services, answered
from notifier.api.openapi import PREFIX
from notifier.auth import Principal
from notifier.clock import utcnow
from notifier.idempotency import Answer, Call, once
from notifier.pages import page
from notifier.problems import invalid, not_found

router = APIRouter(prefix=f"{PREFIX}/jobs", tags=["jobs"])
PoolParameter = Annotated[str | None, Query(alias="resourcePoolId", max_length=253)]


@router.post("", status_code=201)
def create(
    body: CreateJob,
    principal: Operator,
    services: Served,
    controller: Mastered,
    pool: PoolParameter = None,
    dry_run: bool = False,
    key: IdempotencyKey = None,
) -> JSONResponse:
    """Baidu's CreateJob body. `dry_run` says what would be refused or warned of, and creates nothing."""
    body = _with_pool(body, pool)
    if dry_run:
        return _checked(body, principal, services, controller)
    now = utcnow()
    call = Call(principal.token_id, key, "/jobs", body.model_dump(mode="json"), now)
    with services.store.write() as session:

        def work() -> Answer:
            judged = jobs.judged(session, principal, body, controller.runtime.name, lock=True)
            return Answer(201, _created(jobs.create(session, judged, now)))

        answer = once(session, services.box, call, work)
    controller.wake()
    return answered(answer)


@router.get("")
def list_jobs(
    principal: Reader, services: Served, ask: Asked, status: JobStatus | None = None
) -> dict[str, Any]:
    with services.store.read() as session:
        found = page(session, jobs.listed(principal, status), Job.id, ask)
        return {"items": [job_line(job) for job in found.rows], "next_cursor": found.next_cursor}


@router.get("/{job_id}")
def get(job_id: JobId, principal: Reader, services: Served) -> dict[str, Any]:
    """The job with its effective fault-tolerance settings and the pods of its present run."""
    with services.store.read() as session:
        job = own_job(session, principal, job_id)
        return _document(session, job)


@router.post("/{job_id}/stop", status_code=202)
def stop(job_id: JobId, principal: Operator, services: Served, controller: Mastered) -> dict[str, Any]:
    """Ends its pods with a grace of 15 s; the job becomes `Stopped`."""
    with services.store.write() as session:
        job = own_job(session, principal, job_id, lock=True)
        jobs.stop(session, job, principal.name, utcnow())
        document = _document(session, job)
    controller.wake()
    return document


@router.delete("/{job_id}", status_code=204)
def delete(job_id: JobId, principal: Operator, services: Served, controller: Mastered) -> Response:
    """It answers 404 from now on; what still runs is ended, then all that is kept of it is removed."""
    with services.store.write() as session:
        job = own_job(session, principal, job_id, lock=True)
        jobs.delete(session, job, principal.name, utcnow())
    controller.wake()
    return Response(status_code=204)


@router.get("/{job_id}/timeline")
def get_timeline(
    job_id: JobId, principal: Reader, services: Served, language: Language = None
) -> dict[str, Any]:
    """Runs, faults, recoveries, effective training time ratio."""
    with services.store.read() as session:
        job = own_job(session, principal, job_id)
        return timeline(session, job, language_of(services, language), utcnow())


@router.delete("/{job_id}/pods/{pod_name}", status_code=204)
def delete_pod(
    job_id: JobId, pod_name: Name, principal: Operator, services: Served, controller: Mastered
) -> Response:
    """Takes a pod of the present run away, as an administrator would: a fault that the master must mend."""
    with services.store.read() as session:
        job = own_job(session, principal, job_id)
        found = [pod for pod in pods_of(session, job.id, job.run) if pod.name == pod_name]
    if not found:
        raise not_found("pod", pod_name)
    controller.runtime.delete_pod(ref(found[0]))
    controller.wake()
    return Response(status_code=204)


def _with_pool(body: CreateJob, pool: str | None) -> CreateJob:
    if pool is None:
        return body
    if body.resource_pool_id not in {None, pool}:
        raise invalid("resourcePoolId", "the field and the query parameter contradict each other; give one")
    return body.model_copy(update={"resource_pool_id": pool})


def _checked(body: CreateJob, principal: Principal, services: Services, controller: Mastered) -> JSONResponse:
    with services.store.read() as session:
        judged = jobs.judged(session, principal, body, controller.runtime.name)
    tolerance = judged.admission.fault_tolerance.document()
    told = {"name": body.name, "dry_run": True, "fault_tolerance": tolerance, "warnings": judged.warnings}
    return JSONResponse(told)


def _created(job: Job) -> dict[str, Any]:
    return {
        "id": job.id, "name": job.name, "status": job.status, "fault_tolerance": job.fault_tolerance,
        "warnings": job.warnings,
    }  # fmt: skip


def _document(session: Any, job: Job) -> dict[str, Any]:
    return job_document(job, session.get(Run, (job.id, job.run)), pods_of(session, job.id, job.run))
