"""Asks providers what became of messages, and moves deliveries by what they say."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import structlog
from pydantic import ValidationError
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from channels.base import Answer, ChannelConfig, Outcome, Recipient
from channels.registry import adapter as adapter_of
from notifier import faultpoints, metrics, receipts
from notifier.attempts import RECEIPT
from notifier.channels import load_config
from notifier.clock import utcnow
from notifier.digests import MEMBERS_BECOME, settle_members
from notifier.errors import kind_and_place
from notifier.model import Attempt, Delivery, Receipt
from notifier.receipts import BUSY, Question
from notifier.recipients import TOLD, Audience, awaited, document, merge, parsed
from notifier.retry import NOBODY, UNHEARD, Tried, Verdict, after_receipts
from notifier.secretbox import WrongKeyError
from notifier.settle import close
from notifier.tools import Tools
from notifier.trail import incident_of

ASKERS = 16
SHARE = ASKERS // 4
POLL_S = 1.0
PATIENCE = 2  # looks that say nothing of a lost call, and the next one is called
RENEW_AFTER_S = 1.5
MOVABLE = (
    "accepted",
    "unknown",
    "retrying",
    "failed",
)  # nobody else is about it, and it was not told elsewhere
TEST, NOT_AGAIN, NOT_TOLD = "test", "a test is not tried again", "not told"
_OPEN = Answer(Outcome.TEMPORARY)
_SAYS = frozenset({Outcome.DELIVERED, Outcome.ACCEPTED, Outcome.REFUSED, Outcome.TEMPORARY})

log = structlog.get_logger()


@dataclass(frozen=True)
class Heard:
    """What a provider was asked, and what it said. `times`: of the channel (`Adapter.receipt_times`)."""

    question: Question
    audience: Audience
    times: Sequence[timedelta]
    said: Sequence[Recipient]
    asked_at: datetime


class Asker:
    """Asks in threads of its own about whatever is due. Every worker has one: a row is one's at a time."""

    def __init__(self, tools: Tools, wake: Callable[[Iterable[int]], None]) -> None:
        self._tools, self._store, self._wake = tools, tools.store, wake
        self._busy: Counter[str] = Counter()  # by channel: a slow provider keeps a fourth of them at most
        self._since: dict[str, float] = {}  # delivery → when we began to ask
        self._lock = threading.Lock()
        self._changed = threading.Event()

    def run(self, ended: threading.Event) -> None:
        """Look every second, and whenever one of us is free again."""
        while True:
            self._changed.clear()
            if ended.is_set():
                break
            try:
                self._look()
                self._renew()
            except BaseException as error:  # noqa: BLE001  a border: the thread must not end
                log.warning("receipts_not_looked_at", why=kind_and_place(error))
            self._changed.wait(POLL_S)

    def stop(self) -> None:
        """After `ended` was set: notice it now."""
        self._changed.set()

    def _look(self) -> None:
        with self._lock:
            busy = Counter(self._busy)
        free = ASKERS - busy.total()
        if free <= 0:
            return
        with self._store.read() as session:
            if not receipts.any_due(session, self._store.now(session)):
                return
        room = receipts.Room(free, SHARE, busy)
        for question in self._tools.writer.run(
            lambda session: receipts.claim(session, room, self._store.now(session))
        ):
            with self._lock:
                self._busy[question.channel.id] += 1
                self._since[question.row.delivery_id] = time.monotonic()
            # A daemon: nobody who stops waits for a provider's answer that can be asked for again.
            threading.Thread(target=self._run, args=(question,), name="asker", daemon=True).start()

    def _renew(self) -> None:
        """A slow provider is asked by one worker all the same."""
        with self._lock:
            slow = [one for one, since in self._since.items() if time.monotonic() - since > RENEW_AFTER_S]
        if slow:
            self._tools.writer.run(lambda session: receipts.renew(session, slow, self._store.now(session)))

    def _run(self, question: Question) -> None:
        try:
            self._wake(self._ask(question))
        finally:
            with self._lock:
                self._busy[question.channel.id] -= 1
                del self._since[question.row.delivery_id]
            self._changed.set()

    def _ask(self, question: Question) -> set[int]:
        heard = self._heard(question)
        if heard is None:
            return set()
        faultpoints.hit("receipt_read")
        try:
            return self._tools.writer.run(lambda session: note(session, heard, self._store.now(session)))
        except SQLAlchemyError as error:  # it is asked again
            log.warning("receipt_not_written", delivery=question.row.delivery_id, why=type(error).__name__)
            return set()

    def _heard(self, question: Question) -> Heard | None:
        adapter, asked_at = adapter_of(question.channel.kind), utcnow()
        try:
            config: ChannelConfig = load_config(question.channel, self._tools.box)
            times = adapter.receipt_times(config)
        except (WrongKeyError, ValidationError):
            return Heard(question, Audience(), (), (), asked_at)
        if question.is_early(times, asked_at):
            self._tools.writer.run(lambda session: receipts.postpone(session, question, times))
            return None
        said: Sequence[Recipient] = ()
        try:
            said = adapter.receipts(question.sent, config, self._tools.network, asked_at) if times else ()
        except BaseException as error:  # noqa: BLE001  a border: what went wrong in an SDK is no answer
            # No traceback: an error's own words may hold a secret.
            log.error("receipt_not_read", delivery=question.row.delivery_id, why=type(error).__name__)  # noqa: TRY400
        return Heard(question, Audience.of(adapter, config), times, said, asked_at)


def note(session: Session, heard: Heard, now: datetime) -> set[int]:
    """Write down what was said. Answers the shards in which there is work now."""
    asked = heard.question.row
    row = session.get(Delivery, asked.delivery_id, with_for_update=True, populate_existing=True)
    receipt = session.get(Receipt, asked.delivery_id, with_for_update=True, populate_existing=True)
    if receipt is None or receipt.looks != asked.looks:
        return set()  # somebody else was quicker
    if row is None:
        session.delete(receipt)
        return set()
    if row.state == "sending":  # its sender has a picture of its own: that first
        receipt.due_at = now + BUSY
        return set()
    known = parsed(row.recipients)
    fresh = news(known, heard.said)
    recipients = merge(known, fresh)
    # A test is of those to whom it was sent.
    audience = replace(heard.audience, order=()) if row.trigger == TEST else heard.audience
    if row.state == "unknown" and asked.looks + 1 >= PATIENCE:
        recipients = audience.past(recipients)
    receipts.look_again(session, receipt, heard.times, recipients, now)
    if recipients == known:
        return set()
    row.recipients = [document(one) for one in recipients]
    found = Finding(audience, fresh, recipients)
    if fresh:
        _log(session, row, heard, found, now)
    return _move(session, row, found, now)


def news(known: Sequence[Recipient], said: Sequence[Recipient]) -> tuple[Recipient, ...]:
    """What is new in a provider's words, of those whose fate was open."""
    open_now = {one.to: one for one in awaited(known)}
    fresh = []
    for one in said:
        before = open_now.get(one.to)
        if before is None or one.outcome not in _SAYS:
            continue
        message_id = one.message_id or before.message_id
        if one.outcome is not before.outcome or message_id != before.message_id:
            fresh.append(replace(one, code=one.code or before.code, message_id=message_id))
    return tuple(fresh)


@dataclass(frozen=True)
class Finding:
    """What receipts make of a message: of whom there is news, and what is known of all."""

    audience: Audience
    fresh: Sequence[Recipient]
    recipients: Sequence[Recipient]

    @property
    def whole(self) -> Outcome:
        return self.audience.outcome(_OPEN, self.recipients)

    @property
    def news(self) -> frozenset[Outcome]:
        return frozenset(one.outcome for one in self.fresh)

    @property
    def refused(self) -> list[Recipient]:
        return [one for one in self.recipients if one.outcome is Outcome.REFUSED]

    @property
    def why(self) -> str:
        if not self.fresh:
            return UNHEARD
        words = NOBODY if self.audience.is_sequential else NOT_TOLD
        return (
            f"{words}: {', '.join(f'{one.to} ({one.code})' for one in self.refused)}" if self.refused else ""
        )


def judge(row: Delivery, found: Finding, now: datetime) -> Verdict | None:
    """What becomes of the delivery; None: it stays as it is, save for what is known of its recipients."""
    if row.state not in MOVABLE or row.merged_into is not None:
        return None
    tried = Tried(row.id, row.tries, row.expires_at, resend_when_unknown=False)
    verdict = after_receipts(found.whole, found.news, tried, now)
    if verdict.state == "retrying" and row.trigger == TEST:
        verdict = Verdict("failed", row.tries, NOT_AGAIN)
    if verdict.state == row.state and (row.state != "retrying" or Outcome.TEMPORARY not in found.news):
        return None
    return replace(verdict, why=verdict.why or found.why)


def _move(session: Session, row: Delivery, found: Finding, now: datetime) -> set[int]:
    verdict = judge(row, found, now)
    if verdict is None:
        return set()
    was, is_told = row.state, verdict.state in ("delivered", "accepted")
    row.state, row.tries = verdict.state, verdict.tries
    row.why = row.why if is_told and was == "accepted" else verdict.why if not is_told else ""
    row.next_attempt_at = verdict.again_at
    row.delivered_at = now if is_told else None
    last = next((one for one in reversed(found.fresh) if one.outcome not in TOLD), None)
    row.error_code = None if is_told else (last.code or last.outcome.value) if last else row.error_code
    row.error_message = None if is_told else verdict.why
    row.error_permanent = None if is_told else verdict.is_permanent
    if row.is_digest:
        settle_members(session, row, was=(MEMBERS_BECOME.get(was, was),))
    log.info(
        "receipt",
        incident=incident_of(row.event_id, row.alert_id),
        delivery=row.id,
        channel=row.channel,
        kind=row.kind,
        was=was,
        state=row.state,
    )
    if row.state == "retrying":
        return {row.shard}
    metrics.count_settled(row, row.state)
    return close(session, row, now)


def _log(session: Session, row: Delivery, heard: Heard, found: Finding, now: datetime) -> None:
    """Like any other attempt, though nothing was sent: it counts under no meter."""
    outcome = Audience().outcome(_OPEN, found.fresh)
    session.add(
        Attempt(
            delivery_id=row.id,
            channel_id=row.channel_id,
            n=row.attempt_count,
            part=1,
            parts=1,
            trigger=RECEIPT,
            lease_token="",
            started_at=min(heard.asked_at, now),
            finished_at=now,
            outcome=outcome.value,
            provider_code=next(one.code for one in found.fresh if one.outcome is outcome),
            provider_message=", ".join(f"{one.to}: {one.outcome.value}" for one in found.fresh),
            recipients=[document(one) for one in found.fresh],
        )
    )
