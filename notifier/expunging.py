"""Removes what a delivery said, and keeps that there was one: when, to whom, its state and codes."""

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from notifier import bitmaps, searchtexts, stretches
from notifier.model import FINAL_STATES, Alert, Attempt, Delivery, Followup, Receipt
from notifier.problems import conflict
from notifier.searchmodel import PLACES, SearchBits, SearchBlock, SearchSlot

WHY = "its content was removed on request"


def expunge(session: Session, row: Delivery) -> None:
    """Message, requests, answers and words; the alert's own too, once no delivery of it has its content.

    Raises:
        Problem: something may still come of it (409).
    """
    _check_is_over(session, row)
    row.message, row.why = dict(searchtexts.EXPUNGED), WHY
    row.error_message = None if row.error_message is None else ""
    row.provider_message_id = None
    session.execute(
        update(Attempt)
        .where(Attempt.delivery_id == row.id)
        .values(request=None, response=None, provider_message=None),
        execution_options={"synchronize_session": False},
    )
    session.flush()
    if row.alert_id is not None:
        _expunge_alert(session, row.alert_id)
    _forget_words(session, row)


def _check_is_over(session: Session, row: Delivery) -> None:
    if row.state not in FINAL_STATES:
        raise conflict(f"it is {row.state}: its content is needed until it is told; try again then")
    asked = select(Receipt.delivery_id).where(Receipt.delivery_id.in_([row.id, row.merged_into]))
    if session.scalar(asked.limit(1)) is not None:
        raise conflict("the provider's receipt is awaited; try again when it is there")


def _expunge_alert(session: Session, alert_id: str) -> None:
    alert = session.get(Alert, alert_id, with_for_update=True)
    others = session.scalars(select(Delivery.message).where(Delivery.alert_id == alert_id)).all()
    follows = session.scalar(select(Followup.alert_id).where(Followup.alert_id == alert_id).limit(1))
    is_open = alert is None or follows or (alert.status == "firing" and alert.dedup_key is not None)
    if alert is None or is_open or any(message != searchtexts.EXPUNGED for message in others):
        return
    alert.title, alert.body, alert.labels, alert.context = "", "", {}, {}
    alert.dedup_key = alert.ack_comment = None


def _forget_words(session: Session, row: Delivery) -> None:
    """All words of the block's index that only what was removed had."""
    slot = session.scalar(select(SearchSlot.slot).where(SearchSlot.delivery_id == row.id))
    if slot is None:
        return
    block, place = divmod(slot, PLACES)
    session.get(SearchBlock, block, with_for_update=True)  # nobody joins its bitmaps meanwhile
    left = searchtexts.terms(row, searchtexts.texts(session, [row])[row.id])
    rows = select(SearchBits).where(SearchBits.block == block).with_for_update()
    gone: list[bytes] = []
    for bits in session.scalars(rows):
        if bits.term in left or bits.term.startswith(b"\0") or place not in bitmaps.descending(bits.bits):
            continue
        gone.append(bits.term)
        rest = bitmaps.without(bits.bits, place)
        if rest is None:
            session.delete(bits)
        else:
            bits.bits = rest
    stretches.take_out(session, block, place, gone)
