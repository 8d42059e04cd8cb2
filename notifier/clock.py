"""The one place that reads the wall clock; everything that decides takes `now` as a parameter."""

from datetime import UTC, datetime


def utcnow() -> datetime:
    """The present moment, aware, in UTC."""
    return datetime.now(UTC)


def rfc3339(moment: datetime) -> str:
    """`2026-11-29T03:12:41.120Z`: how every time leaves the API."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
