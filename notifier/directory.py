"""What the notifier asks of whoever keeps jobs and pools. On its own it knows none and believes all names."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from sqlalchemy.orm import Session

from notifier.documents import split_scope
from notifier.problems import invalid


@dataclass(frozen=True)
class KnownJob:
    """A job as alerts need it; `facts` as the templates see it."""

    id: str
    name: str
    pool: str
    queue: str
    labels: Mapping[str, str] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)


class Directory(Protocol):
    def job(self, session: Session, job_id: str) -> KnownJob | None:
        """The job, or None."""
        ...

    def has_scope(self, session: Session, pool: str, queue: str) -> bool:
        """Whether that pool (and queue, unless "") exists."""
        ...


class Standalone:
    """Without a master."""

    def job(self, session: Session, job_id: str) -> KnownJob | None:  # noqa: ARG002
        return None

    def has_scope(self, session: Session, pool: str, queue: str) -> bool:  # noqa: ARG002
        return True


def check_scope(session: Session, directory: Directory, scope: str | None) -> None:
    """Of a scope that was asked for by name.

    Raises:
        Problem: there is no such pool, or no such queue in it.
    """
    if scope is None:
        return
    pool, queue = split_scope(scope)
    if not directory.has_scope(session, pool, ""):
        raise invalid("scope", f"there is no pool {pool}: give one that there is")
    if queue and not directory.has_scope(session, pool, queue):
        raise invalid("scope", f"pool {pool} has no queue {queue}: give one that it has, or make it first")
