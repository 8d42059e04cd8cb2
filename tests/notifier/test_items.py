"""The table of alert items, and which one names an incident."""

import pytest

from channels.base import Severity
from notifier.items import ITEMS, at_least, most_severe, most_specific


def test_severities_are_the_contracts() -> None:
    severities = {name: item.severity.value for name, item in ITEMS.items()}
    assert severities == {
        "jobRunning": "info",
        "jobSucceed": "info",
        "jobFailed": "error",
        "jobHang": "error",
        "jobFT": "warning",
        "nodeFT": "warning",
        "jobRecovered": "info",
        "jobGaveUp": "critical",
        "agentLost": "warning",
        "channelFailing": "error",
        "custom": "info",
    }


def test_what_resolves_an_incident_is_an_item_itself() -> None:
    resolved = {name: item.resolved_by for name, item in ITEMS.items() if item.resolved_by}
    assert resolved == {"jobHang": "jobRecovered", "jobFT": "jobRecovered"}
    assert set(resolved.values()) <= set(ITEMS)


@pytest.mark.parametrize(
    ("items", "head"),
    [
        pytest.param(("jobFT", "jobHang"), "jobHang", id="a hang says more than that something was done"),
        pytest.param(("jobFT", "nodeFT"), "nodeFT", id="a node says more than the job"),
        pytest.param(("jobFT", "nodeFT", "jobHang"), "jobHang", id="but not more than the hang"),
        pytest.param(("jobFailed", "jobGaveUp"), "jobGaveUp", id="that nothing more is tried comes first"),
        pytest.param(("jobHang", "jobGaveUp", "jobFailed", "nodeFT"), "jobGaveUp", id="whatever else"),
        pytest.param(("custom",), "custom", id="alone"),
    ],
)
def test_the_most_specific_item_heads_the_message(items: tuple[str, ...], head: str) -> None:
    assert most_specific(items) == head
    assert most_specific(reversed(items)) == head


def test_no_two_items_of_one_incident_are_equally_specific() -> None:
    together = ("jobFT", "jobHang", "jobFailed", "jobGaveUp", "nodeFT")
    assert len({ITEMS[item].specificity for item in together}) == len(together)


def test_severities_are_ordered() -> None:
    assert most_severe(("info", "critical", "error")) is Severity.CRITICAL
    assert at_least("error", "error")
    assert at_least("critical", "warning")
    assert not at_least("warning", "error")


@pytest.mark.parametrize("choose", [most_specific, most_severe])
def test_of_nothing_there_is_no_choice(choose: object) -> None:
    with pytest.raises(ValueError, match="empty"):
        choose(())  # type: ignore[operator]
