"""Whether an alert still lasts. Pure."""

from datetime import datetime

from notifier.model import Alert

FIRING, RESOLVED = "firing", "resolved"
NOT_REPEATED = "nobody repeated it"
RAN_OUT = {"zh": "未再次上报，视为已结束", "en": "It was not repeated in time and counts as over"}


def has_expired(alert: Alert, now: datetime) -> bool:
    """Open on paper only: it was not repeated in time."""
    return alert.status == FIRING and alert.expires_at is not None and alert.expires_at <= now


def run_out(alert: Alert) -> None:
    """It has expired: it is over, of which nobody is told, for nobody knows. Whoever knows may say so."""
    alert.status, alert.resolved_at = RESOLVED, alert.expires_at
    alert.why = "; ".join(filter(None, [alert.why, NOT_REPEATED]))


def has_run_out(alert: Alert) -> bool:
    """It is over because nobody repeated it, and nobody has said since that it is."""
    return alert.status == RESOLVED and ran_out(alert.resolved_at, alert.expires_at)


def ran_out(resolved_at: datetime | None, expires_at: datetime | None) -> bool:
    return resolved_at is not None and resolved_at == expires_at


def is_open(alert: Alert, now: datetime) -> bool:
    """It is neither over nor has it expired."""
    return alert.status == FIRING and not has_expired(alert, now)


def is_unattended(alert: Alert, now: datetime) -> bool:
    """Somebody has yet to see to it."""
    return is_open(alert, now) and alert.acked_at is None
