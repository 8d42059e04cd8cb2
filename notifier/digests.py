"""Digest rows: one message for several deliveries. Members keep their state until it is told."""

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import TypeVar

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from channels.base import Severity
from notifier.heading import Told
from notifier.heading import head as head_of
from notifier.ids import new_id
from notifier.items import most_severe
from notifier.lasting import RESOLVED
from notifier.model import Alert, Delivery
from notifier.plan import Merge

T = TypeVar("T")
UNSENT = ("pending", "retrying")
# What becomes of the members when their digest is final.
MEMBERS_BECOME = {"delivered": "merged", "accepted": "merged"}


def gather(session: Session, merge: Merge, now: datetime) -> str:
    """Writes the digest of a merge (or extends the one there is); answers its id. It is due now."""
    rows = session.scalars(select(Delivery).where(Delivery.id.in_(merge.members)).order_by(Delivery.id)).all()
    if merge.into is None:
        digest = Delivery(id=new_id("dlv", now), created_at=now, fallback=[], mends=[], attempt_count=0)
        _describe(session, digest, rows, now)
        session.add(digest)
        session.flush()
    else:
        digest = session.get_one(Delivery, merge.into)
        _describe(session, digest, [*members(session, [merge.into]), *rows], now)
    for row in rows:
        row.merged_into, row.next_attempt_at = digest.id, None
        if row.is_digest:  # its members are told by the new one; itself it was never sent
            row.state, row.why = "merged", f"told in {digest.id}"
            session.execute(
                update(Delivery).where(Delivery.merged_into == row.id).values(merged_into=digest.id)
            )
    session.flush()
    return digest.id


def members(session: Session, digest_ids: Iterable[str]) -> Sequence[Delivery]:
    """The deliveries that these digests tell of, in order."""
    told = select(Delivery).where(Delivery.merged_into.in_(digest_ids), Delivery.is_digest.is_(False))
    return session.scalars(told.order_by(Delivery.id)).all()


def settle_members(session: Session, digest: Delivery, was: Collection[str] = UNSENT) -> None:
    """The members follow their digest, out of these states, into its own."""
    state = MEMBERS_BECOME.get(digest.state, digest.state)
    is_told = state == "merged"
    values = {
        "state": state,
        "why": f"told in {digest.id}" if is_told else f"told in {digest.id}: {digest.why}",
        "delivered_at": digest.delivered_at,
        "error_code": digest.error_code,
        "error_message": digest.error_message,
        "error_permanent": digest.error_permanent,
    }
    session.execute(
        update(Delivery)
        .where(Delivery.merged_into == digest.id, Delivery.is_digest.is_(False), Delivery.state.in_(was))
        .values(**values)
    )


def _describe(session: Session, digest: Delivery, rows: Sequence[Delivery], now: datetime) -> None:
    """The digest speaks for all of its members, headed as its message will be, as severe as any of them."""
    head = _head(session, rows)
    for name in (
        "pool",
        "queue",
        "channel_id",
        "channel",
        "kind",
        "shard",
        "language",
        "timezone",
        "trigger",
    ):
        setattr(digest, name, getattr(head, name))
    for name in ("event_id", "job_id", "job_name"):
        setattr(digest, name, _common(getattr(row, name) for row in rows))
    digest.is_digest = True
    digest.item, digest.status = head.item, head.status
    digest.severity = most_severe(row.severity for row in rows).value
    digest.items = list(
        dict.fromkeys([*head.items, *(item for row in rows for item in (row.item, *row.items))])
    )
    if digest.item in digest.items:
        digest.items.remove(digest.item)
    digest.order_key = _common(row.order_key for row in rows) or f"digest:{digest.id}"
    digest.tries = max(digest.tries or 0, *(row.tries for row in rows))
    digest.expires_at = max(row.expires_at for row in rows)
    digest.state = "retrying" if digest.tries else "pending"
    digest.why, digest.next_attempt_at = "", now
    digest.recipients = digest.recipients or []


def _head(session: Session, rows: Sequence[Delivery]) -> Delivery:
    digests = [row.id for row in rows if row.is_digest]
    alone = [*members(session, digests), *(row for row in rows if not row.is_digest)]
    alone.sort(key=lambda row: row.id)
    alerts = {row.alert_id for row in alone}
    taken = select(Alert.id).where(Alert.id.in_(alerts), Alert.acked_at.is_not(None))
    acked = set(session.scalars(taken))
    told = [
        Told(row.alert_id, Severity(row.severity), row.status == RESOLVED, row.alert_id in acked)
        for row in alone
    ]
    return alone[head_of(told)]


def _common(values: Iterable[T]) -> T | None:
    found = set(values)
    return found.pop() if len(found) == 1 else None
