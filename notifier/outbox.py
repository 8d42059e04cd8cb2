"""Puts one alert into one channel's queue, or says on the row why it is not told there.

Everything here is part of the transaction that caused it.
"""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy.orm import Session

from channels.registry import adapter
from notifier.fallback import HELD
from notifier.ids import new_id
from notifier.model import Alert, Channel, Delivery

DISABLED = "the channel is disabled"
UNASKED = "no_rule"  # the trigger of a row that says only that no rule asks for it
SERVERS_OWN = ""  # language or time zone: whatever the server's settings say when it is rendered


@dataclass(frozen=True, kw_only=True)
class Telling:
    """How an alert is told on one channel.

    Attributes:
        item, items: the most specific item that the rule matches, and the rest.
        name: by which the rules or whoever publishes asked for it: the channel's or an on-call list's.
        fallback: names to be told, in order, when this one cannot be.
        not_before: nothing is sent earlier (quiet hours), and `why`.
        quiet_hours: of the rule, for what is told later.
        kept_back: why this is told to nobody (a silence, no rule), "" otherwise.
    """

    name: str = ""
    item: str
    items: tuple[str, ...] = ()
    severity: str
    status: str = "firing"
    language: str | None = None
    trigger: str = "alert"
    fallback: tuple[str, ...] = ()
    not_before: datetime | None = None
    why: str = ""
    quiet_hours: str | None = None
    kept_back: str = ""


def first_state(channel: Channel, telling: Telling) -> tuple[str, str]:
    """The state in which a delivery begins, and why."""
    if not channel.enabled:
        return "suppressed", DISABLED
    if telling.kept_back:
        return "suppressed", telling.kept_back
    if channel.health == "broken":
        return "held", HELD
    return "pending", telling.why


def put(session: Session, alert: Alert, channel: Channel, telling: Telling, now: datetime) -> Delivery:
    """The new one: pending; held by a broken channel; or suppressed: kept back, or the channel disabled."""
    state, why = first_state(channel, telling)
    row = Delivery(
        id=new_id("dlv", now),
        alert_id=alert.id,
        event_id=alert.event_id,
        job_id=alert.job_id,
        job_name=alert.job_name,
        pool=alert.pool,
        queue=alert.queue,
        channel_id=channel.id,
        channel=channel.name,
        kind=channel.kind,
        item=telling.item,
        items=list(telling.items),
        severity=telling.severity,
        status=telling.status,
        language=telling.language or channel.language or SERVERS_OWN,
        timezone=channel.timezone or SERVERS_OWN,
        trigger=telling.trigger,
        fallback=list(telling.fallback),
        state=state,
        why=why,
        order_key=f"job:{alert.job_id}" if alert.job_id else f"alert:{alert.id}",
        shard=channel.shard,
        created_at=now,
        next_attempt_at=(telling.not_before or now) if state == "pending" else None,
        expires_at=(telling.not_before or now) + adapter(channel.kind).expires_after,
        mends=[],
        recipients=[],
    )
    session.add(row)  # written with its like at the next look
    return row
