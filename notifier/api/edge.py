"""The first look at a request, before any route: size, media type, and JSON that is nothing but JSON.

Hostile bodies end here, so that no route meets NaN, a lone surrogate, a NUL or a thousand brackets.
"""

import asyncio
import json
import re
from contextlib import suppress
from typing import Any, NoReturn
from urllib.parse import parse_qsl

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from notifier.api import listing
from notifier.api.direct import Direct
from notifier.api.refusals import answered
from notifier.problems import Problem

MAX_BODY = 1024 * 1024
LARGER = {"/api/v1/ingest/": 8 * MAX_BODY}  # groups of others, who do not know our limit
MAX_DRAINED = 64 * MAX_BODY
DRAIN_S = 10
MAX_DEPTH = 32
MAX_DIGITS = 18
GUARDED = "/api/"
_JSON = re.compile(r"application/(?:json|[\w.-]+\+json)", re.IGNORECASE | re.ASCII)
_SURROGATE = re.compile("[\ud800-\udfff]")


class Edge:
    """ASGI middleware. Reads the body of a guarded request, judges it, and hands it on whole."""

    def __init__(self, app: ASGIApp) -> None:
        self._app, self._direct = app, Direct()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not scope["path"].startswith(GUARDED):
            await self._app(scope, receive, send)
            return
        try:
            check_address(scope["path"], scope["query_string"])
            headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
            most = next((size for start, size in LARGER.items() if scope["path"].startswith(start)), MAX_BODY)
            body, response = await _read(receive, headers, most), None
            if body:
                check_media_type(headers)
                response = await self._direct.answer(scope, parse(body))
            else:
                response = await listing.answer(scope)
        except Exception as error:  # ours, or what the ways past the framework raise
            response = await answered(Request(scope), error)
            if response is None:
                raise
        if response is not None:
            await response(scope, receive, send)
            return
        await self._app(scope, _replay(body, receive), send)


def check_address(path: str, query: bytes) -> None:
    """No database takes a NUL, and no name has one."""
    if "\0" in path:
        raise Problem(404, detail="no such page")
    if b"%00" in query:
        for name, value in parse_qsl(query.decode("latin-1"), keep_blank_values=True):
            if "\0" in name + value:
                raise Problem(422, errors=[(name.replace("\0", ""), "must not contain a NUL character")])


def check_media_type(headers: dict[str, str]) -> None:
    media_type, _, parameters = headers.get("content-type", "").partition(";")
    if not _JSON.fullmatch(media_type.strip()):
        raise Problem(415, detail="send JSON, with the header Content-Type: application/json")
    charset = re.search(r"charset\s*=\s*\"?([\w-]+)", parameters, re.IGNORECASE)
    if charset and charset[1].lower() not in {"utf-8", "utf8"}:
        raise Problem(415, detail="JSON is UTF-8: send no other charset")
    if headers.get("content-encoding", "identity").lower() != "identity":
        raise Problem(415, detail="send the body without Content-Encoding")


def parse(body: bytes) -> Any:
    """The JSON value.

    Raises:
        Problem: not JSON, or JSON that no database and no recipient could take.
    """
    try:
        value = json.loads(body.decode("utf-8"), parse_constant=_no_constant, parse_float=_finite)
    except UnicodeDecodeError as error:
        raise _malformed(f"byte {error.start} is not UTF-8") from None
    except RecursionError:
        raise _too_deep() from None
    except json.JSONDecodeError as error:
        raise _malformed(f"line {error.lineno}, column {error.colno}: {error.msg}") from None
    except ValueError as error:  # an integer of more digits than Python converts
        raise _malformed(str(error).partition(";")[0]) from None
    if body.count(b"[") + body.count(b"{") > MAX_DEPTH or b"\\u" in body:
        _walk(value)
    return value


def _walk(value: Any) -> None:
    """Level by level, so that depth costs no recursion."""
    level = [value]
    for _ in range(MAX_DEPTH):
        below: list[Any] = []
        for one in level:
            if isinstance(one, str):
                _check_text(one)
            elif isinstance(one, dict):
                below.extend(one)
                below.extend(one.values())
            elif isinstance(one, list):
                below.extend(one)
        level = below
        if not level:
            return
    raise _too_deep()


def _check_text(text: str) -> None:
    if "\0" in text:
        raise _malformed("a string contains a NUL character (\\u0000)")
    if not text.isascii() and _SURROGATE.search(text):
        raise _malformed("a string contains half a surrogate pair")


def _finite(digits: str) -> float:
    number = float(digits)
    if number in {float("inf"), float("-inf")}:
        raise _malformed(f"{digits[:20]} is too large a number")
    return number


def _no_constant(name: str) -> NoReturn:
    raise _malformed(f"{name} is not JSON")


def _malformed(why: str) -> Problem:
    return Problem(400, "Malformed JSON", f"the body is not acceptable JSON: {why}")


def _too_deep() -> Problem:
    return _malformed(f"nested more than {MAX_DEPTH} deep")


async def _read(receive: Receive, headers: dict[str, str], most: int) -> bytes:
    """The whole body; keeps nothing as soon as it is too much, announced or not."""
    announced = headers.get("content-length", "")
    if announced.isdecimal() and (len(announced) > MAX_DIGITS or int(announced) > most):
        waits = headers.get("expect", "").lower() == "100-continue"
        if not waits and len(announced) <= MAX_DIGITS and int(announced) <= MAX_DRAINED:
            await _drain(receive)
        raise _too_large(most)
    chunks: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise Problem(400, detail="the client left before the body was whole")
        chunks.append(message.get("body", b""))
        size += len(chunks[-1])
        if size > most:
            if message.get("more_body", False):
                await _drain(receive)
            raise _too_large(most)
        if not message.get("more_body", False):
            return b"".join(chunks)


async def _drain(receive: Receive) -> None:
    """Lets a client send what nobody keeps: one that reads after it has sent would be cut off before it
    could read why. Not for ever."""
    left = MAX_DRAINED
    with suppress(TimeoutError):
        async with asyncio.timeout(DRAIN_S):
            while left > 0:
                message = await receive()
                left -= len(message.get("body", b""))
                if not message.get("more_body", False):
                    return


def _too_large(most: int) -> Problem:
    detail = f"a body may have at most {most} bytes; send less at a time"
    return Problem(413, "Content Too Large", detail, headers={"Connection": "close"})


def _replay(body: bytes, receive: Receive) -> Receive:
    pending: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return pending.pop() if pending else await receive()

    return again
