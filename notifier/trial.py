"""Sends a real test message through a channel while its owner waits, and logs it like any other delivery."""

import time
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import uuid4

from pydantic import Field
from sqlalchemy import delete
from sqlalchemy.orm import Session

from channels.base import Answer, Outcome, Part
from channels.transport import Network
from notifier import meters, retry
from notifier.attempts import Intent, complete, intend
from notifier.clock import utcnow
from notifier.documents import Document
from notifier.ids import new_id
from notifier.lookup import known
from notifier.mending import mended
from notifier.messages import Made, make
from notifier.model import Alert, Attempt, Channel, Delivery
from notifier.outbox import Telling, put
from notifier.pace import Lane
from notifier.problems import Problem
from notifier.recipients import TOLD, Audience
from notifier.rendering import trial_view
from notifier.rollcall import Rollcall
from notifier.secretbox import SecretBox
from notifier.settings import Settings
from notifier.settle import Settlement, settle
from notifier.storage import Store
from notifier.tasks import Task, load

SOURCE = "test"
LEASE = timedelta(seconds=90)  # longer than any send takes; if we die a worker finishes it
USEFUL = timedelta(minutes=5)
NOT_AGAIN = "a test is not tried again"
SENT_NOTHING = Answer(Outcome.REFUSED, code="no_parts", message="there was nothing to send")


class TrialDocument(Document):
    outcome: str
    http_status: int | None
    provider_code: str | None
    provider_message: str
    latency_s: float = Field(description="that the provider took")
    delivery_id: str = Field(description="where the delivery log tells more")


@dataclass(frozen=True)
class Bench:
    """What a test is made with."""

    store: Store
    box: SecretBox
    network: Network
    settings: Settings


@dataclass
class Trial:
    """One test of one channel. `wake`: shards in which it made work."""

    bench: Bench
    channel_id: str
    token: str = field(default_factory=lambda: f"trial-{uuid4()}")
    mends: list[str] = field(default_factory=list)
    roll: Rollcall = field(default_factory=Rollcall)
    receipts_after: tuple[timedelta, ...] = ()
    attempt_id: int | None = None
    answer: Answer = SENT_NOTHING
    rounds: int = 0
    took_s: float = 0.0
    wake: frozenset[int] = frozenset()

    def run(self) -> TrialDocument:
        """The provider's word on a real message; a good one mends the channel.

        Raises:
            Problem: the provider's limit leaves no room for it just now (429).
        """
        task = self._begin()
        while True:
            made = make(task, self.mends, self.bench.box, self.bench.settings)
            answer = made if isinstance(made, Answer) else self._send(task, made)
            mend = retry.mend(answer, self.mends)
            if mend is None:
                return self._end(task, answer, "" if isinstance(made, Answer) else made.note)
            self.mends.append(mend)
            self.roll.ask_again()

    def _begin(self) -> Task:
        with self.bench.store.write() as session:
            now = self.bench.store.now(session)
            channel = session.get_one(Channel, self.channel_id)
            if channel.paused_until is not None and channel.paused_until > now:
                raise _too_soon(channel.paused_until - now)
            row = _put(session, channel, self.bench.settings, now)
            row.state, row.lease_token, row.lease_until = "sending", self.token, now + LEASE
            row.next_attempt_at, row.expires_at = now + LEASE, now + USEFUL
            session.flush()
            (task,) = load(session, [row], {channel.id: channel}, self.token)
            return task

    def _send(self, task: Task, made: Made) -> Answer:
        self.rounds += 1
        self.roll.meet(Audience.of(made.adapter, made.config).tested())
        self.roll.call(made)
        self.receipts_after = made.adapter.receipt_times(made.config)
        for part in made.parts:
            if not self._intend(task, made, part):
                break
            began, now = time.monotonic(), utcnow()
            answer = made.adapter.send(part, made.config, self.bench.network, now, self.roll.only())
            self.took_s += time.monotonic() - began
            self.answer = self.roll.hear(answer, now)
            if answer.outcome not in TOLD or part is made.parts[-1]:
                break
            self._complete(self.answer)
        return self.answer

    def _intend(self, task: Task, made: Made, part: Part) -> bool:
        """Whether there is room for it. If not, and nothing was sent yet, there was no test."""
        counted = self.roll.meters(made.config, self.channel_id)
        limits = meters.limits(made.adapter, counted.values(), utcnow())
        at_once, nth = meters.at_once(limits), part.n - 1
        intent = Intent(
            delivery_id=task.row.id,
            channel_id=self.channel_id,
            token=self.token,
            n=self.rounds,
            part=part.n,
            parts=part.of,
            trigger=task.row.trigger if self.rounds == 1 else self.mends[-1],
            possible_duplicate=False,
            meters=counted,
            limits=limits,
            is_promised=nth % at_once > 0,
            lane=Lane.CRITICAL,
            sends=min(len(made.parts) - nth, at_once),
            message=made.shown,
        )
        with self.bench.store.write() as session:
            now = self.bench.store.now(session)
            written = intend(session, intent, now)
            self.roll.block({to: moment for to, moment in written.blocked.items() if to}, now)
            if written.attempt_id is not None:
                row = session.get_one(Delivery, task.row.id)
                row.lease_until = row.next_attempt_at = now + LEASE
                self.attempt_id = written.attempt_id
                return True
            if self.attempt_id is not None:
                return False
            _forget(session, task.row)
        raise _too_soon((written.turn_at or now) - now)

    def _complete(self, answer: Answer) -> None:
        attempt_id = self.attempt_id
        if attempt_id is not None:
            with self.bench.store.write() as session:
                complete(session, attempt_id, answer, self.bench.store.now(session))

    def _end(self, task: Task, answer: Answer, note: str) -> TrialDocument:
        outcome = self.roll.outcome(answer)
        done = Settlement(
            delivery_id=task.row.id,
            token=self.token,
            n=self.rounds,
            channel_id=self.channel_id,
            attempt_id=self.attempt_id,
            answer=answer,
            outcome=outcome,
            recipients=self.roll.known,
            sent_at=self.roll.sent_at,
            free=self.roll.free,
            uncounted=self.roll.uncounted,
            receipts_after=self.receipts_after,
            mends=self.mends,
            note=note,
        )

        def write(session: Session) -> frozenset[int]:
            now = self.bench.store.now(session)
            return settle(session, done, now).wake | self._follow_up(session, done, now)

        self.wake = self.bench.store.run(write)
        return TrialDocument(
            outcome=outcome.value,
            http_status=answer.http_status,
            provider_code=answer.code,
            provider_message=answer.message,
            latency_s=round(self.took_s, 3),
            delivery_id=task.row.id,
        )

    def _follow_up(self, session: Session, done: Settlement, now: datetime) -> frozenset[int]:
        """A test is final at once; a channel that passes is well again."""
        row = session.get_one(Delivery, done.delivery_id, populate_existing=True)
        if row.state == "retrying":
            row.state, row.next_attempt_at, row.error_permanent = "failed", None, True
            row.why = f"{NOT_AGAIN}: {row.why}"
        channel = session.get(Channel, self.channel_id)
        if channel is None or row.state not in {"delivered", "accepted"}:
            return frozenset()
        return frozenset(mended(session, channel, now))


def _put(session: Session, channel: Channel, settings: Settings, now: datetime) -> Delivery:
    """An alert of its own, closed from the start, and its delivery."""
    words = trial_view("", channel.name, channel.language or settings.language, now)
    alert = Alert(
        id=new_id("alr", now),
        pool=channel.pool,
        queue=channel.queue,
        source=SOURCE,
        item=words.item,
        items=[words.item],
        severity=words.severity,
        status="resolved",
        title=words.title,
        body=words.text,
        labels={},
        context={},
        created_at=now,
        last_at=now,
        resolved_at=now,
    )
    session.add(alert)
    session.flush()
    telling = Telling(item=words.item, severity=words.severity, trigger="test")
    (queued,) = put(session, alert, [(known(channel), telling)], now)
    return session.get_one(Delivery, queued.id)


def _forget(session: Session, row: Delivery) -> None:
    """Nothing was sent, and nothing will be."""
    session.execute(delete(Attempt).where(Attempt.delivery_id == row.id))
    session.execute(delete(Delivery).where(Delivery.id == row.id))
    session.execute(delete(Alert).where(Alert.id == row.alert_id))


def _too_soon(wait: timedelta) -> Problem:
    seconds = max(1, round(wait.total_seconds()))
    detail = f"the provider takes no more messages just now: test again in {seconds} s"
    return Problem(429, detail=detail, headers={"Retry-After": str(seconds)})
