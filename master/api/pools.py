"""`/pools`, `/nodes`: the resource pool, its queues and data sources, its nodes and their isolation."""

import hashlib
import re
from collections.abc import Callable, Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Response
from pydantic import Field, model_validator
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from master import news, nodesignals, pools
from master.api.deps import Mastered, Name, own_node, own_pool
from master.documents import node_document
from master.hands import rung
from master.model import DataSource, Node, Pool, Queue
from notifier.api.deps import Asked, IfMatch, Operator, Reader, Served, Services, check_match, etag
from notifier.api.openapi import PREFIX
from notifier.auth import Principal
from notifier.clock import utcnow
from notifier.documents import Body, Flag, Real, matching
from notifier.pages import Ask, cursor_of, unknown_cursor
from notifier.problems import Problem, invalid
from notifier.storage import insert_new

router = APIRouter(prefix=PREFIX, tags=["pools"])
PART = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$"
PART_MEND = "give 1 to 63 of A-Z, a-z, 0-9, '.', '_', '-', first a letter or digit"
WHOLE_POOL = "a token of one queue may not change its pool: take one of the whole pool"


class PoolChange(Body):
    """What is not given stays."""

    fault_isolation: Flag | None = Field(default=None, description="isolate faulty nodes by itself")
    isolation_cap: Annotated[Real, Field(ge=0, le=1)] | None = Field(
        default=None, description="largest share of the nodes that may be isolated at once"
    )

    @model_validator(mode="after")
    def _something(self) -> "PoolChange":
        if self.fault_isolation is None and self.isolation_cap is None:
            raise ValueError("nothing to change: give fault_isolation or isolation_cap")
        return self


class DataSourceBody(Body):
    type: Annotated[str, *matching(PART, PART_MEND)]


class Reason(Body):
    reason: Annotated[str, Field(max_length=500)] = ""


@router.get("/pools/{pool_id}")
def get_pool(pool_id: Name, principal: Reader, services: Served, response: Response) -> dict[str, Any]:
    with services.store.read() as session:
        pool = own_pool(session, principal, pool_id)
        response.headers["ETag"] = etag(pool.version)
        return _pool_document(session, pool)


@router.patch("/pools/{pool_id}")
def change_pool(
    pool_id: Name,
    body: PoolChange,
    principal: Operator,
    services: Served,
    response: Response,
    if_match: IfMatch = None,
) -> dict[str, Any]:
    with services.store.write() as session:
        pool = _changeable(session, principal, pool_id)
        check_match(if_match, pool.version)
        if body.fault_isolation is not None:
            pool.fault_isolation = body.fault_isolation
        if body.isolation_cap is not None:
            pool.isolation_cap = body.isolation_cap
        pool.version += 1
        session.flush()
        response.headers["ETag"] = etag(pool.version)
        return _pool_document(session, pool)


@router.put("/pools/{pool_id}/queues/{name}")
def put_queue(pool_id: Name, name: Name, principal: Operator, services: Served) -> dict[str, str]:
    with services.store.write() as session:
        _changeable(session, principal, pool_id)
        insert_new(session, Queue, {"pool": pool_id, "name": _part("queue", name)})
    return {"pool": pool_id, "name": name}


@router.delete("/pools/{pool_id}/queues/{name}", status_code=204)
def delete_queue(pool_id: Name, name: Name, principal: Operator, services: Served) -> Response:
    with services.store.write() as session:
        _changeable(session, principal, pool_id)
        pools.remove_queue(session, pool_id, name)
    return Response(status_code=204)


@router.put("/pools/{pool_id}/datasources/{name}")
def put_datasource(
    pool_id: Name, name: Name, body: DataSourceBody, principal: Operator, services: Served
) -> dict[str, str]:
    with services.store.write() as session:
        _changeable(session, principal, pool_id)
        row = {"pool": pool_id, "name": _part("data source", name), "type": body.type}
        if not insert_new(session, DataSource, row):
            session.get_one(DataSource, (pool_id, name)).type = body.type
    return {"pool": pool_id, "name": name, "type": body.type}


@router.delete("/pools/{pool_id}/datasources/{name}", status_code=204)
def delete_datasource(pool_id: Name, name: Name, principal: Operator, services: Served) -> Response:
    with services.store.write() as session:
        _changeable(session, principal, pool_id)
        pools.remove_datasource(session, pool_id, name)
    return Response(status_code=204)


@router.get("/nodes")
def list_nodes(principal: Reader, services: Served, ask: Asked) -> dict[str, Any]:
    """By name."""
    rows = select(Node)
    if principal.pool is not None:
        rows = rows.where(Node.pool == principal.pool)
    with services.store.read() as session:
        known = sorted(session.scalars(rows), key=lambda node: (node.pool, len(node.name), node.name))
        nodes, following = _stretch(known, ask)
        said = nodesignals.open_signals(session, [node.name for node in nodes], utcnow())
        items = [node_document(node, said.get(node.name, ())) for node in nodes]
        return {"items": items, "next_cursor": following}


def _stretch(nodes: Sequence[Node], ask: Ask) -> tuple[Sequence[Node], str | None]:
    """One page, and where the next one begins."""
    begin = 0
    if ask.cursor is not None:
        found = (n for n, node in enumerate(nodes, 1) if _cursor_at(node) == ask.cursor)
        begin = next(found, 0)
        if not begin:
            raise unknown_cursor()
    end = begin + ask.limit
    return nodes[begin:end], _cursor_at(nodes[end - 1]) if end < len(nodes) else None


def _cursor_at(node: Node) -> str:
    """Short, however long the name is."""
    return cursor_of(hashlib.sha256(node.name.encode()).hexdigest()[:32], Node.__tablename__)


@router.post("/nodes/{name}/isolate")
def isolate(
    name: Name, principal: Operator, services: Served, controller: Mastered, body: Reason | None = None
) -> dict[str, Any]:
    """Takes the node out of scheduling; pods that run there go on."""
    reason = (body.reason if body else "") or f"isolated by {principal.name}"

    def change(session: Session, node: Node) -> None:
        now = utcnow()
        if pools.isolate(session, name, reason, now):
            news.tell_isolated(session, node, now)

    return _change_node(name, principal, services, controller, change)


@router.post("/nodes/{name}/restore")
def restore(name: Name, principal: Operator, services: Served, controller: Mastered) -> dict[str, Any]:
    """Gives the node back to scheduling."""

    def change(session: Session, node: Node) -> None:
        if pools.restore(session, name):
            news.tell_restored(session, node, utcnow())

    return _change_node(name, principal, services, controller, change)


def _change_node(
    name: str,
    principal: Principal,
    services: Services,
    controller: Mastered,
    change: Callable[[Session, Node], None],
) -> dict[str, Any]:
    with rung(services.store, services.bell) as session:
        node = own_node(session, principal, name, lock=True)
        if principal.queue is not None:
            raise Problem(403, detail=WHOLE_POOL)
        change(session, node)
        session.flush()
        said = nodesignals.open_signals(session, [name], utcnow())
        document = node_document(node, said.get(name, ()))
    controller.wake()
    return document


def _changeable(session: Session, principal: Principal, pool_id: str) -> Pool:
    pool = own_pool(session, principal, pool_id, lock=True)
    if principal.queue is not None:
        raise Problem(403, detail=WHOLE_POOL)
    return pool


def _part(what: str, name: str) -> str:
    if not re.fullmatch(PART, name):
        raise invalid("name", f"{what}: {PART_MEND}")
    return name


def _pool_document(session: Session, pool: Pool) -> dict[str, Any]:
    states = session.execute(
        select(Node.status, func.count()).where(Node.pool == pool.id).group_by(Node.status)
    )
    sources = session.scalars(select(DataSource).where(DataSource.pool == pool.id).order_by(DataSource.name))
    return {
        "id": pool.id,
        "fault_isolation": pool.fault_isolation,
        "isolation_cap": pool.isolation_cap,
        "nodes": dict(states.all()),
        "queues": list(session.scalars(select(Queue.name).where(Queue.pool == pool.id).order_by(Queue.name))),
        "datasources": [{"name": source.name, "type": source.type} for source in sources],
    }
