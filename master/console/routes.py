"""The pages that only show: jobs, fault events, deliveries, channels, nodes."""

from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, Query, Request
from sqlalchemy import select
from starlette.responses import PlainTextResponse, Response, StreamingResponse

from master import nodesignals
from master.api import insight
from master.console.deliveryviews import SPANS, Chosen, channel_names, steps_of
from master.console.jobviews import find_job, list_events, list_jobs, said, view_job
from master.console.render import HEADERS, page, paging
from master.console.session import (
    Refused,
    SignedIn,
    controller_of,
    language_of,
    services_of,
    words_of,
)
from master.console.show import Clock
from master.faultargs import FaultTolerance
from master.model import Node
from notifier import deliveries
from notifier.alertdocuments import document as alert_document
from notifier.api.deliveries import STATES
from notifier.bulkresend import resend_all
from notifier.clock import utcnow
from notifier.exporting import MEDIA_TYPES, Format, exported
from notifier.items import ITEMS
from notifier.model import Alert, Channel
from notifier.pages import Ask
from notifier.pages import page as rows_page

router = APIRouter(include_in_schema=False)

PAGE = 50
LIVE_S = 3
STATUSES = (
    "Created", "Starting", "Running", "Abnormal", "Restarting", "Stopping", "Stopped", "Succeeded", "Failed",
)  # fmt: skip
ENDED = frozenset({"Stopped", "Succeeded", "Failed"})

Cursor = Annotated[str | None, Query(max_length=100)]
Word = Annotated[str | None, Query(max_length=200)]


@router.get("/")
def jobs(request: Request, visitor: SignedIn, status: Word = None, cursor: Cursor = None) -> Response:
    if status and status not in STATUSES:
        raise Refused(422, "bad_input")
    with services_of(request).store.read() as session:
        lines, following = list_jobs(session, visitor.principal, Ask(PAGE, cursor), status)
    values = {"visitor": visitor, "lines": lines, "status": status, "statuses": STATUSES}
    return page(request, "jobs.html", values | paging(request, cursor, following))


@router.get("/jobs/{job_id}")
def job(request: Request, visitor: SignedIn, job_id: str, live: Word = None) -> Response:
    with services_of(request).store.read() as session:
        found = find_job(session, visitor.principal, job_id)
        if found is None:
            raise Refused(404, "not_found")
        view = view_job(session, found, language_of(request), utcnow())
    is_active = found.status not in ENDED
    values = {
        "visitor": visitor,
        "view": view,
        "tolerance": FaultTolerance.of(found.fault_tolerance),
        "is_active": is_active,
        "refresh_s": LIVE_S if live and is_active else None,
    }
    return page(request, "job.html", values)


@router.get("/jobs/{job_id}/logs")
def logs(request: Request, visitor: SignedIn, job_id: str, pod: Word = None) -> Response:
    """The end of a pod's log, as plain text: no browser takes it for anything else."""
    asked = insight.LogQuery(pod=pod or None, limit=insight.MAX_LOG)
    piece = insight.logs(job_id, visitor.principal, services_of(request), controller_of(request), asked)
    return PlainTextResponse(piece["text"], headers=HEADERS)


@router.get("/events")
def events(request: Request, visitor: SignedIn, cursor: Cursor = None) -> Response:
    with services_of(request).store.read() as session:
        found, following = list_events(session, visitor.principal, Ask(PAGE, cursor))
    language = language_of(request)
    lines = [(event, job, said(event.reason, language)) for event, job in found]
    values = {"visitor": visitor, "lines": lines}
    return page(request, "events.html", values | paging(request, cursor, following))


def chosen_of(
    *,
    job: Word = None,
    channel: Word = None,
    item: Word = None,
    state: Word = None,
    last: Word = None,
    q: Word = None,
) -> Chosen:
    for value, known in ((item, ITEMS), (state, STATES), (last, SPANS)):
        if value and value not in known:
            raise Refused(422, "bad_input")  # all of the log is not what was asked for
    return Chosen(job=job, channel=channel, item=item, state=state, last=last, q=q)


@router.get("/deliveries")
def list_deliveries(
    request: Request, visitor: SignedIn, chosen: Annotated[Chosen, Depends(chosen_of)], cursor: Cursor = None
) -> Response:
    with services_of(request).store.read() as session:
        found = deliveries.listed(session, visitor.principal, chosen.filters(utcnow()), Ask(PAGE, cursor))
        names = channel_names(session, visitor.principal)
    values = {
        "visitor": visitor,
        "rows": found.items,
        "chosen": chosen,
        "channels": names,
        "items": list(ITEMS),
        "states": STATES,
        "asked": urlencode({name: value for name, value in vars(chosen).items() if value}),
    }
    return page(request, "deliveries.html", values | paging(request, cursor, found.next_cursor))


@router.get("/deliveries/export")
def export(
    request: Request,
    visitor: SignedIn,
    chosen: Annotated[Chosen, Depends(chosen_of)],
    how: Annotated[Format, Query(alias="format")] = Format.CSV,
) -> Response:
    found = exported(services_of(request).store, visitor.principal, chosen.filters(utcnow()), how)
    disposition = {"Content-Disposition": f'attachment; filename="deliveries.{how}"'}
    return StreamingResponse(found, media_type=MEDIA_TYPES[how], headers={**HEADERS, **disposition})


@router.get("/deliveries/resend")
def ask_resend(
    request: Request, visitor: SignedIn, chosen: Annotated[Chosen, Depends(chosen_of)]
) -> Response:
    """What would be sent again; the form on the page does it."""
    now, filters = utcnow(), chosen.filters(utcnow())
    with services_of(request).store.read() as session:
        counted = resend_all(session, visitor.principal, filters, None, now, dry_run=True).document
    values = {"visitor": visitor, "chosen": chosen, "counted": counted, "fields": chosen.query(now)}
    return page(request, "resend.html", values)


@router.get("/deliveries/{delivery_id}")
def delivery(request: Request, visitor: SignedIn, delivery_id: str) -> Response:
    services = services_of(request)
    with services.store.read() as session:
        row = deliveries.find(session, visitor.principal, delivery_id)
        document = deliveries.full(session, row)
        alert = session.get(Alert, row.alert_id) if row.alert_id else None
        its = alert_document(alert, services.store.now(session)) if alert is not None else None
    at = Clock(services.settings.timezone).clock(document.created_at)
    steps = steps_of(document, words_of(request), at)
    values = {"visitor": visitor, "row": document, "steps": steps, "alert": its}
    return page(request, "delivery.html", values)


@router.get("/channels")
def channels(request: Request, visitor: SignedIn, cursor: Cursor = None) -> Response:
    rows = select(Channel).where(visitor.principal.only(Channel.pool, Channel.queue))
    with services_of(request).store.read() as session:
        found = rows_page(session, rows, Channel.id, Ask(PAGE, cursor))
    values = {"visitor": visitor, "lines": found.rows}
    return page(request, "channels.html", values | paging(request, cursor, found.next_cursor))


@router.get("/nodes")
def nodes(request: Request, visitor: SignedIn) -> Response:
    rows = select(Node).order_by(Node.pool, Node.name)
    if visitor.principal.pool is not None:
        rows = rows.where(Node.pool == visitor.principal.pool)
    with services_of(request).store.read() as session:
        found = session.scalars(rows).all()
        signals = nodesignals.open_signals(session, [node.name for node in found], utcnow())
    return page(request, "nodes.html", {"visitor": visitor, "nodes": found, "signals": signals})
