"""Everything that is refused is refused the same way: an RFC 9457 problem document that names the mend."""

import traceback
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ValidationError
from pydantic_core import PydanticCustomError
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, ProgrammingError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from notifier.acklinks import masked
from notifier.border import Border
from notifier.faultwords import naming_fields, placed, settled

MEDIA_TYPE = "application/problem+json"
RETRY_AFTER_S = "5"
_IN_BODY = {"body"}
_BESIDE = {"query", "path", "header", "cookie"}
_log = structlog.get_logger()


class Problem(Exception):  # noqa: N818  RFC 9457 calls it so
    """An answer that is no success. `errors` names each field and what is wrong with it."""

    def __init__(
        self,
        status: int,
        title: str = "",
        detail: str = "",
        *,
        errors: Sequence[tuple[str, str]] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.status = status
        self.title = title or HTTPStatus(status).phrase
        self.errors = tuple(errors)
        self.detail = detail or "; ".join(f"{field}: {message}" for field, message in errors) or self.title
        self.headers = dict(headers or {})
        super().__init__(self.detail)

    def document(self) -> dict[str, Any]:
        return {
            "type": "about:blank",
            "title": self.title,
            "status": self.status,
            "detail": self.detail,
            "errors": [{"field": field, "message": message} for field, message in self.errors],
        }

    def response(self) -> JSONResponse:
        return JSONResponse(self.document(), self.status, self.headers, media_type=MEDIA_TYPE)


def invalid(field: str, message: str) -> Problem:
    """One field of the request is wrong; `message` says what to give instead."""
    return Problem(422, errors=[(field, message)])


def not_found(what: str, name: str) -> Problem:
    """There is none of that name, or it lies outside the token's scope: the two look the same."""
    return Problem(404, detail=f"no {what} {_clipped(name)}")


def conflict(detail: str) -> Problem:
    return Problem(409, detail=detail)


def of_validation(error: ValidationError, *, under: str, model: type[BaseModel] | None = None) -> Problem:
    """What pydantic found in a part of the body that is parsed later than the rest, such as `config`.

    `model`: whose fields are named where one is given that there is not.
    """
    faults = [fault if model is None else _known(model, fault) for fault in error.errors()]
    return Problem(422, errors=settled(_placed([under, *fault["loc"]], fault) for fault in faults))


def install(app: FastAPI) -> None:
    """Every error of this app answers as a problem document."""
    app.add_exception_handler(Problem, _problem)
    app.add_exception_handler(HTTPException, _http_exception)
    app.add_exception_handler(RequestValidationError, _validation)
    app.add_exception_handler(DBAPIError, _database)
    app.add_exception_handler(PoolTimeoutError, _unavailable)
    app.add_middleware(Border, answer=_unexpected)


async def _problem(_request: Request, error: Exception) -> Response:
    assert isinstance(error, Problem)  # noqa: S101  registered for this class
    return error.response()


async def _http_exception(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101
    detail = {404: "no such page", 405: "this address does not take that method"}.get(error.status_code, "")
    return Problem(error.status_code, detail=detail or str(error.detail), headers=error.headers).response()


async def _validation(_request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)  # noqa: S101
    faults = (_placed(_within(fault["loc"]), fault) for fault in error.errors())
    return Problem(422, errors=settled(faults)).response()


async def _database(request: Request, error: Exception) -> Response:
    """A database that is away, busy or full is a matter of time; a statement it cannot take is our fault."""
    if isinstance(error, IntegrityError | DataError | ProgrammingError):
        return await _unexpected(request, error)
    return await _unavailable(request, error)


async def _unavailable(_request: Request, error: Exception) -> Response:
    _log.warning("database_unavailable", error=type(error).__name__)
    detail = "the database cannot be reached or is busy; nothing was changed, try again"
    return Problem(503, detail=detail, headers={"Retry-After": RETRY_AFTER_S}).response()


async def _unexpected(request: Request, error: Exception) -> Response:
    where = "".join(traceback.format_tb(error.__traceback__))  # no message, no values: they may be secret
    _log.error(
        "request_failed",
        method=request.method,
        path=masked(request.url.path),
        error=type(error).__name__,
        where=where,
    )
    return Problem(500, detail="an error of ours; it is in the server's log").response()


def _within(where: Sequence[int | str]) -> Sequence[int | str]:
    """The place without FastAPI's word for where it stands."""
    return where[1:] if len(where) > 1 and where[0] in _IN_BODY | _BESIDE else where


def _placed(where: Sequence[int | str], fault: Mapping[str, Any]) -> tuple[str, str]:
    field, mend = placed(where, str(fault["msg"]))
    return _clipped(field), mend


def _known(model: type[BaseModel], fault: Mapping[str, Any]) -> Mapping[str, Any]:
    error = naming_fields(model, fault)["type"]
    return {**fault, "msg": error.message() if isinstance(error, PydanticCustomError) else fault["msg"]}


def _clipped(text: str, most: int = 200) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
