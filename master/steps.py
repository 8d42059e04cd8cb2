"""How far a run is: folds what ranks tell of their steps into the run's row. Pure but for that row."""

from datetime import datetime

from master.model import Run

RHYTHM_KEPT = 64
LAG = 5  # ranks of one run may be so many steps apart; further back, the counter began anew


def fold(run: Run, step: int, at: datetime) -> bool:
    """Note that some rank stood at `step` at that time; whether that is progress of the run."""
    if run.last_step is None or run.last_step_at is None:
        run.first_step, run.first_step_at = step, at
        run.last_step, run.last_step_at = step, at
        return True
    if at <= run.last_step_at or run.last_step - LAG <= step <= run.last_step:
        return False
    if step > run.last_step:
        gap = (at - run.last_step_at).total_seconds() / (step - run.last_step)
        run.rhythm = [*run.rhythm[1 - RHYTHM_KEPT :], round(gap, 4)]
    run.last_step, run.last_step_at = step, at
    return True


def makes_steps(run: Run) -> bool:
    """Whether training went on by a step that was not merely told at the start."""
    return run.first_step is not None and run.last_step is not None and run.last_step != run.first_step
