"""`faultcast inject` on a pod of ordinary processes: what it does to them, and what it refuses."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from agent.signatures import Scanner
from master.inject import FAULTS, inside
from tests.cli.playedserver import Server, serving
from tests.cli.test_main import Run, faultcast
from tests.conftest import wait_for

__all__ = ["faultcast"]
JOB, PLACE = "job_1", "0123456789abcdef"


@dataclass(frozen=True)
class Town:
    """A data dir with one pod, whose training process sleeps."""

    data_dir: Path
    trainer: psutil.Process

    @property
    def pod(self) -> Path:
        return self.data_dir / "jobs" / JOB / "run-0" / "pod-0"

    @property
    def kernel_log(self) -> Path:
        return self.data_dir / "nodes" / "node-1" / "kernel.log"

    def told(self, **ranks: int) -> dict[str, Any]:
        """The server's answer to who wants to inject."""
        pod = {"name": "train-0", "index": 0, "node": "node-1", "folder": str(self.pod), "ranks": ranks}
        return {"job_id": JOB, "run": 0, "place": PLACE, "pods": [pod]}


@pytest.fixture
def server() -> Iterator[Server]:
    with serving(Server()) as running:
        yield running


@pytest.fixture
def town(tmp_path: Path, server: Server) -> Iterator[Town]:
    data_dir = tmp_path / "there"
    child = subprocess.Popen(
        ["sleep", "1000"], env={"PATH": os.environ["PATH"], "FAULTCAST_JOB_ID": JOB, "FAULTCAST_RUN": "0"}
    )
    town = Town(data_dir, psutil.Process(child.pid))
    town.pod.mkdir(parents=True)
    town.kernel_log.parent.mkdir(parents=True)
    town.kernel_log.touch()
    (town.pod / "pod.log").touch()
    (data_dir / "place").write_text(PLACE)
    server.answer = town.told(**{"0": child.pid})
    wait_for(lambda: town.trainer.name() == "sleep")
    yield town
    child.kill()
    child.wait()


@pytest.mark.parametrize(("language", "word"), [("zh", "死循环"), ("en", "loops for ever")])
def test_the_list_says_what_there_is_without_a_server(
    faultcast: Run, monkeypatch: pytest.MonkeyPatch, server: Server, language: str, word: str
) -> None:
    monkeypatch.setenv("FAULTCAST_LANGUAGE", language)
    ended = faultcast("inject", "--list")
    assert ended.code == 0
    assert word in ended.out
    assert len(ended.out.splitlines()) == len(FAULTS) + 1
    items = json.loads(faultcast("inject", JOB, "--list", "--json").out)["items"]
    assert {one["fault"]: one["healthy"] for one in items} == {one.name: one.is_healthy for one in FAULTS}
    assert server.asked == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["inject"], "JOB and FAULT: name both"),
        (["inject", JOB], "JOB and FAULT: name both"),
        (["inject", JOB, "earthquake"], "FAULT: there is no earthquake; give one of: exception, "),
        (["inject", JOB, "rank_killed", "--rank", "-1"], "--rank"),
        (["inject", JOB, "rank_killed", "--seconds", "5"], "--seconds: means nothing to rank_killed"),
        (["inject", JOB, "log_flood", "--seconds", "nan"], "--seconds: nan is not within 0.1 and 86400"),
        (["inject", JOB, "clock_skewed", "--skew-s", "1e12"], "--skew-s: 1e+12 is not within"),
        (["inject", JOB, "kernel_line", "--line", "two\nlines"], "--line: one line of printable text"),
        (["inject", JOB, "rank_killed", "--rank", "5"], "--rank: no agent tells of rank 5; there are: 0"),
    ],
)
@pytest.mark.usefixtures("town")
def test_wrong_usage_names_the_field_and_the_mend(faultcast: Run, arguments: list[str], words: str) -> None:
    ended = faultcast(*arguments)
    assert (ended.code, ended.out) == (2, "")
    assert words in ended.err


def test_a_rank_is_stopped(faultcast: Run, town: Town, server: Server) -> None:
    ended = faultcast("inject", JOB, "rank-stopped", "--json")
    assert ended.code == 0
    did = f"SIGSTOP to process {town.trainer.pid}"
    assert json.loads(ended.out) == {
        "fault": "rank_stopped", "healthy": False, "rank": 0, "pod": "train-0", "node": "node-1", "did": did,
    }  # fmt: skip
    wait_for(lambda: town.trainer.status() == psutil.STATUS_STOPPED)
    assert server.asked[0]["body"] == {"fault": "rank_stopped"}


def test_a_rank_is_stopped_for_a_while(faultcast: Run, town: Town) -> None:
    ended = faultcast("inject", JOB, "rank_stopped", "--seconds", "0.2")
    assert "and SIGCONT after 0.2 s\nthen: nothing, if that was soon enough" in ended.out
    wait_for(lambda: town.trainer.status() == psutil.STATUS_SLEEPING)


def test_what_is_written_is_what_the_agents_know(faultcast: Run, town: Town) -> None:
    assert faultcast("inject", JOB, "gpu_lost").code == 0
    assert faultcast("inject", JOB, "nccl_error").code == 0
    kernel = Scanner(()).scan(town.kernel_log.read_text().strip(), "kernel")
    log = Scanner(()).scan((town.pod / "pod.log").read_text().strip())
    assert (kernel and kernel.signature, log and log.signature) == ("xid.79", "nccl.ib_completion")


def test_a_line_of_ones_own(faultcast: Run, town: Town) -> None:
    assert faultcast("inject", JOB, "kernel_line", "--line", "nvme0: I/O 7 timeout, 忽略").code == 0
    assert town.kernel_log.read_text().endswith("] nvme0: I/O 7 timeout, 忽略\n")


def test_memory_runs_out(faultcast: Run, town: Town) -> None:
    said = faultcast("inject", JOB, "out_of_memory").out
    assert "a fault event process_exit: host_oom" in said
    found = Scanner(()).scan(town.kernel_log.read_text().strip(), "kernel")
    assert found is not None
    assert (found.signature, found.captured["pid"]) == ("memory.killed", str(town.trainer.pid))
    wait_for(lambda: town.trainer.status() == psutil.STATUS_ZOMBIE)


def test_a_flood_is_whole_lines(faultcast: Run, town: Town) -> None:
    began = time.monotonic()
    assert faultcast("inject", JOB, "log_flood", "--seconds", "0.3").code == 0
    assert time.monotonic() - began < 10
    lines = (town.pod / "pod.log").read_text().splitlines()
    assert len(lines) >= 5000
    assert len(set(lines)) == 1


def test_another_machines_pods_are_not_touched(faultcast: Run, town: Town) -> None:
    (town.data_dir / "place").write_text("fedcba9876543210")
    ended = faultcast("inject", JOB, "rank_killed")
    assert ended.code == 2
    assert "pod train-0 does not run on this machine" in ended.err
    assert town.trainer.status() == psutil.STATUS_SLEEPING


def test_a_pid_that_is_another_programs_by_now_is_not_touched(
    faultcast: Run, town: Town, server: Server
) -> None:
    server.answer = town.told(**{"0": os.getpid()})
    ended = faultcast("inject", JOB, "rank_killed")
    assert ended.code == 1
    assert f"process {os.getpid()} is none of run 0" in ended.err


def test_a_refusal_of_the_server_is_passed_on(faultcast: Run, server: Server) -> None:
    server.status, server.answer = 404, {"detail": "there is no job job_1", "status": 404}
    ended = faultcast("inject", JOB, "rank_killed")
    assert (ended.code, ended.err) == (2, "faultcast: there is no job job_1\n")


def test_a_script_that_plays_along_takes_the_request(faultcast: Run, town: Town) -> None:
    path = town.pod / "inject.0"
    waits = f"import os, time\nwhile not os.path.exists({str(path)!r}): time.sleep(0.01)\n"
    script = [sys.executable, "-c", f"{waits}print(open({str(path)!r}).read()); os.unlink({str(path)!r})"]
    with subprocess.Popen(script, stdout=subprocess.PIPE, text=True) as training:
        ended = faultcast("inject", JOB, "long_compile", "--seconds", "3")
        asked = json.loads(training.communicate(timeout=30)[0])
    assert asked == {"fault": "long_compile", "seconds": 3}
    assert "no alert, and training goes on" in ended.out


def test_a_script_that_does_not_play_along_is_told_of(
    faultcast: Run, town: Town, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inside, "TAKEN_WITHIN_S", 0.1)
    ended = faultcast("inject", JOB, "exception")
    assert ended.code == 1
    assert "nobody took exception" in ended.err
    assert sorted(one.name for one in town.pod.iterdir()) == ["pod.log"]


def test_an_agent_that_is_not_there_yet_is_told_of(faultcast: Run, town: Town) -> None:
    ended = faultcast("inject", JOB, "agent_killed")
    assert ended.code == 1
    assert "agent.json is not there yet" in ended.err


def test_pods_that_share_a_network_keep_it(faultcast: Run, town: Town) -> None:
    ended = faultcast("inject", JOB, "network_cut")
    assert ended.code == 2
    assert "share one network" in ended.err or "network_cut: " in ended.err


@pytest.mark.parametrize(
    ("env", "command", "words"),
    [
        ({}, ["true"], "PET_NODE_RANK is not set: this is for the command of a job"),
        (
            {"PET_NODE_RANK": "0"},
            ["--"],
            "no command: write python -m master.inject.apart -- python train.py",
        ),
        ({"PET_NODE_RANK": "1000"}, ["true"], "at most 250 pods"),
    ],
)
def test_a_command_that_cannot_be_set_apart_says_why(
    env: dict[str, str], command: list[str], words: str
) -> None:
    program = [sys.executable, "-m", "master.inject.apart", *command]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PET_")}
    ended = subprocess.run(program, env=kept | env, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (2, f"faultcast apart: {words}\n")
