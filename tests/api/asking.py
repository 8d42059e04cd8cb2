"""One question asked both ways: past the web framework, and through it."""

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from hashlib import sha256
from typing import Any

from fastapi import FastAPI
from sqlalchemy import delete, update

from notifier.api.deps import Services
from notifier.auth import NewToken, Role, create_token
from notifier.clock import utcnow
from notifier.model import Token

WAYS = ("past", "through")
ROLES = ("admin", "operator", "publisher", "viewer", "ingest")
Headers = list[tuple[bytes, bytes]]
Answer = tuple[int, Headers, bytes]


@dataclass
class Asking:
    """Asks both ways, each with tokens of its own: keys and alerts are known again by token."""

    services: Services
    apps: dict[str, FastAPI] = field(default_factory=dict)
    tokens: dict[tuple[str, str], str] = field(default_factory=dict)
    runner: asyncio.Runner = field(default_factory=asyncio.Runner)
    went_past: int = 0

    def token(self, way: str, who: str) -> str:
        """`role@pool/queue`, or whatever else a client might send for one."""
        role, _, scope = who.partition("@")
        if role not in ROLES:
            return who
        if (way, who) not in self.tokens:
            pool, _, queue = scope.partition("/")
            with self.services.store.write() as session:
                new = NewToken(role, Role(role), pool or None, queue or None)
                self.tokens[way, who] = create_token(session, new, utcnow())[1]
        return self.tokens[way, who]

    def end(self, who: str, *, expires: bool) -> None:
        """These tokens work no more, in the database itself."""
        with self.services.store.write() as session:
            for way in WAYS:
                text = self.tokens.pop((way, who), None)
                if text is None:
                    continue
                own = Token.sha256 == sha256(text.encode()).hexdigest()
                session.execute(
                    update(Token).where(own).values(expires_at=utcnow() - timedelta(seconds=1))
                    if expires
                    else delete(Token).where(own)
                )

    def ask(
        self, method: str, target: str, headers: Sequence[tuple[str, str]], chunks: Sequence[bytes]
    ) -> Answer:
        """The answer, once it is known that both are the same."""
        found = [self.one(way, method, target, headers, chunks) for way in WAYS]
        assert found[0] == found[1]
        return found[0]

    def one(
        self, way: str, method: str, target: str, headers: Sequence[tuple[str, str]], chunks: Sequence[bytes]
    ) -> Answer:
        sent = [
            (name.lower().encode("latin-1"), self._filled(way, value).encode("latin-1"))
            for name, value in headers
        ]
        path, _, query = target.partition("?")
        scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "path": path,
            "raw_path": path.encode(), "query_string": query.encode("latin-1"), "headers": sent,
            "scheme": "http", "server": ("test", 80), "client": ("127.0.0.1", 9), "root_path": "",
        }  # fmt: skip
        return self.runner.run(_asked(self.apps[way], scope, chunks))

    def _filled(self, way: str, value: str) -> str:
        return re.sub(r"\{(.*?)\}", lambda found: self.token(way, found[1]), value)


async def _asked(app: FastAPI, scope: dict[str, Any], chunks: Sequence[bytes]) -> Answer:
    """`chunks`: the body; without the last one the client leaves."""
    status, told, body = 0, Headers(), b""
    left = list(chunks) or [b""]

    async def receive() -> dict[str, Any]:
        if not left:
            return {"type": "http.disconnect"}
        part = left.pop(0)
        return {"type": "http.request", "body": part, "more_body": bool(left)}

    async def send(message: Any) -> None:
        nonlocal status, told, body
        if message["type"] == "http.response.start":
            status, told = message["status"], sorted(message["headers"])
        else:
            body += message.get("body", b"")

    await app(scope, receive, send)
    return status, told, _nameless(body)


def _nameless(body: bytes) -> bytes:
    """Ids are numbered as they come."""
    known: dict[bytes, bytes] = {}
    return re.sub(
        rb"(alr|dlv)_\w+", lambda found: known.setdefault(found[0], found[1] + b"%d" % len(known)), body
    )
