"""Who is master of a pool: a lease in the database, by the database's clock. A standby takes over when it
runs out, or at once when the holder was a process of this machine that is no more."""

import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

from sqlalchemy.orm import Session

from master.model import Leader
from master.runtimes.podfiles import living
from master.runtimes.supervisor import identity
from notifier.storage import Store, insert_new

LEASE = timedelta(seconds=6)
RENEW_AFTER_S = 2.0


class NotLeader(RuntimeError):  # noqa: N818  says what we are, no failure
    """Another master has the pool now; nothing may be written for it."""


class Leadership:
    """This process's claim to one pool. Used by the controller's thread alone."""

    def __init__(self, store: Store, pool: str) -> None:
        me = identity(os.getpid())
        self.pool = pool
        self.holder = f"{socket.gethostname()}/{me['boot']}/{me['pid']}/{me['start']}"
        self._store = store
        self._renewed = float("-inf")
        self._is_ours = False

    def take(self) -> bool:
        """Get the lease, or renew it; whether this process leads."""
        began = time.monotonic()
        if self._is_ours and began - self._renewed < RENEW_AFTER_S:
            return True
        with self._store.write() as session:
            self._is_ours = self._take(session)
        self._renewed = began
        return self._is_ours

    def give_up(self) -> None:
        """Let a standby go on at once."""
        with self._store.write() as session:
            row = session.get(Leader, self.pool, with_for_update=True)
            if row is not None and row.holder == self.holder:
                session.delete(row)
        self._is_ours = False

    @contextmanager
    def write(self) -> Iterator[Session]:
        """A transaction that commits only while this process leads."""
        with self._store.write() as session:
            row = session.get(Leader, self.pool, with_for_update={"read": True})
            if row is None or row.holder != self.holder or row.until < self._store.now(session):
                self._is_ours = False
                raise NotLeader(self.pool)
            yield session

    def _take(self, session: Session) -> bool:
        now = self._store.now(session)
        until = now + LEASE
        if insert_new(session, Leader, {"pool": self.pool, "holder": self.holder, "until": until}):
            return True
        row = session.get_one(Leader, self.pool, with_for_update=True)
        if row.holder != self.holder and row.until > now and not _is_dead(row.holder):
            return False
        row.holder, row.until = self.holder, until
        return True


def _is_dead(holder: str) -> bool:
    """Whether that was a process of this machine's present life, and is gone."""
    _, boot, pid, start = holder.rsplit("/", 3)
    ours = str(identity(os.getpid())["boot"])
    return boot == ours and living({"pid": int(pid), "start": int(start), "boot": boot}) is None
