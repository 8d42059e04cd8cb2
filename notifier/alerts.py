"""Alerts: published and repeated (`ends.py`: how they end); always in the caller's transaction.

Whoever calls rings the bell for the `shards` of what came of it, once that is committed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from notifier import faultpoints
from notifier.followups import planned
from notifier.ids import new_id
from notifier.lasting import FIRING, has_expired, run_out
from notifier.model import UNTOLD, Alert, Delivery, Followup
from notifier.outbox import Queued, put
from notifier.problems import conflict
from notifier.routing import Named, facts_of, routed
from notifier.rules import AlertConfigModel
from notifier.silences import tell, wake_of
from notifier.storage import insert_new
from notifier.trail import note_alert

SOURCE = "faultcast"
ROUNDS = 3  # an alert may close between our insert and our look at it
QUIET_HOURS = "quiet_hours"  # in an alert's context: by channel, of the rule that told it


@dataclass(frozen=True, kw_only=True)
class NewAlert:
    """What happened. The master leaves `token_id` empty and gives job, event and `context`.

    Attributes:
        items: every item of the incident (`item` is the most specific); empty: `item` alone.
        channels: who is told, by name; None leaves it to the job's rules, or else the pool's.
        dedup_key: while an alert with the same key, source and token is open, this is a repeat of it.
        expires: an open alert closes so long after its last repeat; one without a `dedup_key` has none.
        context: job and fault event as the templates see them.
        skip_channel: the id of a channel that is not told: it is what the alert is about.
    """

    pool: str
    queue: str = ""
    source: str = SOURCE
    token_id: str = ""
    dedup_key: str | None = None
    item: str
    items: tuple[str, ...] = ()
    severity: str
    title: str
    text: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    context: Mapping[str, Any] = field(default_factory=dict)
    job_id: str | None = None
    job_name: str | None = None
    event_id: str | None = None
    channels: tuple[str, ...] | None = None
    fallback: tuple[str, ...] = ()
    expires: timedelta | None = None
    skip_channel: str | None = None


@dataclass(frozen=True)
class Published:
    """What came of it; `why` says in words who was not told."""

    alert_id: str
    delivery_ids: tuple[str, ...] = ()
    shards: frozenset[int] = frozenset()
    why: str = ""


def publish(session: Session, new: NewAlert, now: datetime) -> Published:
    """The alert and one delivery for each channel that is told; the repeat of an open alert tells nobody.

    Raises:
        Problem: a channel in `channels` or `fallback` does not exist.
    """
    named = Named.find(session, (new.pool, new.queue), new.channels, new.fallback, now)
    for _ in range(ROUNDS):
        alert = _insert(session, new, now)
        if alert is not None:
            return _tell(session, alert, new, named, now)
        known = _open(session, new)
        if known is not None and not has_expired(known, now):
            _repeat(known, new, now)
            return Published(known.id)
        if known is not None:
            run_out(known)
            session.flush()
    raise conflict("alerts of this dedup_key are opened and closed at this very moment; post it again")


def _insert(session: Session, new: NewAlert, now: datetime) -> Alert | None:
    """What was written, as a value; None when an open alert has the same key."""
    alert_id = new_id("alr", now)
    values = {
        "id": alert_id,
        "pool": new.pool,
        "queue": new.queue,
        "source": new.source,
        "token_id": new.token_id,
        "dedup_key": new.dedup_key,
        "item": new.item,
        "items": list(new.items or (new.item,)),
        "severity": str(new.severity),
        "status": FIRING,
        "title": new.title,
        "body": new.text,
        "labels": dict(new.labels),
        "context": dict(new.context),
        "job_id": new.job_id,
        "job_name": new.job_name,
        "event_id": new.event_id,
        "created_at": now,
        "last_at": now,
        "expires_at": _expiry(new, now),
        "repeats": 0,
        "why": "",
    }
    return Alert(**values) if insert_new(session, Alert, values) else None


def _open(session: Session, new: NewAlert) -> Alert | None:
    rows = select(Alert).where(
        Alert.token_id == new.token_id, Alert.source == new.source, Alert.dedup_key == new.dedup_key,
        Alert.status == FIRING,
    )  # fmt: skip
    return session.scalars(rows.with_for_update().execution_options(populate_existing=True)).first()


def _repeat(alert: Alert, new: NewAlert, now: datetime) -> None:
    alert.repeats += 1
    alert.last_at = now
    alert.expires_at = _expiry(new, now)


def _expiry(new: NewAlert, now: datetime) -> datetime | None:
    return now + new.expires if new.expires is not None else None


def _tell(session: Session, alert: Alert, new: NewAlert, named: Named, now: datetime) -> Published:
    found = routed(session, alert, named, now, skip=new.skip_channel)
    hours = {channel.id: telling.quiet_hours for channel, telling in found.told if telling.quiet_hours}
    told = tell(session, alert, found.told, now)
    put(session, alert, found.unasked, now)
    if found.config is not None:
        _plan(session, alert, found.config, new.skip_channel)
    alert.why = "; ".join([*found.why, *filter(None, [told.why])])
    if alert.why or hours:
        context = {**alert.context, QUIET_HOURS: hours} if hours else alert.context
        session.execute(update(Alert).where(Alert.id == alert.id).values(why=alert.why, context=context))
    return published(session, alert, told.rows, now)


def _plan(session: Session, alert: Alert, config: AlertConfigModel, skip: str | None) -> None:
    """What is to be done should it last."""
    for one in planned(config, facts_of(alert), alert.created_at):
        spec = {**one.spec, "skip": skip}
        session.add(Followup(alert_id=alert.id, kind=one.kind, n=one.n, spec=spec, due_at=one.due_at))


def published(session: Session, alert: Alert, rows: Sequence[Queued], now: datetime) -> Published:
    """What is or will be told, with the deliveries of fallbacks that speak for what is held."""
    shards = wake_of(session, rows, now)
    session.flush()
    faultpoints.hit("accepted")
    ids = [row.id for row in rows if row.state not in UNTOLD]
    if any(row.state == "held" for row in rows):
        same = select(Delivery.id).where(
            Delivery.alert_id == alert.id, Delivery.status == alert.status, Delivery.state.not_in(UNTOLD)
        )
        ids = list(session.scalars(same.order_by(Delivery.id)))
    note_alert(session, alert, ids)
    return Published(alert.id, tuple(ids), frozenset(shards), alert.why)
