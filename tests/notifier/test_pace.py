"""When the next sends may leave: never more than the limit in any window, with places kept by lane."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from channels.base import Limit
from notifier.pace import Book, Lane, Pace, Send, horizon, lane_of

NOW = datetime(2026, 11, 29, 3, 0, tzinfo=UTC)
TWENTY_A_MINUTE = (Limit(20, timedelta(seconds=60)),)
FEISHU = (Limit(100, timedelta(seconds=60)), Limit(5, timedelta(seconds=1)))
SMALL = (Limit(2, timedelta(seconds=60)),)
LAST = Lane.CRITICAL_DIGEST  # may have the last place of all


def ago(*seconds: float, lane: Lane = Lane.SINGLE) -> list[Send]:
    return [Send(lane, NOW - timedelta(seconds=s)) for s in seconds]


def under_way(count: int, lane: Lane = Lane.SINGLE) -> list[Send]:
    return [Send(lane, None)] * count


def turns(limits: Sequence[Limit], sends: Sequence[Send], lane: Lane, count: int) -> list[float]:
    """When each of the next ones may leave, in seconds from now, each after those before it."""
    book, found = Book(limits, sends, NOW), []
    for _ in range(count):
        turn = book.turn(lane)
        book.take(lane, turn)
        found.append((turn - NOW).total_seconds())
    return found


TABLE: dict[str, tuple[Sequence[Limit], list[Send], Lane, list[float]]] = {
    "no limit": ((), ago(*[1] * 500), LAST, [0, 0, 0]),
    "nothing sent": (TWENTY_A_MINUTE, [], LAST, [0, 0]),
    "the twenty-first waits": (TWENTY_A_MINUTE, [], LAST, [0] * 20 + [61]),
    "one place left": (TWENTY_A_MINUTE, ago(*[30] * 19), LAST, [0, 31]),
    "full until the oldest is a window old": (TWENTY_A_MINUTE, ago(59, *[10] * 19), LAST, [2, 51]),
    "older than a window does not count": (TWENTY_A_MINUTE, ago(*[62] * 20), LAST, [0]),
    "without an answer it counts as now": (TWENTY_A_MINUTE, under_way(20), LAST, [61]),
    "the narrower of two limits": (FEISHU, [], LAST, [0] * 5 + [1.1]),
    "the wider of two limits": (FEISHU, ago(*[30] * 100), LAST, [31]),
    "twelve of twenty are for single ones": (TWENTY_A_MINUTE, [], Lane.SINGLE, [0] * 12 + [61]),
    "four more are for what is critical": (TWENTY_A_MINUTE, ago(*[1] * 12), Lane.CRITICAL, [0] * 4 + [60]),
    "four more are for digests": (TWENTY_A_MINUTE, ago(*[1] * 12), Lane.DIGEST, [0] * 4 + [60]),
    "critical ones have what others leave": (TWENTY_A_MINUTE, [], Lane.CRITICAL, [0] * 16 + [61]),
    "critical ones leave places to digests": (
        TWENTY_A_MINUTE, ago(*[1] * 16, lane=Lane.CRITICAL), Lane.DIGEST, [0] * 2 + [60],
    ),
    "critical ones leave none to single ones": (
        TWENTY_A_MINUTE, ago(*[1] * 16, lane=Lane.CRITICAL), Lane.SINGLE, [60],
    ),
    "the last places are not for a digest of others": (
        TWENTY_A_MINUTE, ago(*[1] * 18, lane=Lane.CRITICAL), Lane.DIGEST, [60],
    ),
    "five a second keep one": (FEISHU, [], Lane.SINGLE, [0] * 4 + [1.1]),
    "a small limit keeps none": (SMALL, [], Lane.SINGLE, [0, 0, 61]),
}  # fmt: skip


@pytest.mark.parametrize(("limits", "sends", "lane", "expected"), TABLE.values(), ids=TABLE)
def test_turns(limits: Sequence[Limit], sends: list[Send], lane: Lane, expected: list[float]) -> None:
    assert turns(limits, sends, lane, len(expected)) == expected


def test_parts_that_leave_together_need_a_place_each() -> None:
    book = Book(TWENTY_A_MINUTE, ago(30, *[10] * 17), NOW)
    assert [(book.turn(LAST, parts) - NOW).total_seconds() for parts in (1, 2, 3)] == [0, 0, 31]


def test_what_is_planned_for_later_takes_no_place_of_now() -> None:
    book = Book(TWENTY_A_MINUTE, ago(*[0] * 12), NOW)
    book.take(Lane.SINGLE, NOW + timedelta(seconds=61), 12)
    assert book.turn(Lane.DIGEST, 3) == NOW
    assert book.turn(Lane.SINGLE) == NOW + timedelta(seconds=122)
    assert book.last(Lane.SINGLE) == NOW


def test_what_leaves_now_takes_no_place_of_what_is_planned() -> None:
    book = Book(TWENTY_A_MINUTE, [], NOW)
    book.take(Lane.SINGLE, NOW + timedelta(seconds=30), 10)
    assert book.turn(Lane.SINGLE, 2) == NOW
    assert book.turn(Lane.SINGLE, 3) == NOW + timedelta(seconds=91)


@given(
    wanted=st.lists(st.tuples(st.sampled_from(list(Lane)), st.integers(1, 3)), max_size=60),
    past=st.lists(st.floats(0, 60), max_size=30),
    planned=st.lists(st.floats(0, 120), max_size=30),
    count=st.integers(3, 25),
)
@settings(max_examples=200, deadline=None)
def test_no_window_of_what_is_planned_holds_more_than_allowed(
    wanted: list[tuple[Lane, int]], past: list[float], planned: list[float], count: int
) -> None:
    """However turns are given out: the book's own, between those that were there before."""
    limit, there = Limit(count, timedelta(seconds=60)), Provider()
    book = Book((limit,), [], NOW)
    for second in [*(-s for s in past), *planned]:
        there.arrived.append(NOW + timedelta(seconds=second))
        if there.most_in(timedelta(seconds=61)) <= count:
            book.take(LAST, there.arrived[-1])
        else:
            there.arrived.pop()
    for lane, parts in wanted:
        turn = book.turn(lane, parts)
        book.take(lane, turn, parts)
        there.arrived += [turn] * parts
    assert there.most_in(timedelta(seconds=61)) <= count


def test_a_pause_moves_every_turn() -> None:
    pause = NOW + timedelta(seconds=600)
    assert Book(TWENTY_A_MINUTE, ago(1), pause).turn(Lane.SINGLE) == pause


def test_whoever_has_a_place_is_told_though_others_have_none() -> None:
    full, free = Book(SMALL, ago(1, 1), NOW), Book(SMALL, (), NOW)
    pace = Pace({"a": full, "b": free}, NOW)
    assert pace.turn(Lane.SINGLE) == NOW
    assert pace.last(Lane.SINGLE) == NOW - timedelta(seconds=1)


def test_horizon_is_the_widest_window() -> None:
    assert horizon(FEISHU) == timedelta(seconds=61)
    assert horizon(()) == timedelta(0)


LANES = {
    "a job's own messages": ("error", "job:j", Lane.SINGLE),
    "of several jobs": ("error", "digest:dlv_1", Lane.DIGEST),
    "critical": ("critical", "alert:a", Lane.CRITICAL),
    "critical among several": ("critical", "digest:dlv_1", Lane.CRITICAL_DIGEST),
}


@pytest.mark.parametrize(("severity", "key", "lane"), LANES.values(), ids=LANES)
def test_lanes(severity: str, key: str, lane: Lane) -> None:
    assert lane_of(severity, key) is lane


@dataclass
class Provider:
    """Notes when each request arrived, somewhere between its start and its answer."""

    arrived: list[datetime] = field(default_factory=list)

    def most_in(self, window: timedelta) -> int:
        seen = sorted(self.arrived)
        return max((sum(1 for one in seen if at <= one < at + window) for at in seen), default=0)


SENDS = st.tuples(
    st.sampled_from(list(Lane)), st.integers(1, 3), st.floats(0, 20), st.floats(0, 5), st.floats(0, 1)
)


@given(wanted=st.lists(SENDS, max_size=80), count=st.integers(1, 25))
@settings(max_examples=200, deadline=None)
def test_no_window_holds_more_than_allowed(
    wanted: list[tuple[Lane, int, float, float, float]], count: int
) -> None:
    """Whatever comes, in whatever lane and so many parts, as soon as it is allowed."""
    limit, now = Limit(count, timedelta(seconds=60)), NOW
    sent: list[Send] = []
    provider = Provider()
    for lane, wished, gap, wait, when in wanted:
        parts = min(wished, count)
        now += timedelta(seconds=gap)
        now = max(now, Book((limit,), sent, now).turn(lane, parts))
        for _ in range(parts):
            answered = now + timedelta(seconds=wait)
            provider.arrived.append(now + (answered - now) * when)
            sent.append(Send(lane, answered))
            now = answered
    assert provider.most_in(limit.per) <= count


@given(busy=st.lists(st.tuples(st.sampled_from([Lane.SINGLE, Lane.DIGEST]), st.floats(0, 60)), max_size=60))
@settings(max_examples=200, deadline=None)
def test_the_share_of_what_is_critical_is_never_taken_by_others(busy: list[tuple[Lane, float]]) -> None:
    """However the others come, four critical ones leave at once."""
    sent: list[Send] = []
    for lane, second in sorted(busy, key=lambda one: one[1]):
        moment = NOW + timedelta(seconds=second)
        if Book(TWENTY_A_MINUTE, sent, moment).turn(lane) == moment:
            sent.append(Send(lane, moment))
    now = NOW + timedelta(seconds=60)
    book = Book(TWENTY_A_MINUTE, sent, now)
    for _ in range(4):
        assert book.turn(Lane.CRITICAL_DIGEST) == now
        book.take(Lane.CRITICAL_DIGEST, now)


def test_a_night_ends_for_all_at_the_same_hour() -> None:
    night, morning = timedelta(hours=10), NOW + timedelta(hours=4)
    limits = (Limit(1, night, morning),)
    for ago in (timedelta(minutes=1), timedelta(hours=5, minutes=59)):
        book = Book(limits, [Send(Lane.SINGLE, NOW - ago)], NOW)
        assert book.turn(Lane.SINGLE) == morning + timedelta(seconds=1)
    evening = [Send(Lane.SINGLE, NOW - timedelta(hours=6, minutes=1))]
    assert Book(limits, evening, NOW).turn(Lane.SINGLE) == NOW, "what was sent by day does not count"
    late = Book(limits, [Send(Lane.SINGLE, NOW)], morning + timedelta(minutes=1))
    assert late.turn(Lane.SINGLE) == morning + timedelta(minutes=1)
