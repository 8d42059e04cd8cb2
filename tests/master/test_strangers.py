"""The kernel of a shared machine tells of processes of other jobs as well."""

from dataclasses import replace

import pytest

from agent.wire import Kind
from master.casefile import Diagnosis, Source
from master.diagnosis import diagnose
from tests.master.story import Story, at

ERROR = "[rank1]: ValueError: bad batch"
WORKER = "[rank1]: RuntimeError: DataLoader worker (pid(s) 1555) exited unexpectedly"


def killed(name: str, pid: int) -> str:
    return (
        f"[  812.4] Memory cgroup out of memory: Killed process {pid} ({name}) total-vm:21kB, anon-rss:13kB"
    )


def crashed(name: str, pid: int) -> str:
    return f"[  812.4] {name}[{pid}]: segfault at 10 ip 00007f sp 00007f error 4 in libc.so"


def training() -> Story:
    """Two ranks, whose processes 1000 and 1001 are known."""
    story = Story().steps(40.0)
    for rank in range(2):
        told = {"pid": 1000 + rank, "cmd": "/opt/env/bin/python3.11 train.py"}
        story._saw(1, Kind.PROCESS_STARTED, Source.AGENT, rank, told)
    return story


def cause(story: Story) -> str:
    found = diagnose(story.case(), at(60))
    assert isinstance(found, Diagnosis)
    assert found.culprit.rank == 1
    return str(found.cause)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (killed("java", 77), "user_code_error"),
        (killed("python3", 77), "user_code_error"),
        (killed("python3", 1001), "host_oom"),
        (crashed("java", 77), "user_code_error"),
        (crashed("python3", 1001), "segfault"),
    ],
)
def test_an_exception_beside_a_line_of_the_kernel(line: str, expected: str) -> None:
    story = training().kernel("node-b", 39.9, line).logged(1, 40.1, ERROR)
    assert cause(story.exited(1, 40.2, code=1, said=(ERROR,))) == expected


@pytest.mark.parametrize(
    ("name", "pid", "expected"),
    [
        ("python3", 1001, "host_oom"),
        ("python3", 77, "host_oom"),  # a container's own numbers are not its kernel's
        ("pt_main_thread", 77, "host_oom"),
        ("java", 77, "external_stop"),
    ],
)
def test_a_kill_beside_a_line_of_the_kernel(name: str, pid: int, expected: str) -> None:
    assert cause(training().kernel("node-b", 40.1, killed(name, pid)).exited(1, 40.2, signal=9)) == expected


@pytest.mark.parametrize("name", ["java", "python3"])
def test_a_kill_beside_ranks_that_stand_still_and_all_live_is_of_another_job(name: str) -> None:
    """Also where one of them never told of a step."""
    story = training().idle()
    story.views[1] = replace(story.views[1], step=None, step_at=None)
    assert not isinstance(diagnose(story.kernel("node-b", 41, killed(name, 77)).case(), at(60)), Diagnosis)


def test_a_kill_beside_a_rank_that_is_gone_is_of_the_run() -> None:
    story = training().idle().state(1, "gone").kernel("node-b", 41, killed("python3", 77))
    found = diagnose(story.case(), at(60))
    assert isinstance(found, Diagnosis)
    assert found.cause == "host_oom"


def test_a_worker_that_the_kernel_killed_is_of_the_run() -> None:
    story = training().kernel("node-b", 40.1, killed("pt_data_worker", 1555)).logged(1, 40.3, WORKER)
    assert cause(story.exited(1, 40.6, code=1, said=(WORKER,))) == "host_oom"


def test_the_kernels_word_is_enough_where_the_agent_is_silent() -> None:
    """And although steps were made between that word and the end."""
    story = training().steps(44.0).kernel("node-b", 40.1, killed("python3", 1001)).pod_exited(1, 44.2, 137)
    assert cause(story) == "host_oom"
