"""Sends one claimed delivery, part by part: intent → send → outcome."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TypeVar

import structlog
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from channels.base import Answer, Mend, Outcome, Part
from channels.transport import Network
from notifier import faultpoints, metrics, retry
from notifier.attempts import Intent, Written, complete, intend
from notifier.clock import utcnow
from notifier.leases import Leases
from notifier.messages import Made, make
from notifier.secretbox import SecretBox
from notifier.settings import Settings
from notifier.settle import Settled, Settlement, settle
from notifier.storage import Store
from notifier.tasks import Earlier, Task
from notifier.writer import Writer

T = TypeVar("T")
PERSIST_S = 60.0  # how long an outcome is kept in memory for a database that does not take it
PERSIST_AGAIN_S = 0.5
RETRY = "retry"
TOLD_BEFORE = Answer(Outcome.DELIVERED, message="every part had been told")
NOT_SENT = Answer(Outcome.TEMPORARY, code="lease_lost", message="not sent: this worker was too slow")

log = structlog.get_logger()


@dataclass(frozen=True)
class Tools:
    """What all senders of a process share."""

    store: Store
    writer: Writer
    leases: Leases
    box: SecretBox
    network: Network
    settings: Settings


def send(tools: Tools, task: Task) -> frozenset[int]:
    """Send it and write down what came of it; answers the shards in which there is work now."""
    sending = _Sending(tools, task)
    try:
        return sending.run()
    except Exception as error:  # noqa: BLE001  a border: one message must not take its sender with it
        # No traceback: an error's own words may hold a secret.
        log.error("sending_failed", delivery=task.row.id, kind=task.row.kind, why=_where(error))  # noqa: TRY400
        return sending.crashed(error)
    finally:
        tools.leases.let_go(task.row.id, task.token)
        faultpoints.hit("acknowledged")


class _Sending:
    """One delivery while it is ours.

    `_attempt` is the one begun and not written down with its answer yet; `_answer` is that, once it is
    there.
    """

    def __init__(self, tools: Tools, task: Task) -> None:
        self._tools, self._task, self._row = tools, task, task.row
        self._n, self._mends = task.row.attempt_count, list(task.row.mends)
        self._recipients = task.recipients
        self._shown = task.row.message
        self._earlier = list(task.earlier)
        self._note = ""
        self._rounds = 0
        self._attempt: int | None = None
        self._answer: Answer | None = None

    def run(self) -> frozenset[int]:
        while True:
            made = make(self._task, self._mends, self._tools.box, self._tools.settings)
            if isinstance(made, Answer):
                return self._settle(made)
            self._note = made.note
            left = self._left(made)
            if not left:
                return self._settle(TOLD_BEFORE)
            stopped = self._send_round(made, left)
            if stopped is not None:
                return frozenset() if stopped.turn_at is None else self._settle(NOT_SENT, stopped.turn_at)
            answer = self._answer or TOLD_BEFORE
            mend = retry.mend(answer, self._mends)
            if mend is None:
                return self._settle(answer)
            self._mend(mend)

    def crashed(self, error: Exception) -> frozenset[int]:
        """If a send had begun, nobody knows whether it arrived; otherwise it is simply tried again."""
        is_known = self._attempt is None or self._answer is not None
        outcome = Outcome.TEMPORARY if is_known else Outcome.AMBIGUOUS
        try:
            return self._settle(Answer(outcome, code="internal_error", message=_where(error)))
        except Exception as again:  # noqa: BLE001  the same border: the lease runs out, and others take over
            log.error("outcome_not_written", delivery=self._row.id, why=_where(again))  # noqa: TRY400
            return frozenset()

    def _left(self, made: Made) -> list[Part]:
        """The parts to be told. Another text than last time (an alert has joined) is told from the start."""
        if made.shown != self._shown:
            self._recipients, self._shown = (), made.shown
            return list(made.parts)
        if self._recipients and not retry.still_to_tell(self._recipients):
            return []
        told = {(one.part, one.parts) for one in self._earlier if one.outcome in retry.TOLD}
        return [part for part in made.parts if (part.n, part.of) not in told]

    def _send_round(self, made: Made, left: Sequence[Part]) -> Written | None:
        """Sends until a part is not told. Answers why it stopped, where that was not for an answer."""
        self._n += 1
        self._rounds += 1
        for part in left:
            written = self._intend(made, part, left)
            if written.attempt_id is None:
                return written
            if not self._tools.leases.is_ours(self._row.id, self._task.token):
                self._write_down(NOT_SENT)
                return Written(None)
            if self._send_part(made, part) not in retry.TOLD:
                break
        return None

    def _intend(self, made: Made, part: Part, left: Sequence[Part]) -> Written:
        """The claim has one turn for us; a try that needs more asks for all of them with its first part."""
        is_promised = part is not left[0] or (len(left) == 1 and self._rounds == 1)
        intent = Intent(
            delivery_id=self._row.id,
            channel_id=self._row.channel_id,
            token=self._task.token,
            n=self._n,
            part=part.n,
            parts=part.of,
            trigger=self._trigger(),
            possible_duplicate=self._is_in_doubt(part),
            limits=() if is_promised else made.adapter.limits,
            sends=len(left),
            message=made.shown,
        )
        attempt, answer = self._attempt, self._answer

        def work(session: Session) -> Written:
            now = self._tools.store.now(session)
            if attempt is not None and answer is not None:
                complete(session, attempt, answer, now)
            return intend(session, intent, now)

        written = self._tools.writer.run(work)
        self._attempt, self._answer = written.attempt_id, None
        if written.attempt_id is not None:
            faultpoints.hit("intent_written")
            self._count_intent(intent)
        return written

    def _send_part(self, made: Made, part: Part) -> Outcome:
        """Answers what is known of the whole part, with what its recipients said before."""
        network, only = self._tools.network, retry.still_to_tell(self._recipients)
        began = time.monotonic()
        self._answer = made.adapter.send(part, made.config, network, utcnow(), only)
        metrics.PROVIDER_S.labels(self._row.kind).observe(time.monotonic() - began)
        metrics.ATTEMPTS.labels(self._row.kind, self._answer.outcome).inc()
        faultpoints.hit("answer_read")
        self._recipients = retry.merge(self._recipients, self._answer.recipients)
        self._earlier.append(Earlier(part.n, part.of, self._answer.outcome))
        return retry.overall(self._answer, self._recipients)

    def _mend(self, mend: Mend) -> None:
        """Who was not told is asked again, refused or not."""
        self._mends.append(mend)
        self._recipients = tuple(
            one if one.outcome in retry.TOLD else replace(one, outcome=Outcome.TEMPORARY)
            for one in self._recipients
        )

    def _settle(self, answer: Answer, turn_at: datetime | None = None) -> frozenset[int]:
        done = Settlement(
            delivery_id=self._row.id,
            token=self._task.token,
            n=self._n,
            channel_id=self._row.channel_id,
            attempt_id=self._attempt,
            answer=self._answer or answer,
            outcome=retry.overall(answer, self._recipients),
            turn_at=turn_at,
            recipients=self._recipients,
            mends=self._mends,
            note=self._note,
        )
        settled = self._persist(lambda session: settle(session, done, self._tools.store.now(session)))
        faultpoints.hit("outcome_written")
        self._report(done, settled)
        return settled.wake

    def _report(self, done: Settlement, settled: Settled) -> None:
        if not settled.is_ours or settled.state is None:
            log.info("outcome_came_late", delivery=self._row.id, outcome=done.outcome.value)
            return
        if settled.state != "retrying":
            metrics.DELIVERIES.labels(self._row.kind, settled.state).inc()
        if done.outcome not in retry.TOLD:
            log.info(
                "not_told",
                delivery=self._row.id,
                channel=self._row.channel,
                kind=self._row.kind,
                n=self._n,
                state=settled.state,
                outcome=done.outcome.value,
                code=done.answer.code,
            )

    def _write_down(self, answer: Answer) -> None:
        attempt = self._attempt
        if attempt is not None:
            self._persist(lambda session: complete(session, attempt, answer, self._tools.store.now(session)))

    def _persist(self, work: Callable[[Session], T]) -> T:
        """What a provider said is not lost to a database that is away for a while."""
        until = time.monotonic() + PERSIST_S
        while True:
            try:
                return self._tools.writer.run(work)
            except SQLAlchemyError as error:
                if time.monotonic() > until:
                    raise
                log.warning("outcome_waits", delivery=self._row.id, why=type(error).__name__)
                time.sleep(PERSIST_AGAIN_S)

    def _trigger(self) -> str:
        if self._rounds > 1:
            return self._mends[-1]
        return self._row.trigger if self._n == 1 else RETRY

    def _is_in_doubt(self, part: Part) -> bool:
        """Whether this very part may have arrived already."""
        lost = [one for one in self._earlier if one.outcome in (None, Outcome.AMBIGUOUS)]
        return self._task.in_doubt or any(one.parts != part.of or one.part == part.n for one in lost)

    def _count_intent(self, intent: Intent) -> None:
        if intent.possible_duplicate:
            metrics.POSSIBLE_DUPLICATES.labels(self._row.kind).inc()
        if self._n == 1 and intent.part == 1:
            waited = (utcnow() - self._row.created_at).total_seconds()
            metrics.FIRST_SEND_S.labels(self._row.kind).observe(max(0.0, waited))


def _where(error: Exception) -> str:
    """Kind and place of an error; its own words may hold a secret."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = f" in {Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}" if trace else ""
    return f"{type(error).__name__}{place}"
