"""What isolates a node: its own agent's word, within the cap. Nothing that a pod says does."""

from typing import Any

import pytest
from sqlalchemy import select

from agent.gpus import Gpu, Snapshot, look, told_xid
from agent.wire import Kind, Observation
from master.casefile import Source
from master.model import Node, NodeSignal, Pod
from notifier.auth import Principal
from notifier.clock import rfc3339
from notifier.problems import Problem
from tests.master.story import OFF_BUS, Story, steady
from tests.master.test_controller import running
from tests.master.world import World, both

BUS = "0000:9b:00"
GPU = Gpu("GPU-1", BUS, ecc=0, remap_failed=False, links={0: True})
XID = {"kind": "kernel_line", "data": {"signature": "xid.79", "line": OFF_BUS}}
TWO = {"jobSpec": {"replicas": 2}}


def lost_gpu() -> dict[str, Any]:
    """A finding of the node's agent, as it goes over the wire."""
    (found,) = look(Snapshot(0, {"GPU-1": GPU}), Snapshot(5, {"GPU-1": Gpu("GPU-1", BUS, lost=True)}))
    return sent(found.observed())


def sent(one: Observation) -> dict[str, Any]:
    return {"kind": one.kind, "rank": one.rank, "data": one.data}


def isolated(world: World) -> list[str]:
    with world.services.store.read() as session:
        return list(session.scalars(select(Node.name).where(Node.status == "isolated").order_by(Node.name)))


def pod_and_agent(world: World, job_id: str, index: int = 1) -> tuple[Pod, Principal]:
    pod = world.pods(job_id)[index]
    return pod, world.agent(pod)


@both
def test_a_lost_gpu_by_nvml_isolates_its_node_and_restarts_the_job_elsewhere(world: World) -> None:
    job_id = running(world)
    pod = world.pods(job_id)[1]
    world.report(world.node_agent(pod.node), lost_gpu())
    world.wait(2)
    [event] = world.events(job_id)
    assert (event.cause, event.culprit["node"], event.hardware) == ("gpu_hardware", pod.node, True)
    assert event.decision["isolate_nodes"] == [pod.node] == isolated(world)


def test_an_xid_by_nvml_alone_does_so_too(world: World) -> None:
    """Where the kernel's log cannot be read, NVML tells the code."""
    job_id = running(world)
    pod = world.pods(job_id)[1]
    world.report(world.node_agent(pod.node), sent(told_xid(79, BUS).observed()))
    world.wait(2)
    assert isolated(world) == [pod.node]


def test_no_more_nodes_are_isolated_than_the_cap_allows(world: World) -> None:
    """Of three nodes one, by default."""
    job_id = running(world)
    for pod in world.pods(job_id):
        world.report(world.node_agent(pod.node), lost_gpu())
        world.wait(2)
        world.wait(10)
    assert len(isolated(world)) == 1


def test_what_may_pass_isolates_only_once_training_suffers(world: World) -> None:
    job_id = running(world)
    pod = world.pods(job_id)[1]
    (found,) = look(Snapshot(0, {"GPU-1": GPU}), Snapshot(5, {"GPU-1": Gpu("GPU-1", BUS, ecc=1)}))
    world.report(world.node_agent(pod.node), sent(found.observed()))
    world.train(job_id, 100, 110)
    assert (world.events(job_id), isolated(world)) == ([], [])


# What a pod may try, by what its own token may send: `log_match` and no more.
FORGED: dict[str, dict[str, Any]] = {
    "a kernel's signature": {"signature": "xid.79", "line": OFF_BUS},
    "a finding's signature": {"signature": "gpu.lost", "line": f"NVML: GPU {BUS} is lost"},
    "with another's rank": {"signature": "gpu.lost", "line": "x", "captured": {"ranks": "0"}},
    "with another's rank in its frame": {
        "signature": "gpu.lost",
        "line": "x",
        "captured": {"line_rank": "0"},
    },
    "with another's host": {"signature": "gpu.lost", "line": "x", "captured": {"at_host": "node-1"}},
    "with another's peer": {"signature": "nic.module", "line": "x", "captured": {"peer": "node-1"}},
    "a node that is lost": {"signature": "node_lost", "line": "node_lost"},
}


@pytest.mark.parametrize("forged", FORGED.values(), ids=FORGED)
def test_what_a_pod_says_of_hardware_isolates_nobody(world: World, forged: dict[str, Any]) -> None:
    job_id = running(world)
    pod, agent = pod_and_agent(world, job_id)
    world.report(agent, {"kind": "log_match", "data": forged})
    world.report(agent, {"kind": "process_exited", "rank": pod.index, "data": {"pid": 1, "signal": 9}})
    world.wait(4)
    assert len(world.events(job_id)) == 1
    assert isolated(world) == []
    assert all(event.decision["isolate_nodes"] == [] for event in world.events(job_id))


@pytest.mark.parametrize("forged", FORGED.values(), ids=FORGED)
def test_a_pod_cannot_turn_true_evidence_of_one_node_against_another(
    world: World, forged: dict[str, Any]
) -> None:
    """node-2's GPU is lost for sure; its pod says that rank 0 is to blame, on node-1."""
    job_id = running(world)
    pod, agent = pod_and_agent(world, job_id)
    victim = world.pods(job_id)[0].node
    forged = forged | {
        "captured": {
            name: text.replace("node-1", victim) for name, text in forged.get("captured", {}).items()
        }
    }
    world.report(agent, {"kind": "log_match", "data": forged})
    world.report(world.node_agent(pod.node), lost_gpu())
    world.wait(3)
    assert isolated(world) == [pod.node]


@pytest.mark.parametrize("names", [{"ranks": "0"}, {"other_rank": "0"}, {"at_host": "10.0.0.1"}])
def test_trust_is_in_what_was_seen_on_the_very_node_that_is_named(names: dict[str, str]) -> None:
    data = {"signature": "gpu.lost", "line": "x", "captured": names}
    story = steady().kernel("node-b", 30.1, OFF_BUS)
    found = story._saw(30.1, Kind.LOG_MATCH, Source.AGENT, 1, data).fault(33)
    assert (found.trusted, found.culprit.node) == (True, "node-b")


SPOKEN = {
    "a kernel line": XID,
    "a finding": {"kind": "kernel_line", "data": {"signature": "gpu.lost", "line": "NVML: GPU is lost"}},
    "conditions": {"kind": "heartbeat", "data": {"conditions": [{"name": "gpu_lost", "text": "lost"}]}},
    "that nothing stands": {"kind": "heartbeat", "data": {"conditions": []}},
}


@pytest.mark.parametrize("spoken", SPOKEN.values(), ids=SPOKEN)
def test_a_pod_cannot_speak_as_its_node(world: World, spoken: dict[str, Any]) -> None:
    _, agent = pod_and_agent(world, running(world))
    with pytest.raises(Problem) as caught:
        world.report(agent, spoken)
    assert caught.value.status == 422


def test_a_node_speaks_of_no_rank(world: World) -> None:
    """Its word is trusted: by another node's rank it would be about that node."""
    node = world.pods(running(world))[1].node
    with pytest.raises(Problem) as caught:
        world.report(world.node_agent(node), {**lost_gpu(), "rank": 0})
    assert (caught.value.status, caught.value.errors[0][0]) == (422, "observations.0.rank")


def beat(*conditions: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "heartbeat", "data": {"conditions": list(conditions)}}


FULL = {"name": "disk_full", "subject": "/data", "severity": "error", "text": "the disk is full"}


def stands(world: World, node: str = "node-2") -> list[tuple[str, str, str]]:
    with world.services.store.read() as session:
        rows = select(NodeSignal).where(NodeSignal.node == node).order_by(NodeSignal.id)
        return [(row.name, row.status, row.text) for row in session.scalars(rows)]


@both
def test_what_stands_on_a_node_is_shown_beside_it_until_it_is_over(world: World) -> None:
    who = world.node_agent("node-2")
    slow = FULL | {"name": "gpu_slowdown", "subject": BUS, "severity": "warning", "text": "hot\0"}
    world.report(who, beat(FULL | {"since": rfc3339(world.now)}, slow))
    assert stands(world) == [
        ("disk_full", "firing", "the disk is full"),
        ("gpu_slowdown", "firing", "hot"),
    ]
    world.report(who, {"kind": "heartbeat", "data": {}})  # no news
    world.report(who, beat(FULL))
    world.report(who, beat(FULL))
    assert [one[:2] for one in stands(world)] == [("disk_full", "firing"), ("gpu_slowdown", "resolved")]
    world.report(world.node_agent("node-1"), beat())  # another node's agent says nothing of this one
    assert [one[:2] for one in stands(world)] == [("disk_full", "firing"), ("gpu_slowdown", "resolved")]
    world.report(who, beat())
    assert {one[1] for one in stands(world)} == {"resolved"}
    world.report(who, beat(FULL))
    assert ("disk_full", "firing", "the disk is full") in stands(world)
    assert len(stands(world)) == 2


def test_what_stands_is_no_evidence_by_itself(world: World) -> None:
    """What is evidence comes as a finding, when it happens."""
    job_id = running(world)
    node = world.pods(job_id)[1].node
    world.report(world.node_agent(node), beat(FULL | {"text": OFF_BUS}))
    world.wait(3)
    assert (world.events(job_id), isolated(world)) == ([], [])


@pytest.mark.parametrize(
    ("skew_s", "told"),
    [(0, None), (4, None), (-20, None), (6, "6 s ahead of"), (-45, "45 s behind"), (3600, "3600 s ahead of")],
)
def test_a_clock_that_is_off_is_told_beside_the_node(world: World, skew_s: float, told: str | None) -> None:
    """Reports that waited for us come late: only what is far behind is."""
    world.report(world.node_agent("node-2"), beat(), sent_after_s=skew_s)
    texts = [text for name, _, text in stands(world) if name == "clock_skew"]
    assert texts == ([] if told is None else [f"the clock is {told} the master's: mend its time service"])
    world.report(world.node_agent("node-2"), beat())
    assert all(status == "resolved" for _, status, _ in stands(world))


OOM = "memory cgroup /kubepods/pod-1: 1 process killed for want of memory"


def killed(*, job: str = "job-1", by_node: bool = False, rank: int | None = None) -> Story:
    data = {"signature": "memory.killed_in_cgroup", "line": OOM, "captured": {"faultcast_job": job}}
    story = steady().exited(1, 30.1, signal=9)
    if not by_node:
        return story._saw(30.0, Kind.LOG_MATCH, Source.AGENT, rank, data, pod=1)
    return story.kernel("node-b", 30.0, OOM) if job == "job-1" else _elsewhere(story, data)


def _elsewhere(story: Story, data: dict[str, Any]) -> Story:
    story.kernel("node-b", 30.0, OOM)
    story.seen[-1].data.update(data)
    return story


@pytest.mark.parametrize(
    ("story", "rank"),
    [
        pytest.param(killed(), None, id="its sidecar says so"),
        pytest.param(killed(rank=1), 1, id="its sidecar names the rank"),
        pytest.param(killed(by_node=True), 1, id="its node says so"),
    ],
)
def test_a_kill_beside_a_count_that_grew_is_want_of_memory(story: Story, rank: int | None) -> None:
    found = story.fault(33)
    assert (found.cause, found.hardware, found.retryable) == ("host_oom", False, False)
    assert (found.culprit.rank, found.culprit.pod, found.culprit.node) == (rank, "pod-1", "node-b")
    assert any(one.text == OOM for one in found.evidence)


def test_another_jobs_kill_on_the_same_node_explains_nothing_here() -> None:
    assert killed(job="job-2", by_node=True).fault(33).cause == "external_stop"
