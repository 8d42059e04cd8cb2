"""Finds deliveries by words and by several filters at once, newest first, in a time that does not grow with
the log.

Three stretches by id: what is newer than the index, what is in it, what is older (until an upgrade's old rows
have been read). Whatever is found is looked at itself, so the index may be behind, and the answer is true all
the same.
"""

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, groupby, islice

from sqlalchemy import ColumnElement, Select, bindparam, func, or_, select
from sqlalchemy.orm import Session

from notifier import bitmaps, searchtexts
from notifier.model import Delivery
from notifier.searchmodel import LATE, PLACES, SearchBits, SearchBlock, SearchSlot, SearchWatch
from notifier.words import Question, answers

MOST = 5000  # deliveries that one request looks at; then it says where to go on
READ = 1000  # … whose texts it reads
WATCHED = 2000  # unsettled deliveries that are compared with the index
FIRST, GROWS = 16, 4  # blocks of the first look, and by how much the next one is wider
SOME, MANY = 52, 512  # deliveries looked at together


_BY_ID = (
    select(Delivery).where(Delivery.id.in_(bindparam("ids", expanding=True))).order_by(Delivery.id.desc())
)
_NEWEST = select(SearchWatch).order_by(SearchWatch.delivery_id.desc()).limit(WATCHED).subquery()
_CHANGED = (
    select(Delivery.id)
    .join(_NEWEST, _NEWEST.c.delivery_id == Delivery.id)
    .where(or_(Delivery.state != _NEWEST.c.state, Delivery.attempt_count != _NEWEST.c.attempt_count))
)


@dataclass(frozen=True)
class Span:
    """Ids above `above` and below `below`; None: no bound."""

    above: str = ""
    below: str | None = None

    def narrowed(self, rows: Select[Delivery]) -> Select[Delivery]:
        rows = rows.where(Delivery.id > self.above) if self.above else rows
        return rows if self.below is None else rows.where(Delivery.id < self.below)

    def holds(self, delivery_id: str) -> bool:
        return delivery_id > self.above and (self.below is None or delivery_id < self.below)


@dataclass(frozen=True)
class Sought:
    """What is looked for.

    Attributes:
        rows: deliveries with all filters applied.
        terms: all under which the index has it; none: it is found without the index.
        fits: the filters, of a delivery that the index names.
        question: words that are looked for in its text, or None.
    """

    rows: Select[Delivery]
    terms: frozenset[bytes]
    fits: Callable[[Delivery], bool]
    question: Question | None = None


@dataclass(frozen=True)
class Found:
    """`goes_on_at`: there may be more below that id."""

    rows: Sequence[Delivery]
    goes_on_at: str | None = None


def find(session: Session, sought: Sought, span: Span, limit: int) -> Found:
    """The newest in that span."""
    kept: list[Delivery] = []
    looked, read, size = 0, 0, limit + 1
    ids = _candidates(session, sought, span)
    while some := list(islice(ids, size)):
        found = session.scalars(_BY_ID, {"ids": some})
        rows = [row for row in found if sought.fits(row)]
        kept += _answering(session, rows, sought.question)
        if len(kept) > limit:
            return Found(kept[:limit], kept[limit - 1].id)
        looked, read, size = looked + len(some), read + len(rows), min(2 * size, MANY)
        if looked >= MOST or (sought.question is not None and read >= READ):
            return Found(kept, some[-1])
    return Found(kept)


def _answering(session: Session, rows: Sequence[Delivery], asked: Question | None) -> Sequence[Delivery]:
    """Its own text is read first: mostly that is enough."""
    if asked is None:
        return rows
    texts = {row.id: searchtexts.own_text(row) for row in rows}
    rest = [row for row in rows if not answers(texts[row.id], asked)]
    whole = searchtexts.texts(session, rest) if rest else {}
    return [row for row in rows if row.id not in whole or answers(whole[row.id], asked)]


def _candidates(session: Session, sought: Sought, span: Span) -> Iterator[str]:
    """Ids, the newest first; no matching one is missing."""
    reach = _Reach.of(session) if sought.terms else None
    if reach is None:
        return _walked(session, sought, span)
    above = max(span.above, reach.last_id)
    newer = _walked(session, sought, Span(above, span.below))
    within = Span(max(span.above, reach.after_id), _least(span.below, reach.last_id + "~"))
    indexed = _indexed(session, sought.terms, within, reach)
    watched = _watched(session, within)
    both = (one for one, _ in groupby(heapq.merge(indexed, watched, reverse=True)))
    if not reach.after_id:
        return chain(newer, both)
    older = _walked(session, sought, Span(span.above, _least(span.below, reach.after_id + "~")))
    return chain(newer, both, older)


def _least(one: str | None, other: str) -> str:
    return other if one is None else min(one, other)


def _walked(session: Session, sought: Sought, span: Span) -> Iterator[str]:
    """By the database's own means."""
    ids = span.narrowed(sought.rows).with_only_columns(Delivery.id).order_by(Delivery.id.desc())
    below: str | None = None
    while True:
        rest = ids if below is None else ids.where(Delivery.id < below)
        some = session.scalars(rest.limit(MANY)).all()
        yield from some
        if len(some) < MANY:
            return
        below = some[-1]


@dataclass(frozen=True)
class _Reach:
    """Which ids the index has, in which blocks."""

    after_id: str
    last_id: str
    bottom: int
    top: int

    @classmethod
    def of(cls, session: Session) -> "_Reach | None":
        ends = select(func.min(SearchBlock.block)).union(select(func.max(SearchBlock.block)))
        columns = (SearchBlock.block, SearchBlock.after_id, SearchBlock.last_id)
        rows = session.execute(select(*columns).where(SearchBlock.block.in_(ends)).order_by(columns[0])).all()
        if not rows:
            return None
        return cls(rows[0].after_id, rows[-1].last_id, rows[0].block, rows[-1].block)


def _indexed(session: Session, terms: Iterable[bytes], span: Span, reach: _Reach) -> Iterator[str]:
    top, cut = _start(session, span, reach)
    size, wanted = FIRST, sorted(terms)
    while top >= reach.bottom:
        low = max(reach.bottom, top - size + 1)
        yield from _of_blocks(session, wanted, (low, top), (span, cut))
        if span.above and _is_past(session, low, span.above):
            return
        top, size, cut = low - 1, size * GROWS, PLACES
    return


def _start(session: Session, span: Span, reach: _Reach) -> tuple[int, int]:
    """The newest block of the span, and the last place of it that lies within."""
    if span.below is None or span.below > reach.last_id:
        return reach.top, PLACES
    block = session.scalar(select(func.max(SearchBlock.block)).where(SearchBlock.after_id < span.below))
    if block is None:
        return reach.bottom - 1, PLACES
    late = session.scalar(select(SearchBits.bits).where(SearchBits.term == LATE, SearchBits.block == block))
    places = set(bitmaps.descending(late)) if late else set()
    slots = select(SearchSlot.slot).where(SearchSlot.delivery_id < span.below)
    for slot in session.scalars(slots.order_by(SearchSlot.delivery_id.desc()).limit(len(places) + 1)):
        if slot // PLACES != block:
            return block, -1
        if slot % PLACES not in places:
            return block, slot % PLACES
    return block, -1


def _is_past(session: Session, block: int, above: str) -> bool:
    after = session.scalar(select(SearchBlock.after_id).where(SearchBlock.block == block))
    return after is not None and after <= above


def _of_blocks(
    session: Session, terms: Sequence[bytes], blocks: tuple[int, int], bounds: tuple[Span, int]
) -> Iterator[str]:
    """Ids of the blocks from, to. `bounds`: which ids, and the last place of the newest block."""
    low, top = blocks
    span, cut = bounds
    rows = select(SearchBits.term, SearchBits.block, SearchBits.bits).where(
        SearchBits.term.in_([*terms, LATE]), _worth(session, terms, low, top)
    )
    sets: dict[int, list[bytes]] = {}
    late: dict[int, frozenset[int]] = {}
    for row in session.execute(rows):
        if row.term == LATE:
            late[row.block] = frozenset(bitmaps.descending(row.bits))
        else:
            sets.setdefault(row.block, []).append(row.bits)
    both = {block: some for block, some in sets.items() if len(some) == len(terms)}
    ordered = _Ordered(both, late, {top: cut})
    behind = sorted((one for some in _ids(session, ordered.behind(), MANY) for one in some), reverse=True)
    inside = chain.from_iterable(_ids(session, ordered.slots(), SOME))
    for one in heapq.merge(inside, behind, reverse=True):
        if span.above and one <= span.above and one not in behind:
            return
        if span.holds(one):
            yield one


def _worth(session: Session, terms: Sequence[bytes], low: int, top: int) -> ColumnElement[bool]:
    """Which of many blocks are worth reading: those of the rarest term, if that is in few of them."""
    within = SearchBits.block.between(low, top)
    if len(terms) == 1 or top - low < FIRST:
        return within
    counts = select(SearchBits.term, func.count()).where(SearchBits.term.in_(terms), within)
    known = {term: many for term, many in session.execute(counts.group_by(SearchBits.term))}  # noqa: C416
    rarest = min(terms, key=lambda term: known.get(term, 0))
    if known.get(rarest, 0) * 2 > top - low:
        return within
    return SearchBits.block.in_(
        session.scalars(select(SearchBits.block).where(SearchBits.term == rarest, within)).all()
    )


@dataclass(frozen=True)
class _Ordered:
    """Slots in which all terms stand. `late`: places out of order; `cut`: last places, by block."""

    sets: dict[int, list[bytes]]
    late: dict[int, frozenset[int]]
    cut: dict[int, int] = field(default_factory=dict)

    def slots(self) -> Iterator[int]:
        """In order, the highest first."""
        for block in sorted(self.sets, reverse=True):
            late, cut = self.late.get(block, frozenset()), self.cut.get(block, PLACES)
            for place in bitmaps.common(self.sets[block]):
                if place <= cut and place not in late:
                    yield block * PLACES + place

    def behind(self) -> Iterator[int]:
        """The late ones."""
        for block, late in self.late.items():
            if block in self.sets:
                yield from (block * PLACES + one for one in bitmaps.common(self.sets[block]) if one in late)


def _ids(session: Session, slots: Iterator[int], size: int) -> Iterator[list[str]]:
    while some := list(islice(slots, size)):
        rows = select(SearchSlot.delivery_id).where(SearchSlot.slot.in_(some))
        yield sorted(session.scalars(rows), reverse=True)
        size = min(2 * size, MANY)


def _watched(session: Session, span: Span) -> list[str]:
    """Those of which the index has something else than what they are now."""
    return sorted((one for one in session.scalars(_CHANGED) if span.holds(one)), reverse=True)
