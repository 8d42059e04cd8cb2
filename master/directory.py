"""What the notifier asks the master: which job that is, and whether a pool or queue exists."""

from sqlalchemy.orm import Session

from master.documents import job_facts
from master.model import Job, Pool, Queue
from notifier.directory import KnownJob


class Jobs:
    """The master's rows, as `notifier.directory.Directory`."""

    def job(self, session: Session, job_id: str) -> KnownJob | None:
        row = session.get(Job, job_id)
        if row is None or row.delete_requested:
            return None
        facts = job_facts(row)
        return KnownJob(row.id, row.name, row.pool, row.queue, labels=facts["labels"], facts=facts)

    def has_scope(self, session: Session, pool: str, queue: str) -> bool:
        if queue:
            return session.get(Queue, (pool, queue)) is not None
        return session.get(Pool, pool) is not None
