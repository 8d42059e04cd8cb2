"""`/events`, `/jobs/{id}/events`: what broke, why, and what was done about it."""

from typing import Any

from fastapi import APIRouter
from sqlalchemy import Select, select

from master.api.deps import JobId, Language, language_of, own_job
from master.documents import event_document
from master.model import FaultEventRow
from notifier.api.deps import Asked, Reader, Served, Services
from notifier.api.openapi import PREFIX
from notifier.pages import Ask, page

router = APIRouter(prefix=PREFIX, tags=["fault events"])


@router.get("/events")
def list_all(principal: Reader, services: Served, ask: Asked, language: Language = None) -> dict[str, Any]:
    rows = select(FaultEventRow).where(principal.only(FaultEventRow.pool, FaultEventRow.queue))
    return _page(services, rows, ask, language)


@router.get("/jobs/{job_id}/events")
def list_of_job(
    job_id: JobId, principal: Reader, services: Served, ask: Asked, language: Language = None
) -> dict[str, Any]:
    with services.store.read() as session:
        job = own_job(session, principal, job_id)
    return _page(services, select(FaultEventRow).where(FaultEventRow.job_id == job.id), ask, language)


def _page(services: Services, rows: Select[FaultEventRow], ask: Ask, language: str | None) -> dict[str, Any]:
    told = language_of(services, language)
    with services.store.read() as session:
        found = page(session, rows, FaultEventRow.id, ask)
        items = [event_document(event, told) for event in found.rows]
    return {"items": items, "next_cursor": found.next_cursor}
