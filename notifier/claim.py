"""Claims: what may be sent now becomes ours for a few seconds, by the database's clock.

What waits for its turn is claimed by nobody, so it can still be merged.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, cast

import structlog
from sqlalchemy import Table, bindparam, func, select, update
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from channels.base import Adapter
from channels.registry import adapter as adapter_of
from notifier import meters, metrics, retry
from notifier.attempts import give_up_lost
from notifier.candidates import candidates, open_rows
from notifier.channels import DISABLED
from notifier.digests import UNSENT, gather
from notifier.doorbell import SHARDS, move_on
from notifier.fallback import hold
from notifier.gathering import capacity
from notifier.leases import LEASE, Slots
from notifier.model import Channel, Delivery
from notifier.pace import Book, Pace
from notifier.plan import Candidate, Plan, plan
from notifier.receipts import expect_lost
from notifier.settle import GONE, OPEN, close, expire
from notifier.singles import glance, singles
from notifier.waiting import WAITS

MAX_CHANNELS = 25  # of one claim
MAX_SENDS = 200
LOCKED_WAIT = timedelta(milliseconds=20)

log = structlog.get_logger()


# Built once: to build a statement takes longer than to run it, and a claim is on every alert's way.
_C = cast(Table, Channel.__table__)
_DUE = select(*_C.c).where(
    _C.c.id.in_(
        select(Delivery.channel_id).where(
            OPEN,
            Delivery.shard.in_(bindparam("shards", expanding=True)),
            Delivery.next_attempt_at <= bindparam("now"),
        )
    ),
    _C.c.id.not_in(bindparam("but", expanding=True)),
)
_DUE_LOCKED = _DUE.order_by(_C.c.id).limit(MAX_CHANNELS).with_for_update(skip_locked=True)
_DUE_COUNT = select(func.count()).select_from(_DUE.subquery())
_D = cast(Table, Delivery.__table__)
_LEASE = (
    _D.update()
    .where(
        _D.c.id.in_(bindparam("ids", expanding=True)),
        _D.c.state.in_(UNSENT),
        _D.c.merged_into.is_(None),
    )
    .values(
        state="sending",
        lease_token=bindparam("token"),
        lease_until=bindparam("until"),
        next_attempt_at=bindparam("until"),
    )
    .returning(*_D.c)
)


class ChannelError(Exception):
    """Something is wrong with one channel's deliveries; the others of its shard are claimed without it."""

    def __init__(self, channel_id: str) -> None:
        super().__init__(channel_id)
        self.channel_id = channel_id


@dataclass
class Claim:
    """What a claim brought.

    Attributes:
        rows: deliveries that are ours by `token`, in the order in which they are to be sent; read only.
        singles: those that stand by themselves, before they are all leased together.
        channels: theirs, by id.
        wake: shards in which it made work.
        again_at: something waits for its turn, or for another worker's claim to end, until then.
        is_starved: something is due for which there is no thread.
        looked_at: channels.
        meters: theirs, by channel, of those that may have a limit.
        is_partial: there may be more of them than one claim looks at.
    """

    token: str
    rows: list[Any] = field(default_factory=list)
    singles: list[str] = field(default_factory=list)
    channels: dict[str, Channel] = field(default_factory=dict)
    wake: set[int] = field(default_factory=set)
    again_at: datetime | None = None
    is_starved: bool = False
    looked_at: set[str] = field(default_factory=set)
    meters: Mapping[str, Sequence[str]] = field(default_factory=dict)
    is_partial: bool = False

    def look_again(self, moment: datetime) -> None:
        self.again_at = moment if self.again_at is None else min(self.again_at, moment)


@dataclass(frozen=True)
class Claiming:
    """One claim, in the caller's transaction.

    Attributes:
        but: channels that are left alone.
        rung: shards whose next bell gets another name although nothing may be due there.
    """

    session: Session
    token: str
    slots: Slots
    now: datetime
    but: frozenset[str] = frozenset()
    rung: frozenset[int] = frozenset()

    def shards(self, shards: Sequence[int]) -> Claim:
        """Claim what is due in these shards, as far as there are slots for it."""
        claim = Claim(self.token)
        channels = self._lock_due(shards, claim)
        claim.looked_at = {channel.id for channel in channels}
        claim.is_partial = len(channels) == MAX_CHANNELS
        limited = [channel.id for channel in channels if meters.may_limit(adapter_of(channel.kind))]
        claim.meters = meters.of(self.session, limited)
        known = glance(self.session, channels) if channels else None
        for channel in channels:
            try:
                self._channel(channel, claim, None if known is None else known[channel.id])
            except DBAPIError:
                raise
            except BaseException as error:
                log.exception("channel_not_claimed", channel=channel.id)
                raise ChannelError(channel.id) from error
        claim.rows += self._lease(claim.singles)
        move_on(self.session, self.rung.union(channel.shard for channel in channels))
        return claim

    def _lock_due(self, shards: Sequence[int], claim: Claim) -> Sequence[Channel]:
        """Channels with due deliveries. On PostgreSQL locked, without those that another worker claims on
        right now; on SQLite nobody else writes at all."""
        which = {"shards": list(shards), "now": self.now, "but": list(self.but)}
        locked = self.session.execute(_DUE_LOCKED, which).all()
        if self.session.get_bind().dialect.name == "postgresql":
            there = self.session.scalar(_DUE_COUNT, which)
            if (there or 0) > len(locked):
                claim.look_again(self.now + LOCKED_WAIT)
        return cast(Sequence[Channel], locked)  # read only, as all that a task has

    def _channel(self, channel: Channel, claim: Claim, known: Sequence[Any] | None) -> None:
        adapter, promised = adapter_of(channel.kind), len(claim.rows) + len(claim.singles)
        room = min(self.slots.room(channel.id, promised), MAX_SENDS - promised)
        if room == 0 and channel.enabled and channel.health != "broken":
            claim.is_starved = True
        elif not self._at_a_glance(channel, adapter, room, claim, known):
            self._in_full(channel, adapter, room, claim)

    def _at_a_glance(
        self, channel: Channel, adapter: Adapter, room: int, claim: Claim, known: Sequence[Any] | None
    ) -> bool:
        """Whether that could be done. `known`: its open deliveries."""
        is_held_back = channel.paused_until is not None and channel.paused_until > self.now
        if not channel.enabled or channel.health == "broken" or is_held_back:
            return False
        if any(meters.limits(adapter, claim.meters.get(channel.id, ()), self.now).values()):
            return False
        ids = singles(self.session, channel, room, self.now, known)
        if ids is None:
            return False
        claim.singles += ids
        claim.channels[channel.id] = channel
        claim.is_starved |= len(ids) == room
        return True

    def _in_full(self, channel: Channel, adapter: Adapter, room: int, claim: Claim) -> None:
        rows = open_rows(self.session, channel)
        lost = [row.id for row in rows if row.state == "sending" and row.next_attempt_at <= self.now]
        if lost:
            self._recover(lost, adapter, claim)
            rows = open_rows(self.session, channel)
        if not channel.enabled:
            self._close_unsent(channel)
        elif channel.health == "broken":
            claim.wake |= hold(self.session, channel, self.now)
        else:
            found = candidates(self.session, rows, channel, adapter, self.now)
            self._send(channel, adapter, found, room, claim)

    def _send(
        self, channel: Channel, adapter: Adapter, rows: Sequence[Candidate], room: int, claim: Claim
    ) -> None:
        pace = self._pace(channel, adapter, claim.meters.get(channel.id, ()))
        if pace is None:  # another worker counts just now
            claim.look_again(self.now + LOCKED_WAIT)
            return
        decided = plan(rows, pace, room, self.now, capacity(adapter.space(channel.config)))
        self._expire(decided, claim)
        ids = [*decided.sends, *(gather(self.session, merge, self.now) for merge in decided.merges)]
        claim.rows += self._lease(ids)
        claim.channels[channel.id] = channel
        self._wait(decided, rows, claim)
        claim.is_starved |= len(ids) == room

    def _pace(self, channel: Channel, adapter: Adapter, names: Sequence[str]) -> Pace | None:
        start = max(self.now, channel.paused_until or self.now)
        limits = {meter: some for meter, some in meters.limits(adapter, names, self.now).items() if some}
        if not meters.lock(self.session, limits, wait=False):
            return None
        books = {
            meter: Book(some, meters.sends(self.session, meter, some, self.now), start)
            for meter, some in limits.items()
        }
        books = books if len(books) == len(names) else {}  # who has no limit can be told at any time
        return Pace(books, start, is_by_name=bool(books) and "to" in channel.config)

    def _lease(self, ids: Sequence[str]) -> list[Any]:
        if not ids:
            return []
        ours = self.session.execute(_LEASE, {"ids": ids, "token": self.token, "until": self.now + LEASE})
        found = {row.id: row for row in ours}
        return [found[one] for one in ids if one in found]

    def _expire(self, decided: Plan, claim: Claim) -> None:
        for row in self._rows(decided.expired):
            claim.wake |= expire(self.session, row, self.now)

    def _wait(self, decided: Plan, rows: Sequence[Candidate], claim: Claim) -> None:
        if not decided.waits:
            return
        says_so = {row.id for row in rows if not (row.is_tried or row.released or row.is_waiting)}
        until = [{"id": name, "next_attempt_at": moment} for name, moment in decided.waits.items()]
        for group in (
            [{**one, "why": WAITS} for one in until if one["id"] in says_so],
            [one for one in until if one["id"] not in says_so],
        ):
            if group:
                self.session.execute(update(Delivery), group)
        claim.look_again(min(decided.waits.values()))

    def _recover(self, ids: Sequence[str], adapter: Adapter, claim: Claim) -> None:
        """Leases that ran out: their worker is lost, and perhaps what it sent is told."""
        lost = select(Delivery).where(
            Delivery.id.in_(ids), Delivery.state == "sending", Delivery.next_attempt_at <= self.now
        )
        for row in self.session.scalars(lost.with_for_update(skip_locked=True)).all():
            claim.wake |= take_back(self.session, row, adapter, self.now)
        self.session.flush()

    def _close_unsent(self, channel: Channel) -> None:
        self.session.execute(
            update(Delivery)
            .where(Delivery.channel_id == channel.id, Delivery.state.in_(UNSENT))
            .values(state="suppressed", why=DISABLED, next_attempt_at=None),
            execution_options={"synchronize_session": False},
        )

    def _rows(self, ids: Sequence[str]) -> Sequence[Delivery]:
        if not ids:
            return ()
        return self.session.scalars(select(Delivery).where(Delivery.id.in_(ids)).order_by(Delivery.id)).all()


def take_back(session: Session, row: Delivery, adapter: Adapter | None, now: datetime) -> set[int]:
    """A delivery whose worker was lost is nobody's again; without an adapter its channel is no more."""
    metrics.RECONCILED.labels("taken_back").inc()
    losses, token = give_up_lost(session, row, now), row.lease_token
    row.lease_token = row.lease_until = None
    row.state, row.next_attempt_at = ("retrying" if row.attempt_count else "pending"), now
    if adapter is None:
        row.state, row.why, row.next_attempt_at = "failed", GONE, None
    elif losses:
        lost = expect_lost(session, row, str(token), adapter, now)
        again = adapter.resend_when_unknown
        known = retry.Tried(row.id, row.tries, row.expires_at, resend_when_unknown=again)
        verdict = retry.after_loss(known, losses, now, lost)
        row.state, row.tries, row.why = verdict.state, verdict.tries, verdict.why
        row.next_attempt_at = verdict.again_at
    return close(session, row, now)


def due_shards(session: Session, now: datetime) -> list[int]:
    """Where there is anything to do. One look into an index, cheap enough for every second."""
    due = select(Delivery.shard).where(
        OPEN, Delivery.shard.in_(range(SHARDS)), Delivery.next_attempt_at <= now
    )
    return list(session.scalars(due.distinct()))
