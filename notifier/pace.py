"""How many sends a channel has left, and when the next ones may leave. Pure.

The provider counts when a request arrives, which is somewhere between our start and its answer. So a send
occupies its place until a whole window after its answer, and one without an answer as if it came now.
"""

from bisect import insort
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from channels.base import Limit

MARGIN = 0.1  # of the window, for clocks that do not agree
MAX_MARGIN = timedelta(seconds=1)


def horizon(limits: Sequence[Limit]) -> timedelta:
    """How far back sends count at all."""
    return max((_span(limit) for limit in limits), default=timedelta(0))


def turns(
    limits: Sequence[Limit], sends: Iterable[datetime | None], start: datetime, count: int
) -> list[datetime]:
    """When each of the next `count` sends may leave, `start` at the earliest.

    `sends` are the moments at which earlier ones were answered, None for those under way or promised.
    """
    taken = sorted(start if moment is None else moment for moment in sends)
    found: list[datetime] = []
    for _ in range(count):
        turn = start
        for limit in limits:
            if len(taken) >= limit.count:
                turn = max(turn, taken[-limit.count] + _span(limit))
        found.append(turn)
        insort(taken, turn)
    return found


def _span(limit: Limit) -> timedelta:
    return limit.per + min(limit.per * MARGIN, MAX_MARGIN)
