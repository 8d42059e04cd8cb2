"""Finds deliveries by words and by several filters at once, newest first, in a time that does not grow with
the log.

Three stretches by id: what is newer than the index, what is in it, what is older (until an upgrade's old rows
have been read). Whatever is found is looked at itself, so the index may be behind, and the answer is true all
the same.
"""

import heapq
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, groupby, islice
from operator import attrgetter
from typing import Any

from sqlalchemy import Row, Select, bindparam, func, or_, select
from sqlalchemy.orm import Session

from notifier import searchtexts
from notifier.among import among
from notifier.deliverydocuments import COLUMNS, ROW
from notifier.meeting import lots
from notifier.searchmodel import PLACES, SearchBlock, SearchSlot, SearchWatch
from notifier.words import Question, answers

MOST = 5000  # deliveries that one request looks at; then it says where to go on
READ = 1000  # … whose texts it reads
WATCHED = 2000  # unsettled deliveries that are compared with the index
MANY = 512  # deliveries looked at together, at most
FEW = 16  # … at least, where newer blocks had some already

SLOT: Any = SearchSlot.__table__.c
_BY_ID = select(*COLUMNS).where(among(ROW.id, "some"))
_BY_SLOT = select(*COLUMNS).where(ROW.id == SLOT.delivery_id, among(SLOT.slot, "some"))
_IDS_BY_SLOT = select(SLOT.delivery_id).where(among(SLOT.slot, "some"))
_WATCH: Any = (
    select(SearchWatch.__table__)
    .order_by(SearchWatch.__table__.c.delivery_id.desc())
    .limit(WATCHED)
    .subquery()
    .c
)
_CHANGED = select(ROW.id).where(
    ROW.id == _WATCH.delivery_id,
    or_(ROW.state != _WATCH.state, ROW.attempt_count != _WATCH.attempt_count),
)
BLOCK: Any = SearchBlock.__table__.c
_ENDS = (
    select(BLOCK.block, BLOCK.after_id, BLOCK.last_id)
    .where(BLOCK.block.in_(select(func.min(BLOCK.block)).union(select(func.max(BLOCK.block)))))
    .order_by(BLOCK.block)
)
_NEWEST = select(SLOT.slot).where(SLOT.delivery_id < bindparam("one")).order_by(SLOT.delivery_id.desc())
_OLDEST = select(SLOT.slot).where(SLOT.delivery_id > bindparam("one")).order_by(SLOT.delivery_id)
_by_id = attrgetter("id")


@dataclass(frozen=True)
class Span:
    """Ids above `above` and below `below`; None: no bound."""

    above: str = ""
    below: str | None = None

    def narrowed(self, rows: Select[Any]) -> Select[Any]:
        rows = rows.where(ROW.id > self.above) if self.above else rows
        return rows if self.below is None else rows.where(ROW.id < self.below)

    def holds(self, delivery_id: str) -> bool:
        return delivery_id > self.above and (self.below is None or delivery_id < self.below)


@dataclass(frozen=True)
class Sought:
    """What is looked for.

    Attributes:
        rows: `COLUMNS` of deliveries with all filters applied.
        terms: all under which the index has it; none: it is found without the index.
        fits: the filters, of a delivery that the index names.
        question: words that are looked for in its text, or None.
    """

    rows: Select[Any]
    terms: frozenset[bytes]
    fits: Callable[[Row[Any]], bool]
    question: Question | None = None


@dataclass(frozen=True)
class Found:
    """`goes_on_at`: there may be more below that id."""

    rows: Sequence[Row[Any]]
    goes_on_at: str | None = None


def find(session: Session, sought: Sought, span: Span, limit: int) -> Found:
    """The newest in that span."""
    kept: list[Row[Any]] = []
    looked, read, size = 0, 0, limit + 1
    rows = _candidates(session, sought, span, size)
    while some := list(islice(rows, size)):
        fitting = [row for row in some if sought.fits(row)]
        kept += _answering(session, fitting, sought.question)
        if len(kept) > limit:
            return Found(kept[:limit], kept[limit - 1].id)
        looked, read, size = looked + len(some), read + len(fitting), min(2 * size, MANY)
        if looked >= MOST or (sought.question is not None and read >= READ):
            return Found(kept, some[-1].id)
    return Found(kept)


def _answering(session: Session, rows: Sequence[Row[Any]], asked: Question | None) -> Sequence[Row[Any]]:
    """Its own text is read first: mostly that is enough."""
    if asked is None:
        return rows
    rest = [row for row in rows if not answers(searchtexts.own_text(row), asked)]
    whole = searchtexts.texts(session, rest) if rest else {}
    return [row for row in rows if row.id not in whole or answers(whole[row.id], asked)]


def _candidates(session: Session, sought: Sought, span: Span, size: int) -> Iterator[Row[Any]]:
    """The newest first, `size` of them and then more at a time; no matching one is missing."""
    reach = _Reach.of(session) if sought.terms else None
    if reach is None:
        return _walked(session, sought, span, size)
    above = max(span.above, reach.last_id)
    newer = _walked(session, sought, Span(above, span.below), size)
    within = Span(max(span.above, reach.after_id), _least(span.below, reach.last_id + "~"))
    indexed = _indexed(session, sought.terms, within, reach, size)
    # What changed is asked for first: the index may read it in the midst, and then it is nowhere else.
    both = chain(newer, _merged(_watched(session, within, size), indexed))
    if not reach.after_id:
        return both
    older = _walked(session, sought, Span(span.above, _least(span.below, reach.after_id + "~")), size)
    return chain(both, older)


def _merged(one: Iterator[Row[Any]], other: Iterator[Row[Any]]) -> Iterator[Row[Any]]:
    for _, same in groupby(heapq.merge(one, other, key=_by_id, reverse=True), _by_id):
        yield next(same)


def _least(one: str | None, other: str) -> str:
    return other if one is None else min(one, other)


def _walked(session: Session, sought: Sought, span: Span, size: int) -> Iterator[Row[Any]]:
    """By the database's own means."""
    rows = span.narrowed(sought.rows).order_by(ROW.id.desc())
    below: str | None = None
    while True:
        rest = rows if below is None else rows.where(ROW.id < below)
        some = session.execute(rest.limit(size)).all()
        yield from some
        if len(some) < size:
            return
        below, size = some[-1].id, min(2 * size, MANY)


@dataclass(frozen=True)
class _Reach:
    """Which ids the index has, in which blocks."""

    after_id: str
    last_id: str
    bottom: int
    top: int

    @classmethod
    def of(cls, session: Session) -> "_Reach | None":
        rows = session.execute(_ENDS).all()
        if not rows:
            return None
        return cls(rows[0].after_id, rows[-1].last_id, rows[0].block, rows[-1].block)


def _indexed(
    session: Session, terms: frozenset[bytes], span: Span, reach: _Reach, size: int
) -> Iterator[Row[Any]]:
    top, cut = _start(session, span, reach)
    bottom = _end(session, span, reach)
    if top < bottom:
        return
    for lot in lots(session, terms, bottom, top):
        inside = _looked_up(session, _BY_SLOT, lot.slots(top * PLACES + cut), size)
        behind = sorted(_ids(session, lot.behind()), reverse=True)
        late = _looked_up(session, _BY_ID, iter(behind), size)
        for row in heapq.merge(inside, late, key=_by_id, reverse=True):
            if span.holds(row.id):
                yield row
                size = max(FEW, size - 1)


def _looked_up(session: Session, rows: Select[Any], keys: Iterator[Any], size: int) -> Iterator[Row[Any]]:
    """Of keys in the order of their deliveries, the newest first."""
    while some := list(islice(keys, size)):
        yield from sorted(session.execute(rows, {"some": some}).all(), key=_by_id, reverse=True)
        size = min(2 * size, MANY)


def _ids(session: Session, slots: Sequence[int]) -> Sequence[str]:
    return session.scalars(_IDS_BY_SLOT, {"some": slots}).all() if slots else ()


def _start(session: Session, span: Span, reach: _Reach) -> tuple[int, int]:
    """The newest block of the span, and a place of it: those above, unless they are late, lie outside."""
    if span.below is None or span.below > reach.last_id:
        return reach.top, PLACES - 1
    slot = session.scalar(_NEWEST.limit(1), {"one": span.below})
    return (reach.bottom - 1, 0) if slot is None else divmod(slot, PLACES)


def _end(session: Session, span: Span, reach: _Reach) -> int:
    """The oldest block of the span."""
    if span.above <= reach.after_id:
        return reach.bottom
    slot = session.scalar(_OLDEST.limit(1), {"one": span.above})
    return reach.top + 1 if slot is None else max(reach.bottom, slot // PLACES)


def _watched(session: Session, span: Span, size: int) -> Iterator[Row[Any]]:
    """Those of which the index has something else than what they are now."""
    changed = sorted((one for one in session.scalars(_CHANGED) if span.holds(one)), reverse=True)
    yield from _looked_up(session, _BY_ID, iter(changed), size)
