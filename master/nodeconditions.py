"""What Kubernetes says of a node, as node signals: its conditions, and events about it. Pure.

Whoever may write a node's status, or events in the namespace `default`, is trusted: the kubelet, the
node-problem-detector, NVSentinel, a cloud's own monitor. By itself no pod's service account may.

Where the names are from: kubernetes/node-problem-detector (config/kernel-monitor.json), NVIDIA/NVSentinel
(its monitors' checks, messages `ErrorCode:79 …`), aws/eks-node-monitoring-agent (conditions `…Ready`, reasons
`NvidiaXID79Error`), kubernetes.io (node-status, node-pressure-eviction).
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from agent.signatures import signature
from master.nodesignals import FIRING, KUBERNETES, RESOLVED, Signal

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
_WARNING = "Warning"
_MAX_WORD = 256


def of_conditions(pool: str, node: Mapping[str, Any], now: datetime) -> list[Signal]:
    """A signal of each condition of a `v1.Node`: firing where it names a trouble, else resolved.

    What is unknown (nobody reports any more) fires for `Ready` only, by which Kubernetes itself tells that a
    kubelet is silent. Shapes that are none of Kubernetes' are left out.
    """
    name = _text(_map(node.get("metadata")).get("name"))
    told = _map(node.get("status")).get("conditions")
    if not name or not isinstance(told, list):
        return []
    return [
        signal for one in told if isinstance(one, Mapping) if (signal := _of_condition(pool, name, one, now))
    ]


def of_event(pool: str, event: Mapping[str, Any], now: datetime) -> Signal | None:
    """The signal in a `v1.Event`, if it is a monitor's warning about a node.

    An event is over as soon as it is told, and nothing tells its end: it fires, and is forgotten in a day.
    """
    about = _map(event.get("involvedObject"))
    namespace = _text(_map(event.get("metadata")).get("namespace"))
    component = _text(_map(event.get("source")).get("component")) or _text(event.get("reportingComponent"))
    node, reason = _text(about.get("name")), _text(event.get("reason"))
    # The API server lets events about what has no namespace be made in `default` alone.
    if about.get("kind") != "Node" or namespace != "default" or not node or not reason:
        return None
    if event.get("type") != _WARNING or not _MONITORS.search(component):
        return None
    at = _moment(event.get("lastTimestamp")) or _moment(event.get("eventTime")) or now
    return Signal(
        pool=pool,
        node=node,
        source=KUBERNETES,
        key=f"event/{node}/{component}/{reason}",
        name=reason,
        status=FIRING,
        severity="warning",
        text=_text(event.get("message"), long=True),
        labels={"component": component} | _codes(reason, _text(event.get("message"), long=True)),
        starts_at=min(at, now),
        ends_at=None,
    )


def of_events(pool: str, events: Sequence[Mapping[str, Any]], now: datetime) -> Iterator[Signal]:
    """Those of many, in their order."""
    return (signal for event in events if (signal := of_event(pool, event, now)) is not None)


def _of_condition(pool: str, node: str, one: Mapping[str, Any], now: datetime) -> Signal | None:
    kind, status = _text(one.get("type")), _text(one.get("status"))
    if not kind or status not in {"True", "False", "Unknown"}:
        return None
    good = "True" if _GOOD_IF_TRUE.search(kind) else "False"
    fires = status not in (good, "Unknown") or (status == "Unknown" and kind == "Ready")
    reason, message = _text(one.get("reason")), _text(one.get("message"), long=True)
    at = min(_moment(one.get("lastTransitionTime")) or now, now)
    is_error = kind in _ERRORS or _NVSENTINEL.match(kind) is not None
    return Signal(
        pool=pool,
        node=node,
        source=KUBERNETES,
        key=f"condition/{node}/{kind}",
        name=kind,
        status=FIRING if fires else RESOLVED,
        severity="error" if is_error else "warning",
        text="\n".join(part for part in (reason, message) if part),
        labels={"status": status} | ({"reason": reason} if reason else {}) | _codes(reason, message),
        starts_at=at,
        ends_at=None if fires else at,
    )


def _codes(reason: str, message: str) -> dict[str, str]:
    """The Xid that it names in its sender's own form, as `nodesignals` reads it.

    Of several the first that is a fault of the hardware.
    """
    found = [code for text in (reason, message) for pattern in _CODES for code in pattern.findall(text)]
    hard = [code for code in found if (known := signature(f"xid.{code}")) is not None and known.hardware]
    return {"xid": (hard or found)[0]} if found else {}


def _map(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _text(value: object, *, long: bool = False) -> str:
    """A text of Kubernetes', bounded."""
    return value[: 2000 if long else _MAX_WORD] if isinstance(value, str) else ""


def _moment(value: object) -> datetime | None:
    if not isinstance(value, str):
        return None
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        return None
    return moment.astimezone(UTC) if moment.tzinfo is not None else None
