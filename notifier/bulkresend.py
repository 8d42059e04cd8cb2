"""Sends again what a filter finds and is still of use: counts first, and says why the rest is left out."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from pydantic import Field
from sqlalchemy import select
from sqlalchemy.orm import Session

from notifier.auth import Principal
from notifier.deliveries import Filters, rows_of
from notifier.documents import Document
from notifier.followups import FALLBACKS
from notifier.lasting import RESOLVED
from notifier.model import Alert, Channel, Delivery
from notifier.pages import Ask
from notifier.resending import UNTIL_TOLD, again, alerts_now, is_over
from notifier.searchtexts import EXPUNGED

MOST = 200  # deliveries that one call looks at
TOLD = ("delivered", "accepted", "merged")


class BulkResendDocument(Document):
    """`skipped` by reason: `delivered`, `delivered_since` (the same alert on the same channel, or by the
    fallback), `under_way`, `unfinished`, `suppressed`, `digest`, `channel` (deleted, disabled, broken),
    `expunged`, `repeated` (a newer one of the same is sent instead)."""

    matched: int
    would_send: int = Field(description="how many are, or with `dry_run` would be, sent again")
    over: int = Field(description="of these, those whose alert is over: told as resolved")
    sent: int
    skipped: dict[str, int]
    deliveries: list[str] = Field(description="the new ones; with `dry_run` those that would be sent again")
    next_cursor: str | None = Field(description="more match: repeat the call with this `cursor`")


@dataclass(frozen=True)
class Bulk:
    """What came of it. `shards`: where there is work now."""

    document: BulkResendDocument
    shards: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Other:
    """Another delivery of the same alert."""

    id: str
    status: str
    channel_id: str
    state: str
    trigger: str


def left_out(row: Delivery, tells: str, others: Iterable[Other], channel: Channel | None) -> str | None:
    """Why it is not sent again, as that status; None: it is. Pure."""
    for reason, is_so in (
        ("digest", row.is_digest),
        ("delivered", row.state in TOLD),
        ("suppressed", row.state == "suppressed"),
        ("unfinished", row.state in UNTIL_TOLD),
        ("expunged", row.message == EXPUNGED),
        ("channel", channel is None or not channel.enabled or channel.health == "broken"),
    ):
        if is_so:
            return reason
    same = [
        one
        for one in others
        if one.id != row.id and one.status in (row.status, tells)
        and (one.channel_id == row.channel_id or one.trigger in FALLBACKS)
    ]  # fmt: skip
    if any(one.state in TOLD for one in same):
        return "delivered_since"
    return "under_way" if any(one.state in UNTIL_TOLD for one in same) else None


def resend_all(
    session: Session,
    principal: Principal,
    filters: Filters,
    cursor: str | None,
    now: datetime,
    *,
    dry_run: bool,
) -> Bulk:
    """The newest `MOST` of what matches.

    Raises:
        Problem: what `deliveries.rows_of` says of the filters.
    """
    found = rows_of(session, principal, filters, Ask(MOST, cursor))
    whole = select(Delivery).where(Delivery.id.in_([row.id for row in found.rows]))
    rows = session.scalars(whole.order_by(Delivery.id.desc())).all()
    about = {row.alert_id for row in rows if row.alert_id is not None}
    alerts = _seen(session, about) if dry_run else alerts_now(session, about, now)
    over = {alert_id for alert_id, alert in alerts.items() if is_over(alert, now)}
    chosen, skipped = _chosen(session, rows, over)
    sent = [
        again(session, row, channel, alerts.get(row.alert_id), now)
        for row, channel in (() if dry_run else chosen)
    ]
    document = BulkResendDocument(
        matched=len(found.rows),
        would_send=len(chosen),
        over=sum(row.alert_id in over for row, _ in chosen),
        sent=len(sent),
        skipped=dict(skipped),
        deliveries=[row.id for row in sent or [row for row, _ in chosen]],
        next_cursor=found.next_cursor,
    )
    return Bulk(document, frozenset(row.shard for row in sent))


def _seen(session: Session, ids: Iterable[str]) -> Mapping[str | None, Alert]:
    return {alert.id: alert for alert in session.scalars(select(Alert).where(Alert.id.in_(ids)))}


def _chosen(
    session: Session, rows: Sequence[Delivery], over: Collection[str | None]
) -> tuple[list[tuple[Delivery, Channel]], Mapping[str, int]]:
    others = _others(session, {row.alert_id for row in rows if row.alert_id is not None})
    known = select(Channel).where(Channel.id.in_({row.channel_id for row in rows}))
    channels = {channel.id: channel for channel in session.scalars(known)}
    chosen: list[tuple[Delivery, Channel]] = []
    skipped: Counter[str] = Counter()
    seen: set[tuple[str, str, str]] = set()
    for row in rows:
        channel, tells = channels.get(row.channel_id), RESOLVED if row.alert_id in over else row.status
        reason = left_out(row, tells, others[row.alert_id], channel)
        key = (row.alert_id or row.id, tells, row.channel_id)
        if reason is None and key in seen:
            reason = "repeated"
        if reason is not None or channel is None:
            skipped[reason or "channel"] += 1
            continue
        seen.add(key)
        chosen.append((row, channel))
    return chosen, skipped


def _others(session: Session, alerts: Iterable[str]) -> Mapping[str | None, list[Other]]:
    columns = (Delivery.id, Delivery.status, Delivery.channel_id, Delivery.state, Delivery.trigger)
    found: dict[str | None, list[Other]] = defaultdict(list)
    for alert_id, *rest in session.execute(
        select(Delivery.alert_id, *columns).where(Delivery.alert_id.in_(alerts))
    ):
        found[alert_id].append(Other(*rest))
    return found
