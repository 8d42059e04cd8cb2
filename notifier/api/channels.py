"""`/channels`: configured ways to reach people. Secrets go in and never come out."""

from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Query, Response
from fastapi.responses import JSONResponse
from sqlalchemy.orm import Session

from notifier import channels
from notifier.api.deps import (
    TAGGED,
    TAGGED_NEW,
    Asked,
    IdempotencyKey,
    IfMatch,
    Operator,
    Reader,
    Served,
    Services,
    answered,
    check_match,
    etag,
)
from notifier.api.openapi import PREFIX, problem_response
from notifier.channels import ChannelBody, ChannelChange, ChannelDocument, Editing
from notifier.clock import utcnow
from notifier.directory import check_scope
from notifier.documents import Listed, Scope
from notifier.idempotency import Answer, Call, once
from notifier.model import Channel
from notifier.trial import Bench, Trial, TrialDocument

router = APIRouter(prefix=f"{PREFIX}/channels", tags=["channels"])
TOO_SOON = problem_response("the provider's limit leaves no room just now: again after `Retry-After`")
CHECKED: dict[int | str, dict[str, Any]] = {
    200: {"model": ChannelDocument, "description": "of a dry run: it would be so, and has no id"}
}
Name = Annotated[str, Path(examples=["oncall-ding"])]
Within = Annotated[Scope | None, Query(description="which, where several scopes have that name")]


@router.post("", status_code=201, response_model=ChannelDocument, responses=TAGGED_NEW | CHECKED)
def create(
    body: ChannelBody,
    principal: Operator,
    services: Served,
    key: IdempotencyKey = None,
    dry_run: bool = False,
) -> JSONResponse:
    """`dry_run` says what would be refused or warned of, and creates nothing."""
    now = utcnow()
    scope = channels.own_scope(principal, body.scope)
    want = channels.wanted(body.kind, body.config, services.network)
    call = Call(principal.token_id, key, "/channels", body.model_dump(mode="json"), now)
    with services.store.write() as session:

        def work() -> Answer:
            check_scope(session, services.directory, body.scope)
            row = Editing(session, services.box, now).create(body, want, scope)
            shown = channels.document(row, want.config, want.warnings).model_dump(mode="json")
            return Answer(201, shown, {"ETag": etag(row.version)})

        if dry_run:
            with session.begin_nested() as tried:
                shown = work().body
                tried.rollback()
            return JSONResponse({**shown, "id": ""})
        answer = once(session, services.box, call, work)
    return answered(answer)


@router.get("")
def list_channels(principal: Reader, services: Served, ask: Asked) -> Listed[ChannelDocument]:
    with services.store.read() as session:
        found = channels.listed(session, principal, ask)
    items = [_shown(services, row) for row in found.rows]
    return Listed(items=items, next_cursor=found.next_cursor)


@router.get("/{name}", responses=TAGGED)
def get(
    name: Name, principal: Reader, services: Served, response: Response, scope: Within = None
) -> ChannelDocument:
    with services.store.read() as session:
        row = channels.find(session, principal, name, scope)
    response.headers["ETag"] = etag(row.version)
    return _shown(services, row)


@dataclass(frozen=True)
class How:
    """Which channel is meant, and whether it is changed."""

    scope: Within = None
    dry_run: bool = False


@router.put("/{name}", responses=TAGGED)
def change(
    name: Name,
    body: ChannelChange,
    principal: Operator,
    services: Served,
    response: Response,
    how: Annotated[How, Depends()],
    if_match: IfMatch = None,
) -> ChannelDocument:
    """Replaces the whole; a masked secret that is repeated stays. What was held is told afterwards.

    `dry_run` checks it, says what would change, and changes nothing.
    """
    with services.store.read() as session:
        seen = channels.find(session, principal, name, how.scope)
    check_match(if_match, seen.version)
    channels.check_fixed(seen, body)
    stored = channels.shown_config(seen, services.box)
    want = channels.wanted(seen.kind, body.config, services.network, stored)
    if how.dry_run:
        response.headers["ETag"] = etag(seen.version)
        found = channels.changes(seen, stored, body, want)
        return channels.document(seen, stored, want.warnings).model_copy(update={"changes": found})

    def write(session: Session) -> tuple[Channel, set[int]]:
        row = channels.find(session, principal, name, how.scope)
        check_match(if_match or etag(seen.version), row.version)
        return row, Editing(session, services.box, utcnow()).change(row, body, want)

    row, shards = services.store.run(write)
    services.bell.ring(services.store, shards)
    response.headers["ETag"] = etag(row.version)
    return channels.document(row, want.config, want.warnings)


@router.delete("/{name}", status_code=204)
def delete(
    name: Name, principal: Operator, services: Served, scope: Within = None, if_match: IfMatch = None
) -> Response:
    """What was not sent yet becomes `failed`; the delivery log stays."""

    def write(session: Session) -> frozenset[int]:
        row = channels.find(session, principal, name, scope)
        check_match(if_match, row.version)
        return Editing(session, services.box, utcnow()).delete(row)

    services.bell.ring(services.store, services.store.run(write))
    return Response(status_code=204)


@router.post("/{name}/test", responses={429: TOO_SOON})
def try_out(name: Name, principal: Operator, services: Served, scope: Within = None) -> TrialDocument:
    """Sends a real message and waits for the provider's word. If it is good, what was held is told."""
    with services.store.read() as session:
        row = channels.find(session, principal, name, scope)
    bench = Bench(services.store, services.box, services.network, services.settings)
    trial = Trial(bench, row.id)
    document = trial.run()
    services.bell.ring(services.store, trial.wake)
    return document


def _shown(services: Services, row: Channel) -> ChannelDocument:
    return channels.document(row, channels.shown_config(row, services.box))
