"""What routes are given: the services of this process, who speaks, and the headers that many take."""

from collections.abc import Callable, Collection, Coroutine
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any, Protocol

from fastapi import Depends, Header, Query, Request, Security
from fastapi.responses import JSONResponse
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from starlette.datastructures import Headers

from channels.transport import Network
from notifier.api.queries import check_query
from notifier.auth import Principal, Role, authenticate
from notifier.clock import utcnow
from notifier.directory import Directory, Standalone
from notifier.documents import WholeText
from notifier.idempotency import HEADER, Answer
from notifier.pages import DEFAULT_LIMIT, MAX_LIMIT, Ask
from notifier.problems import Problem
from notifier.secretbox import SecretBox
from notifier.settings import Settings
from notifier.storage import Store
from notifier.writer import Writer

THREADS = 4  # that write to PostgreSQL
_BEARER = "Bearer "
ROOM = 10_000  # alerts that may wait to be written: some seconds' worth


class Rings(Protocol):
    """The doorbell, as far as routes need it: rung after the commit, never raising, never long."""

    def ring(self, store: Store, shards: Collection[int]) -> None: ...


@dataclass(frozen=True)
class Services:
    """The parts of a server process; `app.state.services` holds them."""

    store: Store
    settings: Settings
    box: SecretBox
    bell: Rings
    network: Network
    directory: Directory = field(default_factory=Standalone)

    @cached_property
    def writer(self) -> Writer:
        """For what many clients post at once."""
        return Writer(self.store, THREADS if self.store.is_postgres else 1, ROOM)


async def _services(request: Request) -> Services:  # not async, it would cost a change of threads
    services: Services = request.app.state.services
    return services


Served = Annotated[Services, Depends(_services)]
_bearer = HTTPBearer(auto_error=False, description="A token as `faultcast token create` gives it: `fct_…`.")


def _principal(
    request: Request,
    services: Served,
    given: Annotated[HTTPAuthorizationCredentials | None, Security(_bearer)],
) -> Principal:
    found = None
    if given is not None:
        with services.store.engine.connect() as connection:
            found = authenticate(connection, given.credentials, utcnow())
    who = entitled(found, tuple(Role))
    check_query(request)  # here, for every route asks who speaks
    return who


def entitled(found: Principal | None, roles: Collection[Role]) -> Principal:
    """Raises a problem unless there is somebody, in one of these roles."""
    if found is None:
        raise Problem(
            401,
            detail="send a valid token: Authorization: Bearer fct_…",
            headers={"WWW-Authenticate": "Bearer"},
        )
    if found.role not in roles:
        detail = f"a token of role {found.role} may not do this; it takes {' or '.join(roles)}"
        raise Problem(403, detail=detail)
    return found


def bearer(headers: Headers) -> str | None:
    """The token, in the very form that everybody writes; of all others `_bearer` makes the best."""
    given = headers.get("authorization", "")
    return given.removeprefix(_BEARER) if given.startswith(_BEARER) else None


Speaker = Annotated[Principal, Depends(_principal)]


def allow(*roles: Role) -> Callable[[Principal], Coroutine[Any, Any, Principal]]:
    """A dependency that lets only these roles pass."""

    async def check(principal: Speaker) -> Principal:
        return entitled(principal, roles)

    return check


Admin = Annotated[Principal, Depends(allow(Role.ADMIN))]
Operator = Annotated[Principal, Depends(allow(Role.ADMIN, Role.OPERATOR))]
READERS = (Role.ADMIN, Role.OPERATOR, Role.VIEWER)
Reader = Annotated[Principal, Depends(allow(*READERS))]
PUBLISHERS = (Role.ADMIN, Role.OPERATOR, Role.PUBLISHER)
Publisher = Annotated[Principal, Depends(allow(*PUBLISHERS))]


async def _ask(
    limit: Annotated[WholeText, Query(ge=1, le=MAX_LIMIT)] = DEFAULT_LIMIT,
    cursor: Annotated[
        str | None, Query(max_length=100, description="`next_cursor` of the page before")
    ] = None,
) -> Ask:
    return Ask(limit, cursor)


Asked = Annotated[Ask, Depends(_ask)]
IdempotencyKey = Annotated[
    str | None,
    Header(alias=HEADER, description="the same key and body again: done once, answered twice (for 24 h)"),
]
IfMatch = Annotated[
    str | None, Header(alias="If-Match", description="change only this version: the `ETag` you were given")
]


_ETAG = {"ETag": {"description": "the version, for `If-Match`", "schema": {"type": "string"}}}
TAGGED: dict[int | str, dict[str, Any]] = {200: {"headers": _ETAG}}
TAGGED_NEW: dict[int | str, dict[str, Any]] = {201: {"headers": _ETAG}}


def etag(version: int) -> str:
    return f'"{version}"'


def check_match(if_match: str | None, version: int) -> None:
    """Raises a 412 when the caller means another version than the one that is stored."""
    if if_match is None:
        return
    meant = {tag.strip().removeprefix("W/") for tag in if_match.split(",")}
    if not meant & {"*", etag(version)}:
        raise Problem(412, detail=f"it was changed since: it is now {etag(version)}; read it again")


def answered(answer: Answer) -> JSONResponse:
    return JSONResponse(answer.body, answer.status, answer.headers)
