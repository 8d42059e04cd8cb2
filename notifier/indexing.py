"""Brings the index of the delivery log up to what the log says.

New deliveries go into the newest block, old ones of before an upgrade into blocks below the oldest. Nothing
of this is on the way of an alert: what is not here yet is found by looking at it (`searching`).
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, and_, delete, func, or_, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from notifier import bitmaps, searchtexts
from notifier.ids import first_id
from notifier.lots import lots
from notifier.model import FINAL_STATES, Delivery, Receipt
from notifier.searchmodel import LATE, PLACES, SearchBits, SearchBlock, SearchSlot, SearchWatch
from notifier.storage import Store

FULL = 15_360  # deliveries of a block: 1.9 KB for a word that all have, which PostgreSQL keeps in its row
OLD = 8192  # … of one from before an upgrade, which is written at once
BATCH, BATCH_SQLITE = 1024, 512  # a write on SQLite keeps all others waiting
LAG = timedelta(seconds=1)  # a transaction that began earlier has mostly been committed by then
RECENT = timedelta(seconds=15)  # … or at least by then
LATEST = timedelta(minutes=10)  # … and surely by then
SETTLES = timedelta(hours=1)  # an answer may come so late


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


def size_of(store: Store) -> int:
    """How many deliveries a step reads."""
    return BATCH if store.is_postgres else BATCH_SQLITE


def advance(store: Store, turn: AbstractContextManager[Any], batch: int | None = None) -> int:
    """One step; answers how many deliveries were read. Only one process at a time."""
    size = batch or size_of(store)
    with store.read() as session:
        found = look(session, size, store.now(session))
    if found.count or found.checked is not None or found.top is None:
        with turn, store.write(lasts=False) as session:
            write(session, found, store.now(session))
    return found.count


def look(session: Session, size: int, now: datetime) -> Found:
    top, bottom = _end(session, newest=True), _end(session, newest=False)
    if top is None or bottom is None:
        return Found(None, None)
    upto = first_id("dlv", now - LAG)
    fresh = _rows(session, (Delivery.id > top.last_id) & (Delivery.id < upto), size)
    changed = _changed(session, size, now)
    checked = _unchecked(session, top, now)
    since = max(first_id("dlv", now - RECENT), bottom.after_id)
    late = [*_unread(session, since, top.last_id, size)]
    if checked is not None:
        late += _unread(session, checked.after_id, min(checked.last_id, since), size)
    old = None
    if bottom.after_id and not fresh:
        old = _rows(session, Delivery.id <= bottom.after_id, OLD, newest_first=True)
    return Found(
        top=top,
        bottom=bottom,
        fresh=_entries(session, fresh, now),
        late=_entries(session, late, now),
        old=None if old is None else _entries(session, old, now),
        changed=_entries(session, changed, now),
        checked=checked.block if checked is not None and len(late) < size else None,
    )


def _end(session: Session, *, newest: bool) -> SearchBlock | None:
    """The newest block or the oldest; whoever writes holds it."""
    order = SearchBlock.block.desc() if newest else SearchBlock.block
    return session.scalars(select(SearchBlock).order_by(order).limit(1).with_for_update()).first()


def write(session: Session, found: Found, now: datetime) -> None:
    """What was seen, unless somebody else has written meanwhile."""
    _Writing(session).write(found, now)


def _rows(
    session: Session, which: ColumnElement[bool], most: int, *, newest_first: bool = False
) -> Sequence[Any]:
    order = Delivery.id.desc() if newest_first else Delivery.id
    return session.execute(select(*searchtexts.COLUMNS).where(which).order_by(order).limit(most)).all()


def _unread(session: Session, after: str, upto: str, size: int) -> Sequence[Any]:
    """Those above `after`, up to `upto`, that have no place yet."""
    has_place = select(SearchSlot.slot).where(SearchSlot.delivery_id == Delivery.id).exists()
    return _rows(session, (Delivery.id > after) & (Delivery.id <= upto) & ~has_place, size)


def _unchecked(session: Session, top: SearchBlock, now: datetime) -> SearchBlock | None:
    rows = select(SearchBlock).where(
        SearchBlock.is_checked.is_(False),
        SearchBlock.block < top.block,
        SearchBlock.last_id < first_id("dlv", now - LATEST),
    )
    return session.scalars(rows.order_by(SearchBlock.block).limit(1)).first()


def has_changed() -> ColumnElement[bool]:
    """Of a watched delivery: whether the index does not know what became of it."""
    return or_(Delivery.state != SearchWatch.state, Delivery.attempt_count != SearchWatch.attempt_count)


def _changed(session: Session, size: int, now: datetime) -> Sequence[Any]:
    """With those that cannot change any more."""
    asked = select(Receipt.delivery_id).where(Receipt.delivery_id.in_((Delivery.id, Delivery.merged_into)))
    is_settled = and_(
        Delivery.state.in_(FINAL_STATES),
        or_(Delivery.state != "unknown", Delivery.created_at < now - SETTLES),
        ~asked.exists(),
    )
    rows = select(*searchtexts.COLUMNS).join(SearchWatch, SearchWatch.delivery_id == Delivery.id)
    return session.execute(rows.where(or_(has_changed(), is_settled)).order_by(Delivery.id).limit(size)).all()


def _entries(session: Session, rows: Sequence[Any], now: datetime) -> list[Entry]:
    if not rows:
        return []
    texts = searchtexts.texts(session, rows)
    awaited = _awaited(session, rows)
    return [
        Entry(
            row.id,
            row.state,
            row.attempt_count,
            _is_settled(row, row.id in awaited or row.merged_into in awaited, now),
            frozenset(searchtexts.terms(row, texts[row.id])),
        )
        for row in rows
    ]


def _awaited(session: Session, rows: Sequence[Any]) -> set[str]:
    ids = {one for row in rows for one in (row.id, row.merged_into) if one is not None}
    found: set[str] = set()
    for some in lots(ids):
        found |= set(session.scalars(select(Receipt.delivery_id).where(Receipt.delivery_id.in_(some))))
    return found


def _is_settled(row: Any, is_awaited: bool, now: datetime) -> bool:
    if row.state not in FINAL_STATES or is_awaited:
        return False
    return bool(row.state != "unknown" or row.created_at < now - SETTLES)


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
        top, bottom = _end(self.session, newest=True), _end(self.session, newest=False)
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
