"""How a send ends: its outcome is committed, counted, told to the log, and its lease let go."""

import time
from collections.abc import Callable
from typing import TypeVar

import structlog
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from notifier import faultpoints, metrics
from notifier.errors import kind_and_place
from notifier.finishing import PERSIST_AGAIN_S, PERSIST_S
from notifier.model import FINAL_STATES
from notifier.recipients import TOLD
from notifier.settle import Settled, Settlement, settle
from notifier.tasks import Task
from notifier.tools import Tools
from notifier.trail import following, names_of

T = TypeVar("T")

log = structlog.get_logger()


class Closing:
    """Of one delivery that is ours."""

    def __init__(self, tools: Tools, task: Task) -> None:
        self._tools, self._task, self._row = tools, task, task.row

    def settle(self, done: Settlement) -> frozenset[int]:
        settled = self.persist(lambda session: settle(session, done, self._tools.store.now(session)))
        faultpoints.hit("outcome_written")
        self._report(done, settled)
        return settled.wake

    def careful(self, done: Settlement) -> Callable[[], frozenset[int]]:
        def work() -> frozenset[int]:
            try:
                with following(self._task):
                    return self.settle(done)
            except BaseException as error:  # noqa: BLE001  the same border as in `send`
                log.error("outcome_not_written", **names_of(self._task), why=kind_and_place(error))  # noqa: TRY400
                return frozenset()
            finally:
                self.let_go()

        return work

    def after(self, done: Settlement) -> Callable[[Settled], None]:
        def work(settled: Settled) -> None:
            try:
                self._report(done, settled)
            finally:
                self.let_go()

        return work

    def let_go(self) -> None:
        """Nothing is left to be done."""
        self._tools.leases.let_go(self._row.id, self._task.token)
        faultpoints.hit("acknowledged")

    def persist(self, work: Callable[[Session], T]) -> T:
        """What a provider said is not lost to a database that is away for a while."""
        until = time.monotonic() + PERSIST_S
        while True:
            try:
                return self._tools.writer.run(work)
            except SQLAlchemyError as error:
                if time.monotonic() > until:
                    raise
                log.warning("outcome_waits", **names_of(self._task), why=type(error).__name__)
                time.sleep(PERSIST_AGAIN_S)

    def _report(self, done: Settlement, settled: Settled) -> None:
        if not settled.is_ours or settled.state is None:
            log.info("outcome_came_late", **names_of(self._task), outcome=done.outcome.value)
            return
        if settled.state in FINAL_STATES:
            metrics.count_settled(self._row, settled.state)
        log.info(
            "told" if done.outcome in TOLD else "not_told",
            **names_of(self._task),
            attempt=done.n,
            state=settled.state,
            outcome=done.outcome.value,
            code=done.answer.code,
        )
