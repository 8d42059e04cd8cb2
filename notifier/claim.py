"""Claims: what may be sent now becomes ours for a few seconds, by the database's clock.

What waits for its turn is claimed by nobody, so it can still be merged.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import structlog
from sqlalchemy import select, update
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from channels.base import Adapter
from channels.registry import ADAPTERS
from notifier import pace, retry
from notifier.attempts import give_up_lost, under_way
from notifier.channels import DISABLED
from notifier.digests import UNSENT, gather
from notifier.doorbell import SHARDS, move_on
from notifier.fallback import hold
from notifier.leases import LEASE, Slots
from notifier.model import Channel, Delivery
from notifier.plan import RELEASED, Candidate, Plan, plan
from notifier.settle import GONE, OPEN, close, expire

MAX_CHANNELS = 25  # of one claim
MAX_SENDS = 100
MAX_CANDIDATES = 5000
LOCKED_WAIT = timedelta(milliseconds=20)

log = structlog.get_logger()


@dataclass
class Claim:
    """What a claim brought.

    Attributes:
        ids: deliveries that are ours by `token`.
        wake: shards in which it made work.
        again_at: something waits for its turn, or for another worker's claim to end, until then.
        is_starved: something is due for which there is no thread.
        is_partial: there are more channels than one claim looks at.
    """

    token: str
    ids: list[str] = field(default_factory=list)
    wake: set[int] = field(default_factory=set)
    again_at: datetime | None = None
    is_starved: bool = False
    is_partial: bool = False

    def look_again(self, moment: datetime) -> None:
        self.again_at = moment if self.again_at is None else min(self.again_at, moment)


@dataclass(frozen=True)
class Claiming:
    """One claim, in the caller's transaction."""

    session: Session
    token: str
    slots: Slots
    now: datetime

    def shard(self, shard: int) -> Claim:
        """Claim what is due in a shard, as far as there are slots for it."""
        claim = Claim(self.token)
        wanted = self._due_channels(shard)
        claim.is_partial = len(wanted) > MAX_CHANNELS
        locked = self._lock(wanted[:MAX_CHANNELS])
        for channel in locked:
            self._apart(channel, claim)
        if len(locked) < len(wanted[:MAX_CHANNELS]):
            missing = set(wanted[:MAX_CHANNELS]) - {channel.id for channel in locked}
            self._without_channel(missing, shard, claim)
        move_on(self.session, shard)
        return claim

    def _apart(self, channel: Channel, claim: Claim) -> None:
        """What goes wrong with one channel must not hold up the others of its shard."""
        before = len(claim.ids)
        try:
            with self.session.begin_nested():
                self._channel(channel, claim)
        except DBAPIError:
            raise
        except Exception:
            log.exception("channel_not_claimed", channel=channel.id)
            del claim.ids[before:]

    def _due_channels(self, shard: int) -> list[str]:
        due = select(Delivery.channel_id).where(
            OPEN, Delivery.shard == shard, Delivery.next_attempt_at <= self.now
        )
        return list(self.session.scalars(due.group_by(Delivery.channel_id).limit(MAX_CHANNELS + 1)))

    def _lock(self, ids: Sequence[str]) -> Sequence[Channel]:
        """On PostgreSQL those that no other worker claims right now; on SQLite nobody else writes at all."""
        rows = select(Channel).where(Channel.id.in_(ids)).order_by(Channel.id)
        return self.session.scalars(rows.with_for_update(skip_locked=True)).all()

    def _channel(self, channel: Channel, claim: Claim) -> None:
        adapter = ADAPTERS.get(channel.kind)
        self._recover(channel.id, channel.shard, adapter, claim)
        if not channel.enabled:
            self._close_unsent(channel.id, channel.shard, "suppressed", DISABLED)
        elif channel.health == "broken" or adapter is None:
            claim.wake |= hold(self.session, channel, self.now)
        else:
            self._send(channel, adapter, claim)

    def _send(self, channel: Channel, adapter: Adapter, claim: Claim) -> None:
        rows = self._candidates(channel)
        room = min(self.slots.room(channel.id, len(claim.ids)), MAX_SENDS - len(claim.ids))
        decided = plan(rows, self._turns(channel, adapter, len(rows)), room, self.now)
        self._expire(decided, claim)
        ids = [*decided.sends, *(gather(self.session, merge, self.now) for merge in decided.merges)]
        claim.ids += self._lease(ids)
        self._wait(decided, claim)
        claim.is_starved |= len(ids) == room

    def _turns(self, channel: Channel, adapter: Adapter, count: int) -> list[datetime]:
        start = max(self.now, channel.paused_until or self.now)
        if not adapter.limits and start == self.now:
            return []
        sends = under_way(self.session, channel.id, adapter.limits, self.now) if adapter.limits else ()
        return pace.turns(adapter.limits, sends, start, count)

    def _lease(self, ids: Sequence[str]) -> list[str]:
        if not ids:
            return []
        until = self.now + LEASE
        ours = self.session.scalars(
            update(Delivery)
            .where(Delivery.id.in_(ids), Delivery.state.in_(UNSENT), Delivery.merged_into.is_(None))
            .values(state="sending", lease_token=self.token, lease_until=until, next_attempt_at=until)
            .returning(Delivery.id),
            execution_options={"synchronize_session": False},
        ).all()
        return sorted(ours, key=ids.index)

    def _expire(self, decided: Plan, claim: Claim) -> None:
        for row in self._rows(decided.expired):
            claim.wake |= expire(self.session, row, self.now)

    def _wait(self, decided: Plan, claim: Claim) -> None:
        if not decided.waits:
            return
        until = [{"id": name, "next_attempt_at": moment} for name, moment in decided.waits.items()]
        self.session.execute(update(Delivery), until)
        claim.look_again(min(decided.waits.values()))

    def _candidates(self, channel: Channel) -> list[Candidate]:
        rows = self.session.execute(
            select(
                Delivery.id, Delivery.order_key, Delivery.severity, Delivery.next_attempt_at,
                Delivery.expires_at, Delivery.is_digest, Delivery.state, Delivery.attempt_count, Delivery.why,
            )
            .where(
                OPEN, Delivery.shard == channel.shard,
                Delivery.channel_id == channel.id, Delivery.merged_into.is_(None),
            )
            .order_by(Delivery.id)
            .limit(MAX_CANDIDATES)
        ).all()  # fmt: skip
        keys = self._keys([row.id for row in rows if row.is_digest])
        return [
            Candidate(
                id=row.id,
                keys=frozenset(keys.get(row.id, ())) | {row.order_key},
                severity=row.severity,
                due_at=row.next_attempt_at or self.now,
                expires_at=row.expires_at,
                is_digest=row.is_digest,
                is_in_flight=row.state == "sending",
                is_tried=row.attempt_count > 0,
                released=row.why == RELEASED,
            )
            for row in rows
        ]

    def _keys(self, digests: Sequence[str]) -> dict[str, set[str]]:
        if not digests:
            return {}
        found: dict[str, set[str]] = {}
        members = select(Delivery.merged_into, Delivery.order_key).where(Delivery.merged_into.in_(digests))
        for digest, key in self.session.execute(members):
            found.setdefault(str(digest), set()).add(key)
        return found

    def _recover(self, channel_id: str, shard: int, adapter: Adapter | None, claim: Claim) -> None:
        """Leases that ran out: their worker is lost, and perhaps what it sent is told."""
        lost = select(Delivery).where(
            OPEN, Delivery.shard == shard, Delivery.channel_id == channel_id,
            Delivery.state == "sending", Delivery.next_attempt_at <= self.now,
        )  # fmt: skip
        rows = self.session.scalars(lost.with_for_update(skip_locked=True)).all()
        for row in rows:
            claim.wake |= self._take_back(row, adapter)
        self.session.flush()

    def _take_back(self, row: Delivery, adapter: Adapter | None) -> set[int]:
        losses = give_up_lost(self.session, row, self.now)
        row.lease_token, row.lease_until = None, None
        row.state, row.next_attempt_at = ("retrying" if row.attempt_count else "pending"), self.now
        if losses and adapter is not None:
            known = retry.Tried(
                row.id, row.tries, row.expires_at, resend_when_unknown=adapter.resend_when_unknown
            )
            verdict = retry.after_loss(known, losses, self.now)
            row.state, row.tries, row.why = verdict.state, verdict.tries, verdict.why
            row.next_attempt_at = verdict.again_at
        return close(self.session, row, self.now)

    def _without_channel(self, ids: set[str], shard: int, claim: Claim) -> None:
        """Another worker claims on these now; or the channel is no more."""
        there = set(self.session.scalars(select(Channel.id).where(Channel.id.in_(ids))))
        if there:
            claim.look_again(self.now + LOCKED_WAIT)
        for channel_id in ids - there:
            self._recover(channel_id, shard, None, claim)
            self._close_unsent(channel_id, shard, "failed", GONE)

    def _close_unsent(self, channel_id: str, shard: int, state: str, why: str) -> None:
        self.session.execute(
            update(Delivery)
            .where(
                OPEN, Delivery.shard == shard, Delivery.channel_id == channel_id, Delivery.state.in_(UNSENT)
            )
            .values(state=state, why=why, next_attempt_at=None),
            execution_options={"synchronize_session": False},
        )

    def _rows(self, ids: Sequence[str]) -> Sequence[Delivery]:
        if not ids:
            return ()
        return self.session.scalars(select(Delivery).where(Delivery.id.in_(ids)).order_by(Delivery.id)).all()


def due_shards(session: Session, now: datetime) -> list[int]:
    """Where there is anything to do. One look into an index, cheap enough for every second."""
    due = select(Delivery.shard).where(
        OPEN, Delivery.shard.in_(range(SHARDS)), Delivery.next_attempt_at <= now
    )
    return list(session.scalars(due.distinct()))
