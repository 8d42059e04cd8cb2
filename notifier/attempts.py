"""Attempt rows: the intent before a send, the answer after it, and the doubt where a worker died between."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, cast

from sqlalchemy import Table, bindparam, func, or_, select, update
from sqlalchemy.orm import Session

from channels.base import Answer, Limit, Outcome, Recipient
from notifier import meters, retry
from notifier.bulk import Bulk
from notifier.leases import LEASE
from notifier.model import Attempt, ChannelMeter, Delivery, MeterUse
from notifier.pace import Book, Lane
from notifier.recipients import UNDER_WAY, document, over_quota
from notifier.storage import Instant

WORKER_LOST = "worker_lost"
RECEIPT = "receipt"  # a trigger: the provider was asked what became of a send


# On every alert's way, so built once, and without the ORM's help.
_DELIVERIES, _ATTEMPTS = cast(Table, Delivery.__table__), cast(Table, Attempt.__table__)
_BEGUN = (
    _DELIVERIES.update()
    .where(
        _DELIVERIES.c.id == bindparam("id_"),
        _DELIVERIES.c.lease_token == bindparam("token"),
        _DELIVERIES.c.state == "sending",
    )
    .values(
        attempt_count=bindparam("count"),
        first_attempt_at=func.coalesce(_DELIVERIES.c.first_attempt_at, bindparam("now", type_=Instant)),
        lease_until=bindparam("until"),
        next_attempt_at=bindparam("until"),
    )
)
_BEGUN_WITH_MESSAGE = _BEGUN.values(message=bindparam("shown"))
_FIRST = Bulk(
    _DELIVERIES.update()
    .where(
        _DELIVERIES.c.id == bindparam("id_"),
        _DELIVERIES.c.lease_token == bindparam("token"),
        _DELIVERIES.c.state == "sending",
        _DELIVERIES.c.attempt_count == 0,
    )
    .values(
        attempt_count=1,
        first_attempt_at=bindparam("now", type_=Instant),
        message=bindparam("shown", type_=_DELIVERIES.c.message.type),
    )
)
_BEGIN = _BEGUN.returning(_DELIVERIES.c.id)
_BEGIN_WITH_MESSAGE = _BEGUN_WITH_MESSAGE.returning(_DELIVERIES.c.id)
_INSERT = _ATTEMPTS.insert().returning(_ATTEMPTS.c.id, sort_by_parameter_order=True)
_COMPLETE = Bulk(
    _ATTEMPTS.update()
    .where(_ATTEMPTS.c.id == bindparam("id_"))
    .values(
        finished_at=bindparam("now", type_=Instant),
        outcome=bindparam("meant"),
        http_status=bindparam("status"),
        provider_code=bindparam("code"),
        provider_message=bindparam("said"),
        recipients=bindparam("told", type_=_ATTEMPTS.c.recipients.type),
        request=bindparam("sent"),
        response=bindparam("got"),
    )
)


@dataclass(frozen=True, kw_only=True)
class Intent:
    """What is about to be sent. `sends`: how many more parts this try needs; their turns are checked.

    Attributes:
        meters: recipient (of a robot: "") → by what a send to it counts, of those addressed.
        limits: by meter; what has none is not counted.
        is_promised: its turn was taken before, by the claim or with the first part, and is not checked.
        lane: which places are for it.
        message: the delivery's message from now on, or None to leave it.
        claimed_at: when the lease was taken.
    """

    delivery_id: str
    channel_id: str
    token: str
    n: int
    part: int
    parts: int
    trigger: str
    possible_duplicate: bool
    meters: Mapping[str, str] = field(default_factory=dict)
    limits: Mapping[str, Sequence[Limit]] = field(default_factory=dict)
    is_promised: bool = True
    lane: Lane = Lane.SINGLE
    sends: int = 1
    message: Mapping[str, Any] | None = None
    claimed_at: datetime | None = None


class NotOursError(Exception):
    """One of these leases is lost, and nothing was written for any."""


@dataclass(frozen=True)
class Written:
    """The intent's attempt; or None, because the lease is lost or, with a moment, the turn comes then.

    `blocked`: the recipients that are not to be sent to now, and when there is room for them again. Who is
    addressed and not in it counts as sent to.
    """

    attempt_id: int | None
    turn_at: datetime | None = None
    blocked: Mapping[str, datetime] = field(default_factory=dict)


def intend(session: Session, intent: Intent, now: datetime) -> Written:
    """Write down that a send begins, if the delivery is still ours and the limits allow it."""
    blocked = {} if intent.is_promised else _blocked(session, intent, now)
    if blocked and len(blocked) == len(intent.meters):
        return Written(None, min(blocked.values()), blocked)
    ours = _ours(intent, now)
    if intent.message is None:
        found = session.execute(_BEGIN, ours).first()
    else:
        found = session.execute(_BEGIN_WITH_MESSAGE, {**ours, "shown": dict(intent.message)}).first()
    if found is None:
        return Written(None)
    made = session.execute(_INSERT, _values(intent, now, _under_way(intent, blocked, now)))
    attempt_id = made.scalar_one()
    used = {meter for to, meter in intent.meters.items() if to not in blocked and intent.limits.get(meter)}
    meters.use(session, used, attempt_id, now)
    return Written(attempt_id, blocked=blocked)


@dataclass(frozen=True, slots=True)
class First:
    """The only part of a first send that nothing limits, soon after its claim."""

    delivery_id: str
    channel_id: str
    token: str
    trigger: str
    message: Mapping[str, Any]
    claimed_at: datetime | None


def intend_all(session: Session, first: Sequence[First], now: datetime) -> list[int]:
    """The same for many of these at once; answers their attempts. Their leases end as the claim has them.

    Raises:
        NotOursError: then nothing may be committed.
    """
    begun = [{"id_": one.delivery_id, "token": one.token, "now": now, "shown": one.message} for one in first]
    if _FIRST.run(session, begun) != len(begun):
        raise NotOursError
    made = session.execute(_INSERT, [_first_values(one, now) for one in first])
    return list(made.scalars())


def _first_values(one: First, now: datetime) -> dict[str, Any]:
    return {
        "delivery_id": one.delivery_id,
        "channel_id": one.channel_id,
        "n": 1,
        "part": 1,
        "parts": 1,
        "trigger": one.trigger,
        "lease_token": one.token,
        "started_at": now,
        "possible_duplicate": False,
        "recipients": [],
        "claimed_at": one.claimed_at,
    }


def complete(
    session: Session, attempt_id: int, answer: Answer, now: datetime, uncounted: Collection[str] = ()
) -> None:
    """Write down what came of it; also when the delivery is not ours any more. `uncounted`: meters under
    which it does not count, because the provider would not have it."""
    complete_all(session, [(attempt_id, answer, now)])
    if uncounted:
        meters.give_back(session, uncounted, attempt_id)


def complete_all(session: Session, answers: Sequence[tuple[int, Answer, datetime]]) -> None:
    """What came of each attempt, and when."""
    values = [
        {
            "id_": attempt_id,
            "now": at,
            "meant": answer.outcome.value,
            "status": answer.http_status,
            "code": answer.code,
            "said": answer.message,
            "told": [document(one) for one in answer.recipients],
            "sent": answer.request,
            "got": answer.response,
        }
        for attempt_id, answer, at in answers
    ]
    _COMPLETE.run(session, values)


def give_up_lost(session: Session, row: Delivery, now: datetime) -> int:
    """Sends of a lost lease whose answer nobody wrote down become `ambiguous`; answers how often that was."""
    doubtful = (
        Attempt.delivery_id == row.id,
        Attempt.lease_token == row.lease_token,
        Attempt.outcome.is_(None),
    )
    values = {
        "outcome": Outcome.AMBIGUOUS.value,
        "finished_at": now,
        "provider_code": WORKER_LOST,
        "provider_message": retry.LOST,
    }
    found = session.execute(update(Attempt).where(*doubtful).values(**values).returning(Attempt.id)).all()
    if not found:
        return 0
    lost = (Attempt.delivery_id == row.id, Attempt.provider_code == WORKER_LOST)
    return session.scalar(select(func.count(Attempt.n.distinct())).where(*lost)) or 0


def was_throttled(session: Session, attempt_id: int | None) -> bool:
    """Whether the last answer before this attempt began was "too fast" too: the channel's, or another's
    to the same robot."""
    this = session.get(Attempt, attempt_id) if attempt_id is not None else None
    if this is None:
        return False
    names = select(ChannelMeter.meter).where(ChannelMeter.channel_id == this.channel_id)
    shared = select(MeterUse.attempt_id).where(
        MeterUse.meter.in_(names), MeterUse.started_at > this.started_at - meters.KEPT
    )
    before = select(Attempt.outcome).where(
        or_(Attempt.channel_id == this.channel_id, Attempt.id.in_(shared)),
        Attempt.started_at < this.started_at,
        Attempt.finished_at <= this.started_at,
    )
    last = session.scalars(before.order_by(Attempt.started_at.desc(), Attempt.id.desc()).limit(1)).first()
    return last == Outcome.THROTTLED


def _ours(intent: Intent, now: datetime) -> dict[str, Any]:
    """Of which delivery it is the next try, if it is still ours."""
    ours = {"id_": intent.delivery_id, "token": intent.token, "count": intent.n}
    return ours | {"now": now, "until": now + LEASE}


def _values(intent: Intent, now: datetime, recipients: list[dict[str, Any]]) -> dict[str, Any]:
    """The new attempt."""
    return {
        "delivery_id": intent.delivery_id,
        "channel_id": intent.channel_id,
        "n": intent.n,
        "part": intent.part,
        "parts": intent.parts,
        "trigger": intent.trigger,
        "lease_token": intent.token,
        "started_at": now,
        "possible_duplicate": intent.possible_duplicate,
        "recipients": recipients,
        "claimed_at": intent.claimed_at,
    }


def _blocked(session: Session, intent: Intent, now: datetime) -> dict[str, datetime]:
    """The recipients for whom there is no room now, and when there is."""
    limited = {meter: limits for meter, limits in intent.limits.items() if limits}
    meters.lock(session, limited)
    turns = {}
    for meter, limits in limited.items():
        sent = meters.sends(session, meter, limits, now, but=intent.delivery_id)
        turns[meter] = Book(limits, sent, now).turn(intent.lane, intent.sends)
    return {to: turns[meter] for to, meter in intent.meters.items() if turns.get(meter, now) > now}


def _under_way(intent: Intent, blocked: Mapping[str, datetime], now: datetime) -> list[dict[str, Any]]:
    """Until there is an answer anybody addressed by name may have been told: if its worker dies, that is
    what is known."""
    names = (to for to in intent.meters if to and to not in blocked)
    begun = [Recipient(to, Outcome.AMBIGUOUS, UNDER_WAY) for to in names]
    refused = over_quota({to: moment for to, moment in blocked.items() if to}, now)
    return [document(one) for one in (*begun, *refused)]
