"""Which workers there are: each says every few seconds that it lives, by the database's clock."""

import os
import socket
import threading
from collections.abc import Sequence
from datetime import datetime, timedelta
from importlib.metadata import version

import structlog
from sqlalchemy import delete, select, update
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from notifier.clock import utcnow
from notifier.errors import kind_and_place
from notifier.ids import new_id
from notifier.model import Worker
from notifier.storage import Store

EVERY_S = 10.0
GONE_AFTER = timedelta(seconds=45)  # four words missed
FORGOTTEN_AFTER = timedelta(hours=1)  # whoever was killed is shown as gone for so long

log = structlog.get_logger()


class Presence:
    """Says from a thread of its own that this worker lives, and at the end that it does not."""

    def __init__(self, store: Store, concurrency: int, *, every_s: float = EVERY_S) -> None:
        self._store = store
        self._concurrency = concurrency
        self._every_s = every_s
        self._id = new_id("wrk", utcnow())
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="presence", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._ending.set()
        self._thread.join()
        try:
            with self._store.write(lasts=False) as session:
                session.execute(delete(Worker).where(Worker.id == self._id))
        except SQLAlchemyError as error:
            log.warning("presence_not_written", why=type(error).__name__)

    def _run(self) -> None:
        while True:
            try:
                with self._store.write(lasts=False) as session:
                    self._say(session, self._store.now(session))
            except BaseException as error:  # noqa: BLE001  a border: the thread must not end
                log.warning("presence_not_written", why=kind_and_place(error))
            if self._ending.wait(self._every_s):
                return

    def _say(self, session: Session, now: datetime) -> None:
        behind_s = (now - utcnow()).total_seconds()
        mine = update(Worker).where(Worker.id == self._id).values(seen_at=now, behind_s=behind_s)
        if session.execute(mine.returning(Worker.id)).first() is not None:
            return
        session.execute(delete(Worker).where(Worker.seen_at < now - FORGOTTEN_AFTER))
        session.add(
            Worker(
                id=self._id, host=socket.gethostname(), pid=os.getpid(), version=version("faultcast"),
                concurrency=self._concurrency, started_at=now, seen_at=now, behind_s=behind_s,
            )
        )  # fmt: skip


def living(session: Session, now: datetime) -> Sequence[Worker]:
    """The workers that spoke lately, oldest first."""
    return session.scalars(select(Worker).where(Worker.seen_at > now - GONE_AFTER).order_by(Worker.id)).all()
