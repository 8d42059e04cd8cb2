"""What Kubernetes and its monitors say of nodes, as they say it."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from master import nodesignals
from master.nodeconditions import of_conditions, of_event, of_events
from tests.master.test_controller import running
from tests.master.test_nodeword import isolated
from tests.master.world import World, both

NOW = datetime(2026, 11, 29, 3, 0, tzinfo=UTC)
SINCE = "2026-11-29T02:59:30Z"


def condition(kind: str, status: str, reason: str = "", message: str = "") -> dict[str, Any]:
    return {
        "type": kind, "status": status, "reason": reason, "message": message,
        "lastTransitionTime": SINCE, "lastHeartbeatTime": "2026-11-29T02:59:59Z",
    }  # fmt: skip


def node(*conditions: dict[str, Any], name: str = "node-2") -> dict[str, Any]:
    return {"metadata": {"name": name}, "status": {"conditions": list(conditions)}}


KUBELET = (
    condition("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory"),
    condition("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    condition("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    condition("NetworkUnavailable", "False", "RouteCreated", "RouteController created a route"),
    condition("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
    condition("KernelDeadlock", "False", "KernelHasNoDeadlock", "kernel has no deadlock"),
    condition("AcceleratedHardwareReady", "True", "NvidiaAcceleratedHardwareIsReady", ""),
    condition("GpuNvlinkWatch", "False", "GpuNvlinkWatchIsHealthy", "No Health Failures"),
)
OFF_BUS = (
    "ErrorCode:79 PCI:0000:ef:00 GPU_UUID:GPU-b5f21324 MESSAGE=NVRM: Xid (PCI:0000:ef:00): 79, pid=0, "
    "name=<unknown>, GPU has fallen off the bus. Recommended Action=RESTART_BM;"
)
BOTH = f"ErrorCode:31 PCI:0000:ef:00 MMU fault Recommended Action=NONE;{OFF_BUS}"
TROUBLE = {
    "a silent kubelet": (
        condition("Ready", "Unknown", "NodeStatusUnknown", "Kubelet stopped"),
        "error",
        None,
    ),
    "not ready": (condition("Ready", "False", "KubeletNotReady", "PLEG is not healthy"), "error", None),
    "its disk": (condition("DiskPressure", "True", "KubeletHasDiskPressure", ""), "warning", None),
    "a stuck kernel": (
        condition("KernelDeadlock", "True", "DockerHung", "task docker:7 blocked"),
        "error",
        None,
    ),
    "NVSentinel": (
        condition("SysLogsXIDError", "True", "SysLogsXIDErrorIsNotHealthy", OFF_BUS),
        "error",
        "79",
    ),
    "several": (condition("SysLogsXIDError", "True", "SysLogsXIDErrorIsNotHealthy", BOTH), "error", "79"),
    "EKS": (condition("AcceleratedHardwareReady", "False", "NvidiaXID79Error", "detected"), "error", "79"),
}


def test_a_healthy_node_says_that_all_is_over() -> None:
    told = of_conditions("default", node(*KUBELET), NOW)
    assert [one.name for one in told] == [one["type"] for one in KUBELET]
    assert {one.status for one in told} == {"resolved"}


@pytest.mark.parametrize("case", TROUBLE)
def test_trouble_fires_with_its_reason(case: str) -> None:
    given_, severity, xid = TROUBLE[case]
    (told,) = of_conditions("default", node(given_), NOW)
    assert (told.status, told.severity, told.labels.get("xid")) == ("firing", severity, xid)
    assert told.text.startswith(given_["reason"])
    assert (told.node, told.source, told.starts_at) == (
        "node-2",
        "kubernetes",
        datetime(2026, 11, 29, 2, 59, 30, tzinfo=UTC),
    )


def test_what_nobody_reports_any_more_is_no_trouble_by_itself() -> None:
    (told,) = of_conditions("default", node(condition("GpuMemWatch", "Unknown")), NOW)
    assert told.status == "resolved"


def event(**changed: Any) -> dict[str, Any]:
    """As the node-problem-detector makes it."""
    return {
        "metadata": {"name": "node-2.17f", "namespace": "default"}, "type": "Warning", "reason": "OOMKilling",
        "involvedObject": {"kind": "Node", "name": "node-2", "uid": "node-2"},
        "source": {"component": "kernel-monitor", "host": "node-2"}, "lastTimestamp": SINCE,
        "message": "Killed process 4242 (python) total-vm:278728kB, anon-rss:65152kB", **changed,
    }  # fmt: skip


def test_a_monitors_warning_about_a_node_is_a_signal() -> None:
    told = of_event("default", event(), NOW)
    assert told is not None
    assert (told.node, told.name, told.status) == ("node-2", "OOMKilling", "firing")
    newer = of_event("default", event(lastTimestamp=None, eventTime="2026-11-29T02:59:31.000000Z"), NOW)
    assert newer is not None
    assert newer.starts_at > told.starts_at


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param({"type": "Normal"}, id="routine"),
        pytest.param({"involvedObject": {"kind": "Pod", "name": "node-2"}}, id="of a pod"),
        pytest.param({"metadata": {"name": "x", "namespace": "team-a"}}, id="made in a user's namespace"),
        pytest.param({"source": {"component": "kubelet"}}, id="of the kubelet"),
        pytest.param({"reason": ""}, id="without a reason"),
    ],
)
def test_other_events_are_not(changed: dict[str, Any]) -> None:
    assert list(of_events("default", [event(**changed)], NOW)) == []


json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(json, json, json)
def test_no_shape_breaks_the_reading(one: Any, other: Any, third: Any) -> None:
    of_conditions(
        "default",
        {"metadata": one, "status": {"conditions": [other, {"type": third, "status": "True"}]}},
        NOW,
    )
    of_conditions("default", {"metadata": {"name": "n"}, "status": other}, NOW)
    of_event("default", {**event(), "source": one, "lastTimestamp": other, "metadata": third}, NOW)
    of_event("default", {**event(), "message": one, "reason": other, "involvedObject": third}, NOW)


@both
def test_an_xid_by_a_condition_isolates_the_node_as_the_kernels_own_does(world: World) -> None:
    job_id = running(world)
    pod = world.pods(job_id)[1]
    trouble = condition("SysLogsXIDError", "True", "SysLogsXIDErrorIsNotHealthy", OFF_BUS)
    trouble["lastTransitionTime"] = world.now.isoformat()
    with world.services.store.write() as session:
        kept = nodesignals.keep(
            session, of_conditions("default", node(*KUBELET, trouble, name=pod.node), world.now), world.now
        )
    assert (kept.new, kept.is_evidence) == (1, True)
    world.wait(2)
    [event_] = world.events(job_id)
    assert (event_.cause, event_.culprit["node"]) == ("gpu_hardware", pod.node)
    assert isolated(world) == [pod.node]


def test_a_node_that_is_not_ready_is_shown_and_breaks_no_job_that_goes_on(world: World) -> None:
    job_id = running(world)
    pod = world.pods(job_id)[1]
    trouble = condition("Ready", "Unknown", "NodeStatusUnknown", "Kubelet stopped posting node status.")
    with world.services.store.write() as session:
        nodesignals.keep(
            session, of_conditions("default", node(trouble, name=pod.node), world.now), world.now
        )
    world.train(job_id, 11, 20)
    assert (world.events(job_id), isolated(world)) == ([], [])
