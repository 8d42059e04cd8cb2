"""Which lines tell that training goes on: for those who read logs after the fact."""

from agent.signatures.framing import framed
from agent.steps import find


def step_of(line: str) -> int | None:
    """The step that a progress line tells, or None where the line is no such line."""
    mark = find(framed(line).body)
    return mark.step if mark else None


def is_progress(line: str) -> bool:
    """A line that training prints as it goes on; transformers prints a loss and an epoch, but no step."""
    return ("'loss':" in line and "'epoch':" in line) or step_of(line) is not None
