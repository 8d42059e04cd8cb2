"""What waits on a channel when it is mended, disabled or deleted."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import ColumnElement, select, update
from sqlalchemy.orm import Session, aliased

from notifier.failing import close_failing
from notifier.followups import FALLBACKS
from notifier.model import UNTOLD, Channel, Delivery
from notifier.plan import RELEASED

WAITING = ("pending", "retrying", "held")
TOO_LATE = "too old by the time the channel was mended"
TOLD_BY_FALLBACK = "told by the fallback while this channel was broken"


def mended(session: Session, row: Channel, now: datetime) -> set[int]:
    """The channel is seen to work (its test passed): it is well, and what was held is told; the shards."""
    row.health, row.health_why = "ok", ""
    release_held(session, row, now)
    return {row.shard, *close_failing(session, row, now)}


def release_held(session: Session, row: Channel, now: datetime) -> None:
    """What was held may be told now, less what the fallback delivered and what is too old.

    All of it becomes due at the same moment, so the worker tells it in one digest.
    """
    fallback = aliased(Delivery)
    told = select(fallback.id).where(
        fallback.alert_id == Delivery.alert_id,
        fallback.status == Delivery.status,
        fallback.trigger.in_(FALLBACKS),
        fallback.state.in_(("delivered", "accepted", "merged")),
    )
    held = (Delivery.channel_id == row.id, Delivery.state == "held")
    _settle(session, (*held, told.exists()), state="suppressed", why=TOLD_BY_FALLBACK)
    _settle(session, (*held, *_end_of_untold()), state="suppressed", why=TOLD_BY_FALLBACK)
    _settle(session, (*held, Delivery.expires_at <= now), state="expired", why=TOO_LATE)
    _update(session, held, state="pending", why=RELEASED, next_attempt_at=now)


def _end_of_untold() -> Sequence[ColumnElement[bool]]:
    """It ends what the fallback told, and this channel did not."""
    first = aliased(Delivery)
    here = select(first.id).where(
        first.alert_id == Delivery.alert_id,
        first.channel_id == Delivery.channel_id,
        first.status == "firing",
    )
    told = here.where(first.state.not_in(UNTOLD))
    return (
        Delivery.status == "resolved",
        here.where(first.why == TOLD_BY_FALLBACK).exists(),
        ~told.exists(),
    )


def close_waiting(session: Session, row: Channel, **values: object) -> None:
    """All that is unsent there becomes this."""
    _settle(session, (Delivery.channel_id == row.id, Delivery.state.in_(WAITING)), **values)


def _settle(session: Session, which: Sequence[ColumnElement[bool]], **values: object) -> None:
    _update(session, which, next_attempt_at=None, **values)


def _update(session: Session, which: Sequence[ColumnElement[bool]], **values: object) -> None:
    statement = update(Delivery).where(*which).values(**values)
    session.execute(statement, execution_options={"synchronize_session": False})
