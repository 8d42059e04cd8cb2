"""Receipt rows: which sends the provider is still to be asked about, and when.

A row is written with the outcome that makes it necessary, and moves that outcome later: `accepted` and
`unknown` are final as far as sending goes, but a receipt may still make them `delivered` or `failed`, or
send again what the provider says it never had. It goes once nothing is open, or after the last look.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from channels.base import Adapter, Answer, Outcome, Recipient, Sent
from notifier.clock import rfc3339
from notifier.model import Attempt, Channel, Delivery, Receipt
from notifier.recipients import Audience, awaited, document, merge, parsed

ASKED = timedelta(seconds=5)  # after so long another worker asks: the one that did is lost
BUSY = timedelta(seconds=2)  # a send is on its way: its outcome first
_AT_ONCE = (timedelta(0),)


@dataclass(frozen=True)
class Question:
    """A row that is due and ours for a while; read only."""

    row: Receipt
    channel: Channel
    sent: tuple[Sent, ...]

    @property
    def sent_at(self) -> datetime:
        return max(one.at for one in self.sent)

    def is_early(self, times: Sequence[timedelta], now: datetime) -> bool:
        """Whether the provider knows nothing yet; so it is when whoever sent it was lost just now."""
        return bool(times) and self.row.looks == 0 and self.sent_at + times[0] > now


@dataclass
class Room:
    """How many questions there are threads for, and how many a channel may have under way."""

    free: int
    share: int
    busy: Counter[str]

    def take(self, channel_id: str) -> bool:
        if self.busy[channel_id] >= self.share:
            return False
        self.busy[channel_id] += 1
        return True


def expect(
    session: Session, row: Delivery, times: Sequence[timedelta], sent: Mapping[str, datetime], now: datetime
) -> None:
    """The provider is to be asked about all of the delivery whose fate is open.

    `times`: how long after the send, and after each look; none: it cannot be asked.
    `sent`: whom the send went to that has just ended, and when. Others keep what the row says of them.
    """
    if not times or not sent:
        return
    open_now = {one.to: one for one in awaited(parsed(row.recipients))}
    found = session.get(Receipt, row.id, with_for_update=True, populate_existing=True)
    entries = {one["to"]: one for one in found.sent if one["to"] in open_now} if found else {}
    fresh = {to: at for to, at in sent.items() if to in open_now}
    entries |= {to: _entry(open_now[to], at) for to, at in fresh.items()}
    if not fresh:
        return
    if found is None:
        found = Receipt(delivery_id=row.id, channel_id=row.channel_id)
        session.add(found)
    found.sent, found.looks, found.due_at = list(entries.values()), 0, now + times[0]


def expect_lost(session: Session, row: Delivery, token: str, adapter: Adapter, now: datetime) -> Outcome:
    """After its worker was lost: whoever was being sent to may have been told; the provider may know.

    Whether it can be asked at all is in the channel's config, which whoever asks reads. Answers what is
    known of the whole message.
    """
    sends = select(Attempt).where(Attempt.delivery_id == row.id, Attempt.lease_token == token)
    known, sent = parsed(row.recipients), dict[str, datetime]()
    for attempt in session.scalars(sends.order_by(Attempt.id)):
        heard = parsed(attempt.recipients)
        known = merge(known, heard)
        sent |= {one.to: attempt.started_at for one in awaited(heard)}
    row.recipients = [document(one) for one in known]
    if not adapter.resend_when_unknown:
        expect(session, row, _AT_ONCE, sent, now)
    audience = Audience((), adapter.is_sequential, adapter.resend_when_unknown)
    return audience.outcome(Answer(Outcome.AMBIGUOUS), known)


def any_due(session: Session, now: datetime) -> bool:
    return (
        session.scalars(select(Receipt.delivery_id).where(Receipt.due_at <= now).limit(1)).first() is not None
    )


def claim(session: Session, room: Room, now: datetime) -> list[Question]:
    """Those that are due and for which there is room, ours until `ASKED` has passed: no other worker asks
    meanwhile."""
    full = [channel for channel, count in room.busy.items() if count >= room.share]
    due = select(Receipt).where(Receipt.due_at <= now, Receipt.channel_id.not_in(full))
    due = due.order_by(Receipt.due_at).limit(room.free).with_for_update(skip_locked=True)
    rows = [row for row in session.scalars(due).all() if room.take(row.channel_id)]
    for row in rows:
        row.due_at = now + ASKED
    channels = select(Channel).where(Channel.id.in_({row.channel_id for row in rows}))
    by_id = {channel.id: channel for channel in session.scalars(channels)}
    found = []
    for row in rows:
        channel = by_id.get(row.channel_id)
        if channel is None:
            session.delete(row)  # nobody is left to be asked through
        else:
            found.append(Question(row, channel, tuple(_sent(row.delivery_id, one) for one in row.sent)))
    return found


def renew(session: Session, deliveries: Sequence[str], now: datetime) -> None:
    """These are still being asked about by us."""
    session.execute(
        update(Receipt).where(Receipt.delivery_id.in_(deliveries)).values(due_at=now + ASKED),
        execution_options={"synchronize_session": False},
    )


def postpone(session: Session, question: Question, times: Sequence[timedelta]) -> None:
    """To the first moment at which the provider is to be asked."""
    row = session.get(Receipt, question.row.delivery_id, with_for_update=True)
    if row is not None and row.looks == 0:
        row.due_at = question.sent_at + times[0]


def look_again(
    session: Session, row: Receipt, times: Sequence[timedelta], recipients: Sequence[Recipient], now: datetime
) -> None:
    """After a look: when the next one is, about whom; or that there is none."""
    open_now = {one.to: one for one in awaited(recipients)}
    left = [
        {**one, "message_id": open_now[one["to"]].message_id} for one in row.sent if one["to"] in open_now
    ]
    row.looks += 1
    if not left or row.looks >= len(times):
        session.delete(row)
        return
    row.sent, row.due_at = left, now + times[row.looks]


def _entry(one: Recipient, at: datetime) -> dict[str, Any]:
    return {"to": one.to, "at": rfc3339(at), "message_id": one.message_id}


def _sent(delivery_id: str, entry: Mapping[str, Any]) -> Sent:
    return Sent(delivery_id, entry["to"], datetime.fromisoformat(entry["at"]), entry["message_id"])
