"""Training processes that end are told of, with how they ended and what they said last."""

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest

# SYS_exit (60) ends the calling thread alone
LEADER_GONE = (
    "import ctypes, threading\nthreading.Thread(target=time.sleep, args=(60,)).start()\n"
    "ctypes.CDLL(None).syscall(60, 0)"
)
LOOP = "import time\nwhile True: time.sleep(0.1)"


def exit_of(master: Any, pid: int) -> dict[str, Any]:
    found: dict[str, Any] = master.wait_for("process_exited", lambda one: one["data"]["pid"] == pid)
    return found


def test_a_started_process_is_told_with_its_command(pod: Any, master: Any) -> None:
    main = pod.python(LOOP)
    pod.watch()
    started = master.wait_for("process_started")
    assert started["rank"] == 0
    assert started["data"]["pid"] == main
    assert "time.sleep" in started["data"]["cmd"]


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        pytest.param("raise SystemExit(7)", (7, None), id="exit-code"),
        pytest.param("pass", (0, None), id="success-too"),
        pytest.param("import os; os.kill(os.getpid(), 9)", (None, 9), id="SIGKILL"),
        pytest.param("import os; os.abort()", (None, 6), id="SIGABRT"),
    ],
)
def test_an_exit_is_told_with_code_or_signal(
    pod: Any, master: Any, code: str, expected: tuple[int | None, int | None]
) -> None:
    main = pod.python(pod.once_seen(code))
    pod.watch_till_seen()
    data = exit_of(master, main)["data"]
    assert (data["exit_code"], data["signal"]) == expected


def test_a_kill_from_outside_is_told_at_once(pod: Any, master: Any) -> None:
    main = pod.python(LOOP)
    pod.watch()
    master.wait_for("process_started")
    killed = time.monotonic()
    os.kill(main, signal.SIGKILL)
    exit_of(master, main)
    took = next(
        post.at
        for post in master.taken()
        if any(one["kind"] == "process_exited" for one in post.document["observations"])
    )
    assert took - killed < 0.9  # measured: 0.06 s on an idle machine


def test_a_worker_reaped_by_its_launcher_is_told_too(pod: Any, master: Any) -> None:
    """A shell reaps its child at once, so that no zombie is left to be asked."""
    (pod.folder / "train.py").write_text(pod.once_seen("raise SystemExit(5)"))
    pod.run("sh", "-c", f"{sys.executable} {pod.folder}/train.py; sleep 60")
    pid = pod.watch_till_seen()
    assert exit_of(master, pid)["data"]["exit_code"] == 5


def test_the_traceback_is_kept_among_the_last_lines(pod: Any, master: Any) -> None:
    deep = "def deep(n):\n  if n: deep(n - 1)\n  raise ValueError('bad batch 17')\n"
    main = pod.python(pod.once_seen(f"{deep}print('before')\ndeep(45)"))
    pod.watch_till_seen()
    lines = exit_of(master, main)["data"]["last_lines"]
    assert "Traceback (most recent call last):" in lines
    assert lines[-1] == "ValueError: bad batch 17"


def test_an_unfinished_last_line_is_told(pod: Any, master: Any) -> None:
    main = pod.python(pod.once_seen("print('half a li', end='', flush=True)\nos._exit(3)"))
    pod.watch_till_seen()
    assert exit_of(master, main)["data"]["last_lines"][-1] == "half a li"


def test_a_process_that_dies_before_it_is_seen_is_told_by_the_supervisors_word(
    pod: Any, master: Any, until: Any
) -> None:
    main = pod.python("raise SystemExit('no such file')")
    until((pod.folder / "exits.jsonl").exists, "the supervisor's word")
    pod.watch()
    told = exit_of(master, main)
    assert (told["rank"], told["data"]["exit_code"]) == (0, 1)
    assert "no such file" in told["data"]["last_lines"]


def test_an_unseen_worker_is_told_by_torchelastics_word(pod: Any, master: Any) -> None:
    pod.run("sleep", "60", rank=1, nproc=2)
    pod.watch()
    pod.say(
        "E1129 api.py:1002] failed (exitcode: -9) local_rank: 1 (pid: 4194000) of binary: /usr/bin/python\n"
    )
    told = exit_of(master, 4194000)
    assert (told["rank"], told["data"]["signal"], told["data"]["exit_code"]) == (3, 9, None)


def test_a_process_whose_main_thread_is_gone_is_not_over_before_the_others_are(pod: Any, master: Any) -> None:
    """So a killed process stands while its threads are stuck in a driver; and it is told once it is over."""
    (pod.folder / "train.py").write_text(pod.once_seen(LEADER_GONE))
    pod.run("sh", "-c", f"{sys.executable} {pod.folder}/train.py; sleep 60")
    pid = pod.watch_till_seen()
    master.wait_for("heartbeat", lambda one: one["data"]["ranks"].get("0", {}).get("state") == "Z")
    time.sleep(1.5)  # looks for processes meanwhile find no other
    os.kill(pid, signal.SIGKILL)
    assert exit_of(master, pid)["data"]["signal"] == 9
    assert len(master.observations("process_started")) == 1


def test_the_agent_ends_with_the_pod_once_all_is_told(pod: Any, master: Any) -> None:
    pod.python(pod.once_seen("print('done')"))
    pod.watch_till_seen()
    assert pod.agent.wait(15) == 0
    assert [one["data"]["exit_code"] for one in master.observations("process_exited")] == [0]


def test_the_end_of_the_agent_does_not_touch_training(pod: Any, master: Any) -> None:
    main = pod.python(LOOP)
    agent = pod.watch()
    master.wait_for("heartbeat", lambda one: "0" in one["data"]["ranks"])
    agent.kill()
    agent.wait()
    stat = Path(f"/proc/{main}/stat").read_text()
    assert stat.rpartition(")")[2].split()[0] in "SR"


def test_the_last_words_of_a_flood_are_among_the_last_lines(pod: Any, master: Any) -> None:
    dump = "for n in range(50000): print('a line of a long dump, of no meaning to anybody', n)"
    main = pod.python(pod.once_seen(f"{dump}\nraise SystemExit('the reason')"))
    pod.watch_till_seen()
    assert exit_of(master, main)["data"]["last_lines"][-1] == "the reason"
