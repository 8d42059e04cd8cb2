"""How alerts end: whoever was told of one hears of its end, once; always in the caller's transaction.

Whoever calls rings the bell for the `shards` of what came of it, once that is committed.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from channels.base import Severity
from notifier.acknowledging import nothing_follows
from notifier.alerts import QUIET_HOURS, Published, published
from notifier.followups import IN_PLACE, REMIND
from notifier.items import ITEMS
from notifier.lasting import FIRING, RESOLVED, has_expired, has_run_out, run_out
from notifier.lookup import known
from notifier.model import UNTOLD, Alert, Channel, Delivery
from notifier.outbox import UNASKED, Queued, Telling, put
from notifier.routing import rerouted
from notifier.rules import LASTS, QUIET, quiet
from notifier.silences import tell
from notifier.silencing import SILENCED
from notifier.storage import zone_of

OVER = "it was over before it was to be told"
_QUIET = QUIET.partition("{")[0]


def resolve(  # noqa: PLR0913  which, and all that is said of its end
    session: Session,
    *,
    now: datetime,
    alert_id: str | None = None,
    event_id: str | None = None,
    title: str = "",
    text: str = "",
    context: Mapping[str, Any] | None = None,
    ended: Mapping[str, str] | None = None,
) -> Published:
    """Closes the alert and tells whoever was told of it, once; what is over already tells nobody, unless
    it ran out (`lasting.run_out`), of which nobody was told.

    `ended`: why it is over, {"zh", "en"}, where that is not what its item is resolved by.
    """
    which = Alert.id == alert_id if alert_id is not None else Alert.event_id == event_id
    rows = select(Alert).where(which).order_by(Alert.id).with_for_update()
    alert = session.scalars(rows.execution_options(populate_existing=True)).first()
    if alert is None:
        return Published(alert_id or "", why="there is no such alert")
    if has_expired(alert, now):
        run_out(alert)
    if alert.status == RESOLVED and not has_run_out(alert):
        return Published(alert.id)
    alert.status, alert.resolved_at = RESOLVED, now
    alert.context = {
        **alert.context,
        **{name: value for name, value in (context or {}).items() if value is not None},
        "resolved": {"title": title, "text": text, **({"ended": dict(ended)} if ended else {})},
    }
    made = published(session, alert, _messages(session, alert, now), now)
    nothing_follows(session, alert.id)
    return made


def close(session: Session, alert: Alert, now: datetime) -> None:
    """It is over, and nobody is told, because its end cannot be."""
    alert.status, alert.resolved_at = RESOLVED, now
    waiting = select(Delivery).where(Delivery.alert_id == alert.id, Delivery.state == "pending")
    for row in session.scalars(waiting.with_for_update()):
        _never_mind(row)
    session.flush()
    nothing_follows(session, alert.id)


def _messages(session: Session, alert: Alert, now: datetime) -> list[Queued]:
    """One for each channel that was told or is about to be; and for whoever asks for that item by a rule."""
    rows = select(Delivery).where(Delivery.alert_id == alert.id).order_by(Delivery.id)
    known_rows = session.scalars(rows).all()
    before = [row for row in known_rows if row.status == FIRING]
    knows = {row.channel_id for row in known_rows if row.status == RESOLVED and row.state not in UNTOLD}
    item = resolved_by(alert)
    told = {
        row.channel_id: row
        for row in before
        if row.state not in UNTOLD and not _never_mind(row) and row.channel_id not in knows
    }
    there = [(session.get(Channel, row.channel_id), row) for row in told.values()]
    ends = [
        (known(channel), _telling(session, alert, row, item, now))
        for channel, row in there
        if channel is not None
    ]
    made = put(session, alert, ends, now)
    is_silenced = any(row.state == "suppressed" and row.why.startswith(SILENCED) for row in before)
    if item is not None and (told or not is_silenced):
        seen = {row.channel_id for row in before if row.trigger != UNASKED}
        found = rerouted(session, alert, item, now)
        asked = [
            (channel, replace(telling, status=RESOLVED, trigger="resolve"))
            for channel, telling in (*found.told, *found.unasked)
            if channel.id not in seen
        ]
        made += tell(session, alert, asked, now).rows
    return made


def resolved_by(alert: Alert) -> str | None:
    """The item that tells the end of one that is over; None: its own does."""
    if "ended" in alert.context.get("resolved", {"ended": {}}):
        return None
    return next((ITEMS[one].resolved_by for one in alert.items if ITEMS[one].resolved_by), None)


def _telling(session: Session, alert: Alert, row: Delivery, item: str | None, now: datetime) -> Telling:
    """What quiet hours keep back is told with its end when they are over; they keep back the end of what was
    told before they began, too."""
    until, why = None, ""
    if row.state == "pending" and row.attempt_count == 0 and row.why.startswith(_QUIET):
        until, why = row.next_attempt_at, row.why
    elif row.severity != Severity.CRITICAL:
        hours = alert.context.get(QUIET_HOURS, {}).get(row.channel_id)
        until, why = quiet(hours, now, zone_of(session)) if hours else (None, "")
    return Telling(
        not_before=until,
        why=why,
        item=item or row.item,
        items=() if item else tuple(row.items),
        severity=ITEMS[item].severity.value if item else row.severity,
        status=RESOLVED,
        language=row.language,
        trigger="resolve",
        fallback=tuple(row.fallback),
    )


def _never_mind(row: Delivery) -> bool:
    """What was to be told only if it lasts, and did not."""
    is_idle = row.state in ("pending", "held") and row.attempt_count == 0 and row.merged_into is None
    if is_idle and (row.trigger in (REMIND, IN_PLACE[REMIND]) or row.why.startswith(LASTS.partition("{")[0])):
        row.state, row.why, row.next_attempt_at = "suppressed", OVER, None
        return True
    return False
