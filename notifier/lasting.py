"""Whether an alert still lasts. Pure."""

from datetime import datetime

from notifier.model import Alert

FIRING, RESOLVED = "firing", "resolved"


def has_expired(alert: Alert, now: datetime) -> bool:
    """Open on paper only: it was not repeated in time."""
    return alert.status == FIRING and alert.expires_at is not None and alert.expires_at <= now


def is_open(alert: Alert, now: datetime) -> bool:
    """It is neither over nor has it expired."""
    return alert.status == FIRING and not has_expired(alert, now)


def is_unattended(alert: Alert, now: datetime) -> bool:
    """Somebody has yet to see to it."""
    return is_open(alert, now) and alert.acked_at is None
