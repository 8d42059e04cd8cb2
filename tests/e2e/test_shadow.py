"""A real job without fault tolerance: Faultcast says what it would have done, and touches nothing."""

import shlex
import signal
import sys

import pytest

from tests.e2e.conftest import TRAIN, System, until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]
PLAIN = f"exec {shlex.quote(sys.executable)} {TRAIN}"


def test_a_watched_job_is_diagnosed_and_left_alone(system: System) -> None:
    job_id = system.train("watched", PLAIN, envs={"DEMO_STEPS": "100000"}, faultTolerance=False)
    step = system.steps_beyond(job_id, 10)
    before = [one.pid for one in system.trainers(job_id)]
    stopped = system.trainers(job_id)[1]
    stopped.send_signal(signal.SIGSTOP)
    try:
        (event,) = until(lambda: system.events(job_id), "the fault event")
        assert (event["fault_class"], event["culprit"]["rank"]) == ("heartbeat_lost", 1)
        assert (event["decision"]["action"], event["decision"]["would"]["action"]) == ("none", "restart_job")
        assert "若已开启，将重启任务" in event["decision"]["why"]
        told = until(lambda: system.told("jobHang"), "the message")[-1]
        assert "若已开启，将重启任务" in told["text"]
        assert [one.pid for one in system.trainers(job_id)] == before
    finally:
        stopped.send_signal(signal.SIGCONT)
    system.steps_beyond(job_id, step + 20)
    until(lambda: system.events(job_id)[0]["recovered_at"], "the end of it")
    until(lambda: system.told("jobRecovered"), "the message that it is over")
    assert (system.job(job_id)["run"], system.job(job_id)["status"]) == (0, "Running")
    assert [one.pid for one in system.trainers(job_id)] == before
    (fault,) = system.client.get(f"/jobs/{job_id}/timeline")["faults"]
    assert fault["decision"]["would"]["action"] == "restart_job"
    system.client.post(f"/jobs/{job_id}/stop")
    until(lambda: system.job(job_id)["status"] == "Stopped", "the stop")
