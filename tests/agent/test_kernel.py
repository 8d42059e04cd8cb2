"""Kernel lines: stamps taken off and believed or not, split messages joined, old ones left alone."""

import time
from datetime import UTC, datetime, timedelta
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent import clock
from agent.kernel import Joiner, KernelProbe, kernel_record, stamped
from agent.signatures import Scanner

NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
UPTIME = 5000.0
XID = "NVRM: Xid (PCI:0000:9b:00): 79, pid=1234, name=python, GPU has fallen off the bus."
OFF_BUS = (
    "NVRM: The NVIDIA GPU 0000:b3:00.0",
    "NVRM: (PCI ID: 10de:26b5) installed in this system has",
    "NVRM: fallen off the bus and is not responding to commands.",
)


@pytest.mark.parametrize(
    ("line", "at"),
    [
        pytest.param(XID, None, id="bare"),
        pytest.param(
            f"[ 4990.000123] {XID}", NOW - timedelta(seconds=10) + timedelta(microseconds=123), id="uptime"
        ),
        pytest.param(f"<4>[ 4990.0] {XID}", NOW - timedelta(seconds=10), id="level"),
        pytest.param(f"[ 4990.0][  T123] {XID}", NOW - timedelta(seconds=10), id="caller"),
        pytest.param(f"4,99,4990000000,-;{XID}", NOW - timedelta(seconds=10), id="kmsg"),
        pytest.param(f"2026-11-29T11:59:50Z {XID}", NOW - timedelta(seconds=10), id="iso"),
        pytest.param(
            f"2026-11-29T11:59:50.000000+00:00 node-a kernel: {XID}",
            NOW - timedelta(seconds=10),
            id="rsyslog",
        ),
        pytest.param(
            f"2026-11-29T19:59:50+0800 node-a kernel: [ 1.0] {XID}",
            NOW - timedelta(seconds=10),
            id="wall-wins",
        ),
        pytest.param(f"[99999.0] {XID}", None, id="an-uptime-to-come-says-nothing"),
        pytest.param(f"2026-99-29T11:59:50Z {XID}", None, id="no-such-day"),
    ],
)
def test_stamps(line: str, at: datetime | None) -> None:
    found = stamped(line, NOW, UPTIME)
    assert (found.body, found.at) == (XID, at)


def test_syslog_stamps_have_no_year() -> None:
    new_year = datetime(2027, 1, 1, 0, 0, 5).astimezone()
    found = stamped(f"Dec 31 23:59:58 node-a kernel: [ 12.5] {XID}", new_year, UPTIME)
    assert (found.body, found.at) == (XID, new_year - timedelta(seconds=7))


@given(st.text(max_size=100))
def test_no_line_breaks_the_reading(line: str) -> None:
    assert stamped(line, NOW, UPTIME).body in line


def joined(*lines: str, every_s: float = 0.0) -> str:
    joiner = Joiner()
    return [joiner.add(line, at * every_s) for at, line in enumerate(lines)][-1]


def test_a_message_split_over_lines_is_joined() -> None:
    assert joined(*OFF_BUS) == (
        "NVRM: The NVIDIA GPU 0000:b3:00.0 (PCI ID: 10de:26b5) installed in this system has "
        "fallen off the bus and is not responding to commands."
    )


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param(("NVRM: all is well.", XID), id="after-a-full-stop"),
        pytest.param(("mlx5_core 0000:0d:00.0: link", XID), id="another-driver"),
        pytest.param((XID,), id="alone"),
    ],
)
def test_messages_of_their_own_stay_alone(lines: tuple[str, ...]) -> None:
    assert joined(*lines) == XID


def test_lines_far_apart_are_not_joined() -> None:
    assert joined(*OFF_BUS, every_s=60) == OFF_BUS[-1]


@pytest.mark.parametrize(
    ("record", "line"),
    [
        (b"4,99,4990000000,-;NVRM: Xid\n SUBSYSTEM=pci\n", "4,99,4990000000,-;NVRM: Xid"),
        (b"12,99,4990000000,-;NVRM: Xid, or so a program says\n", None),
        (b"garbage", None),
    ],
    ids=["the-kernels", "a-programs", "no-record"],
)
def test_only_the_kernels_own_records_count(record: bytes, line: str | None) -> None:
    assert kernel_record(record) == line


class Kernel:
    """A followed kernel log."""

    def __init__(self, folder: Path, *, before: str = "") -> None:
        self.path = folder / "kernel.log"
        self.path.write_text(before)
        self.now = 0.0
        self.probe = KernelProbe(self.path, Scanner(), datetime.now(UTC))

    def told(self, *lines: str) -> list[dict[str, Any]]:
        with self.path.open("a") as log:
            log.write("".join(f"{line}\n" for line in lines))
        self.now += 0.1
        return [{**one.data, "at": one.at} for one in self.probe.tick(self.now)]


def test_a_fault_line_is_told_with_what_it_names(tmp_path: Path) -> None:
    (told,) = Kernel(tmp_path).told("usb 1-1: new device", XID)
    assert (told["signature"], told["line"]) == ("xid.79", XID)


def test_a_split_message_is_told_whole_and_once(tmp_path: Path) -> None:
    indented = [f"               {line}" for line in OFF_BUS[1:]]
    (told,) = Kernel(tmp_path).told(OFF_BUS[0], *indented)
    assert told["line"].startswith("NVRM: The NVIDIA GPU 0000:b3:00.0 ")
    assert told["line"].endswith("fallen off the bus and is not responding to commands.")


def test_what_stood_there_before_is_not_told(tmp_path: Path) -> None:
    kernel = Kernel(tmp_path, before=f"{XID}\n")
    assert kernel.told("usb 1-1: new device") == []


def test_old_stamps_written_anew_are_not_told(tmp_path: Path) -> None:
    """A logger that starts again writes the whole ring once more."""
    kernel = Kernel(tmp_path)
    old = datetime.now(UTC) - timedelta(hours=1)
    assert kernel.told(f"[    0.000001] {XID}", f"{old.isoformat()} node-a kernel: {XID}") == []


def test_a_line_is_never_told_as_of_the_future(tmp_path: Path) -> None:
    ahead = datetime.now(UTC) + timedelta(seconds=3)
    (told,) = Kernel(tmp_path).told(f"{ahead.isoformat()} node-a kernel: {XID}")
    assert datetime.fromisoformat(told["at"]) <= datetime.now(UTC)


def test_a_line_by_the_hundred_is_told_as_a_sample(tmp_path: Path) -> None:
    kernel = Kernel(tmp_path)
    told = kernel.told(*[XID] * 100)
    (left_out,) = kernel.probe.take_dropped().values()
    assert len(told) + left_out == 100
    assert len(told) <= 5


def test_a_machine_that_stands_still_between_two_looks_misdates_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stalls = chain([0.2, 0.0, 0.2], repeat(0.0))  # a busy machine may stand still once more

    def stalling() -> datetime:
        time.sleep(next(stalls))
        return datetime.now(UTC)

    monkeypatch.setattr(clock, "utcnow", stalling)
    moment, uptime_s = clock.with_uptime()
    apart = (datetime.now(UTC) - moment).total_seconds() - (
        time.clock_gettime(time.CLOCK_MONOTONIC) - uptime_s
    )
    assert abs(apart) < 0.05
