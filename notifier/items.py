"""The alert items of CONTRACT 3: how severe each is, what resolves it, which one names an incident best."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from channels.base import Severity

SEVERITIES = tuple(Severity)  # rising


@dataclass(frozen=True)
class Item:
    """`specificity`: of an incident's items the highest heads the message."""

    severity: Severity
    specificity: int = 0
    resolved_by: str | None = None


ITEMS: Mapping[str, Item] = {
    "jobRunning": Item(Severity.INFO),
    "jobSucceed": Item(Severity.INFO),
    "jobFailed": Item(Severity.ERROR, 3),
    "jobHang": Item(Severity.ERROR, 5, "jobRecovered"),
    "jobFT": Item(Severity.WARNING, 2, "jobRecovered"),
    "nodeFT": Item(Severity.WARNING, 4),  # error if the node was isolated: the alert says so
    "jobRecovered": Item(Severity.INFO),
    "jobGaveUp": Item(Severity.CRITICAL, 6),
    "agentLost": Item(Severity.WARNING, 1),
    "channelFailing": Item(Severity.ERROR, 1),
    "custom": Item(Severity.INFO),  # as given
}


def at_least(severity: str, floor: str) -> bool:
    """Whether `severity` is as high as `floor`."""
    return SEVERITIES.index(Severity(severity)) >= SEVERITIES.index(Severity(floor))


def most_specific(items: Iterable[str]) -> str:
    """The item that heads the message. Raises ValueError when there is none."""
    return max(items, key=lambda item: ITEMS[item].specificity)


def most_severe(severities: Iterable[str]) -> Severity:
    """The highest of them. Raises ValueError when there is none."""
    return max((Severity(one) for one in severities), key=SEVERITIES.index)
