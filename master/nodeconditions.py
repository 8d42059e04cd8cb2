"""What Kubernetes says of a node by its agent, as node signals: its conditions, and events about it. Pure.

Whoever may write a node's status, or events in the namespace `default`, is trusted: the kubelet, the
node-problem-detector, NVSentinel, a cloud's own monitor. By itself no pod's service account may.

Where the names are from: kubernetes/node-problem-detector (config/kernel-monitor.json), NVIDIA/NVSentinel
(its monitors' checks, messages `ErrorCode:79 …`), aws/eks-node-monitoring-agent (conditions `…Ready`, reasons
`NvidiaXID79Error`), kubernetes.io (node-status, node-pressure-eviction).
"""

import re
from collections.abc import Iterable

from master.nodesignals import CONDITION, EVENT, FIRING, KUBERNETES, Signal
from master.reports import NodeCondition, NodeEvent

# A condition says that all is well by True where its name ends in `Ready`, by False where it names a trouble.
_GOOD_IF_TRUE = re.compile(r"(?:Ready|Healthy|Available)$")
_ERRORS = frozenset(
    {
        "Ready", "NetworkUnavailable", "KernelDeadlock", "ReadonlyFilesystem", "XfsShutdown",
        "CperHardwareErrorFatal", "AcceleratedHardwareReady", "StorageReady", "KernelReady",
    }
)  # fmt: skip
_NVSENTINEL = re.compile(r"^(?:SysLogs\w+|Gpu\w+(?:Watch|Error))$")
_CODES = (
    re.compile(r"\bErrorCode:\s*(\d{1,3})\b"),  # NVSentinel's messages
    re.compile(r"\bNvidiaXID(\d{1,3})(?:Error|Warning)\b"),  # EKS's reasons
)
# Who watches kernels and devices; what else makes events about nodes (kubelet, scheduler) is routine.
_MONITORS = re.compile(r"monitor|detector|sentinel|health", re.IGNORECASE)


def of_conditions(pool: str, node: str, told: Iterable[NodeCondition]) -> list[Signal]:
    """A signal of each condition that names a trouble.

    What is unknown (nobody reports any more) is one for `Ready` only, by which Kubernetes itself tells that a
    kubelet is silent.
    """
    return [_of_condition(pool, node, one) for one in told if _is_trouble(one)]


def of_events(pool: str, node: str, told: Iterable[NodeEvent]) -> list[Signal]:
    """A signal of each monitor's warning.

    An event is over as soon as it is told, and nothing tells its end: it fires, and is forgotten in a day.
    """
    return [
        Signal(
            pool=pool, node=node, source=KUBERNETES, key=f"{EVENT}{node}/{one.component}/{one.reason}",
            name=one.reason, status=FIRING, severity="warning", text=one.message,
            labels={"component": one.component} | _codes(one), starts_at=one.at, ends_at=None,
        )
        for one in told
        if one.reason and _MONITORS.search(one.component)
    ]  # fmt: skip


def _is_trouble(one: NodeCondition) -> bool:
    if one.status == "Unknown":
        return one.type == "Ready"
    return (one.status == "True") != bool(_GOOD_IF_TRUE.search(one.type))


def _of_condition(pool: str, node: str, one: NodeCondition) -> Signal:
    is_error = one.type in _ERRORS or _NVSENTINEL.match(one.type) is not None
    return Signal(
        pool=pool, node=node, source=KUBERNETES, key=f"{CONDITION}{node}/{one.type}", name=one.type,
        status=FIRING, severity="error" if is_error else "warning",
        text="\n".join(part for part in (one.reason, one.message) if part),
        labels={"status": one.status} | ({"reason": one.reason} if one.reason else {}) | _codes(one),
        starts_at=one.since, ends_at=None,
    )  # fmt: skip


def _codes(one: NodeCondition | NodeEvent) -> dict[str, str]:
    """The Xids that it names in its sender's own form, as `nodesignals` reads them."""
    told = "\n".join((one.reason, one.message))
    found = dict.fromkeys(code for pattern in _CODES for code in pattern.findall(told))
    return {"xid": ",".join(found)} if found else {}
