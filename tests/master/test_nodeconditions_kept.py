"""What becomes of Kubernetes' word on nodes: shown while it lasts, evidence where it names a fault."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import select

from agent.wire import Kind
from master import intake
from master.casefile import Source
from master.model import NodeSignal, ObservationRow
from master.reports import ReportBody
from notifier.clock import rfc3339
from notifier.problems import Problem
from tests.master.test_controller import running
from tests.master.test_nodeconditions import BOTH, KUBELET, OFF_BUS, beat, condition, event
from tests.master.test_nodeword import isolated
from tests.master.world import World, both


def off_bus(world: World, message: str = OFF_BUS) -> dict[str, Any]:
    given_ = condition("SysLogsXIDError", "True", "SysLogsXIDErrorIsNotHealthy", message)
    return given_ | {"lastTransitionTime": world.now.isoformat()}


def shown(world: World) -> dict[str, str]:
    with world.services.store.read() as session:
        return {row.name: row.status for row in session.scalars(select(NodeSignal))}


def witnesses(world: World) -> list[tuple[str, datetime]]:
    """Evidence by the API server's word, as it was kept."""
    rows = select(ObservationRow).where(ObservationRow.source == Source.RUNTIME).order_by(ObservationRow.id)
    with world.services.store.read() as session:
        return [
            (row.data["signature"], row.at) for row in session.scalars(rows) if row.kind == Kind.KERNEL_LINE
        ]


@both
def test_an_xid_by_a_condition_isolates_the_node_as_the_kernels_own_does(world: World) -> None:
    job_id = running(world)
    pod = world.pods(job_id)[1]
    agent = world.node_agent(pod.node)
    trouble = off_bus(world)
    world.report(agent, beat(*KUBELET, trouble))
    world.wait(2)
    [event_] = world.events(job_id)
    assert (event_.cause, event_.culprit["node"]) == ("gpu_hardware", pod.node)
    assert isolated(world) == [pod.node]
    world.report(agent, beat(*KUBELET, trouble))
    assert shown(world) == {"SysLogsXIDError": "firing"}
    world.report(agent, beat(*KUBELET))
    assert shown(world) == {"SysLogsXIDError": "resolved"}


def test_an_xid_by_a_monitors_event_does_so_too(world: World) -> None:
    job_id = running(world)
    pod = world.pods(job_id)[1]
    told = event(reason="NvidiaXID79Error", source={"component": "eks-node-monitoring-agent"})
    world.report(world.node_agent(pod.node), beat(events=(told | {"lastTimestamp": world.now.isoformat()},)))
    world.wait(2)
    assert isolated(world) == [pod.node]


def test_a_condition_that_comes_to_tell_of_another_fault_is_evidence_anew(world: World) -> None:
    """A monitor adds to the message of what is not healthy already; its transition stays."""
    job_id = running(world)
    pod = world.pods(job_id)[1]
    agent = world.node_agent(pod.node)
    first = off_bus(world, "ErrorCode:31 PCI:0000:ef:00 MMU fault;")
    world.report(agent, beat(first))
    world.train(job_id, 11, 20)
    assert isolated(world) == []
    world.report(agent, beat(first | {"message": BOTH}))
    world.wait(2)
    assert isolated(world) == [pod.node]


def test_what_is_left_of_several_faults_is_none_anew(world: World) -> None:
    job_id = running(world)
    pod = world.pods(job_id)[1]
    agent = world.node_agent(pod.node)
    both = off_bus(world, "ErrorCode:74 GPU:1;ErrorCode:79 GPU:2;")
    world.report(agent, beat(both))
    world.wait(1)
    world.report(agent, beat(both | {"message": "ErrorCode:74 GPU:1;"}))
    world.report(agent, beat(both))
    begun = datetime.fromisoformat(both["lastTransitionTime"])
    assert witnesses(world) == [("xid.74", begun), ("xid.79", begun), ("xid.79", world.now)]


def test_what_stands_since_before_a_run_began_is_shown_and_does_not_break_it(world: World) -> None:
    old = off_bus(world) | {"lastTransitionTime": (world.now - timedelta(days=40)).isoformat()}
    job_id = running(world)
    pod = world.pods(job_id)[1]
    world.report(world.node_agent(pod.node), beat(old))
    world.train(job_id, 11, 20)
    assert (world.events(job_id), isolated(world)) == ([], [])
    assert shown(world) == {"SysLogsXIDError": "firing"}


def test_a_node_that_is_not_ready_is_shown_and_breaks_no_job_that_goes_on(world: World) -> None:
    job_id = running(world)
    pod = world.pods(job_id)[1]
    silent = condition("Ready", "Unknown", "NodeStatusUnknown", "Kubelet stopped posting node status.")
    world.report(world.node_agent(pod.node), beat(silent))
    world.train(job_id, 11, 20)
    assert (world.events(job_id), isolated(world)) == ([], [])
    assert shown(world) == {"Ready": "firing"}


def test_of_older_and_newer_events_the_newer_is_shown_and_each_counts_once(world: World) -> None:
    """A new life of an agent tells what the API server still keeps: up to an hour."""
    agent = world.node_agent("node-1")
    first, last = (world.now - timedelta(minutes=n) for n in (2, 1))
    told = tuple(
        event(metadata={"name": f"e{code}"}, lastTimestamp=at.isoformat(), message=f"ErrorCode:{code}")
        for at, code in ((first, 48), (last, 74), (last, 79))
    )
    for _ in range(2):
        world.report(agent, beat(events=told))
    with world.services.store.read() as session:
        (row,) = session.scalars(select(NodeSignal))
        assert (row.text, row.starts_at) == ("ErrorCode:79", last)
    assert witnesses(world) == [("xid.48", first), ("xid.74", last), ("xid.79", last)]


def test_an_older_word_changes_nothing(world: World) -> None:
    """As an API server that is behind the others may tell."""
    agent = world.node_agent("node-1")
    old = (world.now - timedelta(minutes=5)).isoformat()
    world.report(
        agent, beat(off_bus(world, "ErrorCode:79"), events=(event(lastTimestamp=world.now.isoformat()),))
    )
    before = witnesses(world)
    world.wait(1)
    stale = off_bus(world, "ErrorCode:74") | {"lastTransitionTime": old}
    world.report(agent, beat(stale, events=(event(lastTimestamp=old, message="of before"),)))
    with world.services.store.read() as session:
        rows = session.scalars(select(NodeSignal).order_by(NodeSignal.name)).all()
    assert [row.text.splitlines()[-1] for row in rows] == [event()["message"], "ErrorCode:79"]
    assert [row.starts_at for row in rows] == [world.now - timedelta(seconds=1)] * 2
    assert witnesses(world) == before


def test_evidence_calls_the_master_at_once(world: World) -> None:
    def is_urgent(*told: dict[str, Any], seq: int) -> bool:
        observations = [{"at": rfc3339(world.now), **beat(*told)}]
        body = {"boot": "b", "seq": seq, "sent_at": rfc3339(world.now), "observations": observations}
        with world.services.store.write() as session:
            report = ReportBody.model_validate(body)
            return intake.take(session, world.node_agent("node-1"), report, world.now).is_urgent

    assert not is_urgent(condition("DiskPressure", "True"), seq=1)
    assert is_urgent(off_bus(world), seq=2)
    assert not is_urgent(off_bus(world), seq=3)


def test_no_agent_fills_the_database_by_making_names_up(world: World) -> None:
    agent = world.node_agent("node-1")
    for n in range(10):
        told = [event(metadata={"name": f"e{m}"}, reason=f"Made{n}Up{m}") for m in range(64)]
        world.report(agent, beat(events=tuple(told)))
        world.wait(1)
    assert len(shown(world)) == 300
    assert "Made9Up63" in shown(world)


def test_what_nobody_repeats_is_forgotten(world: World) -> None:
    agent = world.node_agent("node-1")
    world.report(agent, beat(events=(event(),)))
    world.now += timedelta(days=31)
    world.report(agent, beat(events=(event(reason="Other"),)))
    assert list(shown(world)) == ["Other"]


def test_a_pod_says_nothing_of_its_node_in_kubernetes_name(world: World) -> None:
    job_id = running(world)
    pod = world.pods(job_id)[1]
    with pytest.raises(Problem) as caught:
        world.report(world.agent(pod), beat(off_bus(world)))
    assert caught.value.errors[0][0] == "observations.0.data.kubernetes"
