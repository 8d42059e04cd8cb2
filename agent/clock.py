"""The agent's one clock: it imports nothing of the notifier, so it has its own."""

import time
from datetime import UTC, datetime

_TRIES = 5
_TOGETHER_S = 0.001


def utcnow() -> datetime:
    """The present moment, aware, in UTC."""
    return datetime.now(UTC)


def with_uptime() -> tuple[datetime, float]:
    """The present moment, and the kernel log's clock at that moment: seconds since boot.

    Between two looks a busy machine may let half a second pass, by which lines would be misdated.
    """
    looks = []
    for _ in range(_TRIES):
        # printk's clock stands still while the machine sleeps, as this one does
        before = time.clock_gettime(time.CLOCK_MONOTONIC)
        moment = utcnow()
        gap = time.clock_gettime(time.CLOCK_MONOTONIC) - before
        looks.append((gap, moment, before + gap / 2))
        if gap < _TOGETHER_S:
            break
    _, moment, uptime_s = min(looks)
    return moment, uptime_s


def rfc3339(moment: datetime) -> str:
    """`2026-11-29T03:12:41.120Z`: how every time goes over the wire."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def stamp() -> str:
    """Now, as it goes over the wire."""
    return rfc3339(utcnow())


def from_timestamp(seconds: float) -> datetime:
    """A file's time as an aware moment."""
    return datetime.fromtimestamp(seconds, UTC)
