"""The one place that reads the wall clock; everything that decides takes `now` as a parameter."""

from datetime import UTC, datetime


def utcnow() -> datetime:
    """The present moment, aware, in UTC."""
    return datetime.now(UTC)


def rfc3339(moment: datetime) -> str:
    """`2026-11-29T03:12:41.120Z`: how every time leaves the API."""
    utc = moment if moment.tzinfo is UTC else moment.astimezone(UTC)
    return f"{utc.isoformat(timespec='milliseconds')[:-6]}Z"
