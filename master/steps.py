"""How far a run is: folds what ranks tell of their steps into the run's row. Pure but for that row."""

from collections.abc import Sequence
from datetime import datetime

from master.model import Run

RHYTHM_KEPT = 256
RARE_KEPT = 16  # of these the longest, however long ago: an evaluation may come but every few hours


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
        run.rhythm = kept([*run.rhythm, round((at - run.last_step_at).total_seconds(), 4)])
    run.last_step, run.last_step_at = max(step, run.last_step), at
    return True


def kept(gaps: Sequence[float]) -> list[float]:
    """The newest gaps, and of older ones the rare long ones.

    A gap is the time between two pieces of news, however many steps the second tells of: a log that tells of
    each hundredth step is silent for a hundred steps, and that is no hang.
    """
    if len(gaps) <= RHYTHM_KEPT:
        return list(gaps)
    rare = sorted(range(len(gaps)), key=lambda n: gaps[n])[-RARE_KEPT:]
    goes = next(n for n in range(len(gaps)) if n not in rare)
    return [*gaps[:goes], *gaps[goes + 1 :]]


def makes_steps(run: Run) -> bool:
    """Whether training went on by a step that was not merely told at the start."""
    return run.first_step is not None and run.last_step is not None and run.last_step > run.first_step
