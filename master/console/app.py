"""The console as an app of its own: its errors are pages, its answers carry the security headers."""

from urllib.parse import urlencode

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from sqlalchemy.exc import DBAPIError
from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse, Response
from starlette.routing import Match, Mount
from starlette.types import ASGIApp, Receive, Scope, Send

from master.console import actions, alertpages, entry, routes, ruleviews
from master.console.render import HEADERS, page
from master.console.session import Refused, SignInFirst, words_of
from master.controller import Controller
from notifier.api.border import Border
from notifier.api.deps import Services
from notifier.problems import Problem

MAX_FORM = 16 * 1024
# What lies outside the console although it has no other common prefix.
API = ("/api/", "/healthz", "/readyz", "/metrics", "/openapi.json")

log = structlog.get_logger()


class ConsoleMount(Mount):
    """Takes every address but the API's, so that those keep their own 404 and 405."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        if scope["type"] != "http" or scope["path"].startswith(API):
            return Match.NONE, {}
        return super().matches(scope)


def mount_console(app: FastAPI, services: Services, controller: Controller) -> None:
    """Adds the console to `app`, behind everything else."""
    app.router.routes.append(ConsoleMount("", app=_Edge(_console(services, controller))))


def _console(services: Services, controller: Controller) -> FastAPI:
    # A redirect to the path without its last slash would name a scheme and host: a proxy may have others.
    console = FastAPI(openapi_url=None, docs_url=None, redoc_url=None, redirect_slashes=False)
    console.state.services, console.state.controller = services, controller
    for router in (entry.router, routes.router, alertpages.router, ruleviews.router, actions.router):
        console.router.routes += router.routes
    console.add_exception_handler(SignInFirst, _to_login)
    console.add_exception_handler(Refused, _refused)
    console.add_exception_handler(Problem, _problem)
    console.add_exception_handler(HTTPException, _http)
    console.add_exception_handler(RequestValidationError, _invalid)
    console.add_exception_handler(DBAPIError, _database)
    console.add_middleware(Border, answer=_unexpected)
    return console


class _Edge:
    """The first look: our forms are small and say how large they are; no name has a NUL."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = dict(scope["headers"])
        size = headers.get(b"content-length", b"0" if scope["method"] in {"GET", "HEAD"} else b"")
        if b"transfer-encoding" in headers or not size.isdigit():
            await Response("say how large the form is: send Content-Length", 411, HEADERS)(
                scope, receive, send
            )
            return
        if len(size) > 9 or int(size) > MAX_FORM:
            words = f"the form is too large: {MAX_FORM} bytes are the most"
            await Response(words, 413, HEADERS)(scope, receive, send)
            return
        if "\0" in scope["path"] or b"%00" in scope["query_string"]:
            await Response("no such page", 404, HEADERS)(scope, receive, send)
            return
        await self._app(scope, receive, send)


async def _to_login(_request: Request, error: Exception) -> Response:
    assert isinstance(error, SignInFirst)  # noqa: S101  registered for this class
    return RedirectResponse(f"/login?{urlencode({'next': error.back})}", 303, HEADERS)


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, Refused)  # noqa: S101
    return _page(request, error.status, words_of(request)(error.word))


async def _problem(request: Request, error: Exception) -> Response:
    assert isinstance(error, Problem)  # noqa: S101
    return _page(request, error.status, error.detail)


async def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101
    word = words_of(request)("not_found") if error.status_code in {404, 405} else str(error.detail)
    return _page(request, error.status_code, word)


async def _invalid(request: Request, _error: Exception) -> Response:
    return _page(request, 422, words_of(request)("bad_input"))


async def _database(request: Request, error: Exception) -> Response:
    log.warning("database_unavailable", error=type(error).__name__)
    return _page(request, 503, words_of(request)("unreachable"))


async def _unexpected(request: Request, error: BaseException) -> Response:
    log.error("console_failed", path=request.url.path, exc_info=error)
    return _page(request, 500, type(error).__name__)


def _page(request: Request, status: int, words: str) -> Response:
    return page(request, "problem.html", {"status": status, "words": words}, status)
