"""`/deliveries`: the delivery log."""

from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query

from channels.registry import ADAPTERS
from notifier import deliveries
from notifier.api.deps import Asked, Operator, Reader, Served
from notifier.deliveries import DeliveryDocument, Filters, FullDeliveryDocument
from notifier.documents import GivenMoment, Listed, one_of
from notifier.model import FINAL_STATES, OPEN_STATES
from notifier.resending import resend

router = APIRouter(prefix="/deliveries", tags=["deliveries"])
Id = Annotated[str, Path()]
STATES = (*OPEN_STATES, "held", *FINAL_STATES)
State = Annotated[str, *one_of(STATES)]
Kind = Annotated[str, *one_of(tuple(ADAPTERS))]
_Text = Annotated[str | None, Query(max_length=200)]


def _filters(  # noqa: PLR0913, PLR0917  FastAPI reads the query's parameters off this signature
    job: _Text = None,
    event: _Text = None,
    alert: _Text = None,
    channel: _Text = None,
    kind: Kind | None = None,
    item: _Text = None,
    state: State | None = None,
    since: Annotated[GivenMoment | None, Query(description="created then or later")] = None,
    until: Annotated[GivenMoment | None, Query(description="created before")] = None,
    q: Annotated[
        str | None, Query(max_length=200, description="words of a title, a text, a provider's answer")
    ] = None,
) -> Filters:
    return Filters(
        job=job,
        event=event,
        alert=alert,
        channel=channel,
        kind=kind,
        item=item,
        state=state,
        since=since,
        until=until,
        q=q,
    )


@router.get("")
def list_deliveries(
    principal: Reader, services: Served, filters: Annotated[Filters, Depends(_filters)], ask: Asked
) -> Listed[DeliveryDocument]:
    with services.store.read() as session:
        return deliveries.listed(session, principal, filters, ask)


@router.get("/{delivery_id}")
def get(delivery_id: Id, principal: Reader, services: Served) -> FullDeliveryDocument:
    """With the message and every attempt; secrets are redacted."""
    with services.store.read() as session:
        return deliveries.full(session, deliveries.find(session, principal, delivery_id))


@router.post("/{delivery_id}/resend", status_code=202)
def send_again(delivery_id: Id, principal: Operator, services: Served) -> FullDeliveryDocument:
    """What has ended is told anew by a new delivery, which is answered; what waits is tried at once."""
    with services.store.write() as session:
        row = deliveries.find(session, principal, delivery_id)
        sent = resend(session, row, services.store.now(session))
        shown = deliveries.full(session, sent)
    services.bell.ring(services.store, [sent.shard])
    return shown
