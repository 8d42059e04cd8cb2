"""Writes into the index of the delivery log: places in blocks, bitmaps of terms, what may still change.

Entries come from `indexing`, which reads; both see the same newest and oldest block, or nothing is written.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import delete, func, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from notifier import bitmaps, stretches
from notifier.ids import first_id
from notifier.lots import lots
from notifier.model import Delivery
from notifier.searchmodel import LATE, PLACES, SearchBits, SearchBlock, SearchSlot, SearchWatch

FULL = 15_360  # deliveries of a block: 1.9 KB for a word that all have, which PostgreSQL keeps in its row
OLD = 8192  # … of one from before an upgrade, which is written at once
LAG = timedelta(seconds=1)  # a transaction that began earlier has mostly been committed by then


@dataclass(frozen=True)
class Entry:
    """What the index is to say of a delivery."""

    id: str
    state: str
    attempt_count: int
    is_settled: bool
    terms: frozenset[bytes]


@dataclass(frozen=True)
class Found:
    """What is not in the index yet, seen when `top` was its newest block and `bottom` its oldest.

    Attributes:
        fresh: newer than all that is in it. `late`: committed after their neighbours.
        old: older than all that is in it, the newest first; None when there was no look.
        changed: in it, but with other words.
        checked: a block that holds all there ever was.
    """

    top: SearchBlock | None
    bottom: SearchBlock | None
    fresh: Sequence[Entry] = ()
    late: Sequence[Entry] = ()
    old: Sequence[Entry] | None = None
    changed: Sequence[Entry] = ()
    checked: int | None = None

    @property
    def count(self) -> int:
        return len(self.fresh) + len(self.late) + len(self.old or ()) + len(self.changed)


def end_of(session: Session, *, newest: bool) -> SearchBlock | None:
    """The newest block or the oldest; whoever writes holds it."""
    order = SearchBlock.block.desc() if newest else SearchBlock.block
    return session.scalars(select(SearchBlock).order_by(order).limit(1).with_for_update()).first()


def write(session: Session, found: Found, now: datetime) -> None:
    """What was seen, unless somebody else has written meanwhile."""
    _Writing(session).write(found, now)


@dataclass
class _Writing:
    """One write. `_bits`: places to be added, by block and term."""

    session: Session
    _bits: dict[int, dict[bytes, list[int]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(list))
    )
    _slots: list[dict[str, Any]] = field(default_factory=list)
    _new: set[int] = field(default_factory=set)

    def write(self, found: Found, now: datetime) -> None:
        top, bottom = end_of(self.session, newest=True), end_of(self.session, newest=False)
        if top is None or bottom is None:
            self._begin(now)
            return
        if found.top is None or found.bottom is None or top.last_id != found.top.last_id:
            return  # somebody else was here meanwhile
        self._append(top, found.fresh)
        if bottom.after_id == found.bottom.after_id and found.old is not None:
            self._prepend(bottom, found.old)
        for entry in found.late:
            self._squeeze_in(entry)
        self._note_changes(found.changed)
        if found.checked is not None:
            self.session.execute(
                update(SearchBlock).where(SearchBlock.block == found.checked).values(is_checked=True)
            )
        self._flush()
        self._watch([*found.fresh, *found.late, *(found.old or ()), *found.changed])

    def _begin(self, now: datetime) -> None:
        """All that is there now counts as old."""
        there = select(func.max(Delivery.id)).where(Delivery.id < first_id("dlv", now - LAG))
        start = self.session.scalar(there) or ""
        self._add_block(0, start, start)

    def _add_block(self, block: int, after_id: str, last_id: str, used: int = 0) -> SearchBlock:
        row = SearchBlock(block=block, after_id=after_id, last_id=last_id, used=used, is_checked=block < 0)
        self.session.add(row)
        self._new.add(block)
        return row

    def _append(self, block: SearchBlock, entries: Iterable[Entry]) -> None:
        for entry in entries:
            if block.used >= FULL:
                block = self._add_block(block.block + 1, block.last_id, block.last_id)
            self._place(block.block, block.used, entry)
            block.used, block.last_id = block.used + 1, entry.id

    def _prepend(self, bottom: SearchBlock, entries: Sequence[Entry]) -> None:
        """A block of its own; when it is not full there is nothing older."""
        if not entries:
            bottom.after_id = ""
            return
        after = entries[-1].id if len(entries) == OLD else ""
        kept = entries[:-1] if after else entries  # the oldest of them marks where the next look begins
        block = self._add_block(bottom.block - 1, after, bottom.after_id, len(kept))
        for place, entry in enumerate(reversed(kept)):
            self._place(block.block, place, entry)

    def _squeeze_in(self, entry: Entry) -> None:
        self.session.flush()
        where = (SearchBlock.after_id < entry.id, SearchBlock.last_id >= entry.id)
        block = self.session.scalars(select(SearchBlock).where(*where)).first()
        if block is None or block.used >= PLACES or self._slot(entry.id) is not None:
            return
        self._place(block.block, block.used, entry)
        self._bits[block.block][LATE].append(block.used)
        block.used += 1

    def _note_changes(self, entries: Sequence[Entry]) -> None:
        for entry in entries:
            slot = self._slot(entry.id)
            if slot is not None:
                block, place = divmod(slot, PLACES)
                for term in entry.terms:
                    self._bits[block][term].append(place)

    def _slot(self, delivery_id: str) -> int | None:
        return self.session.scalar(select(SearchSlot.slot).where(SearchSlot.delivery_id == delivery_id))

    def _place(self, block: int, place: int, entry: Entry) -> None:
        self._slots.append({"slot": block * PLACES + place, "delivery_id": entry.id})
        for term in entry.terms:
            self._bits[block][term].append(place)

    def _flush(self) -> None:
        self.session.flush()
        if self._slots:
            self.session.execute(SearchSlot.__table__.insert(), self._slots)  # type: ignore[attr-defined]
        stretches.forget(self.session, {n: some for n, some in self._bits.items() if n not in self._new})
        for block, places in self._bits.items():
            known = {} if block in self._new else self._known(block, places)
            rows = [
                {"term": term, "block": block, "bits": bitmaps.added(known.get(term, b""), some)}
                for term, some in sorted(places.items())
            ]
            _upsert(self.session, rows)

    def _known(self, block: int, terms: Iterable[bytes]) -> dict[bytes, bytes]:
        found: dict[bytes, bytes] = {}
        for some in lots(terms):
            rows = (
                select(SearchBits.term, SearchBits.bits)
                .where(SearchBits.block == block, SearchBits.term.in_(some))
                .with_for_update()
            )
            found |= {row.term: row.bits for row in self.session.execute(rows)}
        return found

    def _watch(self, entries: Sequence[Entry]) -> None:
        for some in lots(entry.id for entry in entries):
            self.session.execute(delete(SearchWatch).where(SearchWatch.delivery_id.in_(some)))
        rows = [
            {"delivery_id": entry.id, "state": entry.state, "attempt_count": entry.attempt_count}
            for entry in entries
            if not entry.is_settled
        ]
        if rows:
            self.session.execute(SearchWatch.__table__.insert(), rows)  # type: ignore[attr-defined]


def _upsert(session: Session, rows: Sequence[dict[str, Any]]) -> None:
    dialect = postgresql if session.get_bind().dialect.name == "postgresql" else sqlite
    statement = dialect.insert(SearchBits.__table__)
    session.execute(
        statement.on_conflict_do_update(
            index_elements=["term", "block"], set_={"bits": statement.excluded.bits}
        ),
        rows,
    )
