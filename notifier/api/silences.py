"""`/silences`: alerts that are told to nobody for a time, and logged all the same."""

from typing import Annotated

from fastapi import APIRouter, Path, Response
from fastapi.responses import JSONResponse
from sqlalchemy.orm import Session

from notifier import silencebook, silences
from notifier.api.deps import Asked, IdempotencyKey, Operator, Reader, Served, answered
from notifier.api.openapi import PREFIX
from notifier.channels import own_scope
from notifier.directory import check_scope
from notifier.documents import Listed
from notifier.idempotency import Answer, Call, once
from notifier.silencebook import SilenceBody, SilenceDocument

router = APIRouter(prefix=f"{PREFIX}/silences", tags=["silences"])
Ident = Annotated[str, Path()]


@router.post("", status_code=201, response_model=SilenceDocument)
def create(
    body: SilenceBody, principal: Operator, services: Served, key: IdempotencyKey = None
) -> JSONResponse:
    """From `starts_at` on; deliveries that are on their way already are not touched."""
    scope = own_scope(principal, body.scope)
    with services.store.write() as session:
        now = services.store.now(session)
        call = Call(principal.token_id, key, "/silences", body.model_dump(mode="json"), now)

        def work() -> Answer:
            check_scope(session, services.directory, body.scope)
            row = silencebook.create(session, body, scope, principal, now)
            return Answer(201, silencebook.document(row, now).model_dump(mode="json"))

        answer = once(session, services.box, call, work)
    return answered(answer)


@router.get("")
def list_silences(principal: Reader, services: Served, ask: Asked) -> Listed[SilenceDocument]:
    """Those that are over too."""
    with services.store.read() as session:
        now = services.store.now(session)
        found = silencebook.listed(session, principal, ask)
        items = [silencebook.document(row, now) for row in found.rows]
    return Listed(items=items, next_cursor=found.next_cursor)


@router.get("/{silence_id}")
def get(silence_id: Ident, principal: Reader, services: Served) -> SilenceDocument:
    with services.store.read() as session:
        row = silencebook.find(session, principal, silence_id)
        return silencebook.document(row, services.store.now(session))


@router.delete("/{silence_id}", status_code=204)
def end(silence_id: Ident, principal: Operator, services: Served) -> Response:
    """It ends now: what it kept back and is still open is told. One to come never begins."""

    def write(session: Session) -> None:
        row = silencebook.find(session, principal, silence_id, lock=True)
        silences.end(session, row, services.store.now(session))

    services.store.run(write)
    return Response(status_code=204)
