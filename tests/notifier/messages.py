"""Alerts as the master publishes them, for the tests of messages."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from channels.registry import ADAPTERS
from notifier.items import ITEMS
from notifier.rendering import AlertView, Rendered

AT = datetime(2026, 9, 4, 6, 14, 15, tzinfo=UTC)
SHANGHAI = "Asia/Shanghai"
PUBLIC = "https://fc.example"
JOB: dict[str, Any] = {"id": "job_1", "name": "llm-70b-pretrain", "run": 1, "status": "Restarting"}
EVENT: dict[str, Any] = {
    "id": "evt_1",
    "time": "2026-09-04T06:14:12.100Z",
    "fault_class": "error_log",
    "cause": "gpu_hardware",
    "reason": {
        "zh": "rank 11（node-2）的 GPU 出现硬件故障（Xid 79：GPU 掉卡）",
        "en": "A GPU of rank 11 (node-2) failed (Xid 79: fallen off the bus)",
    },
    "advice": {
        "zh": "将该节点移出调度，检查或复位 GPU 后再恢复",
        "en": "Keep the node out of scheduling until its GPU has been checked or reset",
    },
    "culprit": {"rank": 11, "pod": "worker-1", "node": "node-2"},
    "step": 184220,
    "decision": {
        "action": "restart_job",
        "isolate_nodes": ["node-2"],
        "restart_no": 2,
        "budget_left": 8,
        "why": {
            "zh": "首次出现此故障；隔离节点 node-2",
            "en": "the first fault of this kind; node node-2 is isolated",
        },
    },
    "evidence": [
        {
            "rank": None, "node": "node-2", "source": "node",
            "text": "NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.",
        },
        {"rank": 11, "node": "node-2", "source": "agent", "text": "torch.AcceleratorError: CUDA error"},
    ],
}  # fmt: skip
# Kinds that tell all there is, and those that tell the gist.
FULL = tuple(kind for kind in ADAPTERS if ADAPTERS[kind].format not in ("sms", "speech"))
SHORT = tuple(kind for kind in ADAPTERS if kind not in FULL)
LABELS = {
    "agentLost": {"pod": "worker-1", "node": "node-2"},
    "nodeFT": {"node": "node-2"},
    "channelFailing": {"channel": "oncall", "kind": "dingtalk"},
}


def incident(item: str = "jobFT", **changes: Any) -> AlertView:
    """An alert of a fault, with all that is known of it."""
    full = AlertView(
        "dlv_1", "alr_1", item, (), ITEMS[item].severity, "firing", "", "", AT, scope="default/research",
        labels={"team": "nlp"}, job=JOB, event=EVENT, thread="alr_1",
    )  # fmt: skip
    return replace(full, **changes)


def recovery(**changes: Any) -> AlertView:
    event = {**EVENT, "downtime_s": 97.4, "steps_lost": 41}
    return incident(
        "jobRecovered",
        status="resolved",
        severity="info",
        resolved_at=AT.replace(minute=16),
        event=event,
        **changes,
    )


def news(item: str, **changes: Any) -> AlertView:
    """An alert without a fault, as the master or the notifier raises it."""
    job = None if item in ("nodeFT", "channelFailing") else JOB
    told = incident(item, event=None, job=job, labels=LABELS.get(item, {}))
    return replace(told, **changes)


def bare(item: str = "custom", **changes: Any) -> AlertView:
    """As little as an alert can have."""
    return replace(AlertView("dlv_1", None, item, (), "error", "firing", "", "", AT), **changes)


def bodies(rendered: Rendered) -> list[str]:
    message = rendered.message
    return [text for text in (message.text, message.plain, message.html) if text is not None]
