"""A real agent of a node."""

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.findings import Finding
from agent.node import NodeAgent
from agent.settings import Settings, Token

ROOT = Path(__file__).resolve().parents[2]
XID = "NVRM: Xid (PCI:0000:9b:00): 79, pid=1234, name=python, GPU has fallen off the bus."
Start = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def start(tmp_path: Path, master: Any) -> Iterator[Start]:
    started: list[subprocess.Popen[bytes]] = []

    def begin(**env: str) -> subprocess.Popen[bytes]:
        told = {
            "FAULTCAST_SERVER": master.url,
            "FAULTCAST_AGENT_TOKEN": "fct_a-token-of-this-pod",
            "FAULTCAST_NODE": "node-1",
            "FAULTCAST_KERNEL_LOG": str(tmp_path / "kernel.log"),
        }
        command = [sys.executable, "-m", "agent", "--node"]
        started.append(
            subprocess.Popen(command, cwd=ROOT, env=os.environ | told | env, stderr=subprocess.PIPE)
        )
        return started[-1]

    yield begin
    for process in started:
        process.kill()
        process.wait()
        if process.stderr:
            process.stderr.close()


def say(folder: Path, *lines: str) -> None:
    with (folder / "kernel.log").open("a") as log:
        log.write("".join(f"{line}\n" for line in lines))


def test_a_kernel_line_is_told_at_once_with_heartbeats_beside(
    start: Start, master: Any, tmp_path: Path
) -> None:
    say(tmp_path, "an old line", XID)
    start()
    assert master.wait_for("agent_started")["data"]["node_agent"] is True
    master.wait_for("heartbeat")
    assert master.observations("kernel_line") == []
    say(tmp_path, XID)
    told = master.wait_for("kernel_line", within_s=2)
    assert (told["rank"], told["data"]["line"]) == (None, XID)


def test_lines_written_between_two_lives_are_told_once(
    start: Start, master: Any, tmp_path: Path, until: Callable[..., Any]
) -> None:
    say(tmp_path, "an old line")
    first = start()
    master.wait_for("heartbeat")
    say(tmp_path, XID)
    master.wait_for("kernel_line")
    first.terminate()
    assert first.wait(10) == 0
    second = XID.replace("9b", "9c")
    say(tmp_path, second)
    start()
    until(lambda: len(master.observations("kernel_line")) == 2, "the line of the time between")
    master.wait_for("heartbeat", lambda one: one["at"] > master.observations("kernel_line")[1]["at"])
    assert [one["data"]["line"] for one in master.observations("kernel_line")] == [XID, second]


def test_the_kernels_own_log_is_followed(start: Start, master: Any, tmp_path: Path) -> None:
    if not os.access("/dev/kmsg", os.R_OK):
        pytest.skip("this user may not read the kernel's log")
    start(FAULTCAST_KERNEL_LOG="/dev/kmsg", FAULTCAST_AGENT_DIR=str(tmp_path / "agent"))
    master.wait_for("heartbeat")
    assert master.observations("kernel_line") == []


def test_what_breaks_on_the_machine_is_told_and_stands(start: Start, master: Any, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", disk], check=False)
    if mounted.returncode:
        pytest.skip("no file system can be mounted here (root is needed)")
    try:
        start(FAULTCAST_WATCH_PATHS=f"{disk}, /")
        first = master.wait_for("heartbeat", lambda one: "conditions" in one["data"])
        assert first["data"]["conditions"] == []
        with contextlib.suppress(OSError), (disk / "big").open("wb") as file:
            file.write(bytes(2 << 20))
        told = master.wait_for("kernel_line")
        assert told["data"]["signature"] == "disk.full"
        beat = master.wait_for("heartbeat", lambda one: one["data"].get("conditions"))
        (stands,) = beat["data"]["conditions"]
        assert (stands["name"], stands["subject"], stands["severity"]) == ("disk_full", str(disk), "error")
    finally:
        subprocess.run(["umount", "-l", disk], check=True)


def test_what_is_found_again_and_again_is_told_as_a_sample(tmp_path: Path) -> None:
    """A link that makes errors at each look would push the kernel's evidence out."""
    log = tmp_path / "kernel.log"
    log.touch()
    settings = Settings("http://127.0.0.1:1", Token("x"), tmp_path, "node-1", log, virtual=True)
    agent = NodeAgent(settings)
    errors = [Finding("nvlink.errors", f"NVML: GPU {n}", {"device": "0000:9b:00"}) for n in range(100)]
    agent._post([*errors, Finding("gpu.lost", "NVML: GPU is lost", {"device": "0000:9b:00"})])
    told = [one.data["signature"] for one in agent._findings(0.0)]
    assert told == ["nvlink.errors"] * 3 + ["gpu.lost"]
    assert agent._take_dropped() == {"finding:nvlink.errors": 97}
    os.close(agent._core._lock)


def test_paths_to_watch_are_absolute(start: Start) -> None:
    process = start(FAULTCAST_WATCH_PATHS="/data,scratch")
    assert process.wait(10) == 2
    assert process.stderr is not None
    (line,) = process.stderr.read().decode().splitlines()
    assert "FAULTCAST_WATCH_PATHS: scratch" in line


def test_the_agent_ends_when_its_directory_is_taken_away(start: Start, master: Any, tmp_path: Path) -> None:
    process = start(FAULTCAST_AGENT_DIR=str(tmp_path / "own"))
    master.wait_for("heartbeat")
    shutil.rmtree(tmp_path / "own")
    assert process.wait(10) == 0


@pytest.mark.parametrize("unset", ["FAULTCAST_NODE", "FAULTCAST_AGENT_TOKEN"])
def test_a_missing_variable_is_named(start: Start, unset: str) -> None:
    process = start(**{unset: ""})
    assert process.wait(10) == 2
    assert process.stderr is not None
    (line,) = process.stderr.read().decode().splitlines()
    assert unset in line


def test_unknown_arguments_are_refused() -> None:
    command = [sys.executable, "-m", "agent", "--pod"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=10, check=False)
    assert (done.returncode, done.stderr) == (2, "usage: python -m agent [--node]\n")


def test_a_virtual_node_tells_of_its_own_log_alone(start: Start, master: Any, tmp_path: Path) -> None:
    """Of the machine's parts, which it shares, none is its own."""
    process = start(FAULTCAST_VIRTUAL_NODE="1")
    master.wait_for("heartbeat")
    assert len(list(Path(f"/proc/{process.pid}/task").iterdir())) == 2  # the watching and the sending thread
    say(tmp_path, XID)
    assert master.wait_for("kernel_line")["data"]["signature"] == "xid.79"
