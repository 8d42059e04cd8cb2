"""Real PyTorch jobs on a whole system: what must not be touched, who is named, what people are told."""

import contextlib
import shlex
import signal
import sys
from pathlib import Path

import psutil
import pytest

from tests.e2e.conftest import TRAIN, System, until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]
PLAIN = f"exec {shlex.quote(sys.executable)} {TRAIN}"


def test_a_killed_agent_is_missed_and_training_is_not_touched(system: System) -> None:
    job_id = system.train("agent-dies", PLAIN, envs={"DEMO_STEPS": "100000"})
    step = system.steps_beyond(job_id, 5)
    before = [one.pid for one in system.trainers(job_id)]
    agent_of(system, job_id).kill()
    until(lambda: system.told("agentLost"), "agentLost")
    system.steps_beyond(job_id, step + 20)
    assert [one.pid for one in system.trainers(job_id)] == before
    assert system.job(job_id)["run"] == 0
    assert system.events(job_id) == []
    until(lambda: not any(pod["agent_lost"] for pod in system.job(job_id)["pods"]), "a new agent's word")
    system.client.post(f"/jobs/{job_id}/stop")
    until(lambda: system.job(job_id)["status"] == "Stopped", "the stop")
    assert system.trainers(job_id) == []


def test_a_worker_of_torchrun_is_named_by_its_global_rank(system: System) -> None:
    torchrun = shlex.quote(str(Path(sys.executable).with_name("torchrun")))
    flags = "--nnodes=$PET_NNODES --nproc-per-node=2 --node-rank=$PET_NODE_RANK"
    where = "--master-addr=$MASTER_ADDR --master-port=$MASTER_PORT"
    job_id = system.train(
        "worker-dies", f"exec {torchrun} {flags} {where} {TRAIN}", envs={"DEMO_STEPS": "120"}
    )
    step = system.steps_beyond(job_id, 25)
    system.trainers(job_id)[3].send_signal(signal.SIGKILL)
    (event,) = until(lambda: system.events(job_id), "the fault event")
    assert (event["fault_class"], event["culprit"]["rank"]) == ("process_exit", 3)
    assert event["decision"]["action"] == "restart_job"
    until(lambda: system.job(job_id)["status"] == "Succeeded", "success", within_s=150)
    (event,) = system.events(job_id)
    assert event["recovered_at"] is not None
    assert 0 <= event["steps_lost"] <= step + 50
    until(lambda: system.told("jobRecovered"), "jobRecovered")
    fault, recovery = system.told("jobFT")[-1], system.told("jobRecovered")[-1]
    assert fault["event"]["id"] == recovery["event"]["id"] == event["id"]
    assert recovery["status"] == "resolved"


def test_an_error_of_the_users_own_stops_the_job(system: System) -> None:
    script = "import sys; print('step 1', flush=True); raise ValueError('bad batch')"
    job_id = system.train("bug", f"{shlex.quote(sys.executable)} -c {shlex.quote(script)}")
    until(lambda: system.job(job_id)["status"] == "Failed", "the end")
    (event,) = system.events(job_id)
    assert (event["cause"], event["decision"]["action"]) == ("user_code_error", "fail_job")
    until(lambda: system.told("jobGaveUp"), "jobGaveUp")
    assert system.job(job_id)["run"] == 0


def agent_of(system: System, job_id: str) -> psutil.Process:
    """The agent beside the job's first pod."""
    folder = str(system.data_dir / "jobs" / job_id / "run-0" / "pod-0")
    for one in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if one.environ().get("FAULTCAST_POD_DIR") == folder and "agent" in one.cmdline():
                return one
    raise AssertionError("no agent beside the pod")
