"""What a sender needs to know of a claimed delivery, read in one go for the whole claim."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

from sqlalchemy import Table, bindparam, select
from sqlalchemy.orm import Session

from channels.base import Outcome, Recipient
from channels.registry import adapter
from notifier.digests import members
from notifier.followups import told_as
from notifier.lasting import RAN_OUT, ran_out
from notifier.model import Alert, Attempt, Channel
from notifier.recipients import parsed
from notifier.usertemplates import Candidate, candidates
from notifier.wording import AlertView

_A = cast(Table, Alert.__table__).c
_ALERTS = select(
    _A.id,
    _A.pool,
    _A.queue,
    _A.item,
    _A.severity,
    _A.title,
    _A.body,
    _A.labels,
    _A.context,
    _A.repeats,
    _A.created_at,
    _A.resolved_at,
    _A.expires_at,
    _A.acked_by,
).where(_A.id.in_(bindparam("ids", expanding=True)))


@dataclass(frozen=True)
class Earlier:
    """What became of a part before."""

    part: int
    parts: int
    outcome: str | None
    http_status: int | None = None
    code: str | None = None

    @property
    def may_be_told(self) -> bool:
        """Whether nobody knows if it arrived: its answer was lost, or came from somebody on the way. Of a
        5xx, and of a 2xx without the provider's own code, the provider may have had it all the same."""
        if self.outcome != Outcome.TEMPORARY or self.http_status is None:
            return self.outcome in (None, Outcome.AMBIGUOUS)
        is_taken = 200 <= self.http_status < 300 and self.code in (None, str(self.http_status))
        return is_taken or self.http_status >= 500


@dataclass(frozen=True)
class Task:
    """A delivery to be sent. Its rows belong to no session any more: they are read only.

    Attributes:
        views: the alert; of a digest each member's.
        earlier: its own attempts so far.
        in_doubt: a member was sent alone before, and nobody knows whether that arrived.
        own: the users' templates that may be for it.
        claimed_at: when the lease was taken.
    """

    row: Any
    channel: Channel
    token: str
    views: tuple[AlertView, ...]
    earlier: tuple[Earlier, ...] = ()
    in_doubt: bool = False
    has_fallback: bool = False
    own: tuple[Candidate, ...] = ()
    claimed_at: datetime | None = None

    @property
    def recipients(self) -> tuple[Recipient, ...]:
        return parsed(self.row.recipients)


@dataclass(frozen=True)
class _Read:
    """All that was read for one claim."""

    told_of: Mapping[str, Sequence[Any]]
    alerts: Mapping[str, Any]
    channels: Mapping[str, Channel]
    earlier: Mapping[str, Sequence[Earlier]]
    own: Mapping[str, tuple[Candidate, ...]]
    claimed_at: datetime | None

    def _may_be_told(self, member: Any) -> bool:
        """Whether nobody knows if it arrived when it was sent alone. What is sent once is asked about, so
        its recipients have the last word."""
        if adapter(member.kind).resend_when_unknown:
            return any(one.may_be_told for one in self.earlier.get(member.id, ()))
        return any(one.outcome is Outcome.AMBIGUOUS for one in parsed(member.recipients))

    def task(self, row: Any, token: str) -> Task:
        told = self.told_of.get(row.id, ())
        known = ((one, self.alerts.get(one.alert_id or "")) for one in told)
        return Task(
            row,
            self.channels[row.channel_id],
            token,
            views=tuple(_view(one, alert) for one, alert in known if alert is not None),
            earlier=tuple(self.earlier.get(row.id, ())),
            in_doubt=any(self._may_be_told(member) for member in told if member.id != row.id),
            has_fallback=any(one.fallback for one in told),
            own=self.own.get(row.id, ()),
            claimed_at=self.claimed_at,
        )


def load(
    session: Session,
    rows: Sequence[Any],
    channels: Mapping[str, Channel],
    token: str,
    claimed_at: datetime | None = None,
) -> list[Task]:
    """The tasks of claimed deliveries, in their order."""
    if not rows:
        return []
    told_of: dict[str, list[Any]] = {row.id: [row] for row in rows if not row.is_digest}
    digests = [row.id for row in rows if row.is_digest]
    for member in members(session, digests) if digests else ():
        told_of.setdefault(str(member.merged_into), []).append(member)
    everything = [row for group in told_of.values() for row in group]
    alerts = {row.alert_id for row in everything}
    read = _Read(
        told_of,
        {row.id: row for row in session.execute(_ALERTS, {"ids": list(alerts)})},
        channels,
        _earlier(session, [row.id for row in (*everything, *rows) if row.attempt_count]),
        candidates(session, rows),
        claimed_at,
    )
    return [read.task(row, token) for row in rows]


def _view(row: Any, alert: Any) -> AlertView:
    """What this delivery tells of its alert: the end of it has words of its own."""
    is_over = row.status == "resolved"
    said = alert.context.get("resolved", {}) if is_over else {}
    return AlertView(
        delivery_id=row.id,
        alert_id=alert.id,
        item=row.item,
        items=tuple(row.items),
        severity=row.severity,
        status=row.status,
        title=said.get("title") or alert.title,
        text=said.get("text") or alert.body,
        created_at=alert.created_at,
        scope=f"{alert.pool}/{alert.queue}" if alert.queue else alert.pool,
        resolved_at=alert.resolved_at if is_over else None,
        labels=alert.labels,
        job=alert.context.get("job"),
        event=alert.context.get("event"),
        thread=alert.id,
        trigger=told_as(row.trigger),
        open_s=(row.created_at - alert.created_at).total_seconds(),
        repeats=alert.repeats,
        incident={"item": alert.item, "severity": alert.severity},
        links=alert.context.get("links") or {},
        acked_by=alert.acked_by or "",
        ended=said.get("ended")
        or (RAN_OUT if is_over and ran_out(alert.resolved_at, alert.expires_at) else {}),
    )


def _earlier(session: Session, ids: Sequence[str]) -> dict[str, list[Earlier]]:
    if not ids:
        return {}
    found: dict[str, list[Earlier]] = {}
    known = (Attempt.part, Attempt.parts, Attempt.outcome, Attempt.http_status, Attempt.provider_code)
    rows = select(Attempt.delivery_id, *known).where(Attempt.delivery_id.in_(ids)).order_by(Attempt.id)
    for delivery_id, part, parts, outcome, status, code in session.execute(rows):
        found.setdefault(delivery_id, []).append(Earlier(part, parts, outcome, status, code))
    return found
