"""Real process trees on the local runtime: whatever a pod starts, nothing of it is left behind."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from master.runtimes.base import Phase, PodRef, PodSpec, PodState
from master.runtimes.local import LocalRuntime

ANSWER_S = 20
PYTHON = sys.executable
REF = PodRef(pod_id="pod_a", job_id="job_a", run=0, index=0, node="node-1")


@pytest.fixture
def runtime(tmp_path: Path) -> Iterator[LocalRuntime]:
    runtime = LocalRuntime(tmp_path, 2)
    yield runtime
    runtime.delete_pod(REF)
    runtime.close()


def start(runtime: LocalRuntime, *command: str) -> Path:
    """Start the pod; its folder."""
    spec = PodSpec(REF, "job-0", command, {"PATH": os.environ["PATH"], "GREETING": "hello"})
    return Path(runtime.start_pod(spec)["folder"])


def sh(runtime: LocalRuntime, script: str) -> Path:
    return start(runtime, "/bin/sh", "-c", script)


def until(condition: Callable[[], object], what: str = "") -> None:
    deadline = time.monotonic() + ANSWER_S
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain {what}"
        time.sleep(0.01)


def settled(runtime: LocalRuntime) -> PodState:
    until(lambda: runtime.poll(REF).clean, "for a clean pod")
    return runtime.poll(REF)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def pids_in(path: Path) -> list[int]:
    return [int(word) for word in path.read_text().split()] if path.exists() else []


def work(folder: Path) -> Path:
    return folder.parents[1] / "work"


@pytest.mark.parametrize(
    ("script", "exit_code", "number"),
    [
        pytest.param("exit 0", 0, None, id="done"),
        pytest.param("exit 3", 3, None, id="own code"),
        pytest.param("kill -9 $$", None, 9, id="killed"),
        pytest.param("kill -SEGV $$", None, 11, id="crashed"),
        pytest.param("exec /nowhere/at-all", 127, None, id="shell finds no program"),
    ],
)
def test_exit_is_kept(runtime: LocalRuntime, script: str, exit_code: int | None, number: int | None) -> None:
    sh(runtime, script)
    state = settled(runtime)
    assert (state.phase, state.exit_code, state.signal) == (Phase.EXITED, exit_code, number)


def test_a_program_that_is_not_there_says_so_in_the_log(runtime: LocalRuntime) -> None:
    start(runtime, "/nowhere/at-all", "--flag")
    assert settled(runtime).exit_code == 127
    assert "cannot start '/nowhere/at-all'" in runtime.logs(REF, None, 1000).text


def test_pod_json_tells_the_agent_what_it_needs(runtime: LocalRuntime) -> None:
    folder = sh(runtime, "sleep 600")
    pod = json.loads((folder / "pod.json").read_text())
    assert alive(pod["pid"])
    assert alive(pod["main_pid"])
    assert (pod["rank"], pod["world_size"], pod["nproc"]) == (0, 1, 1)
    assert Path(pod["log"]).exists()


def test_environment_is_the_jobs_and_nothing_of_the_masters(
    runtime: LocalRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAULTCAST_SECRET_KEY", "never")
    sh(runtime, "env; pwd")
    settled(runtime)
    text = runtime.logs(REF, None, 10_000).text
    assert "GREETING=hello" in text
    assert "FAULTCAST_POD_ID=pod_a" in text
    assert "FAULTCAST_PROGRESS=" in text
    assert "never" not in text


def test_every_reaped_process_is_noted(runtime: LocalRuntime) -> None:
    folder = sh(runtime, "(sleep 0.2; exit 7) & (exit 0); sleep 0.6; exit 4")
    settled(runtime)
    lines = [json.loads(line) for line in (folder / "exits.jsonl").read_text().splitlines()]
    main = json.loads((folder / "pod.json").read_text())["main_pid"]
    assert [line["exit_code"] for line in lines if line["pid"] == main] == [4]


def test_an_orphan_is_adopted_and_its_exit_noted(runtime: LocalRuntime) -> None:
    folder = sh(runtime, "(sh -c 'sleep 0.2; exit 9' &) ; sleep 1")
    settled(runtime)
    assert 9 in [json.loads(line)["exit_code"] for line in (folder / "exits.jsonl").read_text().splitlines()]


def test_leftovers_of_a_finished_command_are_ended(runtime: LocalRuntime) -> None:
    folder = sh(
        runtime, "setsid sh -c 'echo $$ > left; exec sleep 600' & while [ ! -s left ]; do sleep 0.01; done"
    )
    state = settled(runtime)
    assert state.exit_code == 0
    assert [pid for pid in pids_in(work(folder) / "left") if alive(pid)] == []


TREES = {
    "own sessions": "for i in 1 2 3; do setsid sh -c 'echo $$ >> pids; exec sleep 600' & done; sleep 600",
    "double fork": "(setsid sh -c 'setsid sh -c \"echo \\$\\$ >> pids; exec sleep 600\" &') ; sleep 600",
    "ignores TERM": (
        "for i in 1 2 3; do sh -c 'trap \"\" TERM; echo $$ >> pids; sleep 600 & wait' & done; wait"
    ),
    "stopped": "for i in 1 2 3; do sh -c 'echo $$ >> pids; kill -STOP $$; sleep 600' & done; wait",
    "empty environment": "for i in 1 2 3; do env -i sh -c 'echo $$ >> pids; exec sleep 600' & done; wait",
}


@pytest.mark.parametrize("script", TREES.values(), ids=TREES)
def test_stop_ends_every_descendant(runtime: LocalRuntime, script: str) -> None:
    folder = sh(runtime, script)
    pids = work(folder) / "pids"
    until(lambda: len(pids_in(pids)) == (1 if 'setsid sh -c "' in script else 3), "for the tree")
    runtime.stop_pod(REF, timedelta(seconds=0.5))
    state = settled(runtime)
    assert (state.phase, state.reason) == (Phase.EXITED, "Stopped")
    assert [pid for pid in pids_in(pids) if alive(pid)] == []


def test_grace_lets_a_process_finish_its_work(runtime: LocalRuntime) -> None:
    sh(runtime, "trap 'sleep 0.3; echo saved; exit 0' TERM; echo up > up; while :; do sleep 0.05; done")
    until((runtime._files(REF).folder.parents[1] / "work/up").exists)
    runtime.stop_pod(REF, timedelta(seconds=10))
    assert settled(runtime).exit_code == 0
    assert "saved" in runtime.logs(REF, None, 1000).text


def test_stop_within_a_moment_when_all_heed_it(runtime: LocalRuntime) -> None:
    sh(runtime, "sleep 600")
    began = time.monotonic()
    runtime.stop_pod(REF, timedelta(seconds=30))
    settled(runtime)
    assert time.monotonic() - began < 5


STORM = """
import os, time
open("pids", "a").write(f"{os.getpid()}\\n")
end = time.monotonic() + 60
while time.monotonic() < end:  # each generation lives for a moment, in a session of its own
    if os.fork() == 0:
        os.setsid()
        continue
    time.sleep(0.001)
    os._exit(0)
"""


def test_a_chain_of_forks_cannot_run_away(runtime: LocalRuntime) -> None:
    folder = sh(runtime, f"for i in 1 2 3; do {PYTHON} -I -S -c '{STORM}' & done; sleep 600")
    until(lambda: len(pids_in(work(folder) / "pids")) == 3, "for the storm")
    supervisor = json.loads((folder / "pod.json").read_text())["pid"]
    runtime.stop_pod(REF, timedelta(0))
    settled(runtime)
    assert not alive(supervisor)
    assert runtime._files(REF).leftovers("FAULTCAST_POD_ID", REF.pod_id) == []


def test_killed_supervisor_takes_its_command_along_and_stop_ends_the_rest(runtime: LocalRuntime) -> None:
    folder = sh(runtime, "setsid sh -c 'echo $$ >> pids; exec sleep 600' & wait")
    pids = work(folder) / "pids"
    until(lambda: pids_in(pids), "for the tree")
    pod = json.loads((folder / "pod.json").read_text())
    os.kill(pod["pid"], signal.SIGKILL)
    until(lambda: not alive(pod["main_pid"]), "for the command to go with it")
    assert runtime.poll(REF).phase is Phase.GONE
    assert not runtime.poll(REF).clean
    runtime.stop_pod(REF, timedelta(seconds=1))
    assert settled(runtime).reason == "Lost"
    assert [pid for pid in pids_in(pids) if alive(pid)] == []


def test_start_again_starts_nothing_twice(runtime: LocalRuntime) -> None:
    folder = sh(runtime, "echo $$ >> pids; sleep 600")
    first = json.loads((folder / "pod.json").read_text())
    sh(runtime, "echo again >> pids")
    subprocess.run(
        [PYTHON, "-I", "-S", Path(__file__).parents[2] / "master/runtimes/supervisor.py", folder], check=True
    )
    until(lambda: pids_in(work(folder) / "pids"))
    assert json.loads((folder / "pod.json").read_text()) == first
    assert len(pids_in(work(folder) / "pids")) == 1


def test_start_after_the_supervisors_death_starts_nothing(runtime: LocalRuntime) -> None:
    folder = sh(runtime, "echo $$ >> pids; sleep 600")
    os.kill(json.loads((folder / "pod.json").read_text())["pid"], signal.SIGKILL)
    until(lambda: runtime.poll(REF).phase is Phase.GONE)
    sh(runtime, "echo again >> pids; sleep 600")
    assert runtime.poll(REF).phase is Phase.GONE


def test_a_pod_that_was_stopped_before_it_began_never_begins(runtime: LocalRuntime) -> None:
    runtime.stop_pod(REF, timedelta(0))
    folder = sh(runtime, "echo up > up")
    assert settled(runtime).phase is Phase.GONE
    assert not (work(folder) / "up").exists()


def test_a_new_master_finds_the_pod_again(runtime: LocalRuntime, tmp_path: Path) -> None:
    sh(runtime, "sleep 0.5; exit 6")
    other = LocalRuntime(tmp_path, 2)
    assert other.poll(REF).phase is Phase.RUNNING
    until(lambda: other.poll(REF).phase is Phase.EXITED)
    assert other.poll(REF).exit_code == 6


def test_the_end_of_a_pod_wakes_the_master(runtime: LocalRuntime) -> None:
    woken: list[float] = []
    runtime.watch(lambda: woken.append(time.monotonic()))
    sh(runtime, "sleep 0.3; exit 1")
    until(lambda: woken, "for the wake")
    assert runtime.poll(REF).phase is Phase.EXITED


def test_a_pid_that_is_anothers_by_now_is_not_the_supervisor(runtime: LocalRuntime) -> None:
    folder = sh(runtime, "sleep 600")
    begun = json.loads((folder / "begun").read_text())
    (folder / "begun").write_text(json.dumps({**begun, "start": begun["start"] - 1}))
    assert runtime.poll(REF).phase is Phase.GONE
    (folder / "begun").write_text(json.dumps(begun))
