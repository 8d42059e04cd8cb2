"""`/deliveries`: the delivery log."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Query
from fastapi.responses import JSONResponse, Response, StreamingResponse
from pydantic import Field
from sqlalchemy.orm import Session

from channels.registry import ADAPTERS
from notifier import deliveries
from notifier.api.deps import Asked, IdempotencyKey, Operator, Reader, Served, Services, answered
from notifier.api.openapi import PREFIX
from notifier.auth import Principal
from notifier.bulkresend import BulkResendDocument, resend_all
from notifier.clock import utcnow
from notifier.deliveries import DeliveryDocument, Filters, FullDeliveryDocument
from notifier.documents import Body, Flag, GivenMoment, Listed, one_of
from notifier.exporting import MEDIA_TYPES, Format, exported
from notifier.expunging import expunge
from notifier.idempotency import Answer, Call, once
from notifier.model import FINAL_STATES, OPEN_STATES
from notifier.problems import invalid
from notifier.resending import resend

router = APIRouter(prefix=f"{PREFIX}/deliveries", tags=["deliveries"])
Id = Annotated[str, Path()]
STATES = (*OPEN_STATES, "held", *FINAL_STATES)
State = Annotated[str, *one_of(STATES)]
Kind = Annotated[str, *one_of(tuple(ADAPTERS))]
_Text = Annotated[str | None, Query(max_length=200)]
_BodyText = Annotated[str | None, Field(max_length=200)]
EXPORTED: dict[int | str, dict[str, Any]] = {
    200: {
        "content": {media.partition(";")[0]: {"schema": {"type": "string"}} for media in MEDIA_TYPES.values()}
    }
}


async def _filters(  # noqa: PLR0913, PLR0917  FastAPI reads the query's parameters off this signature
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
        str | None,
        Query(max_length=200, description="words of title, text, job, channel, error, answers; or an id"),
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


@router.get("", response_model=Listed[DeliveryDocument])
def list_deliveries(
    principal: Reader, services: Served, filters: Annotated[Filters, Depends(_filters)], ask: Asked
) -> Response:
    with services.store.look() as session:
        text = deliveries.listed_as_json(session, principal, filters, ask)
    return Response(text, media_type="application/json")


@router.get("/export", response_class=StreamingResponse, responses=EXPORTED)
def export(
    principal: Reader,
    services: Served,
    filters: Annotated[Filters, Depends(_filters)],
    how: Annotated[Format, Query(alias="format")] = Format.NDJSON,
) -> StreamingResponse:
    """All that the filters find, as one file, newest first: a document a line, or a table with a head."""
    text = exported(services.store, principal, filters, how)
    disposition = f'attachment; filename="deliveries.{how}"'
    return StreamingResponse(text, media_type=MEDIA_TYPES[how], headers={"Content-Disposition": disposition})


class FilterBody(Body):
    """As in the list's query."""

    job: _BodyText = None
    event: _BodyText = None
    alert: _BodyText = None
    channel: _BodyText = None
    kind: Kind | None = None
    item: _BodyText = None
    state: State | None = None
    since: GivenMoment | None = None
    until: GivenMoment | None = None
    q: _BodyText = None


class BulkResendBody(Body):
    filter: FilterBody
    dry_run: Flag = Field(default=False, description="only count")
    all: Flag = Field(default=False, description="an empty filter is meant")
    cursor: Annotated[str | None, Field(max_length=100, description="`next_cursor` of the call before")] = (
        None
    )


@router.post("/resend", response_model=BulkResendDocument)
def send_all_again(
    body: BulkResendBody, principal: Operator, services: Served, key: IdempotencyKey = None
) -> JSONResponse:
    """Sends again what matches and was not delivered since, the newest first, some at a time."""
    filters = Filters(**{name: getattr(body.filter, name) for name in FilterBody.model_fields})
    if filters.is_empty and not body.all:
        raise invalid("filter", 'is empty: name what is to be sent again, or say "all": true')
    call = Call(principal.token_id, key, "/deliveries/resend", body.model_dump(mode="json"), utcnow())

    def write(session: Session) -> tuple[Answer, frozenset[int]]:
        shards: frozenset[int] = frozenset()

        def work() -> Answer:
            nonlocal shards
            now = services.store.now(session)
            done = resend_all(session, principal, filters, body.cursor, now, dry_run=body.dry_run)
            shards = done.shards
            return Answer(200, done.document.model_dump(mode="json"))

        return once(session, services.box, call, work), shards

    answer, shards = services.store.run(write)
    services.bell.ring(services.store, shards)
    return answered(answer)


@router.get("/{delivery_id}")
def get(delivery_id: Id, principal: Reader, services: Served) -> FullDeliveryDocument:
    """With the message and every attempt; secrets are redacted."""
    with services.store.look() as session:
        return deliveries.full(session, deliveries.find(session, principal, delivery_id))


@router.post("/{delivery_id}/resend", status_code=202, response_model=FullDeliveryDocument)
def send_again(
    delivery_id: Id, principal: Operator, services: Served, key: IdempotencyKey = None
) -> JSONResponse:
    """What has ended is told anew by a new delivery, which is answered; what waits is tried at once.

    An alert that is over is told as resolved.
    """
    return answered(sent_again(delivery_id, principal, services, key))


@router.delete("/{delivery_id}/content")
def expunge_content(delivery_id: Id, principal: Operator, services: Served) -> FullDeliveryDocument:
    """Removes the message, what was sent and what was answered; when, to whom, state and codes stay."""
    with services.store.write() as session:
        row = deliveries.find(session, principal, delivery_id)
        expunge(session, row)
        return deliveries.full(session, row)


def sent_again(delivery_id: str, principal: Principal, services: Services, key: str | None = None) -> Answer:
    """Its body is the delivery's document."""
    call = Call(principal.token_id, key, f"/deliveries/{delivery_id}/resend", None, utcnow())

    def write(session: Session) -> tuple[Answer, set[int]]:
        shards: set[int] = set()

        def work() -> Answer:
            sent = resend(
                session, deliveries.find(session, principal, delivery_id), services.store.now(session)
            )
            shards.add(sent.shard)
            return Answer(202, deliveries.full(session, sent).model_dump(mode="json"))

        return once(session, services.box, call, work), shards

    answer, shards = services.store.run(write)
    services.bell.ring(services.store, shards)
    return answer
