"""Somebody takes an alert on; always in the caller's transaction."""

from datetime import datetime

from sqlalchemy import delete, or_, select
from sqlalchemy.orm import Session

from channels.base import Outcome
from notifier.followups import AGAIN
from notifier.lasting import is_unattended
from notifier.model import Alert, Attempt, Delivery, Followup
from notifier.recipients import TOLD
from notifier.trail import note_step

ACKNOWLEDGED = "acknowledged by {who}"


def ack(session: Session, alert_id: str, by: str, now: datetime, comment: str | None = None) -> Alert | None:
    """Somebody has taken it on: nobody is reminded or called any more. The first one stays,
    and what is over stays as it is.

    Answers the alert, its row locked; None if there is none.
    """
    rows = select(Alert).where(Alert.id == alert_id).with_for_update()
    alert = session.scalars(rows.execution_options(populate_existing=True)).first()
    if alert is not None and is_unattended(alert, now):
        alert.acked_at, alert.acked_by, alert.ack_comment = now, by, comment
        _withdraw(session, alert)
        nothing_follows(session, alert.id)
        note_step(session, "alert_acknowledged", alert, by=by)
    return alert


def nothing_follows(session: Session, alert_id: str) -> None:
    """It is taken on, or over. Whoever takes a silence's row in the same transaction does so before, because
    `silences.end` goes from the silence to its follow-ups; what shares a transaction with others cannot, and
    is begun anew (`Store.run`)."""
    session.execute(
        delete(Followup).where(Followup.alert_id == alert_id),
        execution_options={"synchronize_session": False},
    )


def _withdraw(session: Session, alert: Alert) -> None:
    """Reminders, escalations and what is told in their place, of which nobody can have heard yet; also those
    that wait for a broken channel or for another try."""
    of_attempts = select(Attempt.delivery_id).where(
        Attempt.delivery_id == Delivery.id,
        or_(Attempt.outcome.is_(None), Attempt.outcome.in_((*TOLD, Outcome.AMBIGUOUS))),
    )
    unheard = select(Delivery).where(
        Delivery.alert_id == alert.id,
        Delivery.state.in_(("pending", "retrying", "held")),
        Delivery.trigger.in_(AGAIN),
        Delivery.merged_into.is_(None),
        ~of_attempts.exists(),
    )
    for row in session.scalars(unheard.with_for_update().execution_options(populate_existing=True)):
        row.state, row.next_attempt_at = "suppressed", None
        row.why = ACKNOWLEDGED.format(who=alert.acked_by)
    session.flush()
