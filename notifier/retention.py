"""Removes what is old enough, or too much, and over: the oldest first, a little at a time.

Never what may still be sent, awaits a receipt, or belongs to an alert that is open.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, and_, delete, func, or_, select
from sqlalchemy.orm import Session, aliased

from notifier import idempotency
from notifier.ids import first_id
from notifier.model import FINAL_STATES, Alert, Attempt, Delivery, Followup, MeterUse, Receipt
from notifier.searchmodel import SearchBits, SearchBlock, SearchSlot, SearchWatch
from notifier.storage import Store

BATCH = 200  # deliveries of one transaction
LOOKS = 2000  # deliveries looked at for one batch
BITS = 2000  # rows of the search index of one transaction
KEPT_AT_LEAST = timedelta(
    hours=25
)  # what counts under a provider's window, and answers to a repeated request


@dataclass(frozen=True)
class Bounds:
    """What is kept: so many days, and at most so many deliveries (0: however many)."""

    days: int
    rows: int = 0


@dataclass(frozen=True)
class Removed:
    """`looked_upto`: the last delivery looked at; None: there is nothing older than what is to be kept."""

    deliveries: int = 0
    alerts: int = 0
    looked_upto: str | None = None


def horizon(session: Session, bounds: Bounds, now: datetime) -> str:
    """The id below which nothing is to be kept."""
    oldest = first_id("dlv", now - timedelta(days=bounds.days))
    if bounds.rows:
        newest = select(Delivery.id).order_by(Delivery.id.desc()).offset(bounds.rows - 1).limit(1)
        oldest = max(oldest, session.scalar(newest) or "")
    return min(oldest, first_id("dlv", now - KEPT_AT_LEAST))


def sweep(store: Store, turn: AbstractContextManager[Any], below: str, after: str = "") -> Removed:
    """One transaction's worth of deliveries with ids from `after` to `below`."""
    with turn, store.write() as session:
        upto = session.scalars(
            select(Delivery.id)
            .where(Delivery.id > after, Delivery.id < below)
            .order_by(Delivery.id)
            .offset(LOOKS - 1)
            .limit(1)
        ).first()
        span = (Delivery.id > after, Delivery.id < below if upto is None else Delivery.id <= upto)
        found = session.execute(
            select(Delivery.id, Delivery.alert_id).where(*span, _is_over()).order_by(Delivery.id).limit(BATCH)
        ).all()
        if not found:
            return Removed(looked_upto=upto)
        alerts = _remove(session, [row.id for row in found], {row.alert_id for row in found})
        return Removed(len(found), alerts, found[-1].id if len(found) == BATCH else upto)


def sweep_alerts(session: Session, below: datetime) -> int:
    """Closed alerts of before then that were told to nobody at all."""
    untold = ~select(Delivery.id).where(Delivery.alert_id == Alert.id).exists()
    old = (Alert.id < first_id("alr", below), Alert.created_at < below, _is_closed(), untold)
    ids = session.scalars(select(Alert.id).where(*old).order_by(Alert.id).limit(BATCH)).all()
    return _delete_alerts(session, ids)


def sweep_index(session: Session) -> bool:
    """A part of the oldest block of the search index, if all of its deliveries are gone; whether there is
    more of it."""
    block = session.scalars(select(SearchBlock).order_by(SearchBlock.block).limit(1)).first()
    newest = session.scalar(select(func.max(SearchBlock.block)))
    if block is None or block.block == newest or not block.is_checked or block.after_id:
        return False
    left = select(Delivery.id).where(Delivery.id <= block.last_id).limit(1)
    if session.scalar(left) is not None:
        return False
    some = select(SearchBits.term).where(SearchBits.block == block.block).limit(BITS)
    terms = session.scalars(some).all()
    session.execute(
        delete(SearchBits).where(SearchBits.block == block.block, SearchBits.term.in_(terms)),
        execution_options={"synchronize_session": False},
    )
    if len(terms) == BITS:
        return True
    following = session.scalars(
        select(SearchBlock).where(SearchBlock.block > block.block).order_by(SearchBlock.block).limit(1)
    ).one()
    following.after_id = ""
    session.delete(block)
    return True


def purge_answers(session: Session, now: datetime) -> None:
    """What repeated requests were answered is kept for a day."""
    idempotency.purge(session, now - KEPT_AT_LEAST)


def _is_over() -> ColumnElement[bool]:
    """Of a delivery: nothing can come of it any more. A digest goes when its members do, or after them."""
    member = aliased(Delivery)
    asked = select(Receipt.delivery_id).where(
        or_(Receipt.delivery_id == Delivery.id, Receipt.delivery_id == Delivery.merged_into)
    )
    is_open = select(Alert.id).where(Alert.id == Delivery.alert_id, ~_is_closed())
    waits = select(member.id).where(member.merged_into == Delivery.id, member.state.not_in(FINAL_STATES))
    return and_(Delivery.state.in_(FINAL_STATES), ~asked.exists(), ~is_open.exists(), ~waits.exists())


def _is_closed() -> ColumnElement[bool]:
    """Of an alert: nothing is to follow, and no repeat or resolve of it would be looked for."""
    follows = select(Followup.alert_id).where(Followup.alert_id == Alert.id)
    return and_(or_(Alert.status == "resolved", Alert.dedup_key.is_(None)), ~follows.exists())


def _remove(session: Session, ids: Sequence[str], alerts: set[str | None]) -> int:
    attempts = select(Attempt.id).where(Attempt.delivery_id.in_(ids))
    unsynchronized = {"synchronize_session": False}
    for statement in (
        delete(MeterUse).where(MeterUse.attempt_id.in_(attempts)),
        delete(Attempt).where(Attempt.delivery_id.in_(ids)),
        delete(SearchSlot).where(SearchSlot.delivery_id.in_(ids)),
        delete(SearchWatch).where(SearchWatch.delivery_id.in_(ids)),
        delete(Delivery).where(Delivery.id.in_(ids)),
    ):
        session.execute(statement, execution_options=unsynchronized)
    left = select(Delivery.id).where(Delivery.alert_id == Alert.id)
    gone = select(Alert.id).where(
        Alert.id.in_([one for one in alerts if one is not None]), _is_closed(), ~left.exists()
    )
    return _delete_alerts(session, session.scalars(gone).all())


def _delete_alerts(session: Session, ids: Sequence[str]) -> int:
    if ids:
        session.execute(
            delete(Alert).where(Alert.id.in_(ids)), execution_options={"synchronize_session": False}
        )
    return len(ids)
