"""The kit of faults on real PyTorch jobs: each is called what it is, and the harmless ones are left alone.

Killed, stopped and spinning ranks, a lost GPU and a deleted pod are the demo's, by the same kit.
"""

import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pytest

from master.cli.client import Client
from master.cli.errors import CommandError
from master.inject import Ground, Wish, find
from notifier.clock import utcnow
from tests.e2e.conftest import TRAIN, System, until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]
PLAIN = f"{shlex.quote(sys.executable)} {TRAIN}"
APART = f"{shlex.quote(sys.executable)} -m master.inject.apart -- {PLAIN}"
HANG = "--enable-hang-detection=true --hang-detection-log-timeout-minutes"
QUICK = f"{HANG}=0.12"
COMPILES_S = 14.0  # twice the log time-out
PROBE = (
    "ip link add br0 type bridge && ip link add v0 type veth peer name v1 && nsenter -n/proc/self/ns/net true"
)
HAS_NETWORKS = (
    all(shutil.which(program) for program in ("unshare", "ip", "nsenter"))
    and subprocess.run(["unshare", "--net", "sh", "-c", PROBE], capture_output=True, check=False).returncode
    == 0
)


Story = dict[str, Any]
STRANGER = "Memory cgroup out of memory: Killed process 4194000 (java) total-vm:21kB, anon-rss:13kB, UID:0"


@dataclass(frozen=True)
class Job:
    """A job that trains until it is broken for good."""

    system: System
    id: str

    @classmethod
    def begun(cls, system: System, name: str, command: str = PLAIN, settings: str = QUICK) -> "Job":
        envs = {"DEMO_STEPS": "1000000", "DEMO_STEP_S": "0.1"}
        return cls(system, system.train(name, f"exec {command}", envs=envs, faultToleranceArgs=settings))

    @property
    def events(self) -> list[dict[str, Any]]:
        return self.system.events(self.id)

    @property
    def status(self) -> str:
        return str(self.system.job(self.id)["status"])

    def trains_on(self) -> None:
        """Until it has made a dozen more steps, enough for a rhythm."""
        first = self.system.job(self.id)["step"] or 0
        self.system.steps_beyond(self.id, first + 12)

    def node(self, index: int) -> str:
        return str(self.system.job(self.id)["pods"][index]["node"])

    def inject(self, name: str, **wish: Any) -> None:
        find(name).strike(Ground(self.system.client, self.id), Wish(**wish))

    def verdict(self, name: str, **wish: Any) -> dict[str, Any]:
        """What was said of a fault, once it trains: the event, of class and cause as the kit tells."""
        self.trains_on()
        known, struck = len(self.events), utcnow()
        self.inject(name, **wish)
        event = until(lambda: self.events[0] if len(self.events) > known else None, f"{name}'s event", 150)
        told = find(name)
        assert event["fault_class"] == told.becomes, event
        assert event["cause"] in told.causes, event
        took = (datetime.fromisoformat(event["decided_at"]) - struck).total_seconds()
        sys.stdout.write(f"{name}: decided after {took:.2f} s\n")
        assert abs((datetime.fromisoformat(event["time"]) - struck).total_seconds()) < took + 2
        return event

    def end(self) -> list[dict[str, Any]]:
        """All its fault events, newest first, once it has failed."""
        until(lambda: self.status == "Failed", "the end")
        return self.events


def first_job(system: System) -> Story:
    """Harmless things at once, then NCCL's words beside an agent with a wrong clock, then an exception."""
    job = Job.begun(system, "one")
    job.trains_on()
    before = [one.pid for one in system.trainers(job.id)]
    job.inject("clock_skewed", rank=1, skew_s=300)
    job.inject("long_compile", rank=0, seconds=COMPILES_S)
    job.inject("agent_killed", rank=0)
    job.inject("log_flood", rank=1, seconds=3)
    step = system.job(job.id)["step"]
    until(lambda: system.told("agentLost"), "agentLost")
    system.steps_beyond(job.id, step + 12)
    harmless = {"events": job.events, "same": [one.pid for one in system.trainers(job.id)] == before}
    lived = {"harmless": harmless, "peer": job.node(0), "nccl_error": job.verdict("nccl_error", rank=1)}
    job.trains_on()
    job.inject("kernel_line", rank=1, line=STRANGER)  # its node is another job's too
    return lived | {"exception": job.verdict("exception", rank=1), "events": job.end()}


def second_job(system: System) -> Story:
    """A stalled checkpoint has the patience of ten log time-outs; others' kernel lines come by meanwhile."""
    job = Job.begun(system, "two", settings=f"{HANG}=0.06")
    return {
        "checkpoint_stalls": job.verdict("checkpoint_stalls"),
        "collective_skipped": job.verdict("collective_skipped"), "events": job.end(),
    }  # fmt: skip


def job_apart(system: System) -> Story:
    """Its pods have networks of their own, but nodes, and with them kernel logs, that others use as well."""
    job = Job.begun(system, "apart", APART if HAS_NETWORKS else PLAIN)
    cut = job.verdict("network_cut") if HAS_NETWORKS else None
    return {
        "network_cut": cut, "out_of_memory": job.verdict("out_of_memory", rank=1), "events": job.end(),
    }  # fmt: skip


STORIES = {"one": first_job, "two": second_job, "apart": job_apart}


@pytest.fixture(scope="module")
def stories(system: System) -> Iterator[dict[str, "Future[Story]"]]:
    """All jobs side by side: they wait more than they work."""
    with ThreadPoolExecutor(len(STORIES)) as pool:
        yield {name: pool.submit(story, system) for name, story in STORIES.items()}


def test_what_is_harmless_is_left_alone(system: System, stories: dict[str, "Future[Story]"]) -> None:
    """A wrong clock, a killed agent, a flood, all while one rank compiles for twice the log's time-out."""
    assert stories["one"].result()["harmless"] == {"events": [], "same": True}
    lost = [alert for alert in system.told("agentLost") if alert["status"] == "firing"]
    assert [alert["job"]["name"] for alert in lost] == ["one"]


@pytest.mark.parametrize(
    ("story", "name", "rank", "action"),
    [
        ("one", "exception", 1, "fail_job"),
        ("one", "nccl_error", None, "restart_job"),  # it names its peer's node
        ("two", "checkpoint_stalls", 0, "restart_job"),
        ("two", "collective_skipped", None, "fail_job"),  # who prints it is not the one who skipped
        ("apart", "network_cut", None, "restart_job"),  # all wait, and nothing says for whom
        ("apart", "out_of_memory", 1, "fail_job"),
    ],
)
def test_a_fault_is_called_what_it_is(
    stories: dict[str, "Future[Story]"], story: str, name: str, rank: int | None, action: str
) -> None:
    lived = stories[story].result()
    event = lived[name]
    if event is None:
        pytest.skip("network namespaces need root, iproute2 and util-linux")
    assert (event["culprit"]["rank"], event["decision"]["action"]) == (rank, action), event
    if rank is None:
        assert event["culprit"]["node"] == (lived["peer"] if name == "nccl_error" else None)


def test_each_fault_is_told_once_and_to_its_own_job_only(stories: dict[str, "Future[Story]"]) -> None:
    causes = {name: [one["cause"] for one in story.result()["events"]] for name, story in stories.items()}
    assert causes == {
        "one": ["user_code_error", "network_ib"],
        "two": ["desync", "hang"],
        "apart": ["host_oom", "hang"] if HAS_NETWORKS else ["host_oom"],
    }


def test_what_cannot_be_done_is_refused_with_the_reason(system: System) -> None:
    sleeper = system.train("sleeper", "exec sleep 1000", replicas=1)
    until(lambda: system.job(sleeper)["status"] == "Running", "the job")
    ground = Ground(system.client, sleeper)
    with pytest.raises(CommandError, match=r"--rank: no agent tells of rank 7"):
        find("rank_killed").strike(ground, Wish(rank=7))
    viewer = system.client.post("/tokens", {"name": "looks", "role": "viewer"})["token"]
    with pytest.raises(CommandError, match="operator"):
        find("rank_killed").strike(Ground(Client(system.client.server, viewer), sleeper))
    with pytest.raises(CommandError, match="job_none"):
        find("rank_killed").strike(Ground(system.client, "job_none"))
    if HAS_NETWORKS:
        until(lambda: Ground(system.client, sleeper).look("network_cut").pods[0].ranks, "a rank")
        with pytest.raises(CommandError, match="share one network"):
            find("network_cut").strike(ground)
    system.client.post(f"/jobs/{sleeper}/stop")
    until(lambda: system.job(sleeper)["status"] == "Stopped", "the stop")
    with pytest.raises(CommandError, match="no pod runs that a fault could strike"):
        find("rank_killed").strike(ground)
