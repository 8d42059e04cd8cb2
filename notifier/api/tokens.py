"""`/tokens`: an admin gives and takes back tokens; the plaintext is answered once."""

from datetime import datetime

from fastapi import APIRouter, Response
from fastapi.responses import JSONResponse
from pydantic import Field
from sqlalchemy import select

from notifier.api.deps import Admin, Asked, IdempotencyKey, Served, answered
from notifier.api.openapi import PREFIX
from notifier.auth import NewToken, Principal, Role, create_token
from notifier.clock import utcnow
from notifier.directory import check_scope
from notifier.documents import (
    Body,
    Document,
    GivenMoment,
    Listed,
    Moment,
    Scope,
    TokenName,
    scope_of,
    split_scope,
)
from notifier.idempotency import Answer, Call, once
from notifier.model import Token
from notifier.pages import page
from notifier.problems import Problem, invalid, not_found

router = APIRouter(prefix=f"{PREFIX}/tokens", tags=["tokens"])


class TokenBody(Body):
    """A token to be made. Without a scope it reaches all pools; `node` binds the token of a node's agent."""

    name: TokenName
    role: Role
    scope: Scope | None = None
    expires_at: GivenMoment | None = None
    node: TokenName | None = None


class TokenDocument(Document):
    id: str
    name: str
    role: Role
    scope: str | None
    node: str | None
    created_at: Moment
    expires_at: Moment | None


class NewTokenDocument(TokenDocument):
    token: str = Field(description="shown this once")


@router.post("", status_code=201, response_model=NewTokenDocument)
def create(body: TokenBody, principal: Admin, services: Served, key: IdempotencyKey = None) -> JSONResponse:
    now = utcnow()
    new = _wanted(body, principal, now)
    call = Call(principal.token_id, key, "/tokens", body.model_dump(mode="json"), now)
    with services.store.write() as session:

        def work() -> Answer:
            check_scope(session, services.directory, body.scope)
            row, plaintext = create_token(session, new, now)
            document = NewTokenDocument(**_document(row).model_dump(), token=plaintext)
            return Answer(201, document.model_dump(mode="json"))

        answer = once(session, services.box, call, work)
    return answered(answer)


@router.get("")
def list_tokens(principal: Admin, services: Served, ask: Asked) -> Listed[TokenDocument]:
    """Those within your scope; tokens of pods are the master's own and are left out."""
    rows = select(Token).where(Token.pod_id.is_(None))
    if principal.pool is not None:
        rows = rows.where(Token.pool == principal.pool)
        if principal.queue is not None:
            rows = rows.where(Token.queue == principal.queue)
    with services.store.read() as session:
        found = page(session, rows, Token.id, ask)
        return Listed(items=[_document(row) for row in found.rows], next_cursor=found.next_cursor)


@router.delete("/{token_id}", status_code=204)
def delete(token_id: str, principal: Admin, services: Served) -> Response:
    with services.store.write() as session:
        row = session.get(Token, token_id)
        if row is None or not _within(principal, row.pool, row.queue):
            raise not_found("token", token_id)
        session.delete(row)
    return Response(status_code=204)


def _wanted(body: TokenBody, principal: Principal, now: datetime) -> NewToken:
    if (body.role is Role.AGENT) != (body.node is not None):
        raise invalid("node", "goes with the role agent, and only with it (pods get theirs from the master)")
    pool, queue = split_scope(body.scope) if body.scope else (None, None)
    if not _within(principal, pool, queue or None):
        raise Problem(
            403, detail="a token may not reach further than the one that makes it: narrow its scope"
        )
    if body.expires_at is not None and body.expires_at <= now:
        raise invalid("expires_at", "lies in the past; give a time to come, or null for no end")
    return NewToken(body.name, body.role, pool, queue or None, expires_at=body.expires_at, node=body.node)


def _within(principal: Principal, pool: str | None, queue: str | None) -> bool:
    """Unlike a thing, a token may itself reach over all pools."""
    return principal.pool is None or (pool is not None and principal.covers(pool, queue or ""))


def _document(row: Token) -> TokenDocument:
    return TokenDocument(
        id=row.id,
        name=row.name,
        role=Role(row.role),
        scope=scope_of(row.pool, row.queue) if row.pool else None,
        node=row.node,
        created_at=row.created_at,
        expires_at=row.expires_at,
    )
