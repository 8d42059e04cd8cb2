"""`POST /ingest/alertmanager`: what a `webhook_config` of Alertmanager posts."""

import re
from typing import Annotated

import structlog
from fastapi import APIRouter, Depends, Query
from pydantic import Field
from sqlalchemy.orm import Session

from master.api.deps import Mastered
from master.ingest import Intake, Rights
from notifier import faultpoints
from notifier.alertmanager import AlertmanagerBody, Target
from notifier.api.deps import Served, Services, allow
from notifier.auth import Principal, Role
from notifier.channels import own_scope
from notifier.directory import KnownJob, check_scope
from notifier.documents import ChannelName, Document, Scope
from notifier.problems import Problem, invalid

router = APIRouter(prefix="/ingest", tags=["ingest"])
log = structlog.get_logger()
Sender = Annotated[Principal, Depends(allow(Role.ADMIN, Role.OPERATOR, Role.PUBLISHER, Role.INGEST))]


class IngestedDocument(Document):
    """What became of each alert; of several with one fingerprint the last counts."""

    received: int
    new: int = Field(description="alerts that were opened and told")
    repeated: int = Field(description="alerts that are open already")
    resolved: int = Field(description="open alerts that were closed")
    not_open: int = Field(description="resolved here, but not open: nothing to be done")
    node_signals: int = Field(description="they speak of a node of the pool: kept beside it")
    ignored: int = Field(description="not of a known node, and the token may send node signals only")
    truncated: int = Field(description="cut off by Alertmanager's own `max_alerts`: nobody knows of these")


@router.post("/alertmanager", status_code=202)
def take_alertmanager(
    body: AlertmanagerBody,
    principal: Sender,
    services: Served,
    controller: Mastered,
    channel: Annotated[list[ChannelName] | None, Query(max_length=50, description="who is told")] = None,
    job: Annotated[str | None, Query(max_length=64, description="whose rules say who is told")] = None,
    scope: Annotated[Scope | None, Query()] = None,
) -> IngestedDocument:
    """A node or GPU alert becomes a node signal, any other an alert. Once answered, all of it is kept.

    Alertmanager posts again after a 5xx only; a body or address that is refused here it drops and logs.
    """
    rights = _rights(principal, channel, job)
    with services.store.write() as session:
        target = _target(session, services, principal, channel, job, scope)
        nodes_of = target.pool if scope is not None else principal.pool
        now = services.store.now(session)
        try:
            taken = Intake(session, services.directory, principal, rights, target, nodes_of, now).take(body)
        except Problem as problem:
            raise _said(problem) from None
    faultpoints.hit("committed")
    services.bell.ring(services.store, taken.shards)
    if taken.is_evidence:
        controller.wake()
    if body.truncated:
        log.warning("alertmanager_truncated", receiver=body.receiver[:100], alerts=body.truncated)
    return IngestedDocument(
        received=taken.received, new=taken.new, repeated=taken.repeated, resolved=taken.resolved,
        not_open=taken.not_open, node_signals=taken.node_signals, ignored=taken.ignored,
        truncated=body.truncated,
    )  # fmt: skip


def _said(problem: Problem) -> Problem:
    """In this address' own words; what passes by itself as a 5xx, for after a 4xx it would not come again."""
    if problem.status == 409:
        return Problem(503, detail=problem.detail, headers={"Retry-After": "1"})
    errors = [(re.sub(r"^channels\b", "channel", field), message) for field, message in problem.errors]
    return Problem(problem.status, errors=errors) if errors else problem


def _rights(principal: Principal, channel: list[str] | None, job: str | None) -> Rights:
    rights = Rights.of(principal)
    if not (rights.alerts or rights.signals):
        raise Problem(403, detail="a node belongs to a pool: take an ingest token of the whole pool")
    if not rights.alerts and (channel or job):
        raise Problem(
            403,
            detail="an ingest token sends node signals only, which tell nobody: leave out channel and job, or"
            " take a token of role publisher or operator",
        )
    if channel and job:
        raise invalid("job", "its rules say who is told: leave out channel, or the job")
    return rights


def _target(
    session: Session,
    services: Services,
    principal: Principal,
    channel: list[str] | None,
    job_id: str | None,
    scope: str | None,
) -> Target:
    check_scope(session, services.directory, scope)
    pool, queue = own_scope(principal, scope)
    job = _job(session, services, principal, job_id) if job_id is not None else None
    if job is not None:
        if scope is not None:
            raise invalid("scope", "a job has its own: leave out scope")
        pool, queue = job.pool, job.queue
    return Target(pool, queue, principal.token_id, tuple(dict.fromkeys(channel)) if channel else None, job)


def _job(session: Session, services: Services, principal: Principal, job_id: str) -> KnownJob:
    job = services.directory.job(session, job_id)
    if job is None or not principal.covers(job.pool, job.queue):
        raise invalid("job", "there is no such job")
    return job
