"""A channel's open deliveries as planning sees them."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, cast

from sqlalchemy import Table, bindparam, select
from sqlalchemy.orm import Session

from channels.base import Adapter
from notifier import meters
from notifier.model import Channel, Delivery
from notifier.plan import RELEASED, Candidate
from notifier.rules import QUIET
from notifier.settle import OPEN
from notifier.waiting import WAITS

MAX_CANDIDATES = 1000  # of one channel at a time; a longer queue is looked at from its head
QUIET_WHY = QUIET.partition("{")[0]

_D = cast(Table, Delivery.__table__).c
_OPEN_ROWS = (
    select(
        _D.id, _D.order_key, _D.severity, _D.next_attempt_at, _D.expires_at, _D.is_digest, _D.state,
        _D.attempt_count, _D.why, _D.created_at, _D.status,
    )
    .where(
        OPEN, _D.shard == bindparam("shard"), _D.channel_id == bindparam("channel"),
        _D.merged_into.is_(None),
    )
    .order_by(_D.state != "sending", _D.is_digest.is_(False), _D.severity != "critical", _D.id)
    .limit(MAX_CANDIDATES)
)  # fmt: skip


def open_rows(session: Session, channel: Channel) -> Sequence[Any]:
    """What is under way, then what is critical, then the oldest. A critical one that overtakes takes along
    what its key has waiting before it."""
    which = {"shard": channel.shard, "channel": channel.id}
    rows = session.execute(_OPEN_ROWS, which).all()
    if len(rows) < MAX_CANDIDATES:
        return rows
    keys = {row.order_key for row in rows if row.severity == "critical"}
    along = session.execute(_OPEN_ROWS.where(_D.order_key.in_(keys)), which).all()
    return list({row.id: row for row in (*rows, *along)}.values())


def candidates(
    session: Session, rows: Sequence[Any], channel: Channel, adapter: Adapter, now: datetime
) -> list[Candidate]:
    keys = _keys(session, [row.id for row in rows if row.is_digest])
    return [
        Candidate(
            id=row.id,
            keys=frozenset((*keys.get(row.id, ()), row.order_key)),
            severity=row.severity,
            due_at=row.next_attempt_at or now,
            expires_at=row.expires_at,
            created_at=row.created_at,
            size=len(keys.get(row.id, ())) or 1,
            sends=meters.expected(row, adapter, channel.config),
            calls=meters.calls(row, adapter, channel.config),
            is_digest=row.is_digest,
            is_in_flight=row.state == "sending",
            is_tried=row.attempt_count > 0,
            is_waiting=row.state == "pending" and _is_waiting(row),
            released=row.why == RELEASED or _is_quiet_over(row, now),
        )
        for row in rows
    ]


def _is_waiting(row: Any) -> bool:
    """For a turn, and for nothing else; a digest that was released is due when it is due."""
    return row.why.startswith(WAITS) or (row.why == RELEASED and not row.is_digest)


def _is_quiet_over(row: Any, now: datetime) -> bool:
    """What quiet hours held back is told in one digest when they end."""
    why: str = row.why
    return why.startswith(QUIET_WHY) and row.next_attempt_at <= now


def _keys(session: Session, digests: Sequence[str]) -> dict[str, list[str]]:
    """The order key of every member."""
    if not digests:
        return {}
    found: dict[str, list[str]] = {}
    members = select(Delivery.merged_into, Delivery.order_key).where(Delivery.merged_into.in_(digests))
    for digest, key in session.execute(members):
        found.setdefault(str(digest), []).append(key)
    return found
