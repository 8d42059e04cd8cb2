"""All small writes of one process: what is ready together is committed together.

64 senders, or clients, that each wait for a commit of their own would queue for SQLite's one lock and its
one disk.
"""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any, TypeVar

import structlog
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from notifier.storage import InDoubtError, Store, forget_said, is_deadlock, said

T = TypeVar("T")
MAX_BATCH = 100
IDLE_S = 10.0  # after which a thread ends
DOUBTS = 3  # commits of one job that are lost in a row, before whoever waits for it is told so
Work = Callable[[Session], Any]
_PATIENCE = text("set local lock_timeout = '1s'")  # of many, for what one of them waits for
_HASTE = text("set local lock_timeout = '10ms'")  # once one of them has waited in vain

log = structlog.get_logger()


class BusyError(Exception):
    """So much waits to be written that this was not even begun."""


@dataclass(eq=False, slots=True)
class _Job:
    """`again`: to do it twice is to do it once. `doubt`: it was done, and perhaps it is kept."""

    work: Work
    again: bool = False
    weight: int = 1
    done: Future[Any] = field(default_factory=Future)
    doubt: InDoubtError | None = None


@dataclass(frozen=True)
class _Sieve:
    """What came of each job of a transaction; `late`: it is to be tried alone."""

    is_postgres: bool
    well: list[_Job] = field(default_factory=list)
    results: list[Any] = field(default_factory=list)
    refused: list[tuple[_Job, BaseException]] = field(default_factory=list)
    late: list[_Job] = field(default_factory=list)

    def take(self, session: Session, job: _Job) -> None:
        """Raises DBAPIError: all of it is taken back."""
        so_far = said(session)
        try:
            with session.begin_nested():
                result = job.work(session)
        except DBAPIError as error:
            # SQLite may have taken back more than this, and would begin anew without a word.
            if not self.is_postgres or error.connection_invalidated:
                raise
            session.execute(_HASTE)
            self.late.append(job)
        except BaseException as error:  # noqa: BLE001  a border: it is told to whoever waits
            self.refused.append((job, error))
        else:
            self.well.append(job)
            self.results.append(result)
            return
        forget_said(session, so_far)


class Writer:
    """Runs functions of a session in shared transactions. Each sees the writes of those before it.

    With several `threads`, for PostgreSQL, one that waits for another's lock does not keep all waiting.
    `room`: how much may wait, by weight; None: however much.

    Attributes:
        turn: held while a transaction of ours is open; whoever writes by himself on SQLite takes it too,
            because waiting for SQLite's own lock means sleeping.
    """

    def __init__(self, store: Store, threads: int = 1, room: int | None = None) -> None:
        self._store = store
        self._most = threads
        self._room = room
        self._threads: list[threading.Thread] = []
        self._waiting: list[_Job] = []
        self._load = 0  # the weight of what waits
        self._changed = threading.Condition()
        self._is_closed = False
        self.turn = threading.Lock()

    def run(self, work: Callable[[Session], T], timeout_s: float | None = None, *, again: bool = False) -> T:
        """Do `work` and wait for its commit. It may be called again where nothing of it was kept, and with
        `again` where nobody knows.

        Raises:
            DBAPIError: the database did not take it.
            InDoubtError: perhaps it did: the connection was lost while it committed.
        """
        # Nobody else is at it: in this very thread it is done sooner.
        if self._waiting or not self.turn.acquire(blocking=False):
            return self.submit(work, again=again).result(timeout_s)
        job = _Job(work, again)
        try:
            self._alone(job)
        finally:
            self.turn.release()
        result: T = job.done.result()
        return result

    def submit(self, work: Callable[[Session], T], *, again: bool = False, weight: int = 1) -> Future[T]:
        """Do `work` in another thread; done when that is committed. `weight`: of `MAX_BATCH` that are
        committed together.

        Raises:
            BusyError: too much waits already; nothing was done.
        """
        job = _Job(work, again, weight)
        with self._changed:
            if self._room is not None and self._load >= self._room:
                raise BusyError
            if len(self._threads) < self._most:
                self._hire()
            self._waiting.append(job)
            self._load += weight
            self._changed.notify()
        return job.done

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

    def _next(self) -> list[_Job]:
        """All that is there and may go together, but what nobody waits for any more."""
        with self._changed:
            count = weight = 0
            while count < len(self._waiting) and weight < MAX_BATCH:
                weight += self._waiting[count].weight
                count += 1
            batch, self._waiting = self._waiting[:count], self._waiting[count:]
            self._load -= weight
        return [job for job in batch if job.done.set_running_or_notify_cancel()]

    def _commit(self) -> None:
        """All that is there once SQLite's lock is ours: others may keep us waiting."""
        batch: list[_Job] | None = None
        results = list[Any]()
        try:
            with self._store.write() as session:
                session.connection()
                batch = self._next()
                if len(batch) > 1 and self._store.is_postgres:
                    session.execute(_PATIENCE)
                for job in batch:
                    results.append(job.work(session))
        except InDoubtError as error:
            self._doubt(batch or (), error)
        except BaseException as error:  # noqa: BLE001  a border: whoever waits gets the error, the thread lives
            for job in self._next() if batch is None else ():
                job.done.set_exception(error)
            self._blame(batch or (), error)
        else:
            _tell(batch, results)

    def _blame(self, batch: Sequence[_Job], error: BaseException) -> None:
        """One that fails must not fail the others."""
        if isinstance(error, DBAPIError) and batch:
            log.warning("writes_are_tried_again", count=len(batch), why=type(error.orig).__name__)
        if len(batch) > 1:
            self._sift(batch)
        elif batch and is_deadlock(error):
            self._alone(batch[0])
        elif batch:
            batch[0].done.set_exception(error)

    def _sift(self, batch: Sequence[_Job]) -> None:
        """Together once more, in order, and so that one that fails can be taken back by itself. What the
        database did not take is tried alone, after the others."""
        sieve = _Sieve(self._store.is_postgres)
        try:
            with self._store.write() as session:
                if self._store.is_postgres:
                    session.execute(_PATIENCE)
                for job in batch:
                    sieve.take(session, job)
        except InDoubtError as error:
            self._doubt(sieve.well, error)
        except BaseException:  # noqa: BLE001  a border: nothing was kept
            sieve = _Sieve(self._store.is_postgres, late=list(batch))
        else:
            _tell(sieve.well, sieve.results)
        for job, why in sieve.refused:
            job.done.set_exception(why)
        for job in sieve.late:
            self._alone(job)

    def _doubt(self, jobs: Sequence[_Job], error: InDoubtError) -> None:
        """They may be kept: what cannot be done twice is not done again."""
        log.warning("writes_are_in_doubt", count=len(jobs), why=type(error.orig).__name__)
        for job in jobs:
            job.doubt = error
            if job.again:
                self._alone(job)
            else:
                job.done.set_exception(error)

    def _alone(self, job: _Job) -> None:
        for _ in range(DOUBTS):
            try:
                result = self._store.run(job.work)
            except InDoubtError as error:
                job.doubt = error
                if not job.again:
                    break
            except BaseException as error:  # noqa: BLE001  a border: whoever waits gets the error
                is_away = isinstance(error, DBAPIError)  # which says nothing of what may be kept
                job.done.set_exception(job.doubt if job.doubt is not None and is_away else error)
                return
            else:
                job.done.set_result(result)
                return
        job.done.set_exception(job.doubt)


def _tell(jobs: Sequence[_Job], results: Sequence[Any]) -> None:
    for job, result in zip(jobs, results, strict=True):
        job.done.set_result(result)
