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
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

from notifier.alertdocuments import AlertBody
from notifier.api import publishing
from notifier.api.deps import PUBLISHERS, Services, entitled
from notifier.api.openapi import PREFIX
from notifier.api.refusals import answered
from notifier.auth import Principal, authenticate
from notifier.clock import utcnow
from notifier.cloudevents import BINARY
from notifier.idempotency import HEADER

PATH = PREFIX + publishing.PATH
MOST = 1000  # tokens that are remembered
_PLAIN = "application/json"
_BEARER = "Bearer "
_EVENT = f"{BINARY}specversion"


class Direct:
    """Answers what it can."""

    def __init__(self) -> None:
        self._known: dict[bytes, None] = {}  # that published lately; by hash

    async def answer(self, scope: Scope, value: Any) -> Response | None:
        """None: it is not for us, and nothing was done. `value`: the body."""
        if scope["path"] != PATH or scope["method"] != "POST" or scope["query_string"]:
            return None
        headers = Headers(scope=scope)
        media_type, token = headers.get("content-type", ""), headers.get("authorization", "")
        if media_type.partition(";")[0] != _PLAIN or _EVENT in headers or not token.startswith(_BEARER):
            return None
        try:
            body = AlertBody.model_validate(value)
        except ValidationError:
            return None
        token = token.removeprefix(_BEARER)
        services: Services = scope["app"].state.services
        if not await self._is_publisher(services, token):
            return None
        try:
            return await publishing.accept(
                services, body, headers.get(HEADER), lambda session: _speaker(session, token)
            )
        except Exception as error:
            response = await answered(Request(scope), error)
            if response is None:
                raise
            return response

    async def _is_publisher(self, services: Services, token: str) -> bool:
        """Whether it was just now, which saves a change of threads: where a token acts, `_speaker` looks at
        it in any case."""
        name = sha256(token.encode(errors="replace")).digest()
        if name in self._known:
            return True
        found = await asyncio.to_thread(_asked, services, token)
        if found is None or found.role not in PUBLISHERS:
            return False
        self._known[name] = None
        if len(self._known) > MOST:
            del self._known[next(iter(self._known))]
        return True


def _asked(services: Services, token: str) -> Principal | None:
    with services.store.engine.connect() as connection:
        return authenticate(connection, token, utcnow())


def _speaker(session: Session, token: str) -> Principal:
    return entitled(authenticate(session.connection(), token, utcnow()), PUBLISHERS)
