"""Somebody takes an alert on; always in the caller's transaction."""

from datetime import datetime

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from notifier.followups import ESCALATION, REMIND
from notifier.model import Alert, Delivery, Followup
from notifier.trail import note_step

ACKNOWLEDGED = "acknowledged by {who}"


def ack(session: Session, alert_id: str, by: str, now: datetime, comment: str | None = None) -> Alert | None:
    """Somebody has taken it on: nobody is reminded or called any more. The first one stays.

    Answers the alert, its row locked; None if there is none.
    """
    rows = select(Alert).where(Alert.id == alert_id).with_for_update()
    alert = session.scalars(rows.execution_options(populate_existing=True)).first()
    if alert is not None and alert.acked_at is None:
        alert.acked_at, alert.acked_by, alert.ack_comment = now, by, comment
        _withdraw(session, alert)
        nothing_follows(session, alert.id)
        note_step(session, "alert_acknowledged", alert, by=by)
    return alert


def nothing_follows(session: Session, alert_id: str) -> None:
    """It is taken on, or over. Whoever takes a silence's row in the same transaction does so before, because
    `silences.end` goes from the silence to its follow-ups."""
    session.execute(
        delete(Followup).where(Followup.alert_id == alert_id),
        execution_options={"synchronize_session": False},
    )


def _withdraw(session: Session, alert: Alert) -> None:
    """Reminders and escalations that nobody has begun to send; also those that wait for a broken channel."""
    unsent = select(Delivery).where(
        Delivery.alert_id == alert.id,
        Delivery.state.in_(("pending", "held")),
        Delivery.trigger.in_((ESCALATION, REMIND)),
    )
    for row in session.scalars(unsent.with_for_update().execution_options(populate_existing=True)):
        if row.attempt_count == 0 and row.merged_into is None:
            row.state, row.why, row.next_attempt_at = (
                "suppressed",
                ACKNOWLEDGED.format(who=alert.acked_by),
                None,
            )
    session.flush()
