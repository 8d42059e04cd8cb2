"""`/alerts`: alerts from outside, the list of all, and the word of whoever takes one on."""

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query
from fastapi.responses import JSONResponse
from sqlalchemy import ColumnElement, and_, or_, select
from sqlalchemy.orm import Session

from channels.base import Severity
from notifier.acknowledging import ack
from notifier.alertdocuments import (
    AckBody,
    AlertBody,
    AlertDocument,
    FullAlertDocument,
    PublishedDocument,
    check_body,
    document,
)
from notifier.api.deps import Asked, IdempotencyKey, Operator, Publisher, Reader, Served
from notifier.api.openapi import PREFIX
from notifier.api.publishing import accept
from notifier.api.unwrapping import ALSO_EVENTS, Unwrapping
from notifier.auth import Principal
from notifier.documents import Listed, one_of
from notifier.items import ITEMS
from notifier.lasting import FIRING, RESOLVED
from notifier.model import Alert, Delivery
from notifier.pages import page
from notifier.problems import conflict, not_found

router = APIRouter(prefix=f"{PREFIX}/alerts", tags=["alerts"], route_class=Unwrapping)
Id = Annotated[str, Path()]
Item = Annotated[str, *one_of(tuple(ITEMS))]
Status = Annotated[str, *one_of((FIRING, RESOLVED))]
_Text = Annotated[str | None, Query(max_length=200)]


@dataclass(frozen=True)
class Wanted:
    """What narrows the list."""

    job: _Text = None
    event: _Text = None
    item: Item | None = None
    status: Status | None = None
    severity: Severity | None = None


@router.post("", status_code=202, response_model=PublishedDocument, openapi_extra=ALSO_EVENTS)
async def publish_alert(
    body: AlertBody, principal: Publisher, services: Served, key: IdempotencyKey = None
) -> JSONResponse:
    """Once this is answered, the alert and its deliveries are kept and will be told. CloudEvents too."""
    check_body(body)
    return await accept(services, body, key, lambda _session: principal)


@router.get("")
def list_alerts(
    principal: Reader, services: Served, ask: Asked, wanted: Annotated[Wanted, Depends()]
) -> Listed[AlertDocument]:
    with services.store.read() as session:
        now = services.store.now(session)
        rows = select(Alert).where(principal.only(Alert.pool, Alert.queue), *_narrowed(wanted, now))
        found = page(session, rows, Alert.id, ask)
        return Listed(items=[document(row, now) for row in found.rows], next_cursor=found.next_cursor)


@router.get("/{alert_id}")
def get(alert_id: Id, principal: Reader, services: Served) -> FullAlertDocument:
    with services.store.read() as session:
        return _full(session, _own(session, principal, alert_id), services.store.now(session))


@router.post("/{alert_id}/ack")
def acknowledge(
    alert_id: Id, principal: Operator, services: Served, body: AckBody | None = None
) -> FullAlertDocument:
    """The first to acknowledge stays; escalation and reminders stop. What is over is 409."""
    comment = body.comment if body is not None else None

    def write(session: Session) -> FullAlertDocument:
        now = services.store.now(session)
        row = _own(session, principal, alert_id)
        if ack(session, row.id, principal.name, now, comment) and row.acked_at is None:
            raise conflict("the alert is over already: nobody is told of it any more")
        return _full(session, row, now)

    return services.store.run(write)


def _narrowed(wanted: Wanted, now: datetime) -> list[ColumnElement[bool]]:
    equal = {
        Alert.job_id: wanted.job,
        Alert.event_id: wanted.event,
        Alert.item: wanted.item,
        Alert.severity: wanted.severity,
    }
    conditions = [column == value for column, value in equal.items() if value is not None]
    is_open = and_(Alert.status == FIRING, or_(Alert.expires_at.is_(None), Alert.expires_at > now))
    if wanted.status is not None:
        conditions.append(is_open if wanted.status == FIRING else ~is_open)
    return conditions


def _own(session: Session, principal: Principal, alert_id: str) -> Alert:
    row = session.get(Alert, alert_id)
    if row is None or not principal.covers(row.pool, row.queue):
        raise not_found("alert", alert_id)
    return row


def _full(session: Session, row: Alert, now: datetime) -> FullAlertDocument:
    ids = session.scalars(select(Delivery.id).where(Delivery.alert_id == row.id).order_by(Delivery.id))
    return FullAlertDocument(**document(row, now).model_dump(), deliveries=list(ids))
