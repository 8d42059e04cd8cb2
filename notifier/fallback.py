"""Where a channel cannot tell: the next one of `fallback` does; a broken channel's deliveries are held."""

from collections.abc import Iterable, Sequence
from datetime import datetime

from sqlalchemy import or_, select
from sqlalchemy.orm import Session

from channels.registry import adapter
from notifier.audience import Reach, noted, reach
from notifier.digests import UNSENT, members
from notifier.followups import AGAIN, in_place_of
from notifier.ids import new_id
from notifier.lasting import is_unattended
from notifier.lookup import KnownChannel
from notifier.model import UNTOLD, Alert, Channel, Delivery

HELD = "held: the channel is broken"
TAKEN_APART = "its alerts are held one by one: the channel is broken"
NOT_TOLD = "this channel was not told of the alert"
USELESS = (*UNTOLD, "held")
_COPIED = (
    "alert_id", "event_id", "job_id", "job_name", "pool", "queue",
    "item", "items", "severity", "status", "order_key",
)  # fmt: skip


def tell_fallback(session: Session, row: Delivery, now: datetime) -> set[int]:
    """New deliveries in place of one that cannot be told (of a digest: of each member); their shards.

    The first name of `fallback` of which a channel is there, enabled and not broken takes over (of an on-call
    list: whoever has the turn), with the rest of the list as its own fallback.
    """
    rows = members(session, [row.id]) if row.is_digest else [row]
    is_lost = row.state in ("failed", "expired")
    shards = set()
    for undelivered in rows:
        shards |= _tell_next(session, undelivered, now)
        undelivered.fallback = []
        for end in _ends_of(session, undelivered) if is_lost else ():
            end.state, end.why, end.next_attempt_at = "suppressed", NOT_TOLD, None
            shards |= tell_fallback(session, end, now)
    return shards


def hold(session: Session, channel: Channel, now: datetime) -> set[int]:
    """All that is unsent on a broken channel waits for its mend; the fallback is told now. Shards to wake.

    A digest is taken apart: what the fallback tells of it need not be told again when the channel is mended.
    """
    unsent = (
        Delivery.channel_id == channel.id,
        Delivery.shard == channel.shard,
        Delivery.state.in_(UNSENT),
    )
    digests = session.scalars(select(Delivery).where(*unsent, Delivery.is_digest)).all()
    apart = [digest.id for digest in digests]
    for digest in digests:
        digest.state, digest.why, digest.next_attempt_at = "suppressed", TAKEN_APART, None
    waiting = select(Delivery).where(
        *unsent,
        Delivery.is_digest.is_(False),
        or_(Delivery.merged_into.is_(None), Delivery.merged_into.in_(apart)),
    )
    shards = set()
    for row in session.scalars(waiting.order_by(Delivery.id)).all():
        row.state, row.why, row.next_attempt_at, row.merged_into = "held", HELD, None, None
        shards |= tell_fallback(session, row, now)
    return shards


def _ends_of(session: Session, row: Delivery) -> Sequence[Delivery]:
    """The end that waits behind it for its channel, where nothing else told that channel of the alert."""
    if row.alert_id is None or row.status != "firing":
        return ()
    there = (Delivery.alert_id == row.alert_id, Delivery.channel_id == row.channel_id, Delivery.id != row.id)
    told = select(Delivery.id).where(*there, Delivery.status == "firing", Delivery.state.not_in(UNTOLD))
    if session.scalars(told.limit(1)).first() is not None:
        return ()
    unsent = (Delivery.state.in_(("pending", "held")), Delivery.merged_into.is_(None))
    return session.scalars(select(Delivery).where(*there, Delivery.status == "resolved", *unsent)).all()


def _tell_next(session: Session, row: Delivery, now: datetime) -> set[int]:
    if row.trigger in AGAIN and _is_attended(session, row, now):
        return set()
    names = list(row.fallback)
    found = reach(session, (row.pool, row.queue), names, now)
    for n, name in enumerate(names):
        usable = _usable(found.get(name), row)
        if not usable:
            continue
        for channel in usable:
            if not _is_told_there(session, row, channel):
                why = noted(f"in place of {row.id}", found[name].via)
                session.add(_successor(row, channel, names[n + 1 :], why, now))
        session.flush()
        return {channel.shard for channel in usable}
    return set()


def _is_attended(session: Session, row: Delivery, now: datetime) -> bool:
    """Somebody has taken it on, or it is over: nobody else is told again."""
    alert = session.get(Alert, row.alert_id) if row.alert_id is not None else None
    return alert is not None and not is_unattended(alert, now)


def _usable(known: Reach | None, row: Delivery) -> list[KnownChannel]:
    return [
        one
        for one in (known.channels if known else ())
        if one.enabled and one.health != "broken" and one.id != row.channel_id
    ]


def _is_told_there(session: Session, row: Delivery, channel: KnownChannel) -> bool:
    """Whether that channel has, or will have, this very message already."""
    same = select(Delivery.id).where(
        Delivery.alert_id == row.alert_id,
        Delivery.status == row.status,
        Delivery.channel_id == channel.id,
        Delivery.state.not_in(USELESS),
    )
    return session.scalars(same.limit(1)).first() is not None


def _successor(
    row: Delivery, channel: KnownChannel, rest: Iterable[str], why: str, now: datetime
) -> Delivery:
    return Delivery(
        id=new_id("dlv", now),
        **{name: getattr(row, name) for name in _COPIED},
        channel_id=channel.id,
        channel=channel.name,
        kind=channel.kind,
        shard=channel.shard,
        language=channel.language or row.language,
        timezone=channel.timezone or row.timezone,
        trigger=in_place_of(row.trigger),
        is_digest=False,
        fallback=list(rest),
        state="pending",
        why=why,
        tries=0,
        attempt_count=0,
        created_at=now,
        next_attempt_at=now,
        expires_at=now + adapter(channel.kind).expires_after,
        mends=[],
        recipients=[],
    )
