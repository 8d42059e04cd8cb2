"""`POST /ingest/alertmanager`: what a `webhook_config` of Alertmanager posts."""

import asyncio
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated

import structlog
from fastapi import APIRouter, Depends, Query
from pydantic import Field
from sqlalchemy.orm import Session

from master.api.deps import Mastered
from master.ingest import AT_ONCE, Intake, Rights, Taken
from notifier import faultpoints
from notifier.alertmanager import AlertmanagerBody, PrometheusAlert, Target
from notifier.api.deps import Served, Services, allow
from notifier.api.openapi import PREFIX
from notifier.auth import Principal, Role
from notifier.channels import own_scope
from notifier.directory import KnownJob, check_scope
from notifier.documents import ChannelName, Document, Scope
from notifier.problems import Problem, invalid

router = APIRouter(prefix=f"{PREFIX}/ingest", tags=["ingest"])
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


@dataclass(frozen=True)
class Whom:
    """What the address says: who is told, and where."""

    channel: Annotated[list[ChannelName] | None, Query(max_length=50, description="who is told")] = None
    job: Annotated[str | None, Query(max_length=64, description="whose rules say who is told")] = None
    scope: Annotated[Scope | None, Query()] = None


@router.post("/alertmanager", status_code=202)
async def take_alertmanager(
    body: AlertmanagerBody,
    principal: Sender,
    services: Served,
    controller: Mastered,
    whom: Annotated[Whom, Depends()],
) -> IngestedDocument:
    """A node or GPU alert becomes a node signal, any other an alert. Once answered, all of it is kept.

    Alertmanager posts again after a 5xx only; a body or address that is refused here it drops and logs.
    """
    rights, taken = _rights(principal, whom), Taken(received=len(body.alerts))
    alerts = body.latest()
    for at in range(0, len(alerts) or 1, AT_ONCE):
        some = alerts[at : at + AT_ONCE]

        def write(session: Session, some: Sequence[PrometheusAlert] = some) -> Taken:
            return _intake(session, services, principal, rights, whom).take(some)

        with _said(is_first=at == 0):
            # Whatever is taken twice is known again by its key.
            kept = services.writer.submit(write, again=True, weight=len(some))
            taken += await asyncio.wrap_future(kept)
        if faultpoints.is_armed("committed"):
            await asyncio.to_thread(faultpoints.hit, "committed")
        services.bell.ring(services.store, taken.shards)
    if taken.is_evidence:
        controller.wake()
    if body.truncated:
        log.warning("alertmanager_truncated", receiver=body.receiver[:100], alerts=body.truncated)
    return IngestedDocument(**taken.counts(), truncated=body.truncated)


@contextmanager
def _said(*, is_first: bool) -> Iterator[None]:
    """In this address' own words; what is a matter of time as a 5xx, for after a 4xx it would not come again,
    and that is so as well once a part of the body is kept."""
    try:
        yield
    except Problem as problem:
        if problem.status == 409 or not is_first:
            raise Problem(503, detail=problem.detail, headers={"Retry-After": "1"}) from None
        errors = [(re.sub(r"^channels\b", "channel", field), message) for field, message in problem.errors]
        raise (Problem(problem.status, errors=errors) if errors else problem) from None


def _rights(principal: Principal, whom: Whom) -> Rights:
    rights = Rights.of(principal)
    if not (rights.alerts or rights.signals):
        raise Problem(403, detail="a node belongs to a pool: take an ingest token of the whole pool")
    if not rights.alerts and (whom.channel or whom.job):
        raise Problem(
            403,
            detail="an ingest token sends node signals only, which tell nobody: leave out channel and job, or"
            " take a token of role publisher or operator",
        )
    if whom.channel and whom.job:
        raise invalid("job", "its rules say who is told: leave out channel, or the job")
    if whom.scope and whom.job:
        raise invalid("scope", "a job has its own: leave out scope")
    return rights


def _intake(session: Session, services: Services, principal: Principal, rights: Rights, whom: Whom) -> Intake:
    check_scope(session, services.directory, whom.scope)
    pool, queue = own_scope(principal, whom.scope)
    job = _job(session, services, principal, whom.job) if whom.job is not None else None
    if job is not None:
        pool, queue = job.pool, job.queue
    channels = tuple(dict.fromkeys(whom.channel)) if whom.channel else None
    target = Target(pool, queue, principal.token_id, channels, job)
    nodes_of = pool if whom.scope is not None else principal.pool
    now = services.store.now(session)
    return Intake(session, services.directory, principal, rights, target, nodes_of, now)


def _job(session: Session, services: Services, principal: Principal, job_id: str) -> KnownJob:
    job = services.directory.job(session, job_id)
    if job is None or not principal.covers(job.pool, job.queue):
        raise invalid("job", "there is no such job")
    return job
