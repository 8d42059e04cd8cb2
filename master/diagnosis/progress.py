"""Whether training went on after a moment, and how long a pause its own rhythm allows."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from master.casefile import CaseFile

_HANDLED_STEPS = 2
_HANDLED_AFTER = timedelta(seconds=1)  # a step that was under way may still end
_FATAL_STEPS = 3
_FATAL_AFTER = timedelta(seconds=10)
MIN_GAPS = 5  # so many gaps make a rhythm


def steps_since(case: CaseFile, moment: datetime) -> int:
    """How many steps ended after a moment, as far back as the rhythm reaches."""
    if case.last_step_at is None:
        return 0
    count, at = 0, case.last_step_at
    for gap in reversed(case.rhythm):
        if at <= moment:
            return count
        count += 1
        at -= timedelta(seconds=min(max(gap, 0.0), 86_400.0))
    return count + (at > moment)


def handled(case: CaseFile, moment: datetime) -> bool:
    """Whether training went on so well that what a program said at that moment was dealt with."""
    return steps_since(case, moment + _HANDLED_AFTER) >= _HANDLED_STEPS


def survived(case: CaseFile, moment: datetime) -> bool:
    """The same for lines that mean the end of a communicator: only a long run after them refutes them."""
    last = case.last_step_at
    return last is not None and last - moment >= _FATAL_AFTER and steps_since(case, moment) >= _FATAL_STEPS


def has_rhythm(case: CaseFile) -> bool:
    return case.last_step_at is not None and len(case.rhythm) >= MIN_GAPS


def percentile(values: Sequence[float], share: float) -> float:
    """The value that a share of all do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


def usual_gap(case: CaseFile) -> timedelta:
    """What most gaps stay under. A sixteenth of what is remembered are the longest ever (master/steps.py)."""
    return timedelta(seconds=min(percentile(case.rhythm, 0.9), 86_400.0))


def longest_gap(case: CaseFile) -> timedelta:
    return timedelta(seconds=min(max(case.rhythm, default=0.0), 86_400.0))
