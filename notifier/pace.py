"""When a provider's limits let the next sends leave, and for which kind of message a place is kept. Pure.

The provider counts when a request arrives, which is somewhere between our start and its answer. So a send
occupies its place until a whole window after its answer, and one without an answer as if it came now.
"""

from bisect import bisect_right, insort
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from channels.base import Limit

MARGIN = 0.1  # of the window, for clocks that do not agree
MAX_MARGIN = timedelta(seconds=1)
SHARE = 5  # a fifth of a limit is kept for what is critical, another one for digests
MAX_PARTS = 3  # of one message; a share that cannot take them is no place for digests
DIGEST = "digest:"  # how the order key of a delivery begins that tells of several keys


class Lane(StrEnum):
    """What a send is, as far as places are kept for it."""

    SINGLE = "single"
    DIGEST = "digest"
    CRITICAL = "critical"
    CRITICAL_DIGEST = "critical_digest"


@dataclass(frozen=True)
class Send:
    """One that counts. `at`: when it was answered; None: it is under way, or promised."""

    lane: Lane
    at: datetime | None


@dataclass(frozen=True)
class Cap:
    """Sends of these lanes together are at most `count` in any window."""

    lanes: frozenset[Lane]
    count: int


def lane_of(severity: str, order_key: str) -> Lane:
    """The lane of a delivery."""
    is_digest = order_key.startswith(DIGEST)
    if severity == "critical":
        return Lane.CRITICAL_DIGEST if is_digest else Lane.CRITICAL
    return Lane.DIGEST if is_digest else Lane.SINGLE


def caps(limit: Limit, lane: Lane) -> tuple[Cap, ...]:
    """What a send of this lane must keep to. The last two places are for what is critical."""
    critical = limit.count // SHARE
    digest = critical if critical >= MAX_PARTS else 0
    whole = Cap(frozenset(Lane), limit.count)
    normal = Cap(frozenset({Lane.SINGLE, Lane.DIGEST}), limit.count - critical)
    alone = Cap(frozenset({Lane.SINGLE, Lane.CRITICAL}), limit.count - digest)
    match lane:
        case Lane.SINGLE:
            singles = Cap(frozenset({Lane.SINGLE}), limit.count - critical - digest)
            return (singles, normal, alone, whole)
        case Lane.DIGEST:
            return (normal, Cap(frozenset(Lane), limit.count - min(critical, 2)))
        case Lane.CRITICAL:
            return (alone, whole)
        case Lane.CRITICAL_DIGEST:
            return (whole,)


def horizon(limits: Sequence[Limit]) -> timedelta:
    """How far back sends count at all."""
    return max((_span(limit) for limit in limits), default=timedelta(0))


class Book:
    """The sends that count under one meter, and those that are planned on top of them.

    `start` is the earliest moment of the next one.
    """

    def __init__(self, limits: Sequence[Limit], sends: Iterable[Send], start: datetime) -> None:
        self.limits, self._start = limits, start
        self._taken: dict[Lane, list[datetime]] = {lane: [] for lane in Lane}
        for send in sends:
            self.take(send.lane, start if send.at is None else send.at)

    def turn(self, lane: Lane, parts: int = 1) -> datetime:
        """When so many may leave together: no window of what left or is planned has one too many then."""
        turn, before = self._start, None
        while turn != before:
            before = turn
            for limit in self.limits:
                for cap in caps(limit, lane):
                    turn = _free_at(limit, self._of(cap.lanes), max(cap.count - parts, 0), turn)
        return turn

    def take(self, lane: Lane, moment: datetime, parts: int = 1) -> None:
        """So many leave then."""
        for _ in range(parts):
            insort(self._taken[lane], moment)

    def last(self, lane: Lane) -> datetime | None:
        """When the last one of this lane left; what is planned for later does not count."""
        return max((moment for moment in self._taken[lane] if moment <= self._start), default=None)

    def _of(self, lanes: Iterable[Lane]) -> list[datetime]:
        return sorted(moment for lane in lanes for moment in self._taken[lane])


@dataclass(frozen=True)
class Pace:
    """The books of all meters of a channel. A message may leave as soon as one of them has a place for it:
    who has none is told later.

    Attributes:
        start: nothing leaves before.
        is_by_name: each meter is a number's; a robot is nobody in particular.
    """

    books: Mapping[str, Book]
    start: datetime
    is_by_name: bool = False

    @property
    def is_limited(self) -> bool:
        return any(book.limits for book in self.books.values())

    def turn(self, lane: Lane, parts: int = 1) -> datetime:
        return min((book.turn(lane, parts) for book in self.books.values()), default=self.start)

    def take(self, lane: Lane, moment: datetime, parts: int = 1) -> None:
        for book in self.books.values():
            book.take(lane, moment, parts)

    def last(self, lane: Lane) -> datetime | None:
        found = (book.last(lane) for book in self.books.values())
        return max((moment for moment in found if moment is not None), default=None)


def _free_at(limit: Limit, taken: Sequence[datetime], others: int, moment: datetime) -> datetime:
    """The earliest time from that moment on that is in no window with more than so many of these."""
    span, until = _span(limit), limit.until
    if until is not None:
        there = sum(1 for one in taken if until - span < one < until)
        return moment if there <= others else max(moment, until + MAX_MARGIN)
    begin = bisect_right(taken, moment - span)
    for first, last in zip(taken[begin:], taken[begin + others :], strict=False):
        if last - span >= moment:
            break
        if last - first < span:
            moment = max(moment, first + span)
    return moment


def _span(limit: Limit) -> timedelta:
    return limit.per + min(limit.per * MARGIN, MAX_MARGIN)
