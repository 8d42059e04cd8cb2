"""The pool's own rows: queues, data sources, nodes and their isolation. Routes and controller call these."""

from collections.abc import Iterable
from datetime import datetime

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from master.casefile import PoolView
from master.model import DataSource, Job, Node, Pool, Queue
from master.poolfit import HOSTPATH, PoolFacts
from notifier.problems import conflict, not_found
from notifier.storage import insert_new

DEFAULT = "default"
READY, ISOLATED = "ready", "isolated"
LIVE = ("Created", "Starting", "Running", "Abnormal", "Restarting", "Stopping")


def bootstrap(session: Session, nodes: Iterable[str]) -> set[str]:
    """What a fresh server has: pool and queue `default`, type `hostpath`, the runtime's nodes. Answers the
    nodes that are no more."""
    insert_new(session, Pool, {"id": DEFAULT, "fault_isolation": True, "isolation_cap": 0.34, "version": 1})
    insert_new(session, Queue, {"pool": DEFAULT, "name": DEFAULT})
    insert_new(session, DataSource, {"pool": DEFAULT, "name": HOSTPATH, "type": HOSTPATH})
    known = set(session.scalars(select(Node.name)))
    wanted = set(nodes)
    for name in wanted - known:
        session.add(Node(name=name, pool=DEFAULT, status=READY, reason=""))
    gone = delete(Node).where(Node.pool == DEFAULT, Node.name.in_(known - wanted)).returning(Node.name)
    return set(session.scalars(gone))


def facts(session: Session, pool: str, runtime: str, *, lock: bool = False) -> PoolFacts:
    """What admission needs. A pool that does not exist is a 404 Problem. `lock`: until the job is written."""
    row = session.get(Pool, pool, with_for_update=lock)
    if row is None:
        raise not_found("pool", pool)
    queues = session.scalars(select(Queue.name).where(Queue.pool == pool))
    sources = session.scalars(select(DataSource).where(DataSource.pool == pool))
    known = frozenset((source.type, source.name) for source in sources)
    return PoolFacts(pool, runtime, row.fault_isolation, frozenset(queues), known)


def view(session: Session, pool: str) -> PoolView:
    """What a decision needs."""
    row = session.get_one(Pool, pool)
    nodes = session.scalars(select(Node).where(Node.pool == pool)).all()
    isolated = frozenset(node.name for node in nodes if node.status == ISOLATED)
    return PoolView(row.fault_isolation, row.isolation_cap, len(nodes), isolated)


def ready_nodes(session: Session, pool: str) -> list[str]:
    """In their natural order: node-2 before node-10."""
    names = session.scalars(select(Node.name).where(Node.pool == pool, Node.status == READY))
    return sorted(names, key=lambda name: (len(name), name))


def isolate(session: Session, name: str, reason: str, now: datetime) -> bool:
    """Take the node out of scheduling; whether that is news. Pods that run there go on."""
    node = session.get(Node, name, with_for_update=True)
    if node is None or node.status == ISOLATED:
        return False
    node.status, node.reason, node.isolated_at = ISOLATED, reason, now
    return True


def restore(session: Session, name: str) -> bool:
    """Put the node back into scheduling; whether that is news."""
    node = session.get(Node, name, with_for_update=True)
    if node is None or node.status == READY:
        return False
    node.status, node.reason, node.isolated_at = READY, "", None
    return True


def remove_queue(session: Session, pool: str, name: str) -> None:
    """A queue in use stays: its jobs would belong nowhere."""
    row = session.get(Queue, (pool, name))
    if row is None:
        raise not_found("queue", name)
    used = select(Job.id).where(Job.pool == pool, Job.queue == name, Job.status.in_(LIVE)).limit(1)
    if (job := session.scalar(used)) is not None:
        raise conflict(f"job {job} of queue {name} is not finished; stop it or let it end first")
    session.delete(row)


def remove_datasource(session: Session, pool: str, name: str) -> None:
    row = session.get(DataSource, (pool, name))
    if row is None:
        raise not_found("data source", name)
    session.delete(row)
