"""What silences do: they keep alerts back, and when one ends, what is still open is told.

A silenced alert has its deliveries all the same, `suppressed`, and a `Followup` of kind `unsilence` for the
moment at which the silence ends.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from sqlalchemy import Row, bindparam, func, select, update
from sqlalchemy.orm import Session

from channels.base import Severity
from notifier.audience import noted, reach
from notifier.fallback import USELESS, tell_fallback
from notifier.followups import FALLBACK
from notifier.lasting import is_unattended
from notifier.lookup import KnownChannel
from notifier.model import Alert, Delivery, Followup, Silence
from notifier.outbox import Queued, Telling, put
from notifier.rules import LASTS, quiet
from notifier.silencing import SILENCED, Facts, Hush, Matcher, facts_of, silenced
from notifier.storage import zone_of

UNSILENCE = "unsilence"
AFTER = "the silence has ended"
_ANEW = frozenset({"alert", FALLBACK})  # triggers of what is told once a channel
_SILENCES = Silence.__table__.c
_RUNNING = select(
    _SILENCES.id, _SILENCES.queue, _SILENCES.matchers, _SILENCES.starts_at, _SILENCES.ends_at,
    _SILENCES.comment, _SILENCES.created_by,
).where(
    _SILENCES.pool == bindparam("pool"),
    _SILENCES.queue.in_(("", bindparam("queue"))),
    _SILENCES.starts_at <= bindparam("now"),
    _SILENCES.ends_at > bindparam("now"),
)  # fmt: skip
_ABOUT = 120  # characters of a comment that stand in the log


def hush_of(session: Session, alert: Alert, now: datetime) -> Hush | None:
    """The silence that keeps this alert back now; until the transaction ends nobody can end it."""
    where = {"pool": alert.pool, "queue": alert.queue, "now": now}
    known = [plain(row) for row in session.execute(_RUNNING, where)]
    facts = alert_facts(alert) if known else {}
    while (found := silenced(known, alert.queue, facts, now)) is not None:
        held = _RUNNING.where(_SILENCES.id == found.id).with_for_update(read=True)
        if session.execute(held, where).first() is not None:
            return found
        known = [one for one in known if one.id != found.id]
    return None


def alert_facts(alert: Alert) -> Facts:
    """Under `item` and `severity` stands what heads the alert: who silences `jobFT` still hears of a hang."""
    return facts_of(
        alert.labels,
        {
            "item": [alert.item],
            "severity": [str(alert.severity)],
            "job": [alert.job_id, alert.job_name],
            "job_name": [alert.job_name],
            "pool": [alert.pool],
            "queue": [alert.queue],
            "source": [alert.source],
            "title": [alert.title],
            "event": [alert.event_id],
        },
    )


def plain(row: Row[*tuple[Any, ...]]) -> Hush:
    matchers = tuple(Matcher(one["name"], one["op"], one["value"]) for one in row.matchers)
    return Hush(row.id, row.queue, matchers, row.starts_at, row.ends_at, row.comment, row.created_by)


def words(session: Session, hush: Hush) -> str:
    """Why a delivery is suppressed."""
    until = hush.ends_at.astimezone(zone_of(session))
    about = f": {hush.comment[:_ABOUT]}" if hush.comment else ""
    return f"{SILENCED}{until:%Y-%m-%d %H:%M} by {hush.created_by}{about} ({hush.id})"


@dataclass
class Told:
    """What came of a telling. `why`: the silence that kept it back, "" where none did."""

    rows: list[Queued] = field(default_factory=list)
    why: str = ""


def tell(session: Session, alert: Alert, told: Sequence[tuple[KnownChannel, Telling]], now: datetime) -> Told:
    """A delivery for each: on its way, or kept back by a silence until that ends."""
    hush = hush_of(session, alert, now) if told else None
    if hush is None:
        return Told(put(session, alert, told, now))
    why = words(session, hush)
    held_back = [(channel, replace(telling, kept_back=why)) for channel, telling in told]
    rows = put(session, alert, held_back, now)
    kept = [
        {
            "delivery": row.id,
            "name": telling.name or row.channel,
            "quiet_hours": telling.quiet_hours,
            "lasts": _lasting(telling),
        }
        for row, (_, telling) in zip(rows, told, strict=True)
        if row.why == why
    ]
    _plan(session, alert, hush, kept)
    return Told(rows, why)


def unsilence(session: Session, alert: Alert, spec: Mapping[str, Any], now: datetime) -> set[int]:
    """What a silence kept back is told now that it has ended, if it still matters; the shards to ring.

    Who has the turn of an on-call list is asked anew. Where another silence holds, its end is waited for.
    """
    untold = spec.get("untold", ())
    if not untold or not is_unattended(alert, now):
        return set()
    rows = {row.id: row for row in _rows(session, alert, [one["delivery"] for one in untold])}
    waiting = [one for one in untold if one["delivery"] in rows]
    hush = hush_of(session, alert, now)
    if hush is not None:
        for row in rows.values():
            row.why = words(session, hush)
        _plan(session, alert, hush, waiting)
        return set()
    shards: set[int] = set()
    for one in waiting:
        row = rows[one["delivery"]]
        told = _let_go(session, alert, row, one, now)
        if told:
            row.why = f"{row.why}; told then: {', '.join(new.id for new in told)}"
        shards |= wake_of(session, told, now)
    return shards


def wake_of(session: Session, rows: Iterable[Queued], now: datetime) -> set[int]:
    """The shards in which these are due, with the fallbacks of what is held."""
    shards: set[int] = set()
    for row in rows:
        if row.state == "held":
            shards |= tell_fallback(session, session.get_one(Delivery, row.id), now)
        elif row.state == "pending":
            shards.add(row.shard)
    return shards


def end(session: Session, row: Silence, now: datetime) -> None:
    """It ends now, begun or not: what it kept back is due. One that is over stays as it is."""
    if now < row.ends_at:
        row.ends_at = now
        session.flush()
        planned = update(Followup).where(
            Followup.kind == UNSILENCE, Followup.spec["silence"].as_string() == row.id
        )
        session.execute(planned.values(due_at=now), execution_options={"synchronize_session": False})


def _lasting(telling: Telling) -> dict[str, str] | None:
    """Until when an alert has to last before it is told, and the words for it."""
    why = telling.why.partition("; ")[0]
    if telling.not_before is None or not why.startswith(LASTS.partition("{")[0]):
        return None
    return {"until": telling.not_before.isoformat(), "why": why}


def _plan(session: Session, alert: Alert, hush: Hush, untold: Sequence[Mapping[str, Any]]) -> None:
    if not untold:
        return
    last = select(func.max(Followup.n)).where(Followup.alert_id == alert.id, Followup.kind == UNSILENCE)
    session.add(
        Followup(
            alert_id=alert.id,
            kind=UNSILENCE,
            n=(session.scalar(last) or 0) + 1,
            spec={"silence": hush.id, "untold": [dict(one) for one in untold]},
            due_at=hush.ends_at,
        )
    )
    session.flush()


def _rows(session: Session, alert: Alert, ids: Sequence[str]) -> Sequence[Delivery]:
    """Those of them that are still kept back."""
    kept = select(Delivery).where(
        Delivery.alert_id == alert.id, Delivery.id.in_(ids), Delivery.state == "suppressed"
    )
    return session.scalars(kept.order_by(Delivery.id)).all()


def _let_go(
    session: Session, alert: Alert, row: Delivery, one: Mapping[str, Any], now: datetime
) -> list[Queued]:
    """What is told in place of a row that was kept back: to whom its name means now, or else the fallback."""
    names = (one["name"], *row.fallback)
    reached = reach(session, (alert.pool, alert.queue), names, now)
    there = [name for name in names if name in reached and reached[name].channels]
    able = [name for name in there if any(channel.enabled for channel in reached[name].channels)]
    name = next(iter((*able, *there)), None)
    if name is None:
        return []
    telling = _again(session, row, one, reached[name].via, now)
    if name != one["name"]:
        telling = replace(telling, fallback=tuple(row.fallback[row.fallback.index(name) + 1 :]))
    without = [one for one in reached[name].channels if not _has_it(session, alert, one, telling)]
    return put(session, alert, [(channel, telling) for channel in without], now)


def _again(session: Session, row: Delivery, one: Mapping[str, Any], via: str, now: datetime) -> Telling:
    """What the row would have told, by the rule's quiet hours of now."""
    hours = one.get("quiet_hours") if Severity(row.severity) is not Severity.CRITICAL else None
    zone = zone_of(session)
    until, why = quiet(hours, now, zone) if hours else (None, "")
    lasts = one.get("lasts")
    if lasts and datetime.fromisoformat(lasts["until"]) > (until or now):
        until, why = datetime.fromisoformat(lasts["until"]), lasts["why"]
    return Telling(
        item=row.item,
        items=tuple(row.items),
        severity=row.severity,
        language=row.language or None,
        trigger=UNSILENCE if row.trigger in _ANEW else row.trigger,
        fallback=tuple(row.fallback),
        not_before=until,
        why=noted(why or AFTER, via),
    )


def _has_it(session: Session, alert: Alert, channel: KnownChannel, telling: Telling) -> bool:
    """Whether that channel was told meanwhile, or will be."""
    same = select(Delivery.id).where(
        Delivery.alert_id == alert.id,
        Delivery.status == telling.status,
        Delivery.channel_id == channel.id,
        Delivery.state.not_in(USELESS),
    )
    if telling.trigger != UNSILENCE:
        same = same.where(Delivery.trigger == telling.trigger)
    return session.scalars(same.limit(1)).first() is not None
