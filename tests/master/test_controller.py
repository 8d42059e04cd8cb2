"""The life of jobs under the master: states, incidents, recoveries, and what people are told."""

from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import func, select, text
from structlog.testing import capture_logs

from master import jobs, pools
from master.controller import Controller
from master.leader import NotLeader
from master.model import (
    AgentLife,
    FaultEventRow,
    Job,
    Leader,
    ObservationRow,
    Pod,
    Recovery,
    Run,
)
from master.runtimes.base import ELSEWHERE, RuntimeFailure
from notifier.auth import authenticate
from notifier.clock import rfc3339
from notifier.model import AlertConfig
from tests.master.world import FT, World, both

TWO = {"jobSpec": {"replicas": 2}}
KILLED = {"kind": "process_exited", "rank": 1, "data": {"pid": 101, "signal": 9}}
OOM = {
    "kind": "log_match",
    "rank": 1,
    "data": {
        "signature": "cuda.oom",
        "line": "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB",
    },
}


def running(world: World, **given: Any) -> str:
    """Two pods that have trained to step 10."""
    job_id = world.submit(**FT, **TWO, **given)
    world.train(job_id, 1, 10)
    return job_id


def kill_rank(world: World, job_id: str, index: int = 1) -> None:
    pod = world.pods(job_id)[index]
    world.report(world.agent(pod), {**KILLED, "rank": index})
    world.runtime.exit(pod.id, signal=9)


def broken_and_decided(world: World, job_id: str) -> None:
    kill_rank(world, job_id)
    world.settle()
    world.wait(4)


@both
def test_a_job_starts_runs_and_succeeds(world: World) -> None:
    job_id = world.submit(**TWO)
    assert world.job(job_id).status == "Running"
    assert [pod.status for pod in world.pods(job_id)] == ["Running", "Running"]
    assert [pod.node for pod in world.pods(job_id)] == ["node-1", "node-2"]
    world.train(job_id, 1, 3)
    for pod in world.pods(job_id):
        world.runtime.exit(pod.id, code=0)
    world.wait(2)
    assert world.job(job_id).status == "Succeeded"
    assert world.told() == [("jobRunning", "firing"), ("jobSucceed", "firing")]
    assert world.events(job_id) == []


@both
def test_however_many_ranks_fail_together_one_message_is_told(world: World) -> None:
    """Sixteen pods lose a rank each, one after another and while the master looks."""
    job_id = world.submit(**FT, jobSpec={"replicas": 16})
    world.train(job_id, 1, 10)
    for index in range(16):
        kill_rank(world, job_id, index)
        if index % 5 == 0:
            world.settle()
    world.settle()
    world.wait(4)
    world.train(job_id, 10, 14)
    faults = [one for one in world.told() if one[0] != "jobRunning"]
    assert faults == [("jobFT", "firing"), ("jobRecovered", "resolved")]
    assert len(world.events(job_id)) == 1


@both
def test_a_killed_rank_restarts_the_job_and_training_goes_on(world: World) -> None:
    job_id = running(world)
    broken_and_decided(world, job_id)
    assert world.job(job_id).status == "Restarting"
    assert world.job(job_id).run == 1
    [event] = world.events(job_id)
    assert (event.fault_class, event.culprit["rank"]) == ("process_exit", 1)
    assert event.decision["action"] == "restart_job"
    assert event.recovered_at is None
    world.train(job_id, 6, 8)
    assert world.job(job_id).status == "Running"
    [event] = world.events(job_id)
    assert event.steps_lost == 5
    assert event.downtime_s is not None
    assert event.downtime_s > 0
    assert world.stages(job_id) == ["done"]
    assert world.told() == [("jobRunning", "firing"), ("jobFT", "firing"), ("jobRecovered", "resolved")] or (
        world.told()[1:] == [("jobFT", "firing"), ("jobFT", "resolved")]
    )


def test_leftovers_of_a_run_are_ended_before_the_next_begins(world: World) -> None:
    job_id = running(world)
    stubborn = world.pods(job_id)[0]
    world.runtime.pods[stubborn.id].heeds_stop = False
    broken_and_decided(world, job_id)
    assert world.job(job_id).run == 0
    assert world.stages(job_id) == ["stopping"]
    world.runtime.exit(stubborn.id, signal=9)
    world.settle()
    assert world.job(job_id).run == 1


def test_what_we_end_ourselves_is_no_fault(world: World) -> None:
    job_id = running(world)
    broken_and_decided(world, job_id)
    world.wait(10)
    assert len(world.events(job_id)) == 1


@pytest.mark.parametrize("reason", ["Deleted", "Lost"])
def test_a_deleted_pod_costs_no_restart(world: World, reason: str) -> None:
    job_id = running(world)
    world.runtime.lose(world.pods(job_id)[0].id, reason)
    world.wait(4)
    [event] = world.events(job_id)
    assert (event.fault_class, event.cause) == ("pod_lost", "pod_deleted")
    assert event.culprit["pod"] == "train-0"
    assert world.job(job_id).restarts_used == 0
    assert world.job(job_id).run == 1


def test_pods_that_the_servers_end_took_along_cost_no_restart(world: World) -> None:
    job_id = running(world)
    world.runtime.shutdown()
    world.new_master()
    world.wait(4)
    [event] = world.events(job_id)
    assert (event.fault_class, event.cause) == ("pod_lost", "external_stop")
    assert event.decision["action"] == "restart_job"
    assert "stopped together with the Faultcast server" in event.reason["en"]
    assert (world.job(job_id).run, world.job(job_id).restarts_used) == (1, 0)


def test_without_fault_tolerance_the_fault_is_told_and_the_job_fails(world: World) -> None:
    job_id = world.submit(**TWO)
    world.train(job_id, 1, 5)
    broken_and_decided(world, job_id)
    assert world.job(job_id).status == "Failed"
    [event] = world.events(job_id)
    assert event.decision["action"] == "fail_job"
    assert world.told() == [("jobRunning", "firing"), ("jobFailed", "firing")]
    assert all(pod.closed_at for pod in world.pods(job_id))


def test_restarts_without_progress_are_limited_and_the_last_word_is_critical(world: World) -> None:
    job_id = running(world, faultToleranceArgs="--max-restarts=1")
    for _ in range(2):
        broken_and_decided(world, job_id)
        world.beat(job_id, 3)
        world.wait(10)
    assert world.job(job_id).status == "Failed"
    last = world.alerts()[-1]
    assert (last.item, last.severity) == ("jobGaveUp", "critical")
    assert "jobFailed" in last.items


@both
def test_progress_gives_restarts_back(world: World) -> None:
    job_id = running(world)
    broken_and_decided(world, job_id)
    assert world.job(job_id).restarts_used == 1
    world.train(job_id, 6, 10)
    assert world.job(job_id).restarts_used == 1
    world.train(job_id, 11, 12)
    assert world.job(job_id).restarts_used == 0


@both
def test_a_hardware_fault_seen_by_the_node_isolates_it_and_restarts_elsewhere(world: World) -> None:
    job_id = running(world)
    pod = world.pods(job_id)[1]
    node = world.node_agent(pod.node)
    line = "NVRM: Xid (PCI:0000:9b:00): 79, pid=123, GPU has fallen off the bus."
    world.report(node, {"kind": "kernel_line", "data": {"signature": "xid.79", "line": line}})
    world.wait(4)
    [event] = world.events(job_id)
    assert (event.fault_class, event.cause, event.hardware) == ("error_log", "gpu_hardware", True)
    assert event.decision["isolate_nodes"] == [pod.node]
    assert pod.node not in [pod.node for pod in world.pods(job_id)]
    told = [alert for alert in world.alerts() if alert.event_id == event.id]
    assert [set(alert.items) for alert in told] == [{"nodeFT", "jobFT"}]
    assert told[0].severity == "error"


@both
def test_a_dead_agent_is_told_of_and_replaced_and_training_is_left_alone(world: World) -> None:
    job_id = running(world)
    pod = world.pods(job_id)[0]
    old = world.agent(pod)
    world.runtime.pods[pod.id].agent = None
    world.settle()
    assert [alert.item for alert in world.alerts()][-1] == "agentLost"
    assert world.pods(job_id)[0].agent_lost_at is not None
    assert world.agent(pod).token_id != old.token_id
    world.train(job_id, 11, 12)
    assert world.pods(job_id)[0].agent_lost_at is None
    assert world.alerts()[-1].status == "resolved"
    assert world.job(job_id).status == "Running"
    assert (world.job(job_id).run, world.events(job_id)) == (0, [])


def test_a_new_agent_is_given_time_to_speak(world: World) -> None:
    """Also beside a pod that has run for long: what counts is its own life."""
    job_id = running(world)
    world.train(job_id, 11, 60)
    pod = world.pods(job_id)[0]
    world.runtime.pods[pod.id].agent = None
    world.settle()
    new = world.agent(pod)
    world.wait(3)
    assert world.agent(pod) == new


def test_an_agent_that_never_speaks_is_replaced_now_and_then(world: World) -> None:
    job_id = running(world)
    pod = world.pods(job_id)[0]
    first = world.agent(pod)
    world.wait(30)
    second = world.agent(pod)
    assert second != first
    world.wait(5)
    assert world.agent(pod) == second
    assert len([alert for alert in world.alerts() if alert.item == "agentLost"]) == 2  # one a pod


@both
def test_agents_follow_a_master_that_comes_back_at_another_address_and_none_is_lost(world: World) -> None:
    job_id = running(world)
    world.new_master("http://127.0.0.1:2")
    world.wait(15)
    told = {agent.server for agent in world.runtime.node_agents.values()}
    told |= {world.runtime.pods[pod.id].agent.server for pod in world.pods(job_id)}
    assert told == {"http://127.0.0.1:2"}
    world.train(job_id, 11, 12)
    assert "agentLost" not in {alert.item for alert in world.alerts()}
    assert (world.job(job_id).status, world.job(job_id).run, world.events(job_id)) == ("Running", 0, [])


def test_a_silent_agent_is_lost_after_six_seconds_but_not_at_a_masters_start(world: World) -> None:
    job_id = running(world)
    world.now = world.now.replace(minute=5)  # the master was away for minutes
    world.new_master()
    world.wait(3)
    assert not any(pod.agent_lost_at for pod in world.pods(job_id))
    world.beat(job_id, 11)
    world.wait(17)
    assert all(pod.agent_lost_at for pod in world.pods(job_id))
    assert world.job(job_id).run == 0


def test_stop(world: World) -> None:
    job_id = running(world)
    pods = world.pods(job_id)
    world.stop(job_id)
    assert world.job(job_id).status == "Stopping"
    world.wait(1)
    assert world.job(job_id).status == "Stopped"
    assert [world.runtime.pods[pod.id].state.clean for pod in pods] == [True, True]
    assert world.runtime.pods[pods[0].id].stop_grace.total_seconds() == 15
    assert world.events(job_id) == []


@both
def test_stop_in_the_middle_of_a_recovery(world: World) -> None:
    job_id = running(world)
    stubborn = world.pods(job_id)[0]
    world.runtime.pods[stubborn.id].heeds_stop = False
    broken_and_decided(world, job_id)
    world.stop(job_id)
    world.runtime.exit(stubborn.id, signal=9)
    world.wait(2)
    assert world.job(job_id).status == "Stopped"
    assert world.job(job_id).run == 0


@both
def test_a_job_waits_for_a_node(world: World) -> None:
    with world.services.store.write() as session:
        for name in world.runtime.nodes():
            pools.isolate(session, name, "test", world.now)
    job_id = world.submit()
    assert world.job(job_id).status == "Created"
    assert "waits for a node" in world.job(job_id).reason
    with world.services.store.write() as session:
        pools.restore(session, "node-2")
    world.wait(1)
    assert world.job(job_id).status == "Running"
    assert [pod.node for pod in world.pods(job_id)] == ["node-2"]


def test_a_job_without_steps_counts_as_recovered_once_it_lives(world: World) -> None:
    job_id = world.submit(**FT)
    world.beat(job_id)
    world.runtime.lose(world.pods(job_id)[0].id)
    world.wait(4)
    assert world.job(job_id).run == 1
    assert world.job(job_id).status == "Restarting"
    for _ in range(24):
        world.beat(job_id)
        world.settle(0.5)
    [event] = world.events(job_id)
    assert event.recovered_at is not None
    assert event.steps_lost is None
    assert world.job(job_id).status == "Running"


def hang_state(world: World, **more: Any) -> dict[str, Any]:
    """A process in which nothing moves any more."""
    return {"cpu_ticks": 5, "io_bytes": 5, "step": 20, "step_at": world.frozen_at, **more}


SPINS, SAVES = ("spin (train.py:77)",), ("write (torch/serialization.py:9)", "save (train.py:80)")


def stand_still(
    world: World, job_id: str, seconds: int, at: tuple[str, ...] = SPINS, **odd: Any
) -> list[str]:
    """Both ranks stand at step 20; rank 1 is `odd`, and stands `at` there. Agents collect stacks when asked.
    What the job's status was, each time that it became another one."""
    world.frozen_at = rfc3339(world.now)
    seen = [world.job(job_id).status]
    for _ in range(seconds * 2):
        world.beat(job_id, rank0=hang_state(world), rank1=hang_state(world, **odd))
        world.settle(0.5)
        if (status := world.job(job_id).status) != seen[-1]:
            seen.append(status)
        if status in {"Restarting", "Failed"}:
            break
        for pod in world.pods(job_id):
            reply = world.report(world.agent(pod))
            if reply["want"].get("stacks"):
                waits = ["all_reduce (torch/distributed/distributed_c10d.py:3200)", "step (train.py:9)"]
                frames = list(at) if pod.index == 1 else waits
                stack = {"kind": "stacks", "rank": pod.index, "data": {"pid": 1, "frames": frames}}
                world.report(world.agent(pod), stack)
    return seen


def test_a_stopped_rank_is_named_by_its_state(world: World) -> None:
    job_id = running(world)
    world.train(job_id, 11, 20)
    stand_still(world, job_id, 20, state="T")
    [event] = world.events(job_id)
    assert (event.fault_class, event.culprit["rank"]) == ("heartbeat_lost", 1)
    [alert] = [alert for alert in world.alerts() if alert.event_id == event.id]
    assert (alert.item, sorted(alert.items), alert.severity) == ("jobHang", ["jobFT", "jobHang"], "error")


def test_a_hang_is_confirmed_by_stacks_and_the_odd_rank_is_named(world: World) -> None:
    job_id = running(world, faultToleranceArgs="--enable-hang-detection=true")
    world.train(job_id, 11, 20)
    stand_still(world, job_id, 60, state="R")
    [event] = world.events(job_id)
    assert (event.fault_class, event.cause, event.culprit["rank"]) == ("hang", "hang", 1)
    assert world.job(job_id).run == 1
    world.train(job_id, 15, 17)
    assert world.told()[-1][1] == "resolved"


def test_a_long_stall_is_abnormal_until_it_is_called_and_was_noticed_at_its_first_look(world: World) -> None:
    settings = "--enable-hang-detection=true --hang-detection-log-timeout-minutes=0.2"
    job_id = running(world, faultToleranceArgs=settings)
    world.train(job_id, 11, 20)
    stood_at = world.now
    assert stand_still(world, job_id, 150, SAVES) == ["Running", "Abnormal", "Restarting"]
    [event] = world.events(job_id)
    assert (event.fault_class, event.culprit["rank"]) == ("hang", 1)
    assert timedelta(seconds=100) < event.decided_at - stood_at
    assert timedelta(seconds=4) < event.detected_at - stood_at < timedelta(seconds=15)


def test_a_hang_of_a_job_that_is_only_watched_is_told_and_nothing_is_touched(world: World) -> None:
    job_id = world.submit(**TWO, faultToleranceArgs="--enable-hang-detection=true")
    world.train(job_id, 1, 20)
    stand_still(world, job_id, 60, state="R")
    [event] = world.events(job_id)
    assert (event.fault_class, event.decision["action"]) == ("hang", "none")
    assert event.decision["would"]["action"] == "restart_job"
    assert "with it on, it would have been restarted" in event.decision["why"]["en"]
    assert (world.job(job_id).run, world.told()[-1]) == (0, ("jobHang", "firing"))
    assert all(pod.ended_at is None for pod in world.pods(job_id))
    world.train(job_id, 21, 23)
    assert world.told()[-1][1] == "resolved"
    assert (world.events(job_id)[0].recovered_at is not None, world.job(job_id).status) == (True, "Running")


def test_a_job_is_abnormal_while_its_silence_is_looked_into_and_running_when_it_was_nothing(
    world: World,
) -> None:
    job_id = running(world, faultToleranceArgs="--enable-hang-detection=true")
    world.train(job_id, 11, 20)
    world.wait(6)
    assert world.job(job_id).status == "Abnormal"
    world.train(job_id, 21, 22)
    assert world.job(job_id).status == "Running"
    assert world.events(job_id) == []


def test_a_user_error_stops_the_job_and_says_what_to_do(world: World) -> None:
    job_id = running(world)
    pod = world.pods(job_id)[1]
    lines = ["Traceback (most recent call last):", '  File "train.py", line 9, in <module>',
             "AttributeError: 'NoneType' object has no attribute 'shape'"]  # fmt: skip
    error = {"pid": 101, "exit_code": 1, "last_lines": lines}
    world.report(world.agent(pod), {"kind": "process_exited", "rank": 1, "data": error})
    world.runtime.exit(pod.id, code=1)
    world.wait(6)
    [event] = world.events(job_id)
    assert event.cause == "user_code_error"
    if event.decision["action"] == "fail_job":
        assert world.job(job_id).status == "Failed"
        assert event.advice["en"]


def test_two_jobs_do_not_disturb_each_other(world: World) -> None:
    first = running(world)
    second = world.submit(**{**FT, **TWO, "name": "other"})
    world.train(second, 1, 5)
    broken_and_decided(world, first)
    assert world.job(first).run == 1
    assert (world.job(second).run, world.job(second).status) == (0, "Running")
    assert world.events(second) == []


def test_a_broken_job_does_not_keep_the_master_from_the_others(world: World) -> None:
    broken = running(world)
    other = world.submit(name="other")
    start = world.runtime.poll

    def poll(ref: Any) -> Any:
        if ref.job_id == broken:
            raise RuntimeFailure("the machine does not answer")
        return start(ref)

    world.runtime.poll = poll
    world.runtime.exit(world.pods(other)[0].id, code=0)
    world.wait(1)
    assert world.job(other).status == "Succeeded"
    assert world.job(broken).status == "Running"


def test_a_closed_pods_token_is_void(world: World) -> None:
    job_id = running(world)
    token = world.runtime.pods[world.pods(job_id)[0].id].agent.token
    world.stop(job_id)
    world.wait(1)
    with world.services.store.read() as session:
        assert authenticate(session, token, world.now) is None


@both
def test_a_deleted_job_leaves_nothing_but_its_deliveries(world: World) -> None:
    job_id = running(world)
    broken_and_decided(world, job_id)
    with world.services.store.write() as session:
        jobs.delete(session, session.get_one(Job, job_id), "admin", world.now)
    world.wait(2)
    with world.services.store.read() as session:
        for table in (Job, Run, Pod, FaultEventRow, Recovery, ObservationRow, AgentLife):
            assert session.scalar(select(func.count()).select_from(table)) == 0, table
    assert world.runtime.pods == {}
    assert ("jobRunning", "firing") in world.told()


@both
def test_a_second_master_waits_and_takes_over(world: World) -> None:
    job_id = running(world)
    standby = Controller(world.services, world.runtime, server="http://127.0.0.1:1")
    standby._hands.leadership.holder = "elsewhere/another-boot/1/1"
    pod = world.pods(job_id)[0]
    world.runtime.lose(pod.id)
    world.now += timedelta(seconds=5)
    standby.tick(world.now)
    assert world.pods(job_id)[0].status == "Running"
    world.controller._hands.leadership.give_up()
    standby.tick(world.now)
    assert world.pods(job_id)[0].status == "Failed"


@both
def test_who_lost_the_lease_writes_nothing(world: World) -> None:
    job_id = running(world)
    with world.services.store.write() as session:
        session.get_one(Leader, "default").holder = "elsewhere/another-boot/1/1"
    with pytest.raises(NotLeader), world.controller._hands.write() as session:
        session.get_one(Job, job_id).reason = "written by a ghost"
    assert world.job(job_id).reason == ""


def test_a_lease_of_a_dead_process_of_this_machine_is_taken_at_once(world: World) -> None:
    boot = world.controller._hands.leadership.holder.rsplit("/", 3)[1]
    with world.services.store.write() as session:
        row = session.get_one(Leader, "default")
        row.holder, row.until = f"here/{boot}/999999/1", row.until + timedelta(days=1)
    world.new_master()
    assert world.controller._hands.leadership.take()


def test_a_lease_of_another_machine_is_waited_for(world: World) -> None:
    with world.services.store.write() as session:
        row = session.get_one(Leader, "default")
        row.holder, row.until = "elsewhere/another-boot/1/1", row.until + timedelta(days=1)
    world.new_master()
    assert not world.controller._hands.leadership.take()


def test_a_fault_that_a_job_without_fault_tolerance_lives_with_is_told_once(world: World) -> None:
    job_id = world.submit(**TWO)
    world.train(job_id, 1, 5)
    node = world.node_agent(world.pods(job_id)[1].node)
    line = "NVRM: Xid (PCI:0000:9b:00): 79, pid=123, GPU has fallen off the bus."
    for step in range(6, 12):
        world.report(node, {"kind": "kernel_line", "data": {"signature": "xid.79", "line": line}})
        world.train(job_id, step, step, seconds=1.5)
    [event] = world.events(job_id)
    assert event.decision["action"] == "none"
    assert world.job(job_id).status == "Running"
    assert world.told()[1:] == [("nodeFT", "firing")]
    kill_rank(world, job_id)
    world.wait(4)
    assert world.job(job_id).status == "Failed"
    assert len(world.events(job_id)) == 2


def test_a_runtime_that_cannot_start_a_pod_is_named_on_the_job(world: World) -> None:
    start = world.runtime.start_pod

    def refuse(_spec: object) -> None:
        raise RuntimeFailure("no space left on node-1")

    world.runtime.start_pod = refuse
    job_id = world.submit()
    assert (world.job(job_id).status, world.job(job_id).reason) == ("Starting", "no space left on node-1")
    world.runtime.start_pod = start
    world.wait(1)
    assert (world.job(job_id).status, world.job(job_id).reason) == ("Running", "")


def test_an_agent_that_cannot_be_started_does_not_hold_up_its_pod(world: World) -> None:
    def refuse(_ref: object, _access: object) -> None:
        raise RuntimeFailure("no agent here")

    world.runtime.ensure_agent = refuse
    job_id = world.submit()
    assert world.job(job_id).status == "Running"


@both
def test_rules_of_an_older_version_hold_back_neither_decision_nor_recovery(world: World) -> None:
    job_id = running(world)
    with world.services.store.write() as session:
        row = session.get_one(AlertConfig, ("pool", "default"))
        row.config = {"rules": [{"channels": ["ding"], "quiet_hours": "1１:00-08:00"}]}
    broken_and_decided(world, job_id)
    assert world.job(job_id).run == 1
    world.train(job_id, 6, 8)
    [event] = world.events(job_id)
    assert event.recovered_at is not None
    assert world.told()[1:] == [("jobFT", "firing"), ("jobRecovered", "resolved")]


def test_what_cannot_be_told_at_all_is_kept_and_the_job_goes_on(world: World) -> None:
    job_id = running(world)
    with world.services.store.write() as session:
        session.execute(text("update alert_configs set config = '{'"))  # as a broken disk leaves it
    with capture_logs() as logged:
        broken_and_decided(world, job_id)
        world.train(job_id, 6, 8)
    assert world.job(job_id).run == 1
    [event] = world.events(job_id)
    assert event.recovered_at is not None
    [alert] = [alert for alert in world.alerts() if alert.event_id == event.id]
    assert (alert.status, alert.why.partition(":")[0]) == ("resolved", "told nobody")
    assert "not_told" in [entry["event"] for entry in logged]
    assert world.told() == [("jobRunning", "firing")]


def open_alerts(world: World) -> list[str]:
    return [alert.item for alert in world.alerts() if alert.status == "firing"]


@both
def test_a_job_that_succeeded_leaves_no_alert_open(world: World) -> None:
    job_id = running(world)
    world.runtime.pods[world.pods(job_id)[0].id].agent = None
    world.settle()
    assert open_alerts(world) == ["agentLost"]
    told = world.told()
    for pod in world.pods(job_id):
        world.runtime.exit(pod.id, code=0)
    world.wait(2)
    assert world.job(job_id).status == "Succeeded"
    assert open_alerts(world) == []
    assert world.told() == [*told, ("agentLost", "resolved"), ("jobSucceed", "firing")]


def test_a_job_that_was_stopped_leaves_no_alert_open(world: World) -> None:
    job_id = running(world)
    broken_and_decided(world, job_id)
    assert open_alerts(world) == ["jobFT"]
    world.stop(job_id)
    world.wait(1)
    assert open_alerts(world) == []
    assert world.told()[1:] == [("jobFT", "firing"), ("jobFT", "resolved")]  # it has not recovered


def test_of_a_job_that_gave_up_only_the_last_word_is_open_until_the_job_is_deleted(world: World) -> None:
    job_id = running(world, faultToleranceArgs="--max-restarts=1")
    for _ in range(2):
        broken_and_decided(world, job_id)
        world.beat(job_id, 3)
        world.wait(10)
    assert open_alerts(world) == ["jobGaveUp"]
    assert world.told()[-1] == ("jobGaveUp", "firing")
    with world.services.store.write() as session:
        jobs.delete(session, session.get_one(Job, job_id), "admin", world.now)
    world.wait(2)
    assert open_alerts(world) == []
    told = world.told()
    assert told[-1] == ("jobGaveUp", "resolved")
    assert told.count(("jobGaveUp", "resolved")) == 1
    assert ("jobFT", "resolved") not in told  # nothing recovered: the last word says all


def test_a_lost_agent_is_no_open_matter_once_its_pod_is_gone(world: World) -> None:
    job_id = running(world)
    pod = world.pods(job_id)[0]
    with world.services.store.write() as session:
        session.get_one(Pod, pod.id).agent_started_at = None
    world.runtime.ensure_agent = lambda _ref, _access: None  # it cannot be started again
    world.runtime.pods[pod.id].agent = None
    world.settle()
    assert open_alerts(world) == ["agentLost"]
    kill_rank(world, job_id)
    world.settle()
    world.wait(4)
    assert world.job(job_id).run == 1
    assert next(alert.status for alert in world.alerts() if alert.item == "agentLost") == "resolved"
    assert world.told().count(("agentLost", "resolved")) == 1


@both
def test_a_master_that_cannot_see_the_pods_leaves_them_alone_and_says_so(world: World) -> None:
    job_id = running(world)
    world.runtime.lies_at = "another data dir"
    world.new_master()
    world.wait(8)
    assert (world.job(job_id).status, world.job(job_id).reason) == ("Running", ELSEWHERE)
    assert (world.job(job_id).run, world.events(job_id)) == (0, [])
    other = world.submit(name="other")
    assert world.job(other).status == "Running"
    world.runtime.lies_at = "here"
    world.new_master()
    world.train(job_id, 11, 20)
    assert (world.job(job_id).status, world.job(job_id).reason) == ("Running", "")
    assert world.events(job_id) == []


def test_a_job_that_broke_before_it_was_seen_running_is_not_told_to_run(world: World) -> None:
    job_id = world.submit()
    with world.services.store.write() as session:
        session.get_one(Job, job_id).started_at = None
        session.get_one(Job, job_id).status = "Starting"
    told = world.told()
    pod = world.pods(job_id)[0]
    world.runtime.exit(pod.id, code=1)
    world.settle()
    world.report(world.agent(pod), {"kind": "progress", "rank": 0, "data": {"step": 1}})
    world.wait(20)
    assert world.job(job_id).status == "Failed"
    assert world.told() == [*told, ("jobFailed", "firing")]


def test_trouble_with_one_job_is_logged_once(world: World) -> None:
    job_id = running(world)
    world.runtime.lies_at = "another data dir"
    with capture_logs() as logged:
        world.wait(5)
    assert [entry["name"] for entry in logged if entry["event"] == "runtime_failed"] == [job_id]
