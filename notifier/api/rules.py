"""`/pools/{id}/alerts`, `/jobs/{id}/alerts`: who is told of what, and who would be."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query, Response
from sqlalchemy.orm import Session

from channels.base import Severity
from notifier.alertconfigs import Kept, OwnerKind, check_channels, get_alert_config, put_alert_config
from notifier.alertdocuments import MAX_LABELS
from notifier.api.deps import TAGGED, IfMatch, Operator, Reader, Served, Services, check_match, etag
from notifier.api.openapi import PREFIX
from notifier.auth import Principal
from notifier.documents import matching, one_of
from notifier.items import ITEMS
from notifier.preview import PreviewDocument, Supposed, preview
from notifier.problems import Problem, invalid, not_found
from notifier.rules import AlertConfigModel

router = APIRouter(prefix=PREFIX, tags=["alert configuration"])
PoolId = Annotated[str, Path(examples=["default"])]
JobId = Annotated[str, Path(examples=["job_01jdvw0c3k0000000000000000"])]
Item = Annotated[str, *one_of(tuple(ITEMS)), Query(description="which alert item")]
Label = Annotated[
    str, *matching(r"(?s)^[^=]{1,128}=.{0,1024}$", "write NAME=VALUE, of at most 128 and 1024 characters")
]


@dataclass(frozen=True)
class Supposing:
    """The alert that did not happen, as far as whoever asks says how it would be."""

    item: Item
    severity: Annotated[Severity | None, Query(description="else as the item's table has it")] = None
    label: Annotated[
        tuple[Label, ...],
        Query(max_length=MAX_LABELS, description="`NAME=VALUE`, repeated; a job's own stand too"),
    ] = ()

    def labels(self) -> dict[str, str]:
        """Raises a problem where a label is given twice."""
        found = dict(one.split("=", 1) for one in self.label)
        if len(found) < len(self.label):
            raise invalid("label", "the same name is given twice: keep one of them")
        return found


Asked = Annotated[Supposing, Depends()]


@dataclass(frozen=True)
class Owner:
    """A job or a pool, and the scope in which its channels are looked up."""

    kind: OwnerKind
    id: str
    pool: str
    queue: str = ""

    @property
    def key(self) -> tuple[OwnerKind, str]:
        return self.kind, self.id


@router.get("/pools/{pool_id}/alerts", responses=TAGGED)
def get_of_pool(pool_id: PoolId, principal: Reader, services: Served, response: Response) -> AlertConfigModel:
    with services.store.read() as session:
        owner = _pool(session, services, principal, pool_id)
        return _answered(response, get_alert_config(session, owner.kind, owner.id))


@router.put("/pools/{pool_id}/alerts", responses=TAGGED)
def put_of_pool(
    pool_id: PoolId,
    body: AlertConfigModel,
    principal: Operator,
    services: Served,
    response: Response,
    if_match: IfMatch = None,
) -> AlertConfigModel:
    """Who hears of channels and nodes, and the default of jobs without rules of their own."""
    with services.store.write() as session:
        owner = _pool(session, services, principal, pool_id)
        if not principal.covers(pool_id):
            raise Problem(403, detail="a token of one queue may not change its pool: take one of the pool")
        return _answered(response, _put(session, owner, body, if_match, services))


@router.get("/pools/{pool_id}/alerts/preview")
def preview_of_pool(pool_id: PoolId, principal: Reader, services: Served, asked: Asked) -> PreviewDocument:
    """Who would be told of an item outside of a job, now; and who would not, and why."""
    with services.store.read() as session:
        owner = _pool(session, services, principal, pool_id)
        supposed = Supposed(pool=owner.pool, item=asked.item, severity=asked.severity, labels=asked.labels())
        return preview(session, supposed, services.store.now(session))


@router.get("/jobs/{job_id}/alerts", responses=TAGGED)
def get_of_job(job_id: JobId, principal: Reader, services: Served, response: Response) -> AlertConfigModel:
    with services.store.read() as session:
        owner = _job(session, services, principal, job_id)
        return _answered(response, get_alert_config(session, owner.kind, owner.id))


@router.put("/jobs/{job_id}/alerts", responses=TAGGED)
def put_of_job(
    job_id: JobId,
    body: AlertConfigModel,
    principal: Operator,
    services: Served,
    response: Response,
    if_match: IfMatch = None,
) -> AlertConfigModel:
    with services.store.write() as session:
        owner = _job(session, services, principal, job_id)
        return _answered(response, _put(session, owner, body, if_match, services))


@router.get("/jobs/{job_id}/alerts/preview")
def preview_of_job(job_id: JobId, principal: Reader, services: Served, asked: Asked) -> PreviewDocument:
    """Who would be told of an item of this job, now; and who would not, and why."""
    with services.store.read() as session:
        owner = _job(session, services, principal, job_id)
        known = services.directory.job(session, job_id)
        supposed = Supposed(
            pool=owner.pool,
            queue=owner.queue,
            job_id=owner.id,
            item=asked.item,
            severity=asked.severity,
            labels={**(known.labels if known else {}), **asked.labels()},
        )
        return preview(session, supposed, services.store.now(session))


def _put(
    session: Session, owner: Owner, body: AlertConfigModel, if_match: str | None, services: Services
) -> Kept:
    check_match(if_match, get_alert_config(session, owner.kind, owner.id).version)
    check_channels(session, body, owner.pool, owner.queue)
    return put_alert_config(session, owner.key, body, services.store.now(session))


def _answered(response: Response, kept: Kept) -> AlertConfigModel:
    response.headers["ETag"] = etag(kept.version)
    return kept.config


def _pool(session: Session, services: Services, principal: Principal, pool_id: str) -> Owner:
    if principal.pool not in {None, pool_id} or not services.directory.has_scope(session, pool_id, ""):
        raise not_found("pool", pool_id)
    return Owner("pool", pool_id, pool_id)


def _job(session: Session, services: Services, principal: Principal, job_id: str) -> Owner:
    job = services.directory.job(session, job_id)
    if job is None or not principal.covers(job.pool, job.queue):
        raise not_found("job", job_id)
    return Owner("job", job.id, job.pool, job.queue)
