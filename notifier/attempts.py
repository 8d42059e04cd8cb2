"""Attempt rows: the intent before a send, the answer after it, and the doubt where a worker died between.

Also the channel's pace, which is counted from them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, cast

from sqlalchemy import Table, bindparam, func, or_, select, update
from sqlalchemy.orm import Session

from channels.base import Answer, Limit, Outcome
from notifier import pace, retry
from notifier.leases import LEASE
from notifier.model import Attempt, Delivery
from notifier.storage import Instant

WORKER_LOST = "worker_lost"
LONGEST_SEND = timedelta(minutes=10)  # a mail to a slow server
TRIGGER_RETRY = "retry"


# On every alert's way, so built once, and without the ORM's help.
_DELIVERIES, _ATTEMPTS = cast(Table, Delivery.__table__), cast(Table, Attempt.__table__)
_BEGIN = (
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
    .returning(_DELIVERIES.c.id)
)
_BEGIN_WITH_MESSAGE = _BEGIN.values(message=bindparam("shown"))
_INSERT = _ATTEMPTS.insert().returning(_ATTEMPTS.c.id)
_COMPLETE = (
    _ATTEMPTS.update()
    .where(_ATTEMPTS.c.id == bindparam("id_"))
    .values(
        finished_at=bindparam("now"),
        outcome=bindparam("meant"),
        http_status=bindparam("status"),
        provider_code=bindparam("code"),
        provider_message=bindparam("said"),
        recipients=bindparam("told"),
        request=bindparam("sent"),
        response=bindparam("got"),
    )
)


@dataclass(frozen=True, kw_only=True)
class Intent:
    """What is about to be sent. `sends`: how many more parts this try needs; their turns are checked.

    Attributes:
        limits: the provider's; empty where this send's turn was taken by the claim.
        message: the delivery's message from now on, or None to leave it.
    """

    delivery_id: str
    channel_id: str
    token: str
    n: int
    part: int
    parts: int
    trigger: str
    possible_duplicate: bool
    limits: Sequence[Limit] = ()
    sends: int = 1
    message: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Written:
    """The intent's attempt; or None, because the lease is lost or, with a moment, the turn comes then."""

    attempt_id: int | None
    turn_at: datetime | None = None


def intend(session: Session, intent: Intent, now: datetime) -> Written:
    """Write down that a send begins, if the delivery is still ours and the channel's pace allows it."""
    if intent.limits:
        sends = under_way(session, intent.channel_id, intent.limits, now, but=intent.delivery_id)
        turn = pace.turns(intent.limits, sends, now, intent.sends)[-1]
        if turn > now:
            return Written(None, turn)
    ours = {"id_": intent.delivery_id, "token": intent.token, "count": intent.n}
    ours |= {"now": now, "until": now + LEASE}
    if intent.message is None:
        found = session.execute(_BEGIN, ours).first()
    else:
        found = session.execute(_BEGIN_WITH_MESSAGE, {**ours, "shown": dict(intent.message)}).first()
    if found is None:
        return Written(None)
    made = session.execute(
        _INSERT,
        {
            "delivery_id": intent.delivery_id,
            "channel_id": intent.channel_id,
            "n": intent.n,
            "part": intent.part,
            "parts": intent.parts,
            "trigger": intent.trigger,
            "lease_token": intent.token,
            "started_at": now,
            "possible_duplicate": intent.possible_duplicate,
            "recipients": [],
        },
    )
    return Written(made.scalar_one())


def complete(session: Session, attempt_id: int, answer: Answer, now: datetime) -> None:
    """Write down what came of it; also when the delivery is not ours any more."""
    values = {
        "id_": attempt_id,
        "now": now,
        "meant": answer.outcome.value,
        "status": answer.http_status,
        "code": answer.code,
        "said": answer.message,
        "told": [{"to": one.to, "outcome": one.outcome.value, "code": one.code} for one in answer.recipients],
        "sent": answer.request,
        "got": answer.response,
    }
    session.execute(_COMPLETE, values)


def under_way(
    session: Session, channel_id: str, limits: Sequence[Limit], now: datetime, *, but: str = ""
) -> list[datetime | None]:
    """All sends that count against the limits: those answered, those under way, those promised by claims.

    `but`: a delivery whose own promise does not count.
    """
    since = now - pace.horizon(limits)
    sent = select(Attempt.finished_at).where(
        Attempt.channel_id == channel_id,
        Attempt.started_at > since - LONGEST_SEND,
        or_(Attempt.finished_at.is_(None), Attempt.finished_at > since),
    )
    found: list[datetime | None] = list(session.scalars(sent))
    begun = (Attempt.delivery_id == Delivery.id) & (Attempt.lease_token == Delivery.lease_token)
    claimed = (
        select(func.coalesce(func.max(Attempt.parts) - func.max(Attempt.part), 1))
        .select_from(Delivery)
        .outerjoin(Attempt, begun)
        .where(Delivery.channel_id == channel_id, Delivery.state == "sending", Delivery.id != but)
        .group_by(Delivery.id)
    )
    for promised in session.scalars(claimed):
        found += [None] * promised
    return found


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
    """Whether the channel's last answer before this attempt began was "too fast" too."""
    this = session.get(Attempt, attempt_id) if attempt_id is not None else None
    if this is None:
        return False
    before = select(Attempt.outcome).where(
        Attempt.channel_id == this.channel_id,
        Attempt.started_at < this.started_at,
        Attempt.finished_at <= this.started_at,
    )
    last = session.scalars(before.order_by(Attempt.started_at.desc(), Attempt.id.desc()).limit(1)).first()
    return last == Outcome.THROTTLED
