"""The plain `POST /alerts` goes past the web framework, whose part was half of an alert's processor time.

Only what is sure to be well goes here. Whatever is not (a token that does not work, a body that does not
fit, an event, a query) goes the framework's way, which has the words for it.
"""

import asyncio
from hashlib import sha256
from typing import Any

from pydantic import ValidationError
from sqlalchemy.orm import Session
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import Scope

from notifier.alertdocuments import AlertBody, check_body
from notifier.api import publishing
from notifier.api.deps import PUBLISHERS, Services, bearer, entitled
from notifier.api.openapi import PREFIX
from notifier.auth import Principal, authenticate
from notifier.clock import utcnow
from notifier.cloudevents import BINARY
from notifier.idempotency import HEADER
from notifier.problems import Problem

PATH = PREFIX + publishing.PATH
MOST = 1000  # tokens that are remembered
_PLAIN = "application/json"
_EVENT = f"{BINARY}specversion"
_NOT_HIS = frozenset({401, 403})


class Direct:
    """Answers what it can."""

    def __init__(self) -> None:
        self._known: dict[bytes, None] = {}  # that published lately; by hash

    async def answer(self, scope: Scope, value: Any) -> Response | None:
        """None: it is not for us, and nothing was done. `value`: the body. Raises what a route would."""
        if scope["path"] != PATH or scope["method"] != "POST" or scope["query_string"]:
            return None
        headers = Headers(scope=scope)
        media_type, token = headers.get("content-type", ""), bearer(headers)
        if media_type.partition(";")[0] != _PLAIN or _EVENT in headers or token is None:
            return None
        body = _body(value)
        services: Services = scope["app"].state.services
        if body is None or not await self._is_publisher(services, token):
            return None
        try:
            return await publishing.accept(
                services, body, headers.get(HEADER), lambda session: _speaker(session, token)
            )
        except Problem as problem:
            if problem.status in _NOT_HIS:  # or each time he came, what others post with him were done twice
                self._known.pop(_name(token), None)
            raise

    async def _is_publisher(self, services: Services, token: str) -> bool:
        """Whether it was just now, which saves a change of threads: where a token acts, `_speaker` looks at
        it in any case."""
        name = _name(token)
        if name in self._known:
            return True
        found = await asyncio.to_thread(_asked, services, token)
        if found is None or found.role not in PUBLISHERS:
            return False
        self._known[name] = None
        if len(self._known) > MOST:
            del self._known[next(iter(self._known))]
        return True


def _name(token: str) -> bytes:
    return sha256(token.encode(errors="replace")).digest()


def _body(value: Any) -> AlertBody | None:
    """None: it is not well. Whoever asks is looked at before the body is: that is the framework's part."""
    try:
        body = AlertBody.model_validate(value)
        check_body(body)
    except (ValidationError, Problem):
        return None
    return body


def _asked(services: Services, token: str) -> Principal | None:
    with services.store.engine.connect() as connection:
        return authenticate(connection, token, utcnow())


def _speaker(session: Session, token: str) -> Principal:
    return entitled(authenticate(session.connection(), token, utcnow()), PUBLISHERS)
