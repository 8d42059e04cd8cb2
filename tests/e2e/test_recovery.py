"""A real PyTorch job under a real server with real agents: it breaks, is diagnosed, and trains on."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import psutil
import pytest

from master.cli.client import Client
from notifier.clock import utcnow

pytestmark = pytest.mark.e2e
pytest.importorskip("torch")

ANSWER_S = 90
CHECKPOINT_EVERY = 20
XID = "NVRM: Xid (PCI:0000:9b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."


def until(condition: Callable[[], Any], what: str, within_s: float = ANSWER_S) -> Any:
    deadline = time.monotonic() + within_s
    while not (found := condition()):
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.05)
    return found


@dataclass
class Site:
    """A server, one job in it, and hands that break things as the world would."""

    folder: Path
    client: Client
    job_id: str = ""

    def job(self) -> dict[str, Any]:
        return dict(self.client.get(f"/jobs/{self.job_id}"))

    def events(self) -> list[dict[str, Any]]:
        """Newest first."""
        return list(self.client.get(f"/jobs/{self.job_id}/events")["items"])

    def alerts(self, item: str) -> list[dict[str, Any]]:
        return [alert for alert in self.client.get("/alerts")["items"] if item in alert["items"]]

    def timeline(self) -> dict[str, Any]:
        return dict(self.client.get(f"/jobs/{self.job_id}/timeline"))

    def pod_folder(self, index: int) -> Path:
        return self.folder / "data" / "jobs" / self.job_id / f"run-{self.job()['run']}" / f"pod-{index}"

    def trainer(self, index: int) -> psutil.Process:
        return psutil.Process(json.loads((self.pod_folder(index) / "pod.json").read_text())["main_pid"])

    def agent(self, index: int) -> psutil.Process:
        return psutil.Process(json.loads((self.pod_folder(index) / "agent.json").read_text())["pid"])

    def node_of(self, index: int) -> str:
        return str(self.job()["pods"][index]["node"])

    def write_kernel_log(self, node: str, line: str) -> None:
        with (self.folder / "data" / "nodes" / node / "kernel.log").open("a") as log:
            log.write(f"[{time.monotonic():12.6f}] {line}\n")

    def await_steps(self, more: int = 25) -> int:
        first = until(lambda: self.job()["step"], "a step")
        return int(until(lambda: (step := self.job()["step"] or 0) > first + more and step, "more steps"))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """`faultcast up`, ended at the end; nothing that it started is left."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-P", "-m", "master.cli", "up", "--data-dir", str(folder / "data")]
    env = {**os.environ, "FAULTCAST_LANGUAGE": "en", "FAULTCAST_SECRET_KEY": "a-secret-key-of-tests"}
    with (folder / "up.log").open("wb") as log:
        up = subprocess.Popen(
            [*command, "--bind", "127.0.0.1:0", "--workers", "1"], stdout=subprocess.PIPE, stderr=log, env=env
        )
    try:
        assert up.stdout is not None
        line = up.stdout.readline().decode()
        assert line.startswith("ready "), (folder / "up.log").read_text()[-2000:]
        token = (folder / "data" / "admin.token").read_text().strip()
        yield Site(folder, Client(line.split()[1], token))
    finally:
        up.terminate()
        up.wait(60)
        up.stdout.close()
    assert [one.info for one in psutil.process_iter(["cmdline"]) if str(folder) in str(one.info)] == []


@pytest.fixture(scope="module")
def site(server: Site) -> Site:
    """The job, training."""
    script = Path(__file__).with_name("training.py")
    body = {
        "name": "llm",
        "command": f"exec {sys.executable} -u {script}",
        "jobFramework": "PyTorchJob",
        "jobSpec": {"replicas": 2, "envs": [{"name": "TRAINING_FOLDER", "value": str(server.folder)}]},
        "faultTolerance": True,
        "faultToleranceArgs": "--enable-hang-detection=true --max-restarts=5",
    }
    server.job_id = server.client.post("/jobs", body)["id"]
    server.await_steps()
    return server


@dataclass(frozen=True)
class Fault:
    """How a job is broken, and what must be said of it."""

    strike: Callable[[Site], None]
    fault_class: str
    causes: tuple[str, ...]
    rank: int | None
    items: frozenset[str]
    within_s: float  # from the strike to the decision, on an idle machine; tenfold under load


def delete_pod(site: Site) -> None:
    site.client.delete(f"/jobs/{site.job_id}/pods/llm-1")


FAULTS = {
    "a rank is killed": Fault(
        lambda site: site.trainer(1).kill(), "process_exit", ("external_stop", "unknown"), 1,
        frozenset({"jobFT"}), 3,
    ),
    "a rank is stopped": Fault(
        lambda site: site.trainer(1).suspend(), "heartbeat_lost", ("heartbeat_lost",), 1,
        frozenset({"jobHang", "jobFT"}), 8,
    ),
    "a rank loops for ever": Fault(
        lambda site: site.trainer(1).send_signal(signal.SIGUSR1), "hang", ("hang",), 1,
        frozenset({"jobHang", "jobFT"}), 30,
    ),
    "the node's kernel tells of a lost GPU": Fault(
        lambda site: site.write_kernel_log(site.node_of(1), XID), "error_log", ("gpu_hardware",), 1,
        frozenset({"nodeFT", "jobFT"}), 3,
    ),
    "a pod is deleted": Fault(
        delete_pod, "pod_lost", ("pod_deleted",), None, frozenset({"jobFT"}), 1
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_fault(site: Site, name: str) -> None:
    fault = FAULTS[name]
    site.await_steps()
    before, run, node = site.events(), site.job()["run"], site.node_of(1)
    struck = utcnow()
    fault.strike(site)
    until(lambda: len(site.events()) > len(before), "the fault event")
    event = until(lambda: next((one for one in site.events()[:1] if one["recovered_at"]), None), "recovery")

    assert len(site.events()) == len(before) + 1
    assert (event["fault_class"], event["run"]) == (fault.fault_class, run)
    assert event["cause"] in fault.causes
    assert (event["culprit"]["rank"], event["culprit"]["pod"]) == (fault.rank, "llm-1")
    assert event["decision"]["action"] == "restart_job"
    assert event["decision"]["isolate_nodes"] == ([node] if "nodeFT" in fault.items else [])
    assert 0 <= event["steps_lost"] <= 2 * CHECKPOINT_EVERY
    assert site.job()["run"] == run + 1
    told = [alert for alert in site.alerts("jobFT") if alert["event_id"] == event["id"]]
    assert [(set(alert["items"]), alert["status"]) for alert in told] == [(set(fault.items), "resolved")]

    took = {
        word: (datetime.fromisoformat(event[f"{word}_at"]) - struck).total_seconds()
        for word in ("detected", "decided", "recovered")
    }
    sys.stdout.write(f"{name}: {took}, {event['steps_lost']} steps lost\n")
    assert took["decided"] < 10 * fault.within_s


def test_a_killed_agent_is_told_of_and_training_is_left_alone(site: Site) -> None:
    site.await_steps()
    trainer, run, events = site.trainer(0).pid, site.job()["run"], len(site.events())
    site.agent(0).kill()
    alert = until(lambda: next(iter(site.alerts("agentLost")), None), "agentLost")
    assert alert["labels"]["pod"] == "llm-0"
    until(lambda: site.alerts("agentLost")[0]["status"] == "resolved", "the agent's return")
    site.await_steps()
    assert (site.trainer(0).pid, site.job()["run"], len(site.events())) == (trainer, run, events)


def test_stacks_of_all_ranks(site: Site) -> None:
    found = site.client.post(f"/jobs/{site.job_id}/stacks")
    assert found["ranks"] == [0, 1]
    assert "training.py" in found["frames"][0]["name"]


def test_the_log_is_read_in_pieces(site: Site) -> None:
    first = site.client.get(f"/jobs/{site.job_id}/logs", {"pod": "llm-0", "offset": 0, "limit": 500})
    assert "[rank0]: step" in first["text"]
    rest = site.client.get(f"/jobs/{site.job_id}/logs", {"pod": "llm-0", "offset": first["next_offset"]})
    assert rest["offset"] == 500


def test_it_succeeds_at_last(site: Site) -> None:
    (site.folder / "enough").touch()
    until(lambda: site.job()["status"] == "Succeeded", "success")
    timeline = site.timeline()
    assert [run["n"] for run in timeline["runs"]] == list(range(len(FAULTS) + 1))
    assert 0 < timeline["effective_ratio"] < 1
    assert {one["stage"] for one in timeline["recoveries"]} == {"done"}
    assert len(site.alerts("jobSucceed")) == 1
    assert len(site.alerts("jobRunning")) == 1


def test_an_error_of_the_users_own_stops_the_job_and_says_where(server: Site) -> None:
    body = {
        "name": "broken",
        "command": [sys.executable, "-c", "import time; time.sleep(1); batch = None; batch.shape"],
        "faultTolerance": True,
    }
    job = server.client.post("/jobs", body)["id"]
    until(lambda: server.client.get(f"/jobs/{job}")["status"] == "Failed", "the job's end")
    events = server.client.get(f"/jobs/{job}/events")["items"]
    assert events[0]["cause"] == "user_code_error"
    assert events[0]["decision"]["action"] == "fail_job"
    assert events[0]["advice"]
    assert any("AttributeError" in str(one["text"]) for one in events[0]["evidence"])
