"""Pages from templates: escaping on, a policy that forbids every script, the words of one language."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

import jinja2
from fastapi import Request
from starlette.responses import HTMLResponse

from master.console import show
from master.console.session import language_of, services_of
from master.console.words import translator

# No script, no inline style, nothing from elsewhere: what a job calls itself can do nothing here.
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; img-src 'self' data:; form-action 'self'; "
        "frame-ancestors 'none'; base-uri 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "X-Frame-Options": "DENY",
    "Cache-Control": "no-store",
}

_templates = jinja2.Environment(
    loader=jinja2.PackageLoader("templates", "console"),
    autoescape=True,
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_templates.globals.update(
    tone=show.tone,
    severity_tone=show.severity_tone,
    duration=show.duration,
    number=show.number,
    percent=show.percent,
    urlencode=urlencode,
)


def paging(request: Request, cursor: str | None, following: str | None) -> dict[str, str | None]:
    """Paths of the first and the next page, filters kept: a proxy may have another scheme and host."""
    kept = [(name, value) for name, value in request.query_params.multi_items() if name != "cursor"]

    def path(*more: tuple[str, str]) -> str:
        asked = urlencode([*kept, *more])
        return request.url.path + (f"?{asked}" if asked else "")

    return {"first": path() if cursor else None, "older": path(("cursor", following)) if following else None}


def page(request: Request, template: str, values: Mapping[str, Any], status: int = 200) -> HTMLResponse:
    """The template with `values`, and what every page needs: words, clock, language, where we are."""
    language = language_of(request)
    common = {
        "t": translator(language),
        "language": language,
        "clock": show.Clock(services_of(request).settings.timezone),
        "path": request.url.path,
        "here": request.url.path + (f"?{request.url.query}" if request.url.query else ""),
        "visitor": None,
        "refresh_s": None,
    }
    text = _templates.get_template(template).render({**common, **values})
    return HTMLResponse(text, status, HEADERS)
