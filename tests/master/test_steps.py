"""A run's progress, as many ranks tell of it."""

from datetime import UTC, datetime, timedelta

import pytest

from master.model import Run
from master.steps import RHYTHM_KEPT, fold, makes_steps

START = datetime(2026, 11, 29, 3, 0, tzinfo=UTC)


def told(*steps: tuple[float, int]) -> Run:
    """A run of which it was told so: (seconds, step)."""
    run = Run(rhythm=[])
    for at, step in steps:
        fold(run, step, START + timedelta(seconds=at))
    return run


@pytest.mark.parametrize(
    ("steps", "first", "last", "at"),
    [
        pytest.param([(1, 5)], 5, 5, 1, id="the first"),
        pytest.param([(1, 5), (2, 6)], 5, 6, 2, id="the next"),
        pytest.param([(1, 5), (1, 5)], 5, 5, 1, id="told twice"),
        pytest.param([(2, 6), (1, 5)], 6, 6, 2, id="a late report"),
        pytest.param([(1, 6), (1.01, 5)], 6, 6, 1.01, id="a rank that lags behind moves too"),
        pytest.param([(1, 900), (2, 3), (3, 4)], 900, 900, 3, id="a counter that began anew is progress"),
        pytest.param([(1, 900), (2, 3), (3, 901)], 900, 901, 3, id="two ranks that count differently"),
    ],
)
def test_fold(steps: list[tuple[float, int]], first: int, last: int, at: float) -> None:
    run = told(*steps)
    assert (run.first_step, run.last_step) == (first, last)
    assert run.last_step_at == START + timedelta(seconds=at)


@pytest.mark.parametrize(
    ("steps", "rhythm"),
    [
        pytest.param([(0, 1), (0.5, 2), (1.0, 3)], [0.5, 0.5], id="one by one"),
        pytest.param([(0, 1), (1, 21)], [1.0], id="many at once are one piece of news"),
        pytest.param([(0, 100), (90, 200), (180, 300)], [90.0, 90.0], id="a log of each hundredth step"),
        pytest.param([(0, 1), (1, 21), (21.5, 32)], [1.0, 20.5], id="a pause among quick steps is kept"),
        pytest.param([(0, 1), (1, 2), (5, 3)], [1.0, 4.0], id="a slow step"),
    ],
)
def test_the_rhythm(steps: list[tuple[float, int]], rhythm: list[float]) -> None:
    assert told(*steps).rhythm == pytest.approx(rhythm)


def test_the_rhythm_is_bounded() -> None:
    assert len(told(*((n, n) for n in range(500))).rhythm) == RHYTHM_KEPT


def test_a_rare_long_pause_is_remembered() -> None:
    news = [(n, n) for n in range(10)] + [(609 + n, 10 + n) for n in range(1000)]
    run = told(*news)
    assert len(run.rhythm) == RHYTHM_KEPT
    assert (max(run.rhythm), run.rhythm.count(1.0)) == (600.0, RHYTHM_KEPT - 1)


@pytest.mark.parametrize(
    ("steps", "expected"),
    [([], False), ([(1, 40)], False), ([(1, 40), (2, 40)], False), ([(1, 40), (2, 41)], True)],
    ids=["nothing told", "one number", "the same again", "a step"],
)
def test_makes_steps(steps: list[tuple[float, int]], expected: bool) -> None:
    assert makes_steps(told(*steps)) is expected
