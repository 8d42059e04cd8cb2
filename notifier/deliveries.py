"""The delivery log: what was told to whom, and where it was not, why; found by filters and words."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Row, Select, or_, select
from sqlalchemy.orm import Session

from notifier.auth import Principal
from notifier.deliverydocuments import (
    COLUMNS,
    ROW,
    AttemptDocument,
    DeliveryDocument,
    FullDeliveryDocument,
    documents,
    full,
    page_as_json,
)
from notifier.documents import Listed
from notifier.ids import first_id
from notifier.model import Delivery
from notifier.pages import Ask, Page, after, cursor_of, cut, upto
from notifier.problems import invalid, not_found
from notifier.searching import Sought, Span
from notifier.searching import find as sought_out
from notifier.searchtexts import filter_term, word_term
from notifier.words import Question, question

__all__ = [
    "AttemptDocument",
    "DeliveryDocument",
    "Filters",
    "FullDeliveryDocument",
    "documents",
    "find",
    "full",
    "listed",
    "listed_as_json",
    "rows_of",
]

DELIVERIES = Delivery.__tablename__
_ID = re.compile("(dlv|alr|evt|job)_[0-9a-z]{26}")
_SKEW = timedelta(seconds=5)  # by how much an id may run ahead of created_at: a clock was set back


@dataclass(frozen=True, kw_only=True)
class Filters:
    """What narrows the list; None does not. `q` is looked for in titles, texts and providers' answers."""

    job: str | None = None
    event: str | None = None
    alert: str | None = None
    channel: str | None = None
    kind: str | None = None
    item: str | None = None
    state: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    q: str | None = None

    @property
    def is_empty(self) -> bool:
        """Nothing is narrowed; blank words do not narrow."""
        return replace(self, q=None) == Filters() and not question(self.q or "").texts


def find(session: Session, principal: Principal, delivery_id: str) -> Delivery:
    """The row, if it lies within the principal's scope.

    Raises:
        Problem: there is none (404).
    """
    row = session.get(Delivery, delivery_id)
    if row is None or not principal.covers(row.pool, row.queue):
        raise not_found("delivery", delivery_id)
    return row


def listed(session: Session, principal: Principal, filters: Filters, ask: Ask) -> Listed[DeliveryDocument]:
    """One page, newest first. It may hold fewer than asked for and still name a next one."""
    found = rows_of(session, principal, filters, ask)
    return Listed(items=documents(session, found.rows), next_cursor=found.next_cursor)


def listed_as_json(session: Session, principal: Principal, filters: Filters, ask: Ask) -> str:
    """The same as it is answered."""
    found = rows_of(session, principal, filters, ask)
    return page_as_json(session, found.rows, found.next_cursor)


def rows_of(session: Session, principal: Principal, filters: Filters, ask: Ask) -> Page[Row[Any]]:
    """The same as rows of `COLUMNS`.

    Raises:
        Problem: `q` has no word in it, or the cursor is none of ours.
    """
    asked = _question(filters.q)
    rows = _narrowed(select(*COLUMNS).where(principal.only(ROW.pool, ROW.queue)), filters)
    named = (("alr", filters.alert), ("evt", filters.event), *asked.ids)
    for kind, one in named:
        if one is not None:
            rows = rows.where(_is(session, kind, one))
    is_few = bool(asked.ids or filters.alert or filters.event)
    terms = frozenset() if is_few else _terms(principal, filters)
    has_index = not terms or (len(terms) == 1 and (principal.pool is None or principal.queue is not None))
    if asked.question is None and has_index:  # of the database's own
        return cut(session.execute(upto(rows, ROW.id, ask)).all(), ROW.id, ask)
    if asked.question is not None and not is_few:
        terms |= {word_term(one) for one in asked.question.terms}
    sought = Sought(rows, terms, _fitting(principal, filters), asked.question)
    found = sought_out(session, sought, _span(filters, ask), ask.limit)
    return Page(found.rows, None if found.goes_on_at is None else cursor_of(found.goes_on_at, DELIVERIES))


def _terms(principal: Principal, filters: Filters) -> frozenset[bytes]:
    """What the index has of filters and scope."""
    named = {
        "job": filters.job, "channel": filters.channel, "kind": filters.kind, "item": filters.item,
        "state": filters.state,
    }  # fmt: skip
    if principal.pool is not None:
        name = "pool" if principal.queue is None else "scope"
        named[name] = principal.pool if principal.queue is None else f"{principal.pool}/{principal.queue}"
    return frozenset(filter_term(name, value) for name, value in named.items() if value is not None)


def _narrowed(rows: Select[Any], filters: Filters) -> Select[Any]:
    rows = rows.where(*(getattr(ROW, name) == value for name, value in _equal(filters).items()))
    if filters.since is not None:
        rows = rows.where(ROW.created_at >= filters.since, ROW.id >= first_id("dlv", filters.since))
    if filters.until is not None:
        last = first_id("dlv", filters.until + _SKEW)
        rows = rows.where(ROW.created_at < filters.until, ROW.id < last)
    return rows


def _fitting(principal: Principal, filters: Filters) -> Callable[[Row[Any]], bool]:
    """The same of a row that is there: a database that looks for it by id is not to be tempted by others."""
    equal = _equal(filters).items()

    def fits(row: Row[Any]) -> bool:
        return (
            principal.covers(row.pool, row.queue)
            and all(getattr(row, name) == value for name, value in equal)
            and (filters.since is None or row.created_at >= filters.since)
            and (filters.until is None or row.created_at < filters.until)
        )

    return fits


def _equal(filters: Filters) -> dict[str, str]:
    """Columns and what they are to be."""
    named = {
        "job_id": filters.job, "channel": filters.channel, "kind": filters.kind, "item": filters.item,
        "state": filters.state,
    }  # fmt: skip
    return {name: value for name, value in named.items() if value is not None}


def _span(filters: Filters, ask: Ask) -> Span:
    bounds = [after(ask.cursor, DELIVERIES)] if ask.cursor is not None else []
    if filters.until is not None:
        bounds.append(first_id("dlv", filters.until + _SKEW))
    above = first_id("dlv", filters.since)[:-1] if filters.since else ""  # below the least that fits
    return Span(above, min(bounds, default=None))


@dataclass(frozen=True)
class _Asked:
    """`q`: identifiers of ours in it, by kind, and the words."""

    ids: tuple[tuple[str, str], ...] = ()
    question: Question | None = None


def _question(q: str | None) -> _Asked:
    whole = question(q or "")
    ids = tuple((found[1], one) for one in whole.texts if (found := _ID.fullmatch(one)))
    named = {one for _, one in ids}
    rest = question(" ".join(one for one in whole.texts if one not in named))
    if rest.texts and not rest.terms and not ids:
        raise invalid("q", "give at least one word of letters or digits")
    return _Asked(ids, rest if rest.texts else None)


def _is(session: Session, kind: str, one: str) -> ColumnElement[bool]:
    """What an identifier names; digests too that tell of an alert or of an event."""
    columns = {"alr": ROW.alert_id, "evt": ROW.event_id, "job": ROW.job_id}
    if kind not in columns:
        return _among([one, *session.scalars(select(ROW.id).where(ROW.merged_into == one))])
    named: ColumnElement[bool] = columns[kind] == one
    if kind == "job":
        return named
    told_in = select(ROW.merged_into).where(named, ROW.merged_into.is_not(None)).distinct()
    digests = session.scalars(told_in).all()
    return or_(named, _among(digests)) if digests else named


def _among(ids: Sequence[str]) -> ColumnElement[bool]:
    found: ColumnElement[bool] = ROW.id.in_(ids)
    return found
