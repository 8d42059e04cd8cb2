"""Kills for want of memory, by control groups: the files read, and real kills by the kernel where we may."""

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from agent.clock import rfc3339, utcnow
from agent.nodeoom import NodeMemory
from agent.oom import KILLED, Groups, folder_of, group_of, holds_only
from agent.podoom import PodMemory
from agent.wire import Kind, Observation
from agent.workers import Exit, Worker, exited

MIB = 1 << 20
EVENTS = "low 0\nhigh 0\nmax 812\noom {0}\noom_kill {0}\noom_group_kill 0\n"
V1 = "oom_kill_disable 0\nunder_oom 0\noom_kill {0}\n"
EAT = "held = []\nwhile True: held.append(bytearray(1 << 20))"


def grouped(folder: Path, kills: int, *pids: int, form: str = EVENTS) -> Path:
    """A control group's files as the kernel shows them."""
    folder.mkdir(exist_ok=True)
    name = "memory.events" if form is EVENTS else "memory.oom_control"
    (folder / name).write_text(form.format(kills))
    (folder / "cgroup.procs").write_text("".join(f"{pid}\n" for pid in pids))
    return folder


@pytest.mark.parametrize(
    ("text", "path"),
    [
        pytest.param(b"0::/kubepods.slice/pod1/cri-2.scope\n", "/kubepods.slice/pod1/cri-2.scope", id="v2"),
        pytest.param(b"5:devices:/a\n4:memory:/docker/1\n0::/\n", "/docker/1", id="v1"),
        pytest.param(b"9:cpu,memory:/b:c\n", "/b:c", id="v1-together"),
        pytest.param(b"5:devices:/a\n0::/x\n", "/x", id="hybrid"),
        pytest.param(b"5:devices:/a\n", None, id="none"),
        pytest.param(b"\xff\n\n::\n", None, id="garbage"),
    ],
)
def test_the_group_of_a_process(text: bytes, path: str | None) -> None:
    assert group_of(text) == path


@pytest.mark.parametrize("form", [EVENTS, V1], ids=["v2", "v1"])
def test_a_count_that_grows_is_told_once(tmp_path: Path, form: str) -> None:
    groups = Groups()
    folder = grouped(tmp_path / "g", 3, form=form)
    groups.watch("/pod", folder)
    assert groups.look() == []
    grouped(folder, 5, form=form)
    (grown,) = groups.look()
    assert grown.finding().line == "memory cgroup /pod: 2 processes killed for want of memory"
    assert groups.look() == []


def test_a_group_that_is_gone_is_forgotten(tmp_path: Path) -> None:
    groups = Groups()
    folder = grouped(tmp_path / "g", 0)
    groups.watch("/pod", folder)
    (folder / "memory.events").unlink()
    assert groups.look() == []
    grouped(folder, 9)
    assert groups.look() == []


def test_pressure_is_told_beside(tmp_path: Path) -> None:
    groups = Groups()
    folder = grouped(tmp_path / "g", 0)
    groups.watch("/pod", folder)
    grouped(folder, 1)
    (folder / "memory.pressure").write_text(
        "some avg10=91.20 avg60=1.00 avg300=0.00 total=9\nfull avg10=87.05 avg60=0.00 avg300=0.00 total=9\n"
    )
    (grown,) = groups.look()
    assert grown.finding().line.endswith("for want of memory (memory pressure 87.05 %)")


def test_whose_group_it_is(tmp_path: Path) -> None:
    folder = grouped(tmp_path / "g", 0, 10, 11)
    assert holds_only(folder, [10, 11, 12])
    assert not holds_only(folder, [10])
    assert not holds_only(tmp_path / "nowhere", [10])


@dataclass(frozen=True)
class Ended:
    rank: int
    signal: int = 9
    seconds_ago: float = 0.0

    def observed(self) -> Observation:
        return ended(self.rank, self.signal, self.seconds_ago)


def ended(rank: int, signal: int = 9, seconds_ago: float = 0.0) -> Observation:
    at = rfc3339(utcnow() - timedelta(seconds=seconds_ago))
    return exited(Worker(rank, rank, 100 + rank, 1), Exit(signal=signal), at, [])


@pytest.mark.parametrize(
    ("exits", "pids", "told"),
    [
        pytest.param([], [10], [None], id="its own group: the pod's word alone"),
        pytest.param([Ended(3)], [10], [3], id="its own group, a rank killed"),
        pytest.param([Ended(3), Ended(4)], [10], [None], id="its own group, two killed"),
        pytest.param([], [10, 999], [], id="others share the group"),
        pytest.param([Ended(3)], [10, 999], [3], id="others share it, a rank killed"),
        pytest.param([Ended(3, signal=11)], [10, 999], [], id="others share it, a rank crashed"),
        pytest.param([Ended(3, seconds_ago=30)], [10, 999], [], id="others share it, killed long before"),
    ],
)
def test_a_kill_is_a_pods_own_only_where_that_is_sure(
    tmp_path: Path, exits: list[Ended], pids: list[int], told: list[int | None]
) -> None:
    memory = PodMemory()
    folder = grouped(tmp_path / "g", 0, *pids)
    memory._groups.watch("/group", folder)
    assert memory.look([], [10, 11]) == []
    grouped(folder, 1, *pids)
    found = memory.look([one.observed() for one in exits], [10, 11])
    assert [one.rank for one in found] == told
    assert {(one.kind, one.data["signature"]) for one in found} <= {(Kind.LOG_MATCH, KILLED)}
    assert memory.look([], [10, 11]) == []


def test_an_end_that_is_told_after_the_count_is_found(tmp_path: Path) -> None:
    memory = PodMemory()
    folder = grouped(tmp_path / "g", 0, 10, 999)
    memory._groups.watch("/group", folder)
    grouped(folder, 1, 10, 999)
    assert memory.look([], [10]) == []
    (told,) = memory.look([ended(2)], [10])
    assert told.rank == 2


@pytest.fixture
def group() -> Iterator[Path]:
    """A control group with little memory, for real."""
    for root, limit in ((Path("/sys/fs/cgroup"), "memory.max"), (Path("/sys/fs/cgroup/memory"), V1_LIMIT)):
        folder = root / f"faultcast-test-{os.getpid()}"
        with contextlib.suppress(OSError):
            folder.mkdir()
            try:
                if (folder / limit).exists():
                    (folder / limit).write_text(str(64 * MIB))
                    with contextlib.suppress(OSError):
                        (folder / "memory.swap.max").write_text("0")
                    yield folder
                    return
            finally:
                _remove(folder)
    pytest.skip("no memory control group can be made here (root, and a writable /sys/fs/cgroup, are needed)")


V1_LIMIT = "memory.limit_in_bytes"


def _remove(folder: Path) -> None:
    """Once nothing is in it any more; a process that ends takes a moment."""
    deadline = time.monotonic() + 10
    while folder.exists() and time.monotonic() < deadline:
        for pid in (folder / "cgroup.procs").read_text().split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), 9)
        with contextlib.suppress(OSError):
            folder.rmdir()
        time.sleep(0.01)


def inside(group: Path, code: str) -> str:
    """A program that enters the group first."""
    return f"open({str(group / 'cgroup.procs')!r}, 'w').write('0')\n{code}"


def test_a_rank_that_the_kernel_kills_for_memory_is_told_with_it(pod: Any, master: Any, group: Path) -> None:
    pod.python(inside(group, pod.once_seen(EAT)))
    pod.watch_till_seen()
    told = master.wait_for("log_match")
    assert (told["data"]["signature"], told["rank"]) == (KILLED, 0)
    assert told["data"]["line"].startswith(f"memory cgroup /{group.name}: 1 process killed")
    exit_ = master.wait_for("process_exited")
    assert exit_["data"]["signal"] == 9
    everything = [one["kind"] for post in master.taken() for one in post.document["observations"]]
    assert everything.index("log_match") < everything.index("process_exited")


def test_a_rank_that_somebody_kills_is_not(pod: Any, master: Any, group: Path) -> None:
    pod.python(inside(group, "import time\ntime.sleep(1000)"))
    pod.watch()
    os.kill(int(master.wait_for("process_started")["data"]["pid"]), 9)
    assert master.wait_for("process_exited")["data"]["signal"] == 9
    assert master.observations("log_match") == []


def test_a_data_worker_that_the_kernel_kills_is_told_though_its_rank_lives(
    pod: Any, master: Any, group: Path
) -> None:
    fork = f"if os.fork() == 0: exec({EAT!r})"
    pod.python(inside(group, pod.once_seen(f"{fork}\ntime.sleep(1000)")))
    pod.watch_till_seen()
    told = master.wait_for("log_match")
    assert (told["data"]["signature"], told["rank"]) == (KILLED, None)
    assert master.observations("process_exited") == []


def test_the_nodes_agent_sees_it_too_and_whose_it_was(group: Path) -> None:
    memory = NodeMemory()
    child = subprocess.Popen(
        [sys.executable, "-c", inside(group, f"print(1, flush=True)\ninput()\n{EAT}")],
        env=os.environ | {"FAULTCAST_JOB_ID": "job-7"}, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert child.stdout is not None
    child.stdout.readline()
    memory.scan()
    child.communicate(b"\n", timeout=30)
    assert child.returncode == -9
    told = {"cgroup": f"/{group.name}", "faultcast_job": "job-7"}
    assert [one.captured for one in memory.look()].count(told) == 1
    memory.scan()
    assert told not in [one.captured for one in memory.look()]


def test_the_nodes_agent_says_nothing_of_its_own_group() -> None:
    """On the local runtime all pods share it: what is killed there may be anybody's."""
    own = folder_of(os.getpid())
    if own is None:
        pytest.skip("no memory control group is visible here")
    memory = NodeMemory()
    child = subprocess.Popen(["sleep", "60"], env=os.environ | {"FAULTCAST_JOB_ID": "job-7"})
    try:
        memory.scan()
        memory.scan()
        assert memory._seen[child.pid] == ""
        assert own[0] not in memory._groups._known
    finally:
        child.kill()
        child.wait()
