"""What Kubernetes and its monitors say of nodes, as they say it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.kubewords import conditions_of, warnings_of
from master.nodeconditions import of_conditions, of_events
from master.nodesignals import Signal
from master.reports import Heartbeat
from notifier.clock import rfc3339

SINCE = "2026-11-29T02:59:30Z"


def condition(kind: str, status: str, reason: str = "", message: str = "") -> dict[str, Any]:
    return {
        "type": kind, "status": status, "reason": reason, "message": message,
        "lastTransitionTime": SINCE, "lastHeartbeatTime": "2026-11-29T02:59:59Z",
    }  # fmt: skip


def node(*conditions: Any) -> dict[str, Any]:
    born = "2026-11-01T00:00:00Z"
    return {
        "metadata": {"name": "node-2", "creationTimestamp": born},
        "status": {"conditions": [*conditions]},
    }


def beat(*conditions: dict[str, Any], events: tuple[dict[str, Any], ...] = ()) -> dict[str, Any]:
    """As the node's agent sends it on."""
    told = [one for _, one in warnings_of(events)]
    return {
        "kind": "heartbeat",
        "data": {"kubernetes": {"conditions": conditions_of(node(*conditions)), "events": told}},
    }


def signals(sent: dict[str, Any]) -> list[Signal]:
    """As the master takes it."""
    word = Heartbeat.model_validate(sent["data"]).kubernetes
    assert word is not None
    return [
        *of_conditions("default", "node-2", word.conditions or ()),
        *of_events("default", "node-2", word.events),
    ]


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
    "several": (condition("SysLogsXIDError", "True", "SysLogsXIDErrorIsNotHealthy", BOTH), "error", "31,79"),
    "EKS": (condition("AcceleratedHardwareReady", "False", "NvidiaXID79Error", "detected"), "error", "79"),
}


def test_a_healthy_node_says_nothing() -> None:
    assert signals(beat(*KUBELET)) == []


@pytest.mark.parametrize("case", TROUBLE)
def test_trouble_fires_with_its_reason(case: str) -> None:
    given_, severity, xid = TROUBLE[case]
    (told,) = signals(beat(*KUBELET, given_))
    assert (told.status, told.severity, told.labels.get("xid")) == ("firing", severity, xid)
    assert told.text.startswith(given_["reason"])
    assert (told.node, told.source, rfc3339(told.starts_at)) == ("node-2", "kubernetes", f"{SINCE[:-1]}.000Z")


def test_what_nobody_reports_any_more_is_no_trouble_by_itself() -> None:
    assert signals(beat(condition("GpuMemWatch", "Unknown"))) == []


def test_a_condition_without_a_time_is_as_old_as_its_node() -> None:
    (told,) = signals(beat(condition("Ready", "False") | {"lastTransitionTime": None}))
    assert rfc3339(told.starts_at) == "2026-11-01T00:00:00.000Z"


def event(**changed: Any) -> dict[str, Any]:
    """As the node-problem-detector makes it."""
    return {
        "metadata": {"name": "node-2.17f", "namespace": "default"}, "type": "Warning", "reason": "OOMKilling",
        "involvedObject": {"kind": "Node", "name": "node-2", "uid": "node-2"},
        "source": {"component": "kernel-monitor", "host": "node-2"}, "lastTimestamp": SINCE,
        "message": "Killed process 4242 (python) total-vm:278728kB, anon-rss:65152kB", **changed,
    }  # fmt: skip


NEWER_FORM = {
    "lastTimestamp": None, "eventTime": "2026-11-29T02:59:31.000000Z", "source": {},
    "reportingComponent": "kernel-monitor",
    "series": {"count": 3, "lastObservedTime": "2026-11-29T02:59:40.500000Z"},
}  # fmt: skip


def test_a_monitors_warning_about_a_node_is_a_signal() -> None:
    (told,) = signals(beat(events=(event(),)))
    assert (told.node, told.name, told.status) == ("node-2", "OOMKilling", "firing")
    (newer,) = signals(beat(events=(event(**NEWER_FORM),)))
    assert (newer.key, rfc3339(newer.starts_at)) == (told.key, "2026-11-29T02:59:40.500Z")


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param({"type": "Normal"}, id="routine"),
        pytest.param({"source": {"component": "kubelet"}}, id="of the kubelet"),
        pytest.param({"reason": ""}, id="without a reason"),
        pytest.param({"lastTimestamp": "yesterday"}, id="without a time"),
    ],
)
def test_other_events_are_not(changed: dict[str, Any]) -> None:
    assert signals(beat(events=(event(**changed),))) == []


texts = st.text(st.characters(codec=None), max_size=8)
times = st.sampled_from(
    ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "2026-11-29T03:00:00", SINCE]
)
json = st.recursive(
    st.none() | st.booleans() | st.integers() | texts | times,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize(
    "time",
    [
        "0001-01-01T00:00:00Z", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "1969-12-31",
        "1969-12-31T23:00:00Z", "2026-11-29T03:00:00", "soon", 7, None,
    ],
)  # fmt: skip
def test_a_time_that_is_none_is_not_taken(time: Any) -> None:
    (told,) = signals(beat(condition("Ready", "False") | {"lastTransitionTime": time}))
    assert rfc3339(told.starts_at) == "2026-11-01T00:00:00.000Z"
    assert signals(beat(events=(event(lastTimestamp=time),))) == []


def test_what_no_database_takes_is_left_out() -> None:
    (told,) = signals(beat(condition("A\0B", "True", "x\ud800", "\0\udfff")))
    assert (told.name, told.text) == ("AB", "x?\n?")


@given(json, json, json)
def test_no_shape_breaks_the_reading_and_the_master_takes_all_that_is_read(
    one: Any, other: Any, third: Any
) -> None:
    signals(beat(other, {"type": third, "status": "True", "lastTransitionTime": one, "message": other}))
    conditions_of({"metadata": one, "status": other})
    conditions_of({"metadata": {"creationTimestamp": one}, "status": {"conditions": third}})
    signals(beat(events=({**event(), "source": one, "lastTimestamp": other, "metadata": third},)))
    signals(beat(events=({**event(), "message": one, "reason": other, "eventTime": third},)))


def test_what_is_long_is_cut_and_what_is_many_is_bounded() -> None:
    long = condition("K" * 10_000, "True", "R" * 10_000, "M" * 10_000)
    many = [condition(f"Kind{n}", "True") for n in range(200)]
    (told,) = signals(beat(long))
    assert (len(told.name), len(told.text)) == (256, 256 + 1 + 2000)
    assert len(signals(beat(*many))) == 64
