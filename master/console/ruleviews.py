"""The pages of silences and on-call lists: what holds now, and forms that do what the API would do."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any
from zoneinfo import ZoneInfo

from fastapi import APIRouter, Depends, Form, Query, Request
from pydantic import BaseModel, ValidationError
from sqlalchemy.orm import Session
from starlette.responses import RedirectResponse, Response

from master.console.render import HEADERS, page, paging
from master.console.session import Acting, SignedIn, services_of
from master.console.show import Clock
from notifier import oncalls, silencebook
from notifier.api import oncall, silences
from notifier.model import Oncall
from notifier.oncall import WEEKDAYS, Override, Spec, readable
from notifier.oncall import zone_of as oncall_zone
from notifier.oncalls import OncallBody, OncallDocument
from notifier.pages import Ask
from notifier.problems import invalid, of_validation
from notifier.silencebook import SilenceBody
from notifier.silencing import OPERATORS
from notifier.storage import zone_of

router = APIRouter(include_in_schema=False)

PAGE = 50
ROWS = 3  # matchers of the form
SPANS = {"1h": 3600, "4h": 4 * 3600, "24h": 86_400, "7d": 7 * 86_400}
Word = Annotated[str, Form(max_length=1024)]
Words = Annotated[list[Annotated[str, Form(max_length=1024)]], Form(max_length=20)]
Cursor = Annotated[str | None, Query(max_length=100)]


@router.get("/silences")
def list_silences(request: Request, visitor: SignedIn, cursor: Cursor = None) -> Response:
    services = services_of(request)
    with services.store.read() as session:
        now = services.store.now(session)
        found = silencebook.listed(session, visitor.principal, Ask(PAGE, cursor))
        lines = [silencebook.document(row, now) for row in found.rows]
    values = {"visitor": visitor, "lines": lines, "operators": OPERATORS, "spans": list(SPANS), "rows": ROWS}
    return page(request, "silences.html", values | paging(request, cursor, found.next_cursor))


@router.post("/silences")
def silence(
    request: Request,
    visitor: Acting,
    name: Words,
    op: Words,
    value: Words,
    span: Word = "1h",
    comment: Word = "",
) -> Response:
    if span not in SPANS:
        raise invalid("span", f"give one of {', '.join(SPANS)}")
    matchers = [
        {"name": one[0].strip(), "op": one[1], "value": one[2]}
        for one in zip(name, op, value, strict=False)
        if one[0].strip()
    ]
    given = {"matchers": matchers, "duration_s": SPANS[span], "comment": comment}
    silences.create(_body(SilenceBody, given), visitor.principal, services_of(request))
    return _to("/silences")


@router.post("/silences/{silence_id}/end")
def end_silence(request: Request, visitor: Acting, silence_id: str) -> Response:
    silences.end(silence_id, visitor.principal, services_of(request))
    return _to("/silences")


@router.get("/oncall")
def list_lists(request: Request, visitor: SignedIn, cursor: Cursor = None) -> Response:
    services = services_of(request)
    with services.store.read() as session:
        now = services.store.now(session)
        found = oncalls.listed(session, visitor.principal, Ask(PAGE, cursor))
        lines = [_shown(session, row, now) for row in found.rows]
        here = zone_of(session)
    today = f"{now.astimezone(here):%Y-%m-%d}"
    values = {"visitor": visitor, "lines": lines, "today": today, "zone": here.key, "weekdays": WEEKDAYS}
    return page(request, "oncall.html", values | paging(request, cursor, found.next_cursor))


@dataclass(frozen=True)
class ListForm:
    """`people` as in `alice, bob=bob-im bob-sms`; the weekday is of weekly turns."""

    name: Word
    people: Word
    start: Word
    turn: Word = "weekly"
    weekday: Word = ""
    handover: Word = "09:00"
    timezone: Word = ""

    def given(self) -> dict[str, Any]:
        return {
            "name": self.name.strip(),
            "turn": self.turn,
            "weekday": (self.weekday or None) if self.turn == "weekly" else None,
            "handover": self.handover,
            "timezone": self.timezone.strip() or None,
            "start": self.start,
            "people": [_person(one) for one in self.people.split(",") if one.strip()],
        }


@router.post("/oncall")
def add_list(request: Request, visitor: Acting, form: Annotated[ListForm, Depends()]) -> Response:
    oncall.create(_body(OncallBody, form.given()), visitor.principal, services_of(request))
    return _to("/oncall")


@router.post("/oncall/{name}/override")
def override(
    request: Request, visitor: Acting, name: str, person: Word, since: Word, until: Word, scope: Word = ""
) -> Response:
    """Somebody of the list stands in, between two times of the list's zone."""
    with services_of(request).store.read() as session:
        row = oncalls.find(session, visitor.principal, name, scope or None)
        zone = _zone(session, readable(row.spec))
    span = {"from": _moment("from", since, zone), "until": _moment("until", until, zone)}
    given = _body(Override, {**span, "person": person})
    oncall.add_override(name, given, visitor.principal, services_of(request), scope or None)
    return _to("/oncall")


@router.post("/oncall/{name}/delete")
def delete_list(request: Request, visitor: Acting, name: str, scope: Word = "") -> Response:
    oncall.delete(name, visitor.principal, services_of(request), scope or None)
    return _to("/oncall")


@dataclass(frozen=True)
class Shown:
    """A list with its times by its own clock."""

    document: OncallDocument
    clock: Clock
    zone: str
    overrides: Sequence[Override]


def _shown(session: Session, row: Oncall, now: datetime) -> Shown:
    spec = readable(row.spec)
    zone = _zone(session, spec)
    overrides = spec.overrides if spec is not None else ()
    return Shown(oncalls.document(session, row, now), Clock(zone.key), zone.key, overrides)


def _body(model: type[Any], given: dict[str, Any]) -> Any:
    """Raises a problem in the words of the API."""
    assert issubclass(model, BaseModel)  # noqa: S101
    try:
        return model.model_validate(given)
    except ValidationError as error:
        raise of_validation(error, under="", model=model) from None


def _person(text: str) -> Any:
    name, equals, channels = text.strip().partition("=")
    return {"name": name.strip(), "channels": channels.split()} if equals else name


def _moment(field: str, text: str, zone: ZoneInfo) -> str:
    """A `datetime-local` input gives a local time."""
    try:
        given = datetime.fromisoformat(text)
        return (given if given.tzinfo else given.replace(tzinfo=zone)).isoformat()
    except (ValueError, OverflowError):
        raise invalid(field, "give a time such as 2026-12-24 09:00") from None


def _zone(session: Session, spec: Spec | None) -> ZoneInfo:
    return oncall_zone(spec, zone_of(session)) if spec is not None else zone_of(session)


def _to(path: str) -> Response:
    return RedirectResponse(path, 303, HEADERS)
