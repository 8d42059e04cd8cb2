"""The page of alerts: what is open, who has taken it on, and the button that does so."""

from typing import Annotated

from fastapi import APIRouter, Form, Query, Request
from starlette.responses import RedirectResponse, Response

from master.console.render import HEADERS, page, paging
from master.console.session import Acting, SignedIn, local_path, services_of
from notifier.alertdocuments import AckBody
from notifier.api import alerts
from notifier.lasting import FIRING
from notifier.pages import Ask

router = APIRouter(include_in_schema=False)

PAGE = 50

Cursor = Annotated[str | None, Query(max_length=100)]


@router.get("/alerts")
def list_alerts(
    request: Request,
    visitor: SignedIn,
    show: Annotated[str | None, Query(max_length=20)] = None,
    cursor: Cursor = None,
) -> Response:
    """The open ones; `show=all`: those that are over too."""
    wanted = alerts.Wanted(status=None if show == "all" else FIRING)
    found = alerts.list_alerts(visitor.principal, services_of(request), Ask(PAGE, cursor), wanted)
    values = {"visitor": visitor, "lines": found.items, "is_all": show == "all"}
    return page(request, "alerts.html", values | paging(request, cursor, found.next_cursor))


@router.post("/alerts/{alert_id}/ack")
def acknowledge(
    request: Request,
    visitor: Acting,
    alert_id: str,
    next: Annotated[str, Form(max_length=500)] = "/alerts",  # noqa: A002  the form says `next`
    comment: Annotated[str, Form(max_length=2000)] = "",
) -> Response:
    body = AckBody(comment=comment.strip() or None)
    alerts.acknowledge(alert_id, visitor.principal, services_of(request), body)
    return RedirectResponse(local_path(next), 303, HEADERS)
