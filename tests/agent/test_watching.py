"""A real agent beside real processes: states, steps, logs that rotate and flood, what the master asks."""

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest

LOOP = "import time\nwhile True: time.sleep(0.1)"
SPIN = "def spin():\n  n = 0\n  while True: n += 1\nspin()"
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 304.00 MiB. GPU 0 has a total"
WORKER = "import sys, time\nsys.stdout.reconfigure(line_buffering=True)\n"


def memory_mb(pid: int, peak: bool = False) -> float:
    name = "VmHWM:" if peak else "VmRSS:"
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(name))


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def newest(master: Any, rank: str = "0") -> dict[str, Any]:
    """The rank's state by the last heartbeat that holds it."""
    beats = [one["data"]["ranks"] for one in master.observations("heartbeat")]
    found: dict[str, Any] = next((ranks[rank] for ranks in reversed(beats) if rank in ranks), {})
    return found


def test_a_stopped_process_is_told_by_its_state(pod: Any, master: Any, until: Any) -> None:
    main = pod.python(LOOP)
    pod.watch()
    until(lambda: newest(master).get("state") == "S", "a sleeping process")
    os.kill(main, signal.SIGSTOP)
    until(lambda: newest(master)["state"] == "T", "a stopped process", 5)
    assert master.observations("process_exited") == []


def test_what_a_process_uses_is_told(pod: Any, master: Any, until: Any) -> None:
    pod.python("import os\nwhile True: os.write(2, b'x' * 1000 + b'\\n'); sum(range(20000))")
    pod.watch()
    until(lambda: newest(master).get("cpu_ticks", 0) > 20, "processor time")
    before = newest(master)["io_bytes"]
    until(lambda: newest(master)["io_bytes"] > before + 10_000, "bytes written")


def test_a_process_stands_still_although_a_thread_of_it_ticks(pod: Any, master: Any, until: Any) -> None:
    pod.python(
        "import threading, time\n"
        "def looks():\n  while True: sum(range(60_000)); time.sleep(0.2)\n"
        "threading.Thread(target=looks, daemon=True).start()\n"
        "lock = threading.Lock(); lock.acquire(); lock.acquire()"
    )
    pod.watch()
    until(lambda: newest(master).get("still_s", 0) > 4, "a process that stands still")
    before = newest(master)["cpu_ticks"]
    until(lambda: newest(master)["cpu_ticks"] > before + 1, "a tick or two")
    assert newest(master)["still_s"] > 4


def test_data_workers_are_counted_with_their_rank(pod: Any, master: Any, until: Any) -> None:
    pod.python(
        "import multiprocessing, time\n"
        "def load():\n  while True: sum(range(100000)); time.sleep(0.01)\n"
        "for _ in range(3): multiprocessing.get_context('fork').Process(target=load, daemon=True).start()\n"
        "time.sleep(100)"
    )
    pod.watch()
    until(lambda: newest(master).get("children") == 3, "three children")
    until(lambda: newest(master)["cpu_ticks"] > 20, "their processor time")
    assert list(newest(master) and master.observations("heartbeat")[-1]["data"]["ranks"]) == ["0"]


def test_steps_in_the_log_are_progress(pod: Any, master: Any, until: Any) -> None:
    pod.python(WORKER + "for n in range(10000): print(f'step {n} loss 2.3'); time.sleep(0.02)")
    pod.watch()
    first = master.wait_for("progress")
    assert first["rank"] == 0
    last = until(lambda: [o for o in master.observations("progress") if o["data"]["steps_per_s"]], "a rate")[
        -1
    ]
    assert 5 < last["data"]["steps_per_s"] < 100
    until(lambda: newest(master).get("step", 0) and newest(master)["step_at"], "the step in heartbeats")
    steps = [one["data"]["step"] for one in master.observations("progress")]
    assert steps == sorted(set(steps))


def test_the_progress_file_is_believed_before_the_log(pod: Any, master: Any, until: Any) -> None:
    pod.python(WORKER + "while True: print('step 7'); time.sleep(0.05)")
    pod.watch()
    master.wait_for("progress", lambda one: one["data"]["step"] == 7)
    for step in (1000, 1001, 1002):
        (pod.folder / "progress").write_text(f"{step}\n")
        until(lambda: newest(master).get("step") == step, f"step {step}")  # noqa: B023
    assert (pod.folder / "progress").read_text() == "1002\n"


def test_a_restarted_rank_may_begin_at_an_earlier_step(pod: Any, master: Any, until: Any) -> None:
    train = pod.folder / "train.py"
    train.write_text(
        "import sys, time\n"
        "for n in range(int(sys.argv[1]), 10**6): print('step', n, flush=True); time.sleep(.05)"
    )
    run = f"timeout 2 {sys.executable} {train} 500; {sys.executable} {train} 100; sleep 60"
    pod.run("sh", "-c", run)
    pod.watch()
    master.wait_for("process_exited", lambda one: one["data"]["signal"] == 15)
    until(lambda: 100 <= newest(master).get("step", 0) < 500, "steps from the checkpoint on", 10)


def test_rotation_and_truncation_lose_no_line(pod: Any, master: Any, until: Any) -> None:
    pod.python(LOOP)
    pod.watch()
    master.wait_for("process_started")
    said = []
    for n in range(12):
        said.append(f"h:7:9 [2] NCCL WARN socketProgress: Connection closed by remote peer p{n}<4>")
        pod.say(said[-1] + "\n")
        if n % 4 == 3:
            pod.log.rename(f"{pod.log}.{n}")
        elif n % 4 == 1:
            until(lambda: len(master.observations("log_match")) == len(said), "all so far")
            os.truncate(pod.log, 0)
        time.sleep(0.03)
    until(
        lambda: [one["data"]["line"] for one in master.observations("log_match")] == said,
        "every line, in order",
    )


def test_a_line_by_the_thousand_is_told_as_a_sample(pod: Any, master: Any, until: Any) -> None:
    pod.python(LOOP)
    pod.watch()
    master.wait_for("process_started")
    pod.say((OOM + "\n") * 1000)
    for what in ("log_match:", "log_bytes"):
        master.wait_for("dropped", lambda one, what=what: one["data"]["what"].startswith(what))
    dropped = {one["data"]["what"]: one["data"]["count"] for one in master.observations("dropped")}
    alike = sum(count for what, count in dropped.items() if what.startswith("log_match:"))
    told = len(master.observations("log_match"))
    assert told + alike + dropped["log_bytes"] / len(OOM + "\n") == 1000
    assert told <= 5


def test_what_the_log_says_of_faults_is_data(pod: Any, master: Any, until: Any) -> None:
    """A line that looks like our own protocol, or claims another pod's rank, changes nothing."""
    pod.python(LOOP)
    pod.watch()
    pod.say('{"kind": "process_exited", "rank": 7, "data": {"pid": 1, "exit_code": 1}}\n')
    pod.say(f"[rank7]: {OOM}\n")
    assert master.wait_for("log_match")["rank"] == 0
    assert master.observations("process_exited") == []


def test_an_endless_line_costs_little_memory(pod: Any, master: Any) -> None:
    pod.python(LOOP)
    agent = pod.watch()
    master.wait_for("process_started")
    block = b"x" * (1 << 20)
    for _ in range(300):
        pod.say(block)
    pod.say(f"\n{OOM}\n")
    master.wait_for("log_match")
    assert master.wait_for("dropped")["data"]["what"] == "log_bytes"
    assert memory_mb(agent.pid, peak=True) < 64


def test_a_flood_costs_little_of_the_processor_and_its_end_is_read(pod: Any, master: Any) -> None:
    pod.python(LOOP)
    agent = pod.watch()
    master.wait_for("process_started")
    block = b"".join(b"some line %d of ordinary output that means nothing\n" % n for n in range(20_000))
    began, used = time.monotonic(), cpu_s(agent.pid)
    while time.monotonic() - began < 1.5:
        pod.say(block)
        time.sleep(len(block) / 200e6)  # 200 MB/s at most
    share = (cpu_s(agent.pid) - used) / (time.monotonic() - began)
    pod.say(OOM + "\n")
    assert master.wait_for("log_match")["data"]["line"] == OOM
    assert share < 0.35
    assert memory_mb(agent.pid, peak=True) < 64


def test_an_idle_agent_costs_next_to_nothing(pod: Any, master: Any) -> None:
    pod.python(LOOP)
    agent = pod.watch()
    master.wait_for("process_started")
    time.sleep(0.5)
    began, used = time.monotonic(), cpu_s(agent.pid)
    time.sleep(3)
    assert (cpu_s(agent.pid) - used) / (time.monotonic() - began) < 0.03  # measured: 0.004 to 0.006
    assert memory_mb(agent.pid) < 40


def test_output_sent_to_a_file_of_its_own_is_followed(pod: Any, master: Any) -> None:
    train = f"import time; time.sleep(2); print({OOM!r}, flush=True); time.sleep(60)"
    pod.run("sh", "-c", f'exec {sys.executable} -c "{train}" > {pod.folder}/train.out 2>&1')
    (pod.folder / "train.out").write_text("")
    pod.watch()
    assert master.wait_for("log_match")["data"]["file"] == "train.out"


def test_old_faults_in_a_file_that_is_appended_to_are_not_told(pod: Any, master: Any, until: Any) -> None:
    (pod.folder / "train.out").write_text(f"{OOM}\n" * 3)
    train = "import time; time.sleep(60)"
    pod.run("sh", "-c", f'exec {sys.executable} -c "{train}" >> {pod.folder}/train.out 2>&1')
    pod.watch()
    master.wait_for("process_started")
    with (pod.folder / "train.out").open("a") as log:
        time.sleep(0.5)
        log.write("ValueError: something new\n")
    master.wait_for("log_match")
    assert [one["data"]["line"] for one in master.observations("log_match")] == ["ValueError: something new"]


def test_the_jobs_own_patterns_come_with_a_reply(pod: Any, master: Any) -> None:
    master.want = {"patterns": ["Loss nan", "re:grad_norm=(inf|nan)"]}
    pod.say("step 1 Loss nan\nstep 2 grad_norm=nan\nstep 3 grad_norm=1\n")
    pod.python(LOOP)
    pod.watch()
    master.wait_for("log_match", lambda one: "grad_norm" in one["data"]["line"])
    found = [(one["data"]["signature"], one["data"]["line_no"]) for one in master.observations("log_match")]
    assert found == [("custom", 1), ("custom", 2)]


@pytest.mark.parametrize("stopped", [False, True], ids=["spinning", "stopped"])
def test_stacks_are_told_when_asked_for(pod: Any, master: Any, stopped: bool) -> None:
    main = pod.python(SPIN)
    pod.watch()
    master.wait_for("heartbeat", lambda one: "0" in one["data"]["ranks"])
    if stopped:
        os.kill(main, signal.SIGSTOP)
    master.want = {"stacks": True}
    stack = master.wait_for("stacks")
    master.want = {}
    assert (stack["rank"], stack["data"]["pid"], stack["data"]["error"]) == (0, main, None)
    assert stack["data"]["frames"][0].startswith("spin (")
    assert stack["data"]["frames"][-1].startswith("<module> (")


def test_the_stacks_of_data_workers_come_along(pod: Any, master: Any, until: Any) -> None:
    pod.python(
        "import multiprocessing, time\n"
        "def load_a_batch():\n  time.sleep(100)\n"
        "multiprocessing.get_context('fork').Process(target=load_a_batch).start()\n"
        "time.sleep(100)"
    )
    pod.watch()
    until(lambda: newest(master).get("children") == 1, "the data worker")
    master.want = {"stacks": True}
    (child,) = master.wait_for("stacks")["data"]["children"]
    assert any(frame.startswith("load_a_batch (") for frame in child["frames"])


def test_a_program_without_python_has_an_error_for_a_stack(pod: Any, master: Any) -> None:
    pod.run("sleep", "60")
    pod.watch()
    master.wait_for("process_started", within_s=20)
    master.want = {"stacks": True}
    stack = master.wait_for("stacks", lambda one: one["rank"] == 0)["data"]
    assert stack["frames"] == []
    assert "python" in stack["error"].lower()
    assert "\n" not in stack["error"]


def test_stacks_are_collected_once_for_one_question(pod: Any, master: Any, until: Any) -> None:
    """The question rides on every reply until the answer has arrived."""
    asked = {"stacks": True}
    pod.python(LOOP)
    pod.watch()
    master.wait_for("heartbeat", lambda one: "0" in one["data"]["ranks"])

    def judge(report: dict[str, Any]) -> int:
        if any(one["kind"] == "stacks" for one in report["observations"]):
            master.want = {}
        return 200

    master.judge = judge
    master.want = asked
    master.wait_for("stacks")
    beats = len(master.observations("heartbeat"))
    until(lambda: len(master.observations("heartbeat")) > beats + 1, "more heartbeats")
    assert len(master.observations("stacks")) == 1


def test_stacks_of_a_pod_without_processes_are_an_error(pod: Any, master: Any) -> None:
    master.want = {"stacks": True}
    pod.watch()
    assert master.wait_for("stacks")["data"]["error"] == "no training process was found in the pod"
