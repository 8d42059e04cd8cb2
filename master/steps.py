"""How far a run is: folds what ranks tell of their steps into the run's row. Pure but for that row."""

import statistics
from collections.abc import Sequence
from datetime import datetime

from master.model import Run

RHYTHM_KEPT = 256
AT_ONCE = 4  # gaps that one heartbeat adds at most: it stands for a second, whatever the pace
PAUSE = 4  # times the usual gap


def fold(run: Run, step: int, at: datetime) -> bool:
    """Note that some rank made its step at that time; whether that is news of the run's progress.

    A rank that makes a step, whatever its number, is progress; how far the run is says the highest one. An
    agent's counter may begin anew (agent/steps.py lets it grow within one life of the agent only).
    """
    if run.last_step is None or run.last_step_at is None:
        run.first_step, run.first_step_at = step, at
        run.last_step, run.last_step_at = step, at
        return True
    if at <= run.last_step_at:
        return False
    if step > run.last_step:
        gaps = _gaps((at - run.last_step_at).total_seconds(), step - run.last_step, run.rhythm)
        run.rhythm = [*run.rhythm, *(round(gap, 4) for gap in gaps)][-RHYTHM_KEPT:]
    run.last_step, run.last_step_at = max(step, run.last_step), at
    return True


def _gaps(seconds: float, steps: int, rhythm: Sequence[float]) -> list[float]:
    """The gaps between steps of which only the last one's time is told. A pause before quick steps (an
    evaluation, a checkpoint) must not vanish in their mean: it is what a hang may not be taken for."""
    usual = statistics.median(rhythm) if rhythm else seconds / steps
    pause = seconds - (steps - 1) * usual
    if steps > 1 and pause > PAUSE * usual:
        return [*([usual] * min(steps - 1, AT_ONCE - 1)), pause]
    return [seconds / steps] * min(steps, AT_ONCE)


def makes_steps(run: Run) -> bool:
    """Whether training went on by a step that was not merely told at the start."""
    return run.first_step is not None and run.last_step is not None and run.last_step > run.first_step
