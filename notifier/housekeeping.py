"""What one worker does for all beside sending: the index of the delivery log, and what is kept of it."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta
from typing import Any

import structlog
from sqlalchemy.exc import SQLAlchemyError

from notifier import indexing, metrics, retention, stretches
from notifier.retention import Bounds
from notifier.settings import Settings
from notifier.storage import Store
from notifier.turn import Turn
from notifier.writer import Writer

KEY = "housekeeper"
ROUND_S = 1.0
SHARE = 4  # it rests so many times as long as it works
BEHIND_S = 10.0  # while much is being sent, which goes first: and most of it need be read only once then
SWEEP_EVERY_S = 3600.0
JOIN_EVERY_S, JOIN_S = 60.0, 0.2

log = structlog.get_logger()


class Housekeeper:
    """A thread of a worker; of all workers' one is at work."""

    def __init__(
        self, store: Store, writer: Writer, settings: Settings, is_busy: Callable[[], bool] = lambda: False
    ) -> None:
        self._store, self._is_busy = store, is_busy
        self._writing: Callable[[], AbstractContextManager[Any]] = (
            nullcontext if store.is_postgres else lambda: writer.turn
        )
        self._bounds = Bounds(settings.retention_days, settings.retention_rows)
        self._turn = Turn(store, KEY)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="housekeeper", daemon=True)
        self._sweep_at = 0.0
        self._steps: Iterator[int] = iter(())
        self._join_at = 0.0
        self._joining: Iterator[int] = iter(())

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        rest, behind_since = 0.0, time.monotonic()
        while not self._ended.wait(rest):
            began = time.monotonic()
            if self._is_busy() and began - behind_since < BEHIND_S:
                rest = ROUND_S
                continue
            is_all = True
            try:
                if self._turn.is_ours():
                    is_all = self._index()
                    self._sweep()
                    if is_all:
                        self._join()
            except SQLAlchemyError as error:
                log.warning("not_tidied", why=type(error).__name__)
            except BaseException:  # a border: the thread must not end
                log.exception("not_tidied")
            rest = SHARE * (time.monotonic() - began)
            if is_all:
                rest, behind_since = max(ROUND_S, rest), began
        try:
            self._turn.give_up()
        except SQLAlchemyError as error:
            log.info("turn_not_given_up", why=type(error).__name__)

    def _index(self) -> bool:
        """Whether that was all there is."""
        size = indexing.size_of(self._store)
        count = indexing.advance(self._store, self._writing(), size)
        metrics.INDEXED.inc(count)
        return count < size

    def _sweep(self) -> None:
        """A second of it; the rest comes with the next rounds."""
        now = time.monotonic()
        if now >= self._sweep_at:
            self._sweep_at = now + SWEEP_EVERY_S
            self._steps = steps(self._store, self._writing, self._bounds)
        while not self._ended.is_set() and time.monotonic() < now + ROUND_S:
            if next(self._steps, None) is None:
                return

    def _join(self) -> None:
        """A little of it."""
        now = time.monotonic()
        if now >= self._join_at:
            self._join_at = now + JOIN_EVERY_S
            self._joining = stretches.steps(self._store, self._writing)
        while not self._ended.is_set() and time.monotonic() < now + JOIN_S:
            if next(self._joining, None) is None:
                return
            self._join_at = time.monotonic() + JOIN_EVERY_S


def steps(store: Store, writing: Callable[[], AbstractContextManager[Any]], bounds: Bounds) -> Iterator[int]:
    """Removes all that is not to be kept, a transaction a step; each says how much that was."""
    with store.read() as session:
        now = store.now(session)
        below = retention.horizon(session, bounds, now)
    after: str | None = ""
    while after is not None:
        removed = retention.sweep(store, writing(), below, after)
        metrics.REMOVED.labels("delivery").inc(removed.deliveries)
        metrics.REMOVED.labels("alert").inc(removed.alerts)
        after = removed.looked_upto
        yield removed.deliveries
    is_more = True
    while is_more:
        with writing(), store.write() as session:
            count = retention.sweep_alerts(session, now - timedelta(days=bounds.days))
            is_more = retention.sweep_index(session) or count == retention.BATCH
            is_more = stretches.sweep(session, retention.BITS) or is_more
            retention.purge_answers(session, now)
        metrics.REMOVED.labels("alert").inc(count)
        yield count
