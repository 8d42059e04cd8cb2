"""All small writes of one process, in one thread: what is ready together is committed together.

64 senders that each wait for a commit of their own would queue for SQLite's one lock and its one disk.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, TypeVar

import structlog
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from notifier.storage import Store

T = TypeVar("T")
MAX_BATCH = 100
Work = Callable[[Session], Any]

log = structlog.get_logger()


class Writer:
    """Runs functions of a session in shared transactions. Each sees the writes of those before it.

    Attributes:
        turn: held while a transaction of ours is open; whoever writes by himself on SQLite takes it too,
            because waiting for SQLite's own lock means sleeping.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._queue: SimpleQueue[tuple[Work, Future[Any]] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="writer", daemon=True)
        self.turn = threading.Lock()

    def start(self) -> None:
        self._thread.start()

    def run(self, work: Callable[[Session], T], timeout_s: float | None = None) -> T:
        """Do `work` and wait for its commit. It may be called twice if the first commit failed.

        Raises:
            DBAPIError: the database did not take it.
        """
        done: Future[T] = Future()
        # Nobody else is at it: in this very thread it is done sooner.
        if self._queue.empty() and self.turn.acquire(blocking=False):
            try:
                self._commit([(work, done)])
            finally:
                self.turn.release()
        else:
            self._queue.put((work, done))
        return done.result(timeout_s)

    def close(self) -> None:
        """Finish what was handed over and end."""
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (first := self._queue.get()) is not None:
            batch = [first]
            while len(batch) < MAX_BATCH and not self._queue.empty():
                more = self._queue.get()
                if more is None:
                    self._queue.put(None)  # for the next round
                    break
                batch.append(more)
            with self.turn:
                self._commit(batch)

    def _commit(self, batch: list[tuple[Work, Future[Any]]]) -> None:
        try:
            with self._store.write() as session:
                results = [work(session) for work, _ in batch]
        except Exception as error:  # noqa: BLE001  a border: whoever waits gets the error, the thread lives
            self._blame(batch, error)
            return
        for (_, done), result in zip(batch, results, strict=True):
            done.set_result(result)

    def _blame(self, batch: list[tuple[Work, Future[Any]]], error: Exception) -> None:
        """One that fails must not fail the others: each is tried by itself."""
        if len(batch) == 1:
            batch[0][1].set_exception(error)
            return
        kind = type(error.orig if isinstance(error, DBAPIError) else error).__name__
        log.warning("writes_are_tried_one_by_one", count=len(batch), why=kind)
        for one in batch:
            self._commit([one])
