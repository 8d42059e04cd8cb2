"""`/oncall`: lists of people who take turns; a list's name stands wherever a channel's may."""

from typing import Annotated

from fastapi import APIRouter, Path, Query, Response
from fastapi.responses import JSONResponse

from notifier import oncalls
from notifier.api.deps import (
    TAGGED,
    TAGGED_NEW,
    Asked,
    IdempotencyKey,
    IfMatch,
    Operator,
    Reader,
    Served,
    answered,
    check_match,
    etag,
)
from notifier.api.openapi import PREFIX
from notifier.channels import own_scope
from notifier.directory import check_scope
from notifier.documents import GivenMoment, Listed, Scope
from notifier.idempotency import Answer, Call, once
from notifier.oncall import Override
from notifier.oncalls import OncallBody, OncallChange, OncallDocument

router = APIRouter(prefix=f"{PREFIX}/oncall", tags=["on-call lists"])
Name = Annotated[str, Path(examples=["night"])]
Within = Annotated[Scope | None, Query(description="which, where several scopes have that name")]
At = Annotated[GivenMoment | None, Query(description="who has the turn then; else now")]


@router.post("", status_code=201, response_model=OncallDocument, responses=TAGGED_NEW)
def create(
    body: OncallBody, principal: Operator, services: Served, key: IdempotencyKey = None
) -> JSONResponse:
    scope = own_scope(principal, body.scope)
    with services.store.write() as session:
        now = services.store.now(session)
        sent = body.model_dump(mode="json", by_alias=True)
        call = Call(principal.token_id, key, "/oncall", sent, now)

        def work() -> Answer:
            check_scope(session, services.directory, body.scope)
            row = oncalls.create(session, body, scope, now)
            shown = oncalls.document(session, row, now).model_dump(mode="json")
            return Answer(201, shown, {"ETag": etag(row.version)})

        answer = once(session, services.box, call, work)
    return answered(answer)


@router.get("")
def list_lists(principal: Reader, services: Served, ask: Asked) -> Listed[OncallDocument]:
    with services.store.read() as session:
        now = services.store.now(session)
        found = oncalls.listed(session, principal, ask)
        items = [oncalls.document(session, row, now) for row in found.rows]
    return Listed(items=items, next_cursor=found.next_cursor)


@router.get("/{list_name}", responses=TAGGED)
def get(
    list_name: Name,
    principal: Reader,
    services: Served,
    response: Response,
    scope: Within = None,
    at: At = None,
) -> OncallDocument:
    with services.store.read() as session:
        row = oncalls.find(session, principal, list_name, scope)
        response.headers["ETag"] = etag(row.version)
        return oncalls.document(session, row, at or services.store.now(session))


@router.put("/{list_name}", responses=TAGGED)
def change(
    list_name: Name,
    body: OncallChange,
    principal: Operator,
    services: Served,
    response: Response,
    scope: Within = None,
    if_match: IfMatch = None,
) -> OncallDocument:
    """Replaces the whole. Whoever has the turn is asked each time that something is told."""
    with services.store.write() as session:
        now = services.store.now(session)
        row = oncalls.find(session, principal, list_name, scope, lock=True)
        check_match(if_match, row.version)
        oncalls.change(session, row, body, now)
        response.headers["ETag"] = etag(row.version)
        return oncalls.document(session, row, now)


@router.post("/{list_name}/overrides", status_code=201, response_model=OncallDocument, responses=TAGGED_NEW)
def add_override(
    list_name: Name,
    body: Override,
    principal: Operator,
    services: Served,
    scope: Within = None,
    key: IdempotencyKey = None,
) -> JSONResponse:
    """Somebody stands in for a time; the rest of the list stays as it is."""
    with services.store.write() as session:
        now = services.store.now(session)
        sent = [scope, body.model_dump(mode="json", by_alias=True)]
        call = Call(principal.token_id, key, f"/oncall/{list_name}/overrides", sent, now)

        def work() -> Answer:
            row = oncalls.find(session, principal, list_name, scope, lock=True)
            oncalls.add_override(session, row, body, now)
            shown = oncalls.document(session, row, now).model_dump(mode="json")
            return Answer(201, shown, {"ETag": etag(row.version)})

        answer = once(session, services.box, call, work)
    return answered(answer)


@router.delete("/{list_name}", status_code=204)
def delete(
    list_name: Name, principal: Operator, services: Served, scope: Within = None, if_match: IfMatch = None
) -> Response:
    """Rules that name it say from now on that it is not there, and tell their fallback."""
    with services.store.write() as session:
        row = oncalls.find(session, principal, list_name, scope, lock=True)
        check_match(if_match, row.version)
        session.delete(row)
    return Response(status_code=204)
