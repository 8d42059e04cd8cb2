"""How an app answers with a problem document, whatever went wrong."""

import traceback
from collections.abc import Sequence

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, ProgrammingError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from notifier.acklinks import masked
from notifier.api.border import Border
from notifier.faultwords import settled
from notifier.idempotency import HEADER
from notifier.problems import Problem, field_and_mend
from notifier.storage import InDoubtError
from notifier.writer import BusyError

MEDIA_TYPE = "application/problem+json"
RETRY_AFTER_S = "5"
BUSY_AFTER_S = "1"
_DONE_ONCE = frozenset({"GET", "HEAD", "PUT", "DELETE"})  # however often they are asked for
_IN_BODY = {"body"}
_BESIDE = {"query", "path", "header", "cookie"}
_log = structlog.get_logger()


def answer(problem: Problem) -> JSONResponse:
    return JSONResponse(problem.document(), problem.status, problem.headers, media_type=MEDIA_TYPE)


def answers_problems(app: FastAPI) -> None:
    """Every error of this app answers as a problem document."""
    for kind, handler in _HANDLERS.items():
        app.add_exception_handler(kind, handler)
    app.add_middleware(Border, answer=_unexpected)


async def answered(request: Request, error: Exception) -> Response | None:
    """The same for who is no route of the app; None: nobody foresaw this error."""
    for kind, handler in _HANDLERS.items():
        if isinstance(error, kind):
            return await handler(request, error)
    return None


async def _problem(_request: Request, error: Exception) -> Response:
    assert isinstance(error, Problem)  # noqa: S101  registered for this class
    return answer(error)


async def _http_exception(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101
    detail = {404: "no such page", 405: "this address does not take that method"}.get(error.status_code, "")
    return answer(Problem(error.status_code, detail=detail or str(error.detail), headers=error.headers))


async def _validation(_request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)  # noqa: S101
    faults = (field_and_mend(_within(fault["loc"]), fault) for fault in error.errors())
    return answer(Problem(422, errors=settled(faults)))


async def _database(request: Request, error: Exception) -> Response:
    """A database that is away, busy or full is a matter of time; a statement it cannot take is our fault."""
    if isinstance(error, IntegrityError | DataError | ProgrammingError):
        return await _unexpected(request, error)
    return await _unavailable(request, error)


async def _unavailable(_request: Request, error: Exception) -> Response:
    _log.warning("database_unavailable", error=type(error).__name__)
    detail = "the database cannot be reached or is busy; nothing was changed, try again"
    return answer(Problem(503, detail=detail, headers={"Retry-After": RETRY_AFTER_S}))


async def _in_doubt(request: Request, _error: Exception) -> Response:
    """To be asked for again by itself is only what is then done once."""
    _log.warning("write_in_doubt", method=request.method, path=masked(request.url.path))
    detail = (
        "the connection to the database was lost while this was being kept: it may be kept or not; "
        f"with the {HEADER} it was sent with it is done once however often it is sent, and without one "
        "look whether it is there before you send it again"
    )
    if request.method in _DONE_ONCE:
        detail = "the connection to the database was lost while this was being kept; send it again"
    is_once = request.method in _DONE_ONCE or HEADER in request.headers
    return answer(Problem(503, detail=detail, headers={"Retry-After": RETRY_AFTER_S} if is_once else None))


async def _busy(_request: Request, _error: Exception) -> Response:
    detail = "more alerts wait to be written than this server takes on; nothing was changed, try again"
    return answer(Problem(503, detail=detail, headers={"Retry-After": BUSY_AFTER_S}))


async def _unexpected(request: Request, error: BaseException) -> Response:
    where = "".join(traceback.format_tb(error.__traceback__))  # no message, no values: they may be secret
    _log.error(
        "request_failed",
        method=request.method,
        path=masked(request.url.path),
        error=type(error).__name__,
        where=where,
    )
    return answer(Problem(500, detail="an error of ours; it is in the server's log"))


def _within(where: Sequence[int | str]) -> Sequence[int | str]:
    """The place without FastAPI's word for where it stands."""
    return where[1:] if len(where) > 1 and where[0] in _IN_BODY | _BESIDE else where


_HANDLERS = {
    Problem: _problem,
    HTTPException: _http_exception,
    RequestValidationError: _validation,
    InDoubtError: _in_doubt,
    DBAPIError: _database,
    PoolTimeoutError: _unavailable,
    BusyError: _busy,
}
