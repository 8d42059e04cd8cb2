"""`/ack/TOKEN`, where a message's link leads: a page that only shows, and its form, which takes the alert on.

Mail scanners open every link, so opening it does nothing. Whoever has the link needs no other token.
"""

import base64
import hashlib
import html
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any
from urllib.parse import parse_qsl

from fastapi import APIRouter, Depends, Path, Request
from sqlalchemy.orm import Session
from starlette.responses import HTMLResponse, Response

from notifier.acklinks import delivery_of
from notifier.acknowledging import ack
from notifier.api.deps import Served, Services
from notifier.forms import Form, Raw, fill
from notifier.lasting import is_open
from notifier.model import Alert, Delivery
from notifier.problems import Problem
from notifier.wording import one_line, speaker

router = APIRouter(include_in_schema=False)

MAX_FORM = 4096
MAX_NAME = 60
STYLE = """
body { margin: 0; padding: 24px; background: #f6f7f9; color: #1a2230;
  font: 16px/1.6 system-ui, 'Noto Sans CJK SC', sans-serif }
main { max-width: 560px; margin: 0 auto; padding: 20px 24px; background: #fff;
  border: 1px solid #e4e7ec; border-radius: 8px }
h1 { font-size: 20px; margin: 0 0 12px }
.alert { font-weight: 600; overflow-wrap: anywhere }
.dim { color: #667085; font-size: 14px }
input, button { font: inherit; padding: 6px 10px; border-radius: 6px; border: 1px solid #d0d5dd }
button { background: #3056d3; border-color: #3056d3; color: #fff; cursor: pointer }
"""
_HASH = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
HEADERS = {
    "Content-Security-Policy": (
        f"default-src 'none'; style-src 'sha256-{_HASH}'; form-action 'self'; frame-ancestors 'none'; "
        "base-uri 'none'"
    ),
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "X-Robots-Tag": "noindex, nofollow",
}
_FORM = Form("html", html.escape)

Token = Annotated[str, Path()]


@dataclass(frozen=True)
class Given:
    """What the form says."""

    is_taken: bool = False
    name: str = ""


async def _given(request: Request) -> Given:
    """Raises a problem for what no form of ours is."""
    announced = request.headers.get("content-length", "")
    if not announced.isdecimal() or len(announced) > 9 or int(announced) > MAX_FORM:
        raise Problem(413, detail=f"the form may have at most {MAX_FORM} bytes, and says how many it has")
    body = await request.body()
    try:
        fields = dict(parse_qsl(body.decode(), max_num_fields=10, errors="strict"))
    except ValueError:
        raise Problem(400, detail="send the page's own form") from None
    return Given(fields.get("take") == "yes", one_line(fields.get("name"), MAX_NAME))


@router.api_route("/ack/{token}", methods=["GET", "HEAD"])
def show(token: Token, services: Served) -> Response:
    with services.store.read() as session:
        now = services.store.now(session)
        row = delivery_of(session, token, services.box, now)
        alert = session.get(Alert, row.alert_id) if row is not None else None
        return _unknown(services) if row is None or alert is None else _page(services, row, alert, now)


@router.post("/ack/{token}")
def take(token: Token, services: Served, given: Annotated[Given, Depends(_given)]) -> Response:

    def write(session: Session) -> Response:
        now = services.store.now(session)
        row = delivery_of(session, token, services.box, now)
        alert = session.get(Alert, row.alert_id, with_for_update=True) if row is not None else None
        if row is None or alert is None:
            return _unknown(services)
        if given.is_taken and is_open(alert, now):
            ack(session, alert.id, f"link: {row.channel}" + (f" ({given.name})" if given.name else ""), now)
        return _page(services, row, alert, now)

    return services.store.run(write)


def _page(services: Services, row: Delivery, alert: Alert, now: datetime) -> Response:
    settings = services.settings
    say = speaker(row.language or settings.language, row.timezone or settings.timezone, None)
    words = say.words["ack_page"]
    may_take = False
    if alert.acked_at is not None:
        said = words["taken"].format(who=one_line(alert.acked_by), time=say.time(alert.acked_at))
    elif not is_open(alert, now):
        said = words["over"].format(time=say.time(alert.resolved_at or alert.expires_at or now))
    else:
        said, may_take = words["explain"], True
    about = (say.time(alert.created_at), alert.job_name, f"{row.channel} ({row.kind})")
    return _html(
        say.language,
        {
            "heading": words["heading"] if may_take else one_line(said),
            "title": one_line((row.message or {}).get("title") or alert.title),
            "about": " · ".join(one_line(part) for part in about if part),
            "said": said if may_take else "",
            "may_take": may_take,
            "words": words,
        },
    )


def _unknown(services: Services) -> Response:
    say = speaker(services.settings.language, services.settings.timezone, None)
    words = say.words["ack_page"]
    return _html(say.language, {"heading": words["unknown"], "said": words["why_unknown"]}, 404)


def _html(language: str, values: Mapping[str, Any], status: int = 200) -> Response:
    text = fill(("pages/ack",), _FORM, {"language": language, "style": Raw(STYLE), **values})
    return HTMLResponse(text, status, HEADERS)
