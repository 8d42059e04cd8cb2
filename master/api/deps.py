"""What the master's routes are given besides the notifier's: the controller, one's own jobs, a language."""

from typing import Annotated, Literal

from fastapi import Depends, Path, Query, Request
from sqlalchemy.orm import Session

from master.controller import Controller
from master.model import Job, Node, Pool
from notifier.api.deps import Services, allow
from notifier.auth import Principal, Role
from notifier.problems import not_found


async def _controller(request: Request) -> Controller:
    controller: Controller = request.app.state.controller
    return controller


Mastered = Annotated[Controller, Depends(_controller)]
AgentToken = Annotated[Principal, Depends(allow(Role.AGENT))]
JobId = Annotated[str, Path(examples=["job_01jdvw0c3k0000000000000000"])]
Name = Annotated[str, Path()]
Language = Annotated[
    Literal["zh", "en"] | None, Query(description="of sentences; the server's own if not given")
]


def own_job(session: Session, principal: Principal, job_id: str, *, lock: bool = False) -> Job:
    """The job, if it lies within the token's scope; otherwise there is none."""
    job = session.get(Job, job_id, with_for_update=lock)
    if job is None or job.delete_requested or not principal.covers(job.pool, job.queue):
        raise not_found("job", job_id)
    return job


def own_pool(session: Session, principal: Principal, pool_id: str, *, lock: bool = False) -> Pool:
    """The pool; a token of one queue sees it too, but may change nothing of it."""
    pool = session.get(Pool, pool_id, with_for_update=lock)
    if pool is None or principal.pool not in {None, pool_id}:
        raise not_found("pool", pool_id)
    return pool


def own_node(session: Session, principal: Principal, name: str, *, lock: bool = False) -> Node:
    node = session.get(Node, name, with_for_update=lock)
    if node is None or principal.pool not in {None, node.pool}:
        raise not_found("node", name)
    return node


def language_of(services: Services, asked: str | None) -> str:
    return asked or services.settings.language
