"""All small writes of one process: what is ready together is committed together.

64 senders, or clients, that each wait for a commit of their own would queue for SQLite's one lock and its
one disk.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import nullcontext
from typing import Any, TypeVar

import structlog
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from notifier.storage import Store

T = TypeVar("T")
MAX_BATCH = 100
IDLE_S = 10.0  # after which a thread ends
Work = Callable[[Session], Any]
Job = tuple[Work, Future[Any]]
_PATIENCE = text("set local lock_timeout = '1s'")  # of many, for what one of them waits for

log = structlog.get_logger()


class Writer:
    """Runs functions of a session in shared transactions. Each sees the writes of those before it.

    With several `threads`, for PostgreSQL, one that waits for another's lock does not keep all waiting.

    Attributes:
        turn: held while a transaction of ours is open; whoever writes by himself on SQLite takes it too,
            because waiting for SQLite's own lock means sleeping.
    """

    def __init__(self, store: Store, threads: int = 1) -> None:
        self._store = store
        self._most = threads
        self._threads: list[threading.Thread] = []
        self._waiting: list[Job] = []
        self._changed = threading.Condition()
        self._is_closed = False
        self.turn = threading.Lock()

    def run(self, work: Callable[[Session], T], timeout_s: float | None = None) -> T:
        """Do `work` and wait for its commit. It may be called twice if the first commit failed.

        Raises:
            DBAPIError: the database did not take it.
        """
        # Nobody else is at it: in this very thread it is done sooner.
        if self._waiting or not self.turn.acquire(blocking=False):
            return self.submit(work).result(timeout_s)
        done: Future[T] = Future()
        try:
            self._commit([(work, done)])
        finally:
            self.turn.release()
        return done.result()

    def submit(self, work: Callable[[Session], T]) -> Future[T]:
        """Do `work` in another thread; done when that is committed."""
        done: Future[T] = Future()
        with self._changed:
            if len(self._threads) < self._most:
                self._hire()
            self._waiting.append((work, done))
            self._changed.notify()
        return done

    def _hire(self) -> None:
        """One more thread, if there is one to be had. Raises RuntimeError if it is needed."""
        thread = threading.Thread(target=self._run, name="writer", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            if not self._threads:
                raise
        else:
            self._threads.append(thread)

    def close(self) -> None:
        """Finish what was handed over and end."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
            threads = list(self._threads)
        for thread in threads:
            thread.join()

    def _run(self) -> None:
        while self._is_needed():
            with self.turn if self._most == 1 else nullcontext():
                self._commit()

    def _is_needed(self) -> bool:
        """Whether there is something to do, as soon as there is."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._is_closed, IDLE_S)
            if not self._waiting:
                self._threads.remove(threading.current_thread())
            return bool(self._waiting)

    def _next(self) -> list[Job]:
        """All that is there, but what nobody waits for any more."""
        with self._changed:
            batch, self._waiting = self._waiting[:MAX_BATCH], self._waiting[MAX_BATCH:]
        return [(work, done) for work, done in batch if done.set_running_or_notify_cancel()]

    def _commit(self, given: list[Job] | None = None, *, is_second: bool = False) -> None:
        """Without `given`: all that is there once SQLite's lock is ours; others may keep us waiting."""
        batch, results = given, list[Any]()
        try:
            with self._store.write() as session:
                if batch is None:
                    session.connection()
                    batch = self._next()
                if len(batch) > 1 and self._store.is_postgres:
                    session.execute(_PATIENCE)
                for work, _ in batch:
                    results.append(work(session))
        except Exception as error:  # noqa: BLE001  a border: whoever waits gets the error, the thread lives
            if batch is None:
                for _, done in self._next():
                    done.set_exception(error)
            else:
                self._blame(batch, error, len(results), is_second=is_second)
            return
        for (_, done), result in zip(batch, results, strict=True):
            done.set_result(result)

    def _blame(self, batch: list[Job], error: Exception, at: int, *, is_second: bool) -> None:
        """One that fails must not fail the others: it is tried again by itself, after them."""
        if len(batch) == 1:
            batch[0][1].set_exception(error)
            return
        if isinstance(error, DBAPIError):
            log.warning("writes_are_tried_again", count=len(batch), why=type(error.orig).__name__)
        if is_second or at == len(batch):
            for one in batch:
                self._commit([one])
        else:
            self._commit([*batch[:at], *batch[at + 1 :]], is_second=True)
            self._commit([batch[at]])
