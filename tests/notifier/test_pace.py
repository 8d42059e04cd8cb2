"""A channel's next turns: never more than the limit in any window, however sends and answers fall."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from channels.base import Limit
from notifier.pace import horizon, turns

NOW = datetime(2026, 11, 29, 3, 0, tzinfo=UTC)
TWENTY_A_MINUTE = (Limit(20, timedelta(seconds=60)),)
FEISHU = (Limit(100, timedelta(seconds=60)), Limit(5, timedelta(seconds=1)))


def ago(*seconds: float) -> list[datetime | None]:
    return [NOW - timedelta(seconds=s) for s in seconds]


def offsets(moments: list[datetime]) -> list[float]:
    return [(moment - NOW).total_seconds() for moment in moments]


TABLE = {
    "no limit": ((), ago(*[1] * 500), 3, [0, 0, 0]),
    "nothing sent": (TWENTY_A_MINUTE, [], 2, [0, 0]),
    "the twenty-first waits": (TWENTY_A_MINUTE, [], 21, [0] * 20 + [61]),
    "one place left": (TWENTY_A_MINUTE, ago(*[30] * 19), 2, [0, 31]),
    "full until the oldest is a window old": (TWENTY_A_MINUTE, ago(59, *[10] * 19), 2, [2, 51]),
    "older than a window does not count": (TWENTY_A_MINUTE, ago(*[62] * 20), 1, [0]),
    "without an answer it counts as now": (TWENTY_A_MINUTE, [None] * 20, 1, [61]),
    "the narrower of two limits": (FEISHU, [], 6, [0] * 5 + [1.1]),
    "the wider of two limits": (FEISHU, ago(*[30] * 100), 1, [31]),
}


@pytest.mark.parametrize(("limits", "sends", "count", "expected"), TABLE.values(), ids=TABLE)
def test_turns(
    limits: tuple[Limit, ...], sends: list[datetime | None], count: int, expected: list[float]
) -> None:
    assert offsets(turns(limits, sends, NOW, count)) == expected


def test_a_pause_moves_every_turn() -> None:
    pause = NOW + timedelta(seconds=600)
    assert turns(TWENTY_A_MINUTE, ago(1), pause, 2) == [pause, pause]


def test_horizon_is_the_widest_window() -> None:
    assert horizon(FEISHU) == timedelta(seconds=61)
    assert horizon(()) == timedelta(0)


@given(
    arrivals=st.lists(st.floats(0, 3), min_size=1, max_size=60),
    waits=st.lists(st.floats(0, 2), min_size=60, max_size=60),
)
def test_no_window_holds_more_than_allowed(arrivals: list[float], waits: list[float]) -> None:
    """Sends as soon as allowed; the provider sees each somewhere between its start and its answer."""
    limit = Limit(3, timedelta(seconds=1))
    now = NOW
    answered: list[datetime] = []
    seen: list[datetime] = []
    for gap, wait in zip(arrivals, waits, strict=False):
        now += timedelta(seconds=gap)
        (turn,) = turns((limit,), answered, now, 1)
        now = max(now, turn)
        answer = now + timedelta(seconds=wait)
        seen.append(now if len(seen) % 2 else answer)
        answered.append(answer)
    seen.sort()
    for first, beyond in zip(seen, seen[limit.count :], strict=False):
        assert beyond - first >= limit.per
