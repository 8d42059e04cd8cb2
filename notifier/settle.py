"""Writes a verdict down: on the delivery, on a digest's members, on the channel; and tells the fallback."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, cast

from sqlalchemy import Table, bindparam, select, text, update
from sqlalchemy.orm import Session

from channels.base import Answer, Outcome, Recipient
from channels.registry import adapter
from notifier import meters, metrics
from notifier.attempts import complete, was_throttled
from notifier.digests import UNSENT, settle_members
from notifier.failing import raise_channel_failing
from notifier.fallback import hold, tell_fallback
from notifier.model import FINAL_STATES, Channel, Delivery
from notifier.receipts import expect
from notifier.recipients import QUOTA, TOLD, document, quota_words, waits_for_quota
from notifier.retry import EXPIRED, Tried, Verdict, after, queue_again, wait_for
from notifier.waiting import waits_for

OPEN = text("deliveries.state in ('pending','retrying','sending')")  # literally, as the partial index says
GONE = "the channel was deleted while this was on its way"


_ROW = (
    select(Delivery)
    .where(Delivery.id == bindparam("id_"))
    .with_for_update()
    .execution_options(populate_existing=True)
)
_D = cast(Table, Delivery.__table__).c
_NEXT_DUE = (
    select(_D.shard)
    .where(
        OPEN,
        _D.shard.in_(bindparam("shards", expanding=True)),
        _D.next_attempt_at <= bindparam("now"),
        _D.channel_id.in_(bindparam("channels", expanding=True)),
    )
    .limit(1)
)


@dataclass(frozen=True, kw_only=True)
class Settlement:
    """Try `n` of a delivery has ended.

    Attributes:
        attempt_id: the last attempt, which `answer` completes; None: nothing was sent.
        outcome: what the answer means for the whole delivery, with all that was told before.
        turn_at: nothing more was sent, because the channel's next turn comes only then; it takes `wanted`.
        sent_at: whom this try was sent to by name, and when.
        free: who was not sent to, being over the provider's quota, and until when.
        uncounted: meters under which the last attempt does not count.
        receipts_after: when the provider is to be asked what became of it.
        mends: all that was done to get it through.
        note: what people should know all the same, such as a template that failed.
    """

    delivery_id: str
    token: str
    n: int
    channel_id: str
    attempt_id: int | None
    answer: Answer
    outcome: Outcome
    turn_at: datetime | None = None
    wanted: int = 1
    recipients: Sequence[Recipient] = ()
    sent_at: Mapping[str, datetime] = field(default_factory=dict)
    free: Mapping[str, datetime] = field(default_factory=dict)
    uncounted: Collection[str] = ()
    receipts_after: Sequence[timedelta] = ()
    mends: Sequence[str] = ()
    note: str = ""


@dataclass(frozen=True)
class Settled:
    """`is_ours`: it was written; else another worker has the delivery by now. `wake`: shards with work."""

    is_ours: bool
    state: str | None = None
    wake: frozenset[int] = frozenset()


def settle(session: Session, done: Settlement, now: datetime) -> Settled:
    """Write the verdict, unless the lease went to somebody else."""
    row = session.scalars(_ROW, {"id_": done.delivery_id}).first()
    if done.attempt_id is not None:
        complete(session, done.attempt_id, done.answer, now, done.uncounted)
    if row is None or not (_is_ours(row, done) or _is_news(row, done)):
        return Settled(is_ours=False)
    channel = session.get(Channel, done.channel_id)
    verdict = _verdict(session, row, done, now)
    _write(row, done, verdict, now)
    expect(session, row, done.receipts_after, done.sent_at, now)
    wake = set()
    if channel is None:
        if row.state in UNSENT:
            row.state, row.why, row.next_attempt_at = "failed", GONE, None
    else:
        wake |= _on_channel(session, channel, verdict, now)
    wake |= close(session, row, now)
    if has_due(session, [row], now):
        wake.add(row.shard)
    return Settled(is_ours=True, state=row.state, wake=frozenset(wake))


def expire(session: Session, row: Delivery, now: datetime) -> set[int]:
    """Too old to be of use to anybody here; the fallback is told. Shards to wake."""
    row.state, row.next_attempt_at, row.lease_token, row.lease_until = "expired", None, None, None
    row.why = f"{EXPIRED}; last: {row.why}" if row.why else EXPIRED
    if row.error_message is None:
        row.error_code, row.error_message = "expired", EXPIRED
    row.error_permanent = True
    metrics.RECONCILED.labels("expired").inc()
    return close(session, row, now)


def close(session: Session, row: Delivery, now: datetime) -> set[int]:
    """What follows when a delivery is final: its members share its fate, or its fallback is told."""
    if row.state not in FINAL_STATES:
        return set()
    session.flush()
    wake = tell_fallback(session, row, now) if row.state in ("failed", "expired") else set()
    if row.is_digest:
        settle_members(session, row)
    return wake


def break_channel(session: Session, channel: Channel, why: str, now: datetime) -> set[int]:
    """The channel itself is at fault: what waits is held, its fallback told, `channelFailing` raised."""
    is_new = channel.health != "broken"
    if is_new:
        metrics.RECONCILED.labels("channel_broken").inc()
    channel.health, channel.health_why, channel.paused_until = "broken", why, None
    session.flush()
    wake = hold(session, channel, now)
    if is_new:
        wake |= raise_channel_failing(session, channel, why, now).shards
    return wake


def has_due(session: Session, rows: Iterable[Any], now: datetime) -> bool:
    """Whether something else waits for one of their channels, such as the next one of the same key."""
    shard_of = {row.channel_id: row.shard for row in rows}
    which = {"shards": sorted(set(shard_of.values())), "now": now, "channels": sorted(shard_of)}
    return session.execute(_NEXT_DUE, which).first() is not None


def _is_ours(row: Delivery, done: Settlement) -> bool:
    return row.state == "sending" and row.lease_token == done.token


def _is_news(row: Delivery, done: Settlement) -> bool:
    """Late, but nobody has begun to tell it again, and it was told; or at least nobody knows better."""
    if row.attempt_count != done.n or row.merged_into is not None or done.turn_at is not None:
        return False
    return done.outcome in TOLD if row.state == "retrying" else row.state == "unknown"


def _on_channel(session: Session, channel: Channel, verdict: Verdict, now: datetime) -> set[int]:
    if verdict.breaks_channel:
        return break_channel(session, channel, verdict.why, now)
    if verdict.pause_until is not None and (channel.paused_until or now) < verdict.pause_until:
        session.execute(  # the penalty is the robot's, and others may have channels to it
            update(Channel)
            .where(Channel.id.in_(meters.sharing(channel)))
            .values(paused_until=verdict.pause_until)
        )
    if verdict.state in ("delivered", "accepted") and channel.health == "unknown":
        session.execute(
            update(Channel).where(Channel.id == channel.id, Channel.health == "unknown").values(health="ok")
        )
    return set()


def _verdict(session: Session, row: Delivery, done: Settlement, now: datetime) -> Verdict:
    if done.turn_at is not None:
        why = waits_for(done.wanted)
        is_new = row.attempt_count == 0
        return queue_again(row.tries, why, now) if is_new else wait_for(done.turn_at, row.tries, why)
    if _is_over_quota(done):
        return wait_for(min(row.expires_at, *done.free.values()), row.tries, "")
    tried = Tried(
        row.id,
        row.tries,
        row.expires_at,
        resend_when_unknown=adapter(row.kind).resend_when_unknown,
        was_throttled=done.outcome is Outcome.THROTTLED and was_throttled(session, done.attempt_id),
    )
    verdict = after(_decisive(done), tried, now)
    if verdict.state != "retrying" or not done.free:
        return verdict
    # Whoever is over his quota has a moment of his own.
    again_at = min(verdict.again_at or row.expires_at, *done.free.values())
    return replace(verdict, again_at=max(again_at, now))


def _decisive(done: Settlement) -> Answer:
    """The answer that decides what becomes of the whole: the last one, unless it is good news and others
    than those it tells of decide."""
    answer = done.answer
    those = [one for one in done.recipients if one.outcome is done.outcome]
    if answer.outcome is done.outcome or not those:
        return replace(answer, outcome=done.outcome)
    said = ", ".join(f"{one.to} ({one.code})" for one in those if one.code != QUOTA)
    return replace(
        answer, outcome=done.outcome, code=those[0].code, message=f"not told: {said}" if said else ""
    )


def _is_over_quota(done: Settlement) -> bool:
    """Whether nothing else is waited for."""
    open_now = [one for one in done.recipients if one.outcome is Outcome.THROTTLED]
    return done.outcome is Outcome.THROTTLED and bool(done.free) and all(map(waits_for_quota, open_now))


def _write(row: Delivery, done: Settlement, verdict: Verdict, now: datetime) -> None:
    is_told = verdict.state in ("delivered", "accepted")
    row.state, row.tries = verdict.state, verdict.tries
    told = (done.note, "" if is_told else verdict.why, quota_words(done.free))
    row.why = "; ".join(words for words in told if words)
    row.next_attempt_at = verdict.again_at if verdict.state in UNSENT else None
    row.lease_token = row.lease_until = None
    row.mends = list(done.mends)
    row.recipients = [document(one) for one in done.recipients]
    if done.turn_at is not None:
        return  # nothing was answered
    answer = _decisive(done)
    row.provider_message_id = answer.message_id or row.provider_message_id
    row.delivered_at = now if is_told else None
    row.error_code = None if is_told else answer.code or done.outcome.value
    row.error_message = None if is_told else answer.message or row.why
    row.error_permanent = None if is_told else verdict.is_permanent
