"""Where things lie in the console's pictures."""

from datetime import UTC, datetime, timedelta

import pytest

from master.console.timeline import LEFT, PHASE_MIN, RIGHT, WIDTH, Mark, Moments, RunFacts, life, phases

START = datetime(2026, 11, 29, 3, 0, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def run(n: int, begin: float, end: float | None, *, steps: tuple[int, int] | None = None) -> RunFacts:
    return RunFacts(
        n=n,
        started_at=at(begin),
        first_step_at=at(begin + 1) if steps else None,
        ended_at=None if end is None else at(end),
        first_step=steps[0] if steps else None,
        last_step=steps[1] if steps else None,
        last_step_at=at((end or 100) - 1) if steps else None,
    )


def mark(seconds: float, name: str = "evt") -> Mark:
    return Mark(name, at(seconds), "hang, rank 1", serious=False)


def test_nothing_is_drawn_before_the_first_run() -> None:
    assert life([], [], at(0)) is None


def test_runs_fill_the_width_in_their_order() -> None:
    picture = life([run(0, 0, 40), run(1, 50, None)], [], at(100))
    assert picture is not None
    first, second = picture.bars
    assert (first.x, first.running, second.running) == (LEFT, False, True)
    assert first.x + first.width < second.x
    assert second.x + second.width == pytest.approx(RIGHT, abs=2.1)


def test_a_pause_lies_between_the_last_step_and_the_next_first_one() -> None:
    picture = life([run(0, 0, 40, steps=(0, 80)), run(1, 50, None, steps=(60, 120))], [], at(100))
    assert picture is not None
    ((x, width),) = picture.pauses
    per_second = (RIGHT - LEFT) / 100
    assert x == pytest.approx(LEFT + 39 * per_second, abs=0.1)
    assert width == pytest.approx(12 * per_second, abs=0.2)


def test_steps_rise_and_fall_back_with_a_restart() -> None:
    picture = life([run(0, 0, 40, steps=(0, 80)), run(1, 50, None, steps=(60, 120))], [], at(100))
    assert picture is not None
    heights = [[float(point.split(",")[1]) for point in line.split()] for line in picture.lines]
    assert heights[0][0] > heights[0][1]
    assert heights[1][0] > heights[0][1]  # further down: steps were lost
    assert heights[1][1] == min(min(line) for line in heights)
    assert picture.top_step == 120


def test_words_of_faults_close_together_stand_on_rows_of_their_own() -> None:
    picture = life([run(0, 0, None)], [mark(50, "a"), mark(51, "b"), mark(80, "c")], at(100))
    assert picture is not None
    assert [(one.id, one.level) for one in picture.marks] == [("a", 0), ("b", 1), ("c", 0)]


def test_words_of_a_fault_at_the_end_go_to_the_left() -> None:
    picture = life([run(0, 0, None)], [mark(10), mark(99)], at(100))
    assert picture is not None
    assert [one.leftward for one in picture.marks] == [False, True]


def test_a_job_that_has_just_begun_has_a_picture() -> None:
    picture = life([run(0, 0, None)], [], at(0))
    assert picture is not None
    assert len(picture.ticks) == 5


WHOLE = Moments(at(0), at(2), at(2.5), at(4), at(6), at(20))


@pytest.mark.parametrize(
    ("moments", "expected"),
    [
        pytest.param(
            WHOLE,
            [("detect", 2), ("decide", 0.5), ("stop", 1.5), ("start", 2), ("reload", 14)],
            id="all is known",
        ),
        pytest.param(Moments(at(0), at(2), at(3)), [("detect", 2), ("decide", 1)], id="only decided"),
        pytest.param(
            Moments(at(0), at(2), at(3), None, None, at(9)),
            [("detect", 2), ("decide", 1), ("reload", 6)],
            id="no new run was needed",
        ),
        pytest.param(
            Moments(at(5), at(2), at(3), at(1)),
            [("detect", 0), ("decide", 0), ("stop", 0)],
            id="clocks that disagree give no negative time",
        ),
    ],
)
def test_phases(moments: Moments, expected: list[tuple[str, float]]) -> None:
    assert [(phase.name, phase.seconds) for phase in phases(moments)] == expected


def test_phases_fill_the_width_and_leave_room_for_words() -> None:
    drawn = phases(WHOLE)
    assert all(phase.width >= PHASE_MIN - 3 for phase in drawn)
    assert drawn[-1].x + drawn[-1].width == pytest.approx(WIDTH, abs=3)
    assert max(drawn, key=lambda phase: phase.width).name == "reload"
