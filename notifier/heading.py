"""Which of the alerts that one message tells of heads it. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from channels.base import Severity
from notifier.items import SEVERITIES


@dataclass(frozen=True)
class Told:
    """What one line of a digest tells: `is_over`: the end of its alert; `is_acked`: it is taken on by now."""

    alert: str | None
    severity: Severity
    is_over: bool = False
    is_acked: bool = False


def head(told: Sequence[Told]) -> int:
    """Which of these heads the message: what goes on before what is over by now, then the most severe, then
    what nobody has taken on, then the latest. Of an alert that is over it is its end.

    Raises:
        ValueError: there is none.
    """
    over = {one.alert for one in told if one.is_over}
    gravity: dict[str | None, int] = {}
    for one in told:
        gravity[one.alert] = max(gravity.get(one.alert, 0), SEVERITIES.index(one.severity))

    def rank(n: int) -> tuple[bool, int, bool, bool, int]:
        one = told[n]
        return one.alert not in over, gravity[one.alert], not one.is_acked, one.is_over, n

    return max(range(len(told)), key=rank)
