"""What `POST /alerts` does with a body that is well formed."""

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta

from fastapi.responses import JSONResponse
from sqlalchemy import select
from sqlalchemy.orm import Session

from notifier import faultpoints
from notifier.alertdocuments import AlertBody, PublishedDocument
from notifier.alerts import NewAlert, Published, publish
from notifier.api.deps import Services, answered
from notifier.auth import Principal
from notifier.channels import own_scope
from notifier.directory import Directory, KnownJob, check_scope
from notifier.ends import resolve
from notifier.idempotency import Answer, Call, once
from notifier.lasting import RESOLVED
from notifier.model import Alert
from notifier.problems import Problem, invalid

PATH = "/alerts"


async def accept(
    services: Services, body: AlertBody, key: str | None, speaker: Callable[[Session], Principal]
) -> JSONResponse:
    """Answered once it is committed, with what others post at the same moment.

    Args:
        body: its fields go together (`check_body`).
        key: the `Idempotency-Key`.
        speaker: who posts, asked for in the transaction itself.

    Raises:
        Problem: a channel or a job does not exist.
        BusyError: too much waits already; nothing was done.
        InDoubtError: nobody knows whether it is kept, and it could not be known again.
    """

    def write(session: Session) -> tuple[Answer, set[int]]:
        principal, now = speaker(session), services.store.now(session)
        shards: set[int] = set()

        def work() -> Answer:
            published = _published(session, services.directory, principal, body, now)
            shards.update(published.shards)
            shown = PublishedDocument(
                id=published.alert_id, deliveries=list(published.delivery_ids), why=published.why
            )
            return Answer(202, shown.model_dump(mode="json"))

        asked = None if key is None else body.model_dump(mode="json")
        return once(session, services.box, Call(principal.token_id, key, PATH, asked, now), work), shards

    is_known_again = key is not None or body.dedup_key is not None
    answer, shards = await asyncio.wrap_future(services.writer.submit(write, again=is_known_again))
    if faultpoints.is_armed("committed"):
        await asyncio.to_thread(faultpoints.hit, "committed")
    services.bell.ring(services.store, shards)
    return answered(answer)


def _published(
    session: Session, directory: Directory, principal: Principal, body: AlertBody, now: datetime
) -> Published:
    if body.status == RESOLVED:
        return _resolved(session, principal, body, now)
    job = _job(session, directory, principal, body.job) if body.job is not None else None
    pool, queue = (job.pool, job.queue) if job else own_scope(principal, body.scope)
    check_scope(session, directory, body.scope)
    new = NewAlert(
        pool=pool,
        queue=queue,
        source=body.source,
        token_id=principal.token_id,
        dedup_key=body.dedup_key,
        item=body.item,
        severity=body.severity.value,
        title=body.title.strip(),
        text=body.text,
        labels={**(job.labels if job else {}), **body.labels},
        context={"job": job.facts} if job else {},
        job_id=job.id if job else None,
        job_name=job.name if job else None,
        channels=tuple(body.channels) if body.channels is not None else None,
        fallback=tuple(body.fallback),
        expires=timedelta(seconds=body.expires_s),
    )
    return publish(session, new, now)


def _resolved(session: Session, principal: Principal, body: AlertBody, now: datetime) -> Published:
    """Closes the open alert of that key; one that is closed already stays as it is."""
    rows = select(Alert).where(
        Alert.token_id == principal.token_id, Alert.source == body.source, Alert.dedup_key == body.dedup_key
    )
    row = session.scalars(rows.order_by(Alert.status, Alert.id.desc()).limit(1)).first()
    if row is None:
        raise Problem(404, detail="this token has published no alert with that source and dedup_key")
    return resolve(session, alert_id=row.id, now=now, title=body.title.strip(), text=body.text)


def _job(session: Session, directory: Directory, principal: Principal, job_id: str) -> KnownJob:
    job = directory.job(session, job_id)
    if job is None or not principal.covers(job.pool, job.queue):
        raise invalid("job", "there is no such job")
    return job
