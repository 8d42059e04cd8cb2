"""Alerts to try templates on: of each item one of which all is known, and one of which next to nothing is."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from notifier.facts import Facts
from notifier.forms import Border, told
from notifier.gathering import gathered
from notifier.items import ITEMS
from notifier.wording import RESOLVED, AlertView, speaker

DIGEST = "digest"
AT = datetime(2026, 9, 4, 6, 14, 15, tzinfo=UTC)
ZONE = "Asia/Shanghai"
URL = "https://faultcast.example.com"
BY_LABELS = {
    "agentLost": {"pod": "worker-1", "node": "node-2"},
    "nodeFT": {"node": "node-2"},
    "channelFailing": {"channel": "oncall-ding", "kind": "dingtalk"},
    "custom": {"team": "nlp"},
}
WITHOUT_EVENT = ("jobRunning", "jobSucceed", "agentLost", "channelFailing", "custom")
EVENT: dict[str, Any] = {
    "id": "evt_01k4a0000000000000000000aa",
    "time": "2026-09-04T06:14:12.100Z",
    "run": 1,
    "fault_class": "error_log",
    "cause": "gpu_hardware",
    "reason": {"zh": "rank 11 的 GPU 出现硬件故障（Xid 79）", "en": "A GPU of rank 11 failed (Xid 79)"},
    "advice": {"zh": "检查或复位该 GPU", "en": "Check or reset the GPU"},
    "culprit": {"rank": 11, "pod": "worker-1", "node": "node-2"},
    "step": 184220,
    "decision": {
        "action": "restart_job",
        "isolate_nodes": ["node-2"],
        "restart_no": 2,
        "budget_left": 8,
        "why": {"zh": "首次出现此故障", "en": "the first fault of this kind"},
    },
    "evidence": [
        {"rank": None, "node": "node-2", "source": "node", "text": "NVRM: Xid (PCI:0000:3b:00): 79"},
    ],
    "downtime_s": 97.4,
    "steps_lost": 41,
}


def sample(item: str, language: str) -> AlertView:
    """An alert of that item (of a digest: one that it tells), as a user would get it."""
    if item == DIGEST:
        item = "jobFT"
    is_over = item == "jobRecovered"
    return AlertView(
        delivery_id="dlv_01k4a0000000000000000000bb",
        alert_id="alr_01k4a0000000000000000000cc",
        item=item,
        items=(),
        severity=ITEMS[item].severity,
        status=RESOLVED if is_over else "firing",
        title={"zh": "磁盘将满", "en": "disk almost full"}[language] if item == "custom" else "",
        text="/dev/sda1 97%\n/dev/sdb1 95%" if item == "custom" else "",
        created_at=AT,
        scope="default/research",
        resolved_at=AT.replace(minute=16) if is_over else None,
        labels=BY_LABELS.get(item, {}),
        job=None
        if item in ("nodeFT", "channelFailing")
        else {"id": "job_1", "name": "llm-70b-pretrain", "run": 1},
        event=None if item in WITHOUT_EVENT else EVENT,
    )


def sample_facts(item: str, language: str) -> Iterator[Facts]:
    """What templates are tried on: all that is known, next to nothing, and the end of it."""
    say = speaker(language, ZONE, URL)
    full = sample(item, language)
    bare = replace(full, labels={}, job=None, event=None, text="", title="")
    for view in (full, bare, replace(full, status=RESOLVED, resolved_at=AT)):
        facts = told(view, say, Border())
        if item == DIGEST:
            facts |= {"count": 2, "intro": "", "alerts": gathered([facts, facts], say)}
        yield facts
