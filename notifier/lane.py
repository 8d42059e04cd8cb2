"""The quick way of what is plain and one HTTP exchange: one thread sends and reads all, in an event loop.

Only good news goes on from here, to whoever writes it down (`notifier/finishing.py`). All else, and all that
goes wrong, goes the careful way (`notifier/sending.py`): with its answer, once there is one.
"""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

import structlog
import uvloop

from channels.abreast import Abreast
from channels.answers import Call, Caller, Heard, answered
from channels.base import Answer, Outcome
from channels.transport import NotSent, Response
from notifier import faultpoints
from notifier.beginning import Begun
from notifier.clock import utcnow
from notifier.closing import Closing
from notifier.errors import kind_and_place
from notifier.finishing import Finisher, Told, is_plain
from notifier.sending import as_kept, count_first
from notifier.settle import Settlement
from notifier.tasks import Task
from notifier.tools import Tools
from notifier.trail import names_of

log = structlog.get_logger()


@dataclass(frozen=True)
class _Sent:
    """One that is under way. `since`: by `time.monotonic()`."""

    task: Task
    begun: Begun
    adapter: Caller
    call: Call
    now: datetime
    since: float


class Lane:
    """Of one engine.

    `careful` takes over what is not good news; `freed` hears the channels of what is.
    """

    def __init__(
        self,
        tools: Tools,
        finisher: Finisher,
        careful: Callable[[Task, Begun], None],
        freed: Callable[[Sequence[str]], None],
    ) -> None:
        self._tools, self._finisher = tools, finisher
        self._careful, self._freed = careful, freed
        self._loop = uvloop.new_event_loop()
        self._abreast = Abreast(tools.network, self._loop)
        self._told: list[Told] = []
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name="lane", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def send(self, begun: Sequence[tuple[Task, Begun]]) -> None:
        """From any thread; returns at once."""
        self._loop.call_soon_threadsafe(self._send_all, begun)

    def close(self) -> None:
        """What is under way is left to whoever claims it next."""
        self._is_closed = True
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _run(self) -> None:
        while not self._is_closed:
            try:
                self._loop.run_forever()
            except BaseException as error:  # noqa: BLE001  a border: the thread must not end
                log.error("lane_goes_on", why=kind_and_place(error))  # noqa: TRY400
        self._loop.run_until_complete(self._abreast.close())
        self._loop.close()

    def _send_all(self, all_: Sequence[tuple[Task, Begun]]) -> None:
        for task, begun in all_:
            try:
                is_sent = self._send(task, begun)
            except BaseException as error:  # noqa: BLE001  a border: one message must not keep the others
                log.info("not_sent_with_others", **names_of(task), why=kind_and_place(error))
                is_sent = False
            if not is_sent:
                self._careful(task, begun)

    def _send(self, task: Task, begun: Begun) -> bool:
        """False, or an exception: nothing has left."""
        made, now = begun.made, utcnow()
        if not isinstance(made.adapter, Caller):
            return False
        call = made.adapter.call(made.parts[0], made.config, now)
        if not self._tools.network.is_direct(call.url):
            return False
        faultpoints.hit("intent_written")
        if not self._tools.leases.is_ours(task.row.id, task.token):
            return False
        sent = _Sent(task, begun, made.adapter, call, now, time.monotonic())
        count_first(task.row)
        try:
            self._abreast.send(call, partial(self._hear, sent))
        except NotSent as lost:
            self._hear(sent, lost)
        return True

    def _hear(self, sent: _Sent, heard: Heard) -> None:
        task = sent.task
        try:
            if isinstance(heard, Response):
                faultpoints.hit("bytes_sent")
            answer = answered(sent.call, heard, lambda response: sent.adapter.read(response, sent.now))
            answer = as_kept(answer, task.row.kind, time.monotonic() - sent.since)
            told = self._good_news(task, sent.begun, answer)
        except BaseException as error:  # noqa: BLE001  a border: whatever an answer does to whoever reads it
            # No traceback: an error's own words may hold a secret.
            log.error("sending_failed", **names_of(task), why=kind_and_place(error))  # noqa: TRY400
            answer = Answer(Outcome.AMBIGUOUS, code="internal_error", message=kind_and_place(error))
            told = None
        if told is None:
            self._careful(task, replace(sent.begun, answer=answer))
            return
        if not self._told:
            self._loop.call_soon(self._hand_over)
        self._told.append(told)

    def _good_news(self, task: Task, begun: Begun, answer: Answer) -> Told | None:
        """None: it is not, or there is more to be done."""
        made, row = begun.made, task.row
        done = Settlement(
            delivery_id=row.id,
            token=task.token,
            n=1,
            channel_id=row.channel_id,
            attempt_id=begun.attempt_id,
            answer=answer,
            outcome=answer.outcome,
            receipts_after=made.adapter.receipt_times(made.config),
            mends=[],
            note=made.note,
        )
        if answer.recipients or not is_plain(done, row):
            return None
        closing, is_first = Closing(self._tools, task), task.channel.health == "unknown"
        return Told(done, row, is_first, closing.careful(done), closing.after(done))

    def _hand_over(self) -> None:
        told, self._told = self._told, []
        self._finisher.put(*told)
        self._freed([one.row.channel_id for one in told])
