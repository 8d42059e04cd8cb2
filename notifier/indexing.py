"""Brings the index of the delivery log up to what the log says.

New deliveries go into the newest block, old ones of before an upgrade into blocks below the oldest. Nothing
of this is on the way of an alert: what is not here yet is found by looking at it (`searching`).
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, and_, or_, select
from sqlalchemy.orm import Session

from notifier import indexwriting, searchtexts
from notifier.ids import first_id
from notifier.indexwriting import LAG, Entry, Found, end_of, write
from notifier.lots import lots
from notifier.model import FINAL_STATES, Delivery, Receipt
from notifier.searchmodel import SearchBlock, SearchSlot, SearchWatch
from notifier.storage import Store

BATCH, BATCH_SQLITE = 1024, 512  # a write on SQLite keeps all others waiting
RECENT = timedelta(seconds=15)  # what was committed later than `LAG` is there by then
LATEST = timedelta(minutes=10)  # … and surely by then
SETTLES = timedelta(hours=1)  # an answer may come so late


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
    top, bottom = end_of(session, newest=True), end_of(session, newest=False)
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
        old = _rows(session, Delivery.id <= bottom.after_id, indexwriting.OLD, newest_first=True)
    return Found(
        top=top,
        bottom=bottom,
        fresh=_entries(session, fresh, now),
        late=_entries(session, late, now),
        old=None if old is None else _entries(session, old, now),
        changed=_entries(session, changed, now),
        checked=checked.block if checked is not None and len(late) < size else None,
    )


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
