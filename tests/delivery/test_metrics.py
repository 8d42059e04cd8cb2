"""Figures for Prometheus: what happened, what waits, and the sum over processes."""

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from prometheus_client.parser import text_string_to_metric_families

from channels.standin import Scripted
from notifier.exposition import exposition
from notifier.settings import SHARED_FIGURES

if TYPE_CHECKING:
    from tests.delivery.conftest import House

COUNTS = """
from notifier import metrics
metrics.ATTEMPTS.labels("dingtalk", "throttled").inc()
"""
SHOWS = """
from notifier.exposition import exposition
from notifier.storage import Store, make_engine
import sys
print(exposition(Store(make_engine(sys.argv[1]))).decode())
"""


def figure(text: str, name: str, **labels: str) -> float:
    """The value of one sample; 0 when there is none."""
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name == name and sample.labels == labels:
                return float(sample.value)
    return 0.0


def test_what_happens_is_counted_and_what_waits_is_shown(house: "House") -> None:
    def now(name: str, **labels: str) -> float:
        return figure(exposition(house.store).decode(), name, **labels)

    def counted() -> tuple[float, ...]:
        return (
            now("faultcast_deliveries_total", kind="webhook", state="delivered"),
            now("faultcast_attempts_total", kind="webhook", outcome="throttled"),
            now("faultcast_provider_seconds_count", kind="webhook"),
            now("faultcast_alert_to_send_seconds_count", kind="webhook"),
        )

    before = counted()
    channel = house.channel()
    (one,) = house.alert(channel)
    assert now("faultcast_open_deliveries", kind="webhook", state="pending") == 1
    house.providers.script("webhook", Scripted(status=429))
    with house.working():
        house.told(one, state="retrying")
    assert now("faultcast_queue_age_seconds") == 0
    house.hasten(one)  # while nobody works, who would put it off for the paused channel
    assert now("faultcast_queue_age_seconds") >= 1
    house.edit_channel(channel, paused_until=None)
    with house.working():
        house.told(one)
    assert [after - first for after, first in zip(counted(), before, strict=True)] == [1, 1, 2, 1]
    assert now("faultcast_broken_channels") == 0
    house.edit_channel(channel, health="broken")
    assert now("faultcast_broken_channels") == 1


@pytest.mark.parametrize("engine_name", ["sqlite"], indirect=True)
def test_processes_count_together(database_url: str, tmp_path: Path) -> None:
    folder = tmp_path / "metrics"
    folder.mkdir()
    environment = {**os.environ, SHARED_FIGURES: str(folder)}
    for _ in range(2):
        subprocess.run([sys.executable, "-c", COUNTS], env=environment, check=True)
    command = [sys.executable, "-c", SHOWS, database_url]
    shown = subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout
    assert figure(shown, "faultcast_attempts_total", kind="dingtalk", outcome="throttled") == 2
    assert "faultcast_queue_age_seconds" in shown
