"""Puts an alert into its channels' queues, or says on the row why it is not told there.

Everything here is part of the transaction that caused it.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import false, text
from sqlalchemy.orm import Session

from channels.registry import adapter
from notifier.fallback import HELD
from notifier.ids import new_id
from notifier.lookup import KnownChannel
from notifier.model import Alert, Delivery

DISABLED = "channel {name} is disabled"
UNASKED = "no_rule"  # the trigger of a row that says only that no rule asks for it
_NONE_YET = {"is_digest": false(), "tries": text("0"), "attempt_count": text("0")}
_EMPTY = {"mends": text("'[]'"), "recipients": text("'[]'")}
_INSERT = Delivery.__table__.insert().values(**_NONE_YET, **_EMPTY)  # type: ignore[attr-defined]
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
        kept_back: why this is told to nobody (a silence, no rule, a disabled channel), "" otherwise.
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


@dataclass(frozen=True)
class Queued:
    """A delivery as it has just been written."""

    id: str
    channel: str
    state: str
    why: str
    shard: int


def first_state(channel: KnownChannel, telling: Telling) -> tuple[str, str]:
    """The state in which a delivery begins, and why."""
    if telling.kept_back:
        return "suppressed", telling.kept_back
    if not channel.enabled:
        return "suppressed", DISABLED.format(name=channel.name)
    if channel.health == "broken":
        return "held", HELD
    return "pending", telling.why


def put(
    session: Session, alert: Alert, told: Iterable[tuple[KnownChannel, Telling]], now: datetime
) -> list[Queued]:
    """The new ones: pending; held by a broken channel; or suppressed: kept back, or the channel disabled."""
    common = _of_alert(alert, now)
    rows = [{**common, **_of_channel(channel, telling, now)} for channel, telling in told]
    if rows:
        session.execute(_INSERT, rows)  # all at once, and no objects: of all writes this is the most frequent
    return [Queued(one["id"], one["channel"], one["state"], one["why"], one["shard"]) for one in rows]


def _of_alert(alert: Alert, now: datetime) -> dict[str, Any]:
    return {
        "alert_id": alert.id,
        "event_id": alert.event_id,
        "job_id": alert.job_id,
        "job_name": alert.job_name,
        "pool": alert.pool,
        "queue": alert.queue,
        "order_key": f"job:{alert.job_id}" if alert.job_id else f"alert:{alert.id}",
        "created_at": now,
    }


def _of_channel(channel: KnownChannel, telling: Telling, now: datetime) -> dict[str, Any]:
    state, why = first_state(channel, telling)
    begins_at = telling.not_before or now
    return {
        "id": new_id("dlv", now),
        "channel_id": channel.id,
        "channel": channel.name,
        "kind": channel.kind,
        "item": telling.item,
        "items": telling.items,
        "severity": telling.severity,
        "status": telling.status,
        "language": telling.language or channel.language or SERVERS_OWN,
        "timezone": channel.timezone or SERVERS_OWN,
        "trigger": telling.trigger,
        "fallback": telling.fallback,
        "state": state,
        "why": why,
        "shard": channel.shard,
        "next_attempt_at": begins_at if state == "pending" else None,
        "expires_at": begins_at + adapter(channel.kind).expires_after,
    }
