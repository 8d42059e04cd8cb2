"""What the notifier asks of whoever keeps jobs and pools. On its own it knows none and believes all names."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from sqlalchemy.orm import Session


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
