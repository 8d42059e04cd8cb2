"""Does what is due about alerts: escalates, reminds, tells what a silence kept back.

Of one alert all in one transaction, with the alert's row locked: of several workers one does it, and whoever
dies has done nothing.
"""

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import structlog
from sqlalchemy import delete, select, update
from sqlalchemy.exc import InterfaceError, OperationalError, SQLAlchemyError
from sqlalchemy.orm import Session

from notifier import faultpoints, metrics
from notifier.followups import ESCALATION, REMIND, Do, Kind, Standing, due
from notifier.lasting import FIRING, is_open
from notifier.lookup import KnownChannel
from notifier.model import Alert, Delivery, Followup
from notifier.outbox import Telling, put
from notifier.routing import Routed, routed_by
from notifier.rules import LASTS, QUIET
from notifier.silences import hush_of, unsilence, wake_of
from notifier.storedrules import readable
from notifier.tools import Tools
from notifier.trail import note_step

BATCH = 20  # alerts of one transaction
POLL_S = 1.0
LOCKED_S = 0.1
POSTPONED = timedelta(minutes=1)
UNACKNOWLEDGED = "nobody acknowledged for {seconds} s"
STILL_FIRING = "still firing after {seconds} s"
WAITED_FOR = tuple(words.partition("{")[0] for words in (QUIET, LASTS))
WAITING = ("pending", "retrying", "sending", "held")

log = structlog.get_logger()


@dataclass(frozen=True)
class Followed:
    """`count`: of how many alerts it was done; `shards`: to ring."""

    count: int = 0
    shards: frozenset[int] = frozenset()


class Follower:
    """Looks every second, and when the next follow-up is due. Every worker has one."""

    def __init__(self, tools: Tools, wake: Callable[[Iterable[int]], None]) -> None:
        self._tools, self._wake = tools, wake

    def run(self, ended: threading.Event) -> None:
        wait_s = 0.0
        while not ended.wait(wait_s):
            wait_s = POLL_S
            try:
                wait_s = self._look()
            except SQLAlchemyError as error:
                log.warning("not_followed_up", why=type(error).__name__)
            except BaseException:  # a border: nothing is followed up any more by a thread that has ended
                log.exception("not_followed_up")

    def _look(self) -> float:
        """Seconds until the next look."""
        store = self._tools.store
        with store.read() as session:
            now = store.now(session)
            next_at = session.scalar(select(Followup.due_at).order_by(Followup.due_at).limit(1))
        if next_at is None:
            return POLL_S
        if next_at > now:
            return min(POLL_S, (next_at - now).total_seconds())
        done = self._tools.writer.run(lambda session: follow(session, store.now(session)))
        faultpoints.hit("followed_up")
        self._wake(done.shards)
        return 0.0 if done.count else LOCKED_S


def follow(session: Session, now: datetime) -> Followed:
    """Does what is due of some alerts; those that another worker is about are left to it."""
    count, shards = 0, set[int]()
    first = select(Followup.alert_id).where(Followup.due_at <= now).order_by(Followup.due_at)
    for alert_id in sorted(set(session.scalars(first.limit(BATCH)))):
        try:
            with session.begin_nested():
                found = _of_alert(session, alert_id, now)
        except (OperationalError, InterfaceError):
            raise
        except BaseException:  # a border: one alert that cannot be followed up must not keep back the others
            log.exception("alert_not_followed_up", alert=alert_id)
            _postpone(session, alert_id, now)
            found = set()
        if found is not None:
            count, shards = count + 1, shards | found
    faultpoints.hit("following_up")
    return Followed(count, frozenset(shards))


def _of_alert(session: Session, alert_id: str, now: datetime) -> set[int] | None:
    """The shards to ring; None: somebody else has the alert, or had it just now."""
    this = select(Alert).where(Alert.id == alert_id)
    locked = this.with_for_update(skip_locked=True).execution_options(populate_existing=True)
    alert = session.scalars(locked).first()
    if alert is None:
        if session.scalars(this).first() is not None:
            return None
        session.execute(delete(Followup).where(Followup.alert_id == alert_id))
        return set()
    which = select(Followup).where(Followup.alert_id == alert_id, Followup.due_at <= now)
    ordered = which.order_by(Followup.due_at, Followup.kind, Followup.n)
    rows = session.scalars(ordered.execution_options(populate_existing=True)).all()
    if not rows:
        return None
    shards = set[int]()
    for row in sorted(rows, key=_turn):
        if row.due_at > now:  # the step before was late
            continue
        step = due(Kind(row.kind), row.spec, _standing(session, alert, now), now)
        if step.do is Do.TELL:
            shards |= _tell(session, alert, row, now)
            metrics.FOLLOWED.labels(row.kind).inc()
            note_step(session, "alert_followed_up", alert, kind=row.kind, n=row.n)
            if row.kind == Kind.ESCALATE:
                _keep_apart(session, row, now)
        if step.again_at is None:
            session.delete(row)
        else:
            row.due_at = step.again_at
        session.flush()
    return shards


def _turn(row: Followup) -> tuple[bool, int]:
    """What was kept back comes first, then the steps in their order."""
    return row.kind != Kind.UNSILENCE, row.spec.get("after_s", 0)


def _keep_apart(session: Session, told: Followup, now: datetime) -> None:
    """Steps after one that was told late keep their distance from it: who is called has time to answer."""
    others = select(Followup).where(Followup.alert_id == told.alert_id, Followup.kind == Kind.ESCALATE)
    for row in session.scalars(others):
        gap = timedelta(seconds=row.spec["after_s"] - told.spec["after_s"])
        if gap:
            row.due_at = max(row.due_at, now + gap)


def _standing(session: Session, alert: Alert, now: datetime) -> Standing:
    is_firing = is_open(alert, now)
    hush = hush_of(session, alert, now) if is_firing else None
    rows = _told(session, alert) if is_firing else ()
    return Standing(
        created_at=alert.created_at,
        is_open=is_firing,
        is_acked=alert.acked_at is not None,
        silenced_until=hush.ends_at if hush is not None else None,
        untold_until=untold_until(rows, now),
        told_at=min((row.created_at for row in rows), default=None),
    )


def untold_until(rows: Sequence[Delivery], now: datetime) -> datetime | None:
    """When the first will be told, where all of them wait because their rules say so."""
    moments = [
        row.next_attempt_at for row in rows if row.state == "pending" and row.why.startswith(WAITED_FOR)
    ]
    later = [moment for moment in moments if moment is not None and moment > now]
    return min(later) if later and len(later) == len(rows) else None


def _told(session: Session, alert: Alert) -> Sequence[Delivery]:
    """Whoever was or will be told that it is firing."""
    rows = select(Delivery).where(
        Delivery.alert_id == alert.id, Delivery.status == FIRING, Delivery.state != "suppressed"
    )
    return session.scalars(rows).all()


def _tell(session: Session, alert: Alert, row: Followup, now: datetime) -> set[int]:
    if row.kind == Kind.ESCALATE:
        why = UNACKNOWLEDGED.format(seconds=row.spec["after_s"])
        found = _routed(session, alert, row, now)
        lost = [f"{words} ({why})" for words in found.why]
        alert.why = "; ".join(filter(None, [alert.why, *lost]))
        return _put(session, alert, _with((*found.told, *found.unasked), ESCALATION, why), now)
    if row.kind == Kind.REMIND:
        why = STILL_FIRING.format(seconds=round((now - alert.created_at).total_seconds()))
        every = timedelta(seconds=row.spec["every_s"])
        known = _told(session, alert)
        told = [
            one
            for one in _routed(session, alert, row, now).told
            if may_be_reminded(one[0], known, every, now)
        ]
        return _put(session, alert, _with(told, REMIND, why), now)
    return unsilence(session, alert, row.spec, now)


def may_be_reminded(
    channel: KnownChannel, known: Sequence[Delivery], every: timedelta, now: datetime
) -> bool:
    """Nothing of the alert waits to be told there, and nothing was told just now: reminders never pile up."""
    there = [row for row in known if row.channel_id == channel.id]
    is_news = any(row.state in WAITING or row.created_at > now - every / 2 for row in there)
    return channel.enabled and not is_news


def _routed(session: Session, alert: Alert, row: Followup, now: datetime) -> Routed:
    config, _ = readable({"rules": [row.spec["rule"]]})
    return routed_by(session, alert, config, now, skip=row.spec.get("skip"))


def _with(
    told: Iterable[tuple[KnownChannel, Telling]], trigger: str, why: str
) -> Iterable[tuple[KnownChannel, Telling]]:
    for channel, telling in told:
        words = f"{telling.why}; {why}" if telling.why else why
        yield channel, replace(telling, trigger=trigger, why=words)


def _put(
    session: Session, alert: Alert, told: Iterable[tuple[KnownChannel, Telling]], now: datetime
) -> set[int]:
    return wake_of(session, put(session, alert, told, now), now)


def _postpone(session: Session, alert_id: str, now: datetime) -> None:
    session.execute(
        update(Followup)
        .where(Followup.alert_id == alert_id, Followup.due_at <= now)
        .values(due_at=now + POSTPONED),
        execution_options={"synchronize_session": False},
    )
