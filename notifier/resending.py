"""Sends a delivery again because a person asks for it.

What has ended is told anew by a delivery of its own (trigger `resend`), so that the log of the first one
stays true; what still waits is tried at once. An alert that is over is told as over, whatever the first one
said: it would be burning for ever there, for its end was told already or to nobody.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from channels.registry import adapter
from notifier.ends import resolved_by
from notifier.ids import new_id
from notifier.items import ITEMS
from notifier.lasting import RESOLVED, has_expired, run_out
from notifier.model import OPEN_STATES, Alert, Channel, Delivery
from notifier.problems import conflict
from notifier.searchtexts import EXPUNGED

OVER = "the alert is over, which is what is told"
UNTIL_TOLD = (*OPEN_STATES, "held")
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
    alert = alerts_now(session, [row.alert_id] if row.alert_id else [], now).get(row.alert_id)
    if alert is not None and is_over(alert, now):
        _check_is_untold(session, row)
    return again(session, row, channel, alert, now)


def alerts_now(session: Session, ids: Iterable[str], now: datetime) -> Mapping[str | None, Alert]:
    """These alerts, by id, as they stay until the transaction ends."""
    rows = select(Alert).where(Alert.id.in_(ids)).order_by(Alert.id).with_for_update()
    found = session.scalars(rows.execution_options(populate_existing=True)).all()
    for alert in found:
        if is_over(alert, now) and alert.status != RESOLVED:
            run_out(alert)
    return {alert.id: alert for alert in found}


def is_over(alert: Alert, now: datetime) -> bool:
    """Nothing is left to see to. What nobody could ever repeat or end is told as it was. Pure."""
    return alert.status == RESOLVED or (alert.dedup_key is not None and has_expired(alert, now))


def again(session: Session, row: Delivery, channel: Channel, alert: Alert | None, now: datetime) -> Delivery:
    """A delivery of its own that tells the same; of an alert that is over its end."""
    says, why = {name: getattr(row, name) for name in _COPIED}, f"sent again on request: {row.id}"
    if alert is not None and row.status != RESOLVED and is_over(alert, now):
        says, why = {**says, **_end(alert)}, f"{why}; {OVER}"
    new = Delivery(
        id=new_id("dlv", now),
        **says,
        channel=channel.name,
        kind=channel.kind,
        trigger="resend",
        fallback=[],
        state="pending",
        why=why,
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


def _end(alert: Alert) -> dict[str, Any]:
    """What tells the end of an alert; by the item that resolved it, if one did."""
    item = resolved_by(alert)
    told = {"item": item, "items": [], "severity": ITEMS[item].severity.value} if item is not None else {}
    return {"status": RESOLVED, **told}


def _check_is_untold(session: Session, row: Delivery) -> None:
    """The end of its alert is not on its way to the same channel."""
    ends = select(Delivery.id).where(
        Delivery.alert_id == row.alert_id,
        Delivery.channel_id == row.channel_id,
        Delivery.status == RESOLVED,
        Delivery.state.in_(UNTIL_TOLD),
    )
    known = session.scalar(ends.limit(1))
    if known is not None:
        raise conflict(f"its alert is over, and that is on its way to {row.channel} already: {known}")
