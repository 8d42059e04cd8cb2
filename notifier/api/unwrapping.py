"""Routes whose body may come as a CloudEvent, in structured or binary mode."""

import json
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute
from starlette.types import Message

from notifier.cloudevents import BATCH, BINARY, SCHEMA, STRUCTURED, Event, alert_of, binary, structured
from notifier.idempotency import HEADER
from notifier.problems import Problem

ALSO_EVENTS: dict[str, Any] = {"requestBody": {"content": {STRUCTURED: {"schema": SCHEMA}}}}
_REPLACED = frozenset({b"content-type", b"content-length", HEADER.lower().encode()})


class Unwrapping(APIRoute):
    """Hands on the alert in an event as a plain request, with the event's own key as `Idempotency-Key`."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler = super().get_route_handler()

        async def handle(request: Request) -> Response:
            event = await _event(request)
            return await handler(request if event is None else _plain(request, event))

        return handler if self.body_field is None else handle


async def _event(request: Request) -> Event | None:
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type == BATCH:
        raise Problem(415, detail=f"send one event at a time, as {STRUCTURED}")
    if media_type == STRUCTURED:
        return structured(await request.json())
    if f"{BINARY}specversion" in request.headers:
        return binary(request.headers, await request.json() if await request.body() else None)
    return None


def _plain(request: Request, event: Event) -> Request:
    body = json.dumps(alert_of(event)).encode()
    kept = [(name, value) for name, value in request.scope["headers"] if name not in _REPLACED]
    given = {"content-type": "application/json", "content-length": str(len(body)), HEADER.lower(): event.key}
    headers = [*kept, *((name.encode(), value.encode()) for name, value in given.items())]

    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    return Request({**request.scope, "headers": headers}, receive)
