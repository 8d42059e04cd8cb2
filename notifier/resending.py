"""Sends a delivery again because a person asks for it.

What has ended is told anew by a delivery of its own (trigger `resend`), so that the log of the first one
stays true; what still waits is tried at once.
"""

from datetime import datetime

from sqlalchemy.orm import Session

from channels.registry import adapter
from notifier.ids import new_id
from notifier.model import Channel, Delivery
from notifier.problems import conflict
from notifier.searchtexts import EXPUNGED

_COPIED = (
    "alert_id",
    "event_id",
    "job_id",
    "job_name",
    "pool",
    "queue",
    "channel_id",
    "item",
    "items",
    "severity",
    "status",
    "language",
    "timezone",
    "order_key",
)


def resend(session: Session, row: Delivery, now: datetime) -> Delivery:
    """The delivery that is now on its way.

    Raises:
        Problem: it is being sent, or its channel cannot send (409).
    """
    channel = session.get(Channel, row.channel_id)
    if channel is None:
        raise conflict(f"the channel {row.channel} was deleted: there is nothing to send it through")
    if not channel.enabled:
        raise conflict(f"the channel {row.channel} is disabled: enable it first")
    if channel.health == "broken" or row.state == "held":
        raise conflict(f"the channel {row.channel} is broken: mend it, and what is held is sent by itself")
    if row.state == "sending":
        raise conflict("it is being sent at this moment")
    if row.merged_into is not None and row.state != "merged":
        raise conflict(f"it is told in the digest {row.merged_into}, which is on its way")
    if row.state in {"pending", "retrying"}:
        row.next_attempt_at = now
        return row
    if row.is_digest:
        raise conflict("a digest is not sent again: resend the deliveries in digest_of that are still of use")
    if row.message == EXPUNGED:
        raise conflict("its content was removed: there is nothing left to send")
    return again(session, row, channel, now)


def again(session: Session, row: Delivery, channel: Channel, now: datetime) -> Delivery:
    """A delivery of its own that tells the same."""
    new = Delivery(
        id=new_id("dlv", now),
        **{name: getattr(row, name) for name in _COPIED},
        channel=channel.name,
        kind=channel.kind,
        trigger="resend",
        fallback=[],
        state="pending",
        why=f"sent again on request: {row.id}",
        shard=channel.shard,
        created_at=now,
        next_attempt_at=now,
        expires_at=now + adapter(channel.kind).expires_after,
        mends=[],
        recipients=[],
    )
    session.add(new)
    session.flush()
    return new
