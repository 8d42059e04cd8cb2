"""Reports reach the master: in order, once by number, over its absence and the agent's death."""

import json
import os
import signal
import socket
import statistics
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from agent.sender import Fate, judge

LOOP = "import time\nwhile True: time.sleep(0.1)"
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 304.00 MiB. GPU 0 has a total"


@pytest.mark.parametrize(
    ("status", "body", "fate"),
    [
        pytest.param(200, b'{"ack": 7, "want": {}}', Fate.TAKEN, id="taken"),
        pytest.param(202, b'{"ack": 9}', Fate.TAKEN, id="taken-with-later-ones"),
        pytest.param(200, b'{"ack": 6, "want": {}}', Fate.AWAY, id="not-yet-stored"),
        pytest.param(200, b'{"ack": true}', Fate.AWAY, id="ack-is-no-number"),
        pytest.param(200, b"<html>welcome</html>", Fate.AWAY, id="a-proxys-page"),
        pytest.param(200, b'{"ack": 7, "want": 5}', Fate.AWAY, id="want-is-no-object"),
        pytest.param(200, b"", Fate.AWAY, id="empty"),
        pytest.param(401, b"", Fate.REFUSED, id="token-refused"),
        pytest.param(403, b"", Fate.REFUSED, id="forbidden"),
        pytest.param(400, b"", Fate.DROPPED, id="bad-report"),
        pytest.param(413, b"", Fate.DROPPED, id="too-large"),
        pytest.param(422, b"", Fate.DROPPED, id="invalid"),
        pytest.param(404, b"", Fate.AWAY, id="not-our-server"),
        pytest.param(429, b"", Fate.AWAY, id="too-many"),
        pytest.param(503, b"", Fate.AWAY, id="unavailable"),
        pytest.param(307, b"", Fate.AWAY, id="redirects-are-not-followed"),
    ],
)
def test_what_an_answer_means(status: int, body: bytes, fate: Fate) -> None:
    assert judge(status, body, 7).fate is fate


def test_the_master_may_say_how_long_to_wait() -> None:
    assert judge(503, b"", 7, "3").wait_s == 3
    assert judge(503, b"", 7, "99999").wait_s == 60
    assert judge(503, b"", 7, "²").wait_s is None
    assert judge(503, b"", 7, "Sun, 29 Nov 2026 03:00:00 GMT").wait_s is None


def keys_are_in_order(master: Any) -> bool:
    """Within each life the numbers of reports taken grow by one; a report sent again changes nothing."""
    lives: dict[str, list[int]] = {}
    for post in master.taken():
        numbers = lives.setdefault(post.document["boot"], [])
        if post.document["seq"] not in numbers:
            numbers.append(post.document["seq"])
    return all(numbers == list(range(1, len(numbers) + 1)) for numbers in lives.values())


def spooled(pod: Any, word: bytes) -> bool:
    return any(word in path.read_bytes() for path in pod.folder.glob("spool/*.reports"))


def lines_of(master: Any) -> list[str]:
    return [one["data"]["line"] for one in master.observations("log_match")]


def test_what_is_urgent_is_there_within_a_moment(pod: Any, master: Any) -> None:
    pod.python(LOOP)
    pod.watch()
    master.wait_for("process_started")
    took = []
    for n in range(5):
        said = time.monotonic()
        pod.say(f"[rank0]: KeyError: 'shard-{n}'\n")
        match = master.wait_for("log_match", lambda one: f"shard-{n}'" in one["data"]["line"])  # noqa: B023
        took.append(time.monotonic() - said)
    assert statistics.median(took) < 0.4  # measured: 0.05 s on an idle machine
    assert (match["rank"], match["data"]["file"]) == (0, "pod.log")


def test_a_master_that_comes_late_gets_all_in_order(
    absent_master: Any, pods: Callable[[Any], Any], until: Any
) -> None:
    pod = pods(absent_master)
    pod.python("import time\nfor n in range(3): print('step', n); time.sleep(0.2)\nraise SystemExit(4)")
    pod.say(OOM + "\n")
    pod.watch()
    until(lambda: spooled(pod, b"process_exited"), "the job to be over before the master comes")
    absent_master.open()
    exited = absent_master.wait_for("process_exited")
    assert exited["data"]["exit_code"] == 4
    assert lines_of(absent_master) == [OOM]
    assert keys_are_in_order(absent_master)
    assert pod.agent.wait(15) == 0
    assert pod.agent_log().count("master_away") == 1


def test_a_master_that_goes_and_comes_back_misses_nothing(pod: Any, master: Any, until: Any) -> None:
    pod.python(LOOP)
    pod.watch()
    master.wait_for("process_started")
    master.close()
    said = [f"{OOM} capacity {n}.00 GiB" for n in range(3)]
    for line in said:
        pod.say(line + "\n")
        time.sleep(0.3)
    master.open()
    until(lambda: lines_of(master) == said, "all lines, in order")
    assert keys_are_in_order(master)
    until(lambda: not list((pod.folder / "spool").glob("*.reports")), "the spool is empty again")


def test_killing_the_agent_at_any_moment_loses_nothing_urgent(pod: Any, master: Any, until: Any) -> None:
    """Lines are written while agents are killed and started; every line is told at least once, and each
    report's number at most once."""
    pod.python(LOOP)
    said = []
    for life in range(6):
        agent = pod.watch()
        for n in range(3):
            said.append(f"h:7:9 [2] NCCL WARN socketProgress: Connection closed by remote peer p{life}{n}<4>")
            pod.say(said[-1] + "\n")
            time.sleep(0.11 * (life % 4))
        agent.kill()
        agent.wait()
    pod.watch()
    until(lambda: set(lines_of(master)) == set(said), "every line")
    assert keys_are_in_order(master)
    assert len({post.document["boot"] for post in master.taken()}) <= 9


def test_an_agent_killed_while_the_master_is_away_leaves_its_reports_to_the_next(
    absent_master: Any, pods: Callable[[Any], Any], until: Any
) -> None:
    pod = pods(absent_master)
    pod.python(LOOP)
    first = pod.watch()
    pod.say(OOM + "\n")
    until(lambda: spooled(pod, b"log_match"), "the line on disk")
    first.kill()
    first.wait()
    pod.watch()
    absent_master.open()
    until(lambda: len(absent_master.observations("agent_started")) == 2, "reports of both lives")
    lives = [post.document["boot"] for post in absent_master.taken()]
    assert len(set(lives)) == 2
    assert lives == sorted(lives, key=lives.index)  # the older life's reports come first
    assert set(lines_of(absent_master)) == {OOM}


def test_an_exit_while_no_agent_lives_is_told_by_the_next(pod: Any, master: Any) -> None:
    main = pod.python(LOOP)
    agent = pod.watch()
    master.wait_for("heartbeat", lambda one: "0" in one["data"]["ranks"])
    agent.kill()
    agent.wait()
    os.kill(main, signal.SIGKILL)
    killed = datetime.now(UTC)
    time.sleep(0.5)
    pod.watch()
    told = master.wait_for("process_exited")
    assert (told["data"]["pid"], told["data"]["exit_code"], told["data"]["signal"]) == (main, None, 9)
    assert datetime.fromisoformat(told["at"]) - killed < timedelta(
        seconds=0.3
    )  # when it was, not when we came


def test_an_exit_is_told_once_over_lives(pod: Any, master: Any, until: Any) -> None:
    pod.run("sh", "-c", "python -c 'import time; time.sleep(1.5)'; sleep 60")
    agent = pod.watch()
    master.wait_for("process_exited")
    agent.terminate()
    assert agent.wait(10) == 0
    pod.watch()
    until(lambda: len(master.observations("agent_started")) == 2, "a second life")
    master.wait_for("heartbeat", lambda one: one["at"] > master.observations("agent_started")[1]["at"])
    assert len(master.observations("process_exited")) == 1


def test_a_refused_token_is_noted_once_and_nothing_is_lost(pod: Any, master: Any, until: Any) -> None:
    master.status = 401
    pod.python(LOOP)
    pod.watch()
    until(lambda: len(master.posts) >= 3, "several tries")
    pod.say(OOM + "\n")
    time.sleep(0.5)
    master.status = 200
    until(lambda: lines_of(master) == [OOM], "the line")
    log = pod.agent_log()
    assert log.count("token_refused") == 1
    assert "fct_a-token" not in log


def test_a_report_the_master_will_not_take_is_dropped_and_said(pod: Any, master: Any) -> None:
    master.judge = lambda report: 422 if "log_match" in json.dumps(report) else 200
    pod.python(LOOP)
    pod.watch()
    master.wait_for("process_started")
    pod.say(OOM + "\n")
    dropped = master.wait_for("dropped", lambda one: one["data"]["what"] == "refused_reports")
    assert dropped["data"]["count"] == 1


def test_a_page_from_a_proxy_is_not_taken_for_the_master(pod: Any, master: Any, until: Any) -> None:
    master.garbage = b"<html>sign in</html>"
    pod.python(LOOP)
    pod.watch()
    pod.say(OOM + "\n")
    until(lambda: len(master.posts) >= 4, "tries")
    count = len(master.posts)
    master.garbage = None
    until(lambda: len(master.posts) > count, "another try")
    until(lambda: lines_of(master) == [OOM], "the line")
    boots = {post.key: 0 for post in master.posts}
    assert min(seq for _, seq in boots) == 1


def test_two_agents_do_not_watch_one_pod(pod: Any, master: Any, until: Any) -> None:
    pod.python(LOOP)
    pod.watch()
    master.wait_for("process_started")
    second = pod.watch()
    assert second.wait(10) == 1
    assert "another agent already watches" in pod.agent_log()


def test_the_agent_holds_on_to_nothing_that_its_starter_left_open(
    pod: Any, master: Any, tmp_path: Path
) -> None:
    """A listening socket it inherits would keep a dead master's port taken."""
    pod.python(LOOP)
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.set_inheritable(True)
        inode = os.fstat(server.fileno()).st_ino
        agent = pod.watch(close_fds=False)
        master.wait_for("process_started")
        held = [path.readlink() for path in Path(f"/proc/{agent.pid}/fd").iterdir()]
    assert Path(f"socket:[{inode}]") not in held


def test_telling_the_agent_to_end_sends_what_it_knows(pod: Any, master: Any) -> None:
    pod.python(LOOP)
    agent = pod.watch()
    master.wait_for("process_started")
    pod.say(OOM + "\n")
    agent.send_signal(signal.SIGTERM)
    assert agent.wait(10) == 0
    assert lines_of(master) == [OOM]


@pytest.mark.parametrize(
    ("env", "named"),
    [
        ({"FAULTCAST_POD_DIR": "/no/such"}, "FAULTCAST_POD_DIR"),
        ({"FAULTCAST_SERVER": "x"}, "FAULTCAST_SERVER"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_2(pod: Any, env: dict[str, str], named: str) -> None:
    assert pod.watch(**env).wait(10) == 2
    (line,) = pod.agent_log().splitlines()
    assert named in line


def test_a_returning_master_hears_of_the_agent_before_it_takes_it_for_lost(
    pod: Any, master: Any, until: Any
) -> None:
    pod.python(LOOP)
    pod.watch()
    master.wait_for("process_started")
    master.close()
    time.sleep(4)  # by now the agent waits its longest between tries, and beats seldom
    master.open()
    back = time.monotonic()
    until(lambda: [post for post in master.taken() if post.at > back], "its first word", 6)
    until(lambda: len([post for post in master.taken() if post.at > back + 1]) > 3, "its usual rhythm", 6)
