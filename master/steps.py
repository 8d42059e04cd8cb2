"""How far a run is: folds what ranks tell of their steps into the run's row. Pure but for that row."""

from datetime import datetime

from master.model import Run

RHYTHM_KEPT = 64


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
        gap = (at - run.last_step_at).total_seconds() / (step - run.last_step)
        run.rhythm = [*run.rhythm[1 - RHYTHM_KEPT :], round(gap, 4)]
    run.last_step, run.last_step_at = max(step, run.last_step), at
    return True


def makes_steps(run: Run) -> bool:
    """Whether training went on by a step that was not merely told at the start."""
    return run.first_step is not None and run.last_step is not None and run.last_step > run.first_step
