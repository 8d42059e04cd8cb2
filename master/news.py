"""What the master tells people: its alerts, in the transaction that makes them true."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from channels.base import Severity
from master.casefile import Action, FaultClass
from master.documents import event_document, job_facts
from master.faultargs import FaultTolerance
from master.hands import told
from master.model import FaultEventRow, Job, Node, Pod
from notifier.alerts import NewAlert, publish, resolve
from notifier.items import ITEMS, most_severe, most_specific
from notifier.model import Alert

SOURCE = "faultcast"
_STANDS_STILL = frozenset({FaultClass.HANG, FaultClass.HEARTBEAT_LOST})


def items_of(event: FaultEventRow, *, tolerant: bool) -> tuple[str, ...]:
    """Every item of the incident."""
    action = Action(event.decision["action"])
    items = ["jobHang"] if FaultClass(event.fault_class) in _STANDS_STILL else []
    if action is Action.FAIL_JOB:
        items += ["jobGaveUp", "jobFailed"] if tolerant else ["jobFailed"]
    elif action is not Action.NONE:
        items.append("jobFT")
    if event.hardware and event.culprit.get("node"):
        items.append("nodeFT")
    return tuple(items or ["jobFT"])


def tell_fault(session: Session, job: Job, event: FaultEventRow, now: datetime) -> None:
    """One alert for the whole incident."""
    items = items_of(event, tolerant=FaultTolerance.of(job.fault_tolerance).enabled)
    severities = [ITEMS[item].severity for item in items]
    if event.decision["isolate_nodes"]:
        severities.append(Severity.ERROR)
    _tell(
        session,
        job,
        now,
        items=items,
        severity=most_severe(severities),
        title=f"{job.name}: {event.reason['en']}",
        event=event,
    )


def tell_recovered(session: Session, job: Job, event: FaultEventRow, now: datetime) -> None:
    """The resolve message of the incident."""
    published = resolve(
        session,
        event_id=event.id,
        now=now,
        title=f"{job.name}: training goes on from step {event.step or 0} in run {job.run}",
        context=_context(job, event),
    )
    told(session, [published])


def tell_state(session: Session, job: Job, item: str, now: datetime) -> None:
    """`jobRunning`, `jobSucceed` or `jobFailed` without an incident."""
    words = {"jobRunning": "runs", "jobSucceed": "succeeded", "jobFailed": "failed"}[item]
    reason = f": {job.reason}" if job.reason else ""
    title = f"{job.name} {words}{reason}"
    _tell(session, job, now, items=(item,), severity=ITEMS[item].severity, title=title)


def tell_agent_lost(session: Session, job: Job, pod: Pod, why: str, now: datetime) -> None:
    """The pod lives, its agent does not speak: the job is left alone."""
    _tell(
        session, job, now, items=("agentLost",), severity=ITEMS["agentLost"].severity,
        title=f"{job.name}: the agent of {pod.name} on {pod.node} is lost ({why}); training is not touched",
        text=why, dedup_key=_agent_key(pod), labels={"pod": pod.name, "node": pod.node},
    )  # fmt: skip


def tell_agent_back(session: Session, job: Job, pod: Pod, now: datetime) -> None:
    title = f"{job.name}: the agent of {pod.name} speaks again"
    _resolve_by_key(session, _agent_key(pod), title, _context(job), now)


def tell_isolated(session: Session, node: Node, now: datetime) -> None:
    """A node taken out of scheduling by hand or by a signal, outside of any job."""
    published = publish(
        session,
        NewAlert(
            pool=node.pool, source=SOURCE, item="nodeFT", items=("nodeFT",), severity=Severity.ERROR,
            title=f"node {node.name} is isolated: {node.reason}", text=node.reason,
            labels={"node": node.name}, dedup_key=_node_key(node.name),
        ),
        now,
    )  # fmt: skip
    told(session, [published])


def tell_restored(session: Session, node: Node, now: datetime) -> None:
    _resolve_by_key(session, _node_key(node.name), f"node {node.name} is back", {}, now)


def _tell(session: Session, job: Job, now: datetime, *, items: tuple[str, ...], **more: Any) -> None:
    event: FaultEventRow | None = more.pop("event", None)
    labels = {**job.spec.get("labels", {}), **more.pop("labels", {})}
    new = NewAlert(
        pool=job.pool, queue=job.queue, source=SOURCE, item=most_specific(items), items=items, labels=labels,
        context=_context(job, event), job_id=job.id, job_name=job.name,
        event_id=event.id if event else None, **more,
    )  # fmt: skip
    told(session, [publish(session, new, now)])


def _context(job: Job, event: FaultEventRow | None = None) -> Mapping[str, Any]:
    return {"job": job_facts(job), "event": event_document(event) if event else None}


def _resolve_by_key(
    session: Session, key: str, title: str, context: Mapping[str, Any], now: datetime
) -> None:
    rows = select(Alert.id).where(
        Alert.source == SOURCE, Alert.token_id == "", Alert.dedup_key == key, Alert.status == "firing"
    )
    for alert_id in session.scalars(rows).all():
        told(session, [resolve(session, alert_id=alert_id, now=now, title=title, context=context)])


def _agent_key(pod: Pod) -> str:
    return f"agent-lost:{pod.id}"


def _node_key(name: str) -> str:
    return f"node-isolated:{name}"
