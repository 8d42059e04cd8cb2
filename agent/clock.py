"""The agent's one clock: it imports nothing of the notifier, so it has its own."""

from datetime import UTC, datetime


def utcnow() -> datetime:
    """The present moment, aware, in UTC."""
    return datetime.now(UTC)


def rfc3339(moment: datetime) -> str:
    """`2026-11-29T03:12:41.120Z`: how every time goes over the wire."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def stamp() -> str:
    """Now, as it goes over the wire."""
    return rfc3339(utcnow())


def from_timestamp(seconds: float) -> datetime:
    """A file's time as an aware moment."""
    return datetime.fromtimestamp(seconds, UTC)
