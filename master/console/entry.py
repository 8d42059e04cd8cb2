"""Signing in and out, the language, the style sheet."""

from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Form, Query, Request
from starlette.responses import FileResponse, RedirectResponse, Response

import templates
from master.console.render import HEADERS, page
from master.console.session import (
    LANGUAGE_AGE_S,
    LANGUAGE_COOKIE,
    ROLES,
    authenticated,
    check_form,
    check_origin,
    local_path,
    services_of,
    sign_in,
    sign_out,
    signed_in,
)
from master.console.words import LANGUAGES

router = APIRouter(include_in_schema=False)

STYLE = Path(templates.__file__).with_name("console") / "console.css"
Next = Annotated[str, Query(max_length=500)]


@router.get("/login")
def login(request: Request, next: Next = "/") -> Response:  # noqa: A002  the address says `next`
    return page(request, "login.html", {"next": local_path(next), "problem": None})


@router.post("/login")
def log_in(
    request: Request,
    token: Annotated[str, Form(max_length=200)] = "",
    next: Annotated[str, Form(max_length=500)] = "/",  # noqa: A002
) -> Response:
    check_origin(request)
    given = token.strip()
    principal = authenticated(request, given)
    if principal is None or principal.role not in ROLES:
        problem = "token_wrong" if principal is None else "role_too_small"
        return page(request, "login.html", {"next": local_path(next), "problem": problem}, 401)
    response = RedirectResponse(local_path(next), 303, HEADERS)
    sign_in(response, given, is_secure=_is_secure(request))
    return response


@router.post("/logout")
def log_out(request: Request, csrf: Annotated[str, Form(max_length=200)] = "") -> Response:
    check_form(request, signed_in(request), csrf)
    response = RedirectResponse("/login", 303, HEADERS)
    sign_out(response)
    return response


@router.get("/language/{language}")
def choose_language(request: Request, language: str, next: Next = "/") -> Response:  # noqa: A002
    response = RedirectResponse(local_path(next), 303, HEADERS)
    if language in LANGUAGES:
        response.set_cookie(
            LANGUAGE_COOKIE,
            language,
            max_age=LANGUAGE_AGE_S,
            httponly=True,
            samesite="lax",
            secure=_is_secure(request),
        )
    return response


@router.get("/console/console.css")
def style() -> Response:
    return FileResponse(
        STYLE, media_type="text/css", headers={**HEADERS, "Cache-Control": "public, max-age=300"}
    )


def _is_secure(request: Request) -> bool:
    """Whether the browser reaches us by https, directly or through the proxy that PUBLIC_URL names."""
    public = services_of(request).settings.public_url or ""
    return request.url.scheme == "https" or public.startswith("https://")
