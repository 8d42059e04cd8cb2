"""Sends one claimed delivery, part by part: intent → send → outcome."""

import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, TypeVar

import structlog
from sqlalchemy.orm import Session

from channels.base import Answer, Outcome, Part
from notifier import faultpoints, meters, metrics, retry
from notifier.acklinks import masked
from notifier.attempts import Intent, Written, complete, intend
from notifier.beginning import Begun
from notifier.clock import utcnow
from notifier.closing import Closing
from notifier.doubts import take_back
from notifier.errors import kind_and_place
from notifier.finishing import Finisher, Told, is_plain
from notifier.messages import Made, make
from notifier.pace import lane_of
from notifier.recipients import QUOTA, TOLD, Audience
from notifier.rollcall import Rollcall
from notifier.settle import Settlement
from notifier.storage import InDoubtError
from notifier.tasks import Earlier, Task
from notifier.tools import Tools
from notifier.trail import following, names_of

T = TypeVar("T")
RETRY, NEXT = "retry", "next"  # NEXT: somebody else is called
TOLD_BEFORE = Answer(Outcome.DELIVERED, message="every part had been told")
NOT_SENT = Answer(Outcome.TEMPORARY, code="lease_lost", message="not sent: this worker was too slow")
OVER_QUOTA = Answer(Outcome.THROTTLED, code=QUOTA, message="not sent: over the provider's quota")

log = structlog.get_logger()


def send(tools: Tools, task: Task, finisher: Finisher, begun: Begun | None = None) -> frozenset[int]:
    """Send it and write down what came of it; answers the shards in which there is work now.

    `begun`: its message is made already, and the intent written; perhaps it was sent, too.
    """
    sending = _Sending(tools, task, finisher, begun)
    with following(task):
        try:
            return sending.run()
        except BaseException as error:  # noqa: BLE001  a border: one message must not take its sender with it
            # No traceback: an error's own words may hold a secret.
            log.error("sending_failed", **names_of(task), why=kind_and_place(error))  # noqa: TRY400
            return sending.crashed(error)
        finally:
            if not sending.is_handed_over:
                sending.closing.let_go()


class _Sending:
    """One delivery while it is ours.

    `_attempt` is the one begun and not written down with its answer yet; `_answer` is that, once it is
    there. `is_handed_over`: the finisher does the rest.
    """

    def __init__(self, tools: Tools, task: Task, finisher: Finisher, begun: Begun | None) -> None:
        self._tools, self._task, self._row = tools, task, task.row
        self._finisher, self._begun, self.closing = finisher, begun, Closing(tools, task)
        self.is_handed_over = False
        self._n, self._mends = task.row.attempt_count, list(task.row.mends)
        self._roll = Rollcall(task.recipients, gives_up=task.has_fallback)
        self._shown = task.row.message
        self._earlier = list(task.earlier)
        self._in_doubt = task.in_doubt
        self._receipts_after: tuple[timedelta, ...] = ()
        self._note = ""
        self._rounds, self._wanted = 0, 1
        self._trigger = task.row.trigger if self._n == 0 else RETRY
        self._attempt: int | None = None if begun is None else begun.attempt_id
        self._heard = None if begun is None else begun.answer
        self._answer: Answer | None = None
        self._last: tuple[Answer, datetime | None] | None = None

    def run(self) -> frozenset[int]:
        while True:
            made = self._made()
            if isinstance(made, Answer):
                return self._settle(made)
            self._note, self._receipts_after = made.note, made.adapter.receipt_times(made.config)
            left = self._left(made)
            if not left:
                return self._settle(TOLD_BEFORE)
            stopped = self._send_round(made, left)
            if stopped is not None and not any(stopped.blocked):
                self._wanted = len(left)
                return frozenset() if stopped.turn_at is None else self._settle(NOT_SENT, stopped.turn_at)
            answer = self._answer or OVER_QUOTA
            mend = retry.mend(answer, self._mends)
            if mend is not None:
                self._trigger = mend
                self._mends.append(mend)
                self._roll.ask_again()
            elif not self._roll.has_next(made):
                return self._settle(answer)

    def _made(self) -> Made | Answer:
        if self._begun is not None:
            return self._begun.made
        return make(self._task, self._mends, self._tools.box, self._tools.settings)

    def crashed(self, error: BaseException) -> frozenset[int]:
        """If a send had begun, nobody knows whether it arrived; otherwise it is simply tried again."""
        is_known = self._attempt is None or self._answer is not None
        outcome = Outcome.TEMPORARY if is_known else Outcome.AMBIGUOUS
        answer = Answer(outcome, code="internal_error", message=kind_and_place(error))
        try:
            if self._last is not None:  # it had ended; only the writing failed
                return self._settle(*self._last)
            return self._settle(answer if is_known else self._roll.hear(answer, utcnow()))
        except BaseException as again:  # noqa: BLE001  the same border: the lease runs out, and others take over
            log.error("outcome_not_written", **names_of(self._task), why=kind_and_place(again))  # noqa: TRY400
            return frozenset()

    def _left(self, made: Made) -> list[Part]:
        """The parts to be told. Another text than last time (an alert has joined) is told from the start;
        but not to people by name whom only the wording of the same alert would wake again."""
        self._roll.meet(Audience.of(made.adapter, made.config))
        is_by_name = bool(self._roll.audience.order)
        if made.shown != self._shown:
            self._shown = made.shown
            if not is_by_name or (self._row.is_digest and self._rounds == 0):
                self._in_doubt |= self._roll.forget() and is_by_name
                return list(made.parts)
        if self._roll.left() == frozenset():
            return []
        if is_by_name:
            return list(made.parts)
        told = {(one.part, one.parts) for one in self._earlier if one.outcome in TOLD}
        return [part for part in made.parts if (part.n, part.of) not in told]

    def _send_round(self, made: Made, left: Sequence[Part]) -> Written | None:
        """Sends until a part is not told. Answers why it stopped, where that was not for an answer."""
        self._rounds += 1
        self._roll.call(made)
        self._trigger = NEXT if self._roll.is_next() else self._trigger
        n = self._n + 1
        for part in left:
            written = self._intend(made, part, left, n)
            if written.attempt_id is None:
                return written
            self._n = n
            if self._heard is None and not self._tools.leases.is_ours(self._row.id, self._task.token):
                self._write_down(NOT_SENT)
                return Written(None)
            if self._send_part(made, part) not in TOLD:
                break
        return None

    def _intend(self, made: Made, part: Part, left: Sequence[Part], n: int) -> Written:
        """The claim has as many turns for us as were expected; a try that needs more asks for all of them
        with its first part. Whose number has its own limit is always asked for."""
        counted = self._roll.meters(made.config, self._row.channel_id)
        limits, nth = meters.limits(made.adapter, counted.values(), utcnow()), left.index(part)
        at_once = meters.at_once(limits)
        claimed = meters.expected(self._row, made.adapter, self._task.channel.config)
        is_first = self._rounds == 1 and nth == 0 and not self._roll.audience.order
        begun, self._begun = self._begun, None
        intent = Intent(
            delivery_id=self._row.id,
            channel_id=self._row.channel_id,
            token=self._task.token,
            n=n,
            part=part.n,
            parts=part.of,
            trigger=self._trigger,
            possible_duplicate=self._is_in_doubt(part),
            meters=counted,
            limits=limits,
            is_promised=nth % at_once > 0 or (is_first and len(left) <= claimed),
            lane=lane_of(self._row.severity, self._row.order_key),
            sends=min(len(left) - nth, at_once),
            message=made.shown,
            claimed_at=self._task.claimed_at,
        )
        written = self._written(intent) if begun is None else Written(begun.attempt_id)
        self._attempt, self._answer = written.attempt_id, None
        self._roll.block({to: moment for to, moment in written.blocked.items() if to}, utcnow())
        if written.attempt_id is not None and self._heard is None:
            faultpoints.hit("intent_written")
            self._count_intent(intent)
        return written

    def _written(self, intent: Intent) -> Written:
        attempt, answer, uncounted = self._attempt, self._answer, self._roll.uncounted

        def work(session: Session) -> Written:
            now = self._tools.store.now(session)
            if attempt is not None and answer is not None:
                complete(session, attempt, answer, now, uncounted)
            return intend(session, intent, now)

        def again(session: Session) -> Written:
            take_back(session, intent)
            return work(session)

        try:
            return self._tools.writer.run(work)
        except InDoubtError:  # it may be kept: that one was not sent, and another is begun
            return self.closing.persist(again)

    def _send_part(self, made: Made, part: Part) -> Outcome:
        """Answers what is known of the whole part, with what its recipients said before."""
        now, answer = utcnow(), self._heard
        self._heard = None
        if answer is None:
            began = time.monotonic()
            answer = made.adapter.send(part, made.config, self._tools.network, now, self._roll.only())
            answer = as_kept(answer, self._row.kind, time.monotonic() - began)
        self._answer = self._roll.hear(answer, now)
        self._earlier.append(Earlier(part.n, part.of, answer.outcome, answer.http_status, answer.code))
        return self._roll.outcome(self._answer)

    def _settle(self, answer: Answer, turn_at: datetime | None = None) -> frozenset[int]:
        self._last = answer, turn_at
        done = Settlement(
            delivery_id=self._row.id,
            token=self._task.token,
            n=self._n,
            channel_id=self._row.channel_id,
            attempt_id=self._attempt,
            answer=self._answer or answer,
            outcome=self._roll.outcome(answer),
            turn_at=turn_at,
            wanted=self._wanted,
            recipients=self._roll.known,
            sent_at=self._roll.sent_at,
            free=self._roll.free,
            uncounted=self._roll.uncounted,
            receipts_after=self._receipts_after,
            mends=self._mends,
            note=self._note,
        )
        if not is_plain(done, self._row):
            return self.closing.settle(done)
        is_first = self._task.channel.health == "unknown"
        self.is_handed_over = True
        self._finisher.put(
            Told(done, self._row, is_first, self.closing.careful(done), self.closing.after(done))
        )
        return frozenset()

    def _write_down(self, answer: Answer) -> None:
        attempt = self._attempt
        if attempt is not None:
            self.closing.persist(
                lambda session: complete(session, attempt, answer, self._tools.store.now(session))
            )

    def _is_in_doubt(self, part: Part) -> bool:
        """Whether this very part may have arrived already. Nobody is told again by name of whom that is not
        known (`Audience.left`)."""
        if self._roll.audience.order and not self._roll.audience.resends:
            return self._in_doubt
        lost = [one for one in self._earlier if one.may_be_told]
        return self._in_doubt or any(one.parts != part.of or one.part == part.n for one in lost)

    def _count_intent(self, intent: Intent) -> None:
        if intent.possible_duplicate:
            metrics.POSSIBLE_DUPLICATES.labels(self._row.kind).inc()
        if intent.n == 1 and intent.part == 1:
            count_first(self._row)


def count_first(row: Any) -> None:
    """It is sent for the first time."""
    waited = (utcnow() - row.created_at).total_seconds()
    metrics.of(metrics.FIRST_SEND_S, row.kind).observe(max(0.0, waited))


def as_kept(answer: Answer, kind: str, took_s: float) -> Answer:
    """The answer as it may be kept, once it is counted: links that act are masked, whatever the adapter or
    the provider made of them."""
    metrics.of(metrics.PROVIDER_S, kind).observe(took_s)
    metrics.of(metrics.ATTEMPTS, kind, answer.outcome).inc()
    said = answer.message, answer.request, answer.response
    kept = tuple(map(masked, said))
    faultpoints.hit("answer_read")
    return answer if kept == said else replace(answer, message=kept[0], request=kept[1], response=kept[2])
