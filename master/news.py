"""What the master tells people: its alerts, in the transaction that makes them true.

Telling may fail for reasons that lie with rules, channels or stored rows. It never takes back what it is
about: each alert has a savepoint of its own, and what cannot be told is kept and logged.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import structlog
from sqlalchemy import ColumnElement, select
from sqlalchemy.exc import InterfaceError, OperationalError
from sqlalchemy.orm import Session

from channels.base import Severity
from master.casefile import Action, FaultClass
from master.documents import event_document, job_facts
from master.faultargs import FaultTolerance
from master.hands import told
from master.model import FaultEventRow, Job, Node, Pod
from notifier.alerts import NewAlert, Published, publish
from notifier.ends import close, resolve
from notifier.items import ITEMS, most_severe, most_specific
from notifier.lasting import FIRING, RESOLVED
from notifier.model import Alert

SOURCE = "faultcast"
NOT_TOLD = "told nobody: an error of ours while it was told, see the server's log"
# True for a moment only, so they are open for none.
_ONE_SHOT = frozenset({"jobRunning", "jobSucceed"})
_LAST_WORDS = frozenset({"jobFailed", "jobGaveUp"})
DELETED, FAILED, STOPPED, SUCCEEDED = "deleted", "failed", "stopped", "succeeded"
ENDED = {
    DELETED: {"zh": "任务已删除", "en": "The job was deleted"},
    STOPPED: {"zh": "任务已停止", "en": "The job was stopped"},
    SUCCEEDED: {"zh": "任务已成功结束", "en": "The job has succeeded"},
}
NODE_GONE = {"zh": "该节点已不在资源池中", "en": "The pool has this node no more"}
POD_GONE = {"zh": "Pod 已结束，Agent 随之退出", "en": "The pod has ended, and its agent with it"}
_STANDS_STILL = frozenset({FaultClass.HANG, FaultClass.HEARTBEAT_LOST})


log = structlog.get_logger()


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
    title = f"{job.name}: training goes on from step {event.step or 0} in run {job.run}"
    _resolve(session, Alert.event_id == event.id, title, lambda: _context(job, event), now)


def tell_state(session: Session, job: Job, item: str, now: datetime) -> None:
    """`jobRunning`, `jobSucceed` or `jobFailed` without an incident."""
    words = {"jobRunning": "runs", "jobSucceed": "succeeded", "jobFailed": "failed"}[item]
    reason = f": {job.reason}" if job.reason else ""
    title = f"{job.name} {words}{reason}"
    _tell(session, job, now, items=(item,), severity=ITEMS[item].severity, title=title)


def close_all(session: Session, job_id: str, end: str, now: datetime) -> None:
    """The job has ended: what was told of it is no open matter any more, but that it failed, unless it is
    deleted. Whoever was told hears of it, but where it has failed: that is told, and is no good news."""
    for alert in _open(session, Alert.job_id == job_id):
        if end != DELETED and _LAST_WORDS.intersection(alert.items):
            continue
        if end == FAILED:
            close(session, alert, now)
        else:
            _resolve(session, Alert.id == alert.id, "", dict, now, ENDED[end])


def close_agent_lost(session: Session, pod: Pod, now: datetime) -> None:
    """The pod is gone, and its agent with it."""
    _resolve(session, Alert.dedup_key == _agent_key(pod), "", dict, now, POD_GONE)


def tell_agent_lost(session: Session, job: Job, pod: Pod, why: str, now: datetime) -> None:
    """The pod lives, its agent does not speak: the job is left alone."""
    _tell(
        session, job, now, items=("agentLost",), severity=ITEMS["agentLost"].severity,
        title=f"{job.name}: the agent of {pod.name} on {pod.node} is lost ({why}); training is not touched",
        text=why, dedup_key=_agent_key(pod), labels={"pod": pod.name, "node": pod.node},
    )  # fmt: skip


def tell_agent_back(session: Session, job: Job, pod: Pod, now: datetime) -> None:
    title = f"{job.name}: the agent of {pod.name} speaks again"
    _resolve(session, Alert.dedup_key == _agent_key(pod), title, lambda: _context(job), now)


def tell_isolated(session: Session, node: Node, now: datetime) -> None:
    """A node taken out of scheduling by hand or by a signal, outside of any job."""
    _publish(
        session,
        NewAlert(
            pool=node.pool, source=SOURCE, item="nodeFT", items=("nodeFT",), severity=Severity.ERROR,
            title=f"node {node.name} is isolated: {node.reason}", text=node.reason,
            labels={"node": node.name}, dedup_key=_node_key(node.name),
        ),
        now,
    )  # fmt: skip


def tell_restored(session: Session, node: Node, now: datetime) -> None:
    _resolve(session, Alert.dedup_key == _node_key(node.name), f"node {node.name} is back", dict, now)


def close_node(session: Session, name: str, now: datetime) -> None:
    """The pool has that node no more."""
    _resolve(session, Alert.dedup_key == _node_key(name), "", dict, now, NODE_GONE)


def _tell(session: Session, job: Job, now: datetime, *, items: tuple[str, ...], **more: Any) -> None:
    event: FaultEventRow | None = more.pop("event", None)
    labels = {**job.spec.get("labels", {}), **more.pop("labels", {})}
    new = NewAlert(
        pool=job.pool, queue=job.queue, source=SOURCE, item=most_specific(items), items=items, labels=labels,
        context=_context(job, event), job_id=job.id, job_name=job.name,
        event_id=event.id if event else None, **more,
    )  # fmt: skip
    alert_id = _publish(session, new, now)
    if alert_id is not None and _ONE_SHOT.issuperset(items):
        alert = session.get_one(Alert, alert_id)
        alert.status, alert.resolved_at = RESOLVED, now


def _context(job: Job, event: FaultEventRow | None = None) -> Mapping[str, Any]:
    return {"job": job_facts(job), "event": event_document(event) if event else None}


def _publish(session: Session, new: NewAlert, now: datetime) -> str | None:
    """The alert's id; what its rules cannot decide is kept all the same, told to nobody."""
    published = _tried(session, lambda: publish(session, new, now))
    if published is None:
        published = _tried(session, lambda: publish(session, replace(new, channels=()), now))
        if published is not None:
            session.get_one(Alert, published.alert_id).why = NOT_TOLD
    return None if published is None else published.alert_id


def _resolve(
    session: Session,
    which: ColumnElement[bool],
    title: str,
    context: Callable[[], Mapping[str, Any]],
    now: datetime,
    ended: Mapping[str, str] | None = None,
) -> None:
    """Tell whoever was told that it is over; if that cannot be told, it is over nevertheless."""
    for alert_id in [alert.id for alert in _open(session, which)]:

        def tell(alert_id: str = alert_id) -> Published:
            return resolve(session, alert_id=alert_id, now=now, title=title, context=context(), ended=ended)

        if _tried(session, tell) is None:
            close(session, session.get_one(Alert, alert_id, populate_existing=True), now)


def _tried(session: Session, tell: Callable[[], Published]) -> Published | None:
    """What came of it; None if it failed, and then nothing of it was written.

    A border: a database that is away fails the whole transaction, which is tried again; anything else
    would fail again for ever.
    """
    try:
        with session.begin_nested():
            published = tell()
    except (OperationalError, InterfaceError):
        raise
    except BaseException:
        log.exception("not_told")
        return None
    told(session, [published])
    return published


def _agent_key(pod: Pod) -> str:
    return f"agent-lost:{pod.id}"


def _node_key(name: str) -> str:
    return f"node-isolated:{name}"


def _open(session: Session, which: ColumnElement[bool]) -> Sequence[Alert]:
    ours = (Alert.source == SOURCE, Alert.token_id == "", Alert.status == FIRING)
    rows = select(Alert).where(*ours, which).order_by(Alert.id).with_for_update()
    return session.scalars(rows.execution_options(populate_existing=True)).all()
