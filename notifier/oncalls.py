"""On-call lists as the API takes and answers them: made, found, changed, taken away."""

from datetime import datetime
from typing import Any

from pydantic import Field, ValidationError
from sqlalchemy import select
from sqlalchemy.orm import Session

from notifier import names, strays
from notifier.auth import Principal
from notifier.documents import ChannelName, Document, Moment, Scope, scope_of, split_scope
from notifier.ids import new_id
from notifier.lookup import lookup
from notifier.model import Oncall
from notifier.oncall import Override, Spec, Turn, readable, turn
from notifier.pages import Ask, Page, page
from notifier.problems import Problem, conflict, invalid, not_found, of_validation
from notifier.storage import zone_of

SAME_NAME = "names somebody with other channels before: give one person the same each time, two two names"


class OncallBody(Spec):
    """An on-call list to be made."""

    name: ChannelName
    scope: Scope | None = None


class OncallChange(Spec):
    """A list as it shall be from now on: what GET answers may be sent back with changes."""

    name: str | None = None
    scope: str | None = None
    id: str | None = Field(default=None, description="ignored, like all that the server alone knows")
    missing: list[str] | None = None
    now: dict[str, Any] | None = None
    created_at: str | None = None
    updated_at: str | None = None


class TurnDocument(Document):
    """Who has the turn. `since` null: the list has not begun, and the first of it answers."""

    person: str
    channels: list[str]
    since: Moment | None
    until: Moment = Field(description="when another turn or an override begins")
    override: bool


class OncallDocument(Document):
    id: str
    name: str
    scope: str
    turn: str
    handover: str
    weekday: str | None
    timezone: str | None
    start: str
    people: list[dict[str, Any]]
    overrides: list[dict[str, Any]]
    missing: list[str] = Field(description="channels that it names and that are not there any more")
    now: TurnDocument | None = Field(description="who has the turn, now or `at` the moment asked for")
    created_at: Moment
    updated_at: Moment


def create(session: Session, body: OncallBody, scope: tuple[str, str], now: datetime) -> Oncall:
    """The new row.

    Raises:
        Problem: the name is taken (409), or a channel is not there (422).
    """
    names.take(session, scope, body.name, Oncall)
    _check(session, body, scope)
    row = Oncall(
        id=new_id("onc", now), pool=scope[0], queue=scope[1], name=body.name, version=0, created_at=now
    )
    _write(row, body, now)
    session.add(row)
    session.flush()
    return row


def change(session: Session, row: Oncall, body: OncallChange, now: datetime) -> None:
    """Replaces all that may change.

    Raises:
        Problem: it names another name or scope, or a channel that is not there (422).
    """
    for field, value in {"name": row.name, "scope": scope_of(row.pool, row.queue)}.items():
        if getattr(body, field) not in {None, value}:
            raise invalid(field, f"cannot be changed from {value}: make another list instead")
    _check(session, body, (row.pool, row.queue))
    _write(row, body, now)
    session.flush()


def add_override(session: Session, row: Oncall, one: Override, now: datetime) -> None:
    """Somebody stands in for a time; whatever else the list names may be gone.

    Raises:
        Problem: it names somebody who is not there or cannot be told, or a channel that is not there (422).
    """
    scope = (row.pool, row.queue)
    people = {person["name"]: person["channels"] for person in row.spec["people"]}
    if one.channels is not None:
        errors = _missing(session, scope, [(f"channels.{n}", name) for n, name in enumerate(one.channels)])
        if errors:
            raise Problem(422, errors=errors)
    elif one.person not in people:
        raise invalid("person", "is not in people; give channels too, or one of people")
    elif not lookup(session, *scope, set(people[one.person])):
        names = ", ".join(people[one.person])
        raise invalid("person", f"is reached by {names}, and no such channel is there: give channels too")
    overrides = [*row.spec["overrides"], one.model_dump(mode="json", by_alias=True)]
    try:
        body = Spec.model_validate({**row.spec, "overrides": overrides})
    except ValidationError as error:
        raise of_validation(error, under="", model=Spec) from None
    _write(row, body, now)
    session.flush()


def find(
    session: Session, principal: Principal, name: str, scope: str | None = None, *, lock: bool = False
) -> Oncall:
    """The list of that name within the principal's reach.

    Raises:
        Problem: there is none (404), or there are several and no scope says which (409).
    """
    rows = select(Oncall).where(Oncall.name == name, principal.only(Oncall.pool, Oncall.queue))
    if scope is not None:
        pool, queue = split_scope(scope)
        rows = rows.where(Oncall.pool == pool, Oncall.queue == queue)
    found = session.scalars((rows.with_for_update() if lock else rows).limit(2)).all()
    if not found:
        raise not_found("on-call list", name)
    if len(found) > 1:
        raise conflict(f"several scopes have a list {name}: say which by ?scope=POOL or ?scope=POOL/QUEUE")
    return found[0]


def listed(session: Session, principal: Principal, ask: Ask) -> Page[Oncall]:
    return page(session, select(Oncall).where(principal.only(Oncall.pool, Oncall.queue)), Oncall.id, ask)


def document(session: Session, row: Oncall, at: datetime) -> OncallDocument:
    stored = row.spec
    return OncallDocument(
        id=row.id,
        name=row.name,
        scope=scope_of(row.pool, row.queue),
        turn=stored["turn"],
        handover=stored["handover"],
        weekday=stored["weekday"],
        timezone=stored["timezone"],
        start=stored["start"],
        people=stored["people"],
        overrides=stored["overrides"],
        missing=strays.of_list(session, row, at),
        now=_shown(readable(row.spec), session, at),
        created_at=row.created_at,
        updated_at=row.updated_at,
    )


def _shown(spec: Spec | None, session: Session, at: datetime) -> TurnDocument | None:
    return None if spec is None else _turn_document(turn(spec, at, zone_of(session)))


def _turn_document(found: Turn) -> TurnDocument:
    return TurnDocument(
        person=found.person,
        channels=list(found.channels),
        since=found.since,
        until=found.until,
        override=found.is_override,
    )


def _write(row: Oncall, body: Spec, now: datetime) -> None:
    row.spec = body.model_dump(mode="json", by_alias=True, include=set(Spec.model_fields))
    row.version += 1
    row.updated_at = now


def _check(session: Session, body: Spec, scope: tuple[str, str]) -> None:
    """Every channel that it names must be there: a list's people are reached by channels, not by lists."""
    errors = _missing(session, scope, body.channel_names())
    reached: dict[str, list[str]] = {}
    for n, person in enumerate(body.people):
        if sorted(reached.setdefault(person.name, person.channels)) != sorted(person.channels):
            errors.append((f"people.{n}.name", SAME_NAME))
    if errors:
        raise Problem(422, errors=errors)


def _missing(
    session: Session, scope: tuple[str, str], places: list[tuple[str, str]]
) -> list[tuple[str, str]]:
    """Of names by place those that are no channel there."""
    known = lookup(session, *scope, {name for _, name in places})
    where = f"{scope_of(*scope)} or {scope[0]}" if scope[1] else scope[0]
    return [(place, f"there is no channel {name} in {where}") for place, name in places if name not in known]
