"""What time alone brings about, looked at every few seconds: each look is one or two indexed statements."""

from datetime import datetime

from sqlalchemy import case, select, text, update
from sqlalchemy.orm import Session

from notifier import meters, metrics
from notifier.claim import take_back
from notifier.doorbell import SHARDS
from notifier.lasting import NOT_REPEATED, RESOLVED
from notifier.mending import release_held
from notifier.model import Alert, Channel, Delivery
from notifier.settle import OPEN, expire

BATCH = 200


def reap(session: Session, now: datetime) -> set[int]:
    """Held deliveries that are too old, or whose channel was mended or deleted; alerts that ran out; sends
    that count no more.

    Answers the shards to wake.
    """
    wake = _expire_held(session, now) | _release_mended(session, now) | _end_orphans(session, now)
    _close_alerts(session, now)
    meters.forget(session, now)
    return wake


def _expire_held(session: Session, now: datetime) -> set[int]:
    held = select(Delivery).where(Delivery.state == "held", Delivery.expires_at <= now)
    wake: set[int] = set()
    for row in session.scalars(held.order_by(Delivery.id).limit(BATCH)).all():
        wake |= expire(session, row, now)
    return wake


def _release_mended(session: Session, now: datetime) -> set[int]:
    """Whoever mends a channel releases what it held; this is for one who died between the two."""
    held = select(Delivery.channel_id).where(Delivery.state == "held").distinct()
    mended = select(Channel).where(Channel.id.in_(held), Channel.health != "broken", Channel.enabled)
    wake = set()
    for channel in session.scalars(mended).all():
        release_held(session, channel, now)
        metrics.RECONCILED.labels("released").inc()
        wake.add(channel.shard)
    return wake


def _end_orphans(session: Session, now: datetime) -> set[int]:
    """What was on its way when its channel was deleted, and was not told."""
    there = select(Channel.id).where(Channel.id == Delivery.channel_id)
    due = (OPEN, Delivery.shard.in_(range(SHARDS)), Delivery.next_attempt_at <= now)
    wake: set[int] = set()
    for row in session.scalars(select(Delivery).where(*due, ~there.exists()).limit(BATCH)).all():
        wake |= take_back(session, row, None, now)
    return wake


def _close_alerts(session: Session, now: datetime) -> None:
    """An alert that nobody repeats is over; the partial index of open ones keeps this look short."""
    is_open = text("alerts.status = 'firing' and alerts.dedup_key is not null")
    closed = session.execute(
        update(Alert)
        .where(is_open, Alert.expires_at <= now)
        .values(
            status=RESOLVED,
            resolved_at=Alert.expires_at,
            why=case((Alert.why == "", NOT_REPEATED), else_=Alert.why + f"; {NOT_REPEATED}"),
        )
        .returning(Alert.id),
        execution_options={"synchronize_session": False},
    ).all()
    metrics.RECONCILED.labels("closed").inc(len(closed))
