"""What an answer means for its delivery: told, tried again and when, or given up. Pure."""

import zlib
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta

from channels.base import Answer, Mend, Outcome
from notifier.recipients import LONGEST_WAIT, TOLD

LADDER = tuple(timedelta(seconds=seconds) for seconds in (5, 15, 45, 120, 300, 600))
THEN_EVERY = timedelta(minutes=15)
JITTER = 0.2
# Where a provider says "too fast" and not for how long: DingTalk's penalty is the longest known.
THROTTLED_FIRST = timedelta(seconds=60)
THROTTLED_AGAIN = timedelta(seconds=600)
SHORTEST_WAIT = timedelta(seconds=1)

LOST = "the worker was lost while it waited for the answer"
NOT_REPEATED = "the answer was lost, and this kind of message is not repeated"
EXPIRED = "nothing got through before it was too old"
NEVER_HAD = "the provider never had it"
NOBODY = "nobody answered"
UNHEARD = "the provider does not say what became of the call"


@dataclass(frozen=True)
class Tried:
    """What is known of a delivery when an answer has come.

    Attributes:
        tries: that cost a step of the ladder before.
        was_throttled: the channel's answer before this one was "too fast" as well.
    """

    delivery_id: str
    tries: int
    expires_at: datetime
    resend_when_unknown: bool = True
    was_throttled: bool = False


@dataclass(frozen=True)
class Verdict:
    """What becomes of the delivery.

    Attributes:
        state: the delivery's next state.
        again_at: when it is tried next (`retrying` and `pending` only).
        pause_until: nothing is sent on the channel before.
        breaks_channel: the channel itself is at fault.
    """

    state: str
    tries: int
    why: str = ""
    again_at: datetime | None = None
    pause_until: datetime | None = None
    breaks_channel: bool = False

    @property
    def is_permanent(self) -> bool:
        return self.state in ("failed", "expired")


def mend(answer: Answer, mends: Collection[str]) -> Mend | None:
    """What is to be done to the message so that it is tried again at once: each thing once."""
    is_new = answer.mend is not None and answer.mend not in mends
    return answer.mend if is_new and answer.outcome not in TOLD else None


def wait_for(turn: datetime, tries: int, why: str) -> Verdict:
    """It was claimed, but the rest of it (or its mend) has to wait for the channel's pace."""
    return Verdict("retrying", tries, why, again_at=turn)


def queue_again(tries: int, why: str, now: datetime) -> Verdict:
    """It was claimed, but takes more turns than were expected: it is planned anew with so many."""
    return Verdict("pending", tries, why, again_at=now)


def after(answer: Answer, tried: Tried, now: datetime) -> Verdict:
    """The verdict on the answer to the last part (or to the first that was not told)."""
    match answer.outcome:
        case Outcome.DELIVERED | Outcome.ACCEPTED:
            return Verdict(answer.outcome.value, tried.tries)
        case Outcome.THROTTLED:
            pause = penalty(answer, was_throttled=tried.was_throttled)
            again_at = min(now + pause, tried.expires_at)
            # One number's limit says nothing of the others, and while all are over theirs for long, whoever
            # has a fallback is told by that.
            is_all = all(one.outcome is Outcome.THROTTLED for one in answer.recipients)
            is_short = not answer.recipients or pause <= LONGEST_WAIT
            until = now + pause if is_all and is_short else None
            return Verdict("retrying", tried.tries, answer.message, again_at, pause_until=until)
        case Outcome.AMBIGUOUS if not tried.resend_when_unknown:
            return Verdict("unknown", tried.tries, f"{NOT_REPEATED}: {answer.message}")
        case Outcome.TEMPORARY | Outcome.AMBIGUOUS:
            return _later(tried, now, answer.message, answer.retry_after)
        case Outcome.REFUSED | Outcome.CHANNEL_BROKEN:
            is_channel = answer.outcome is Outcome.CHANNEL_BROKEN
            return Verdict("failed", tried.tries, answer.message, breaks_channel=is_channel)


def after_loss(tried: Tried, losses: int, now: datetime, outcome: Outcome = Outcome.AMBIGUOUS) -> Verdict:
    """A worker died between its intent and the outcome, for the `losses`-th time with this delivery.

    The first time it is sent again at once; a message that keeps killing workers climbs the ladder. What is
    not repeated goes on with those to whom that worker had not sent; `outcome` is that of all of them.
    """
    if not tried.resend_when_unknown:
        if outcome in (Outcome.THROTTLED, Outcome.TEMPORARY):
            return Verdict("retrying", tried.tries, LOST, again_at=now)
        state = "failed" if outcome is Outcome.REFUSED else "unknown"
        return Verdict(state, tried.tries, f"{NOT_REPEATED}: {LOST}")
    if losses <= 1:
        return Verdict("retrying", tried.tries + 1, LOST, again_at=now)
    return _later(tried, now, LOST, None)


def after_receipts(outcome: Outcome, news: Collection[Outcome], tried: Tried, now: datetime) -> Verdict:
    """The verdict when a provider was asked what became of a message, and something was new.

    `outcome` is that of the whole message now. Whoever is called next, or was never sent anything, is told
    at once; a message that the provider never had climbs the ladder when that happens again.
    """
    match outcome:
        case Outcome.DELIVERED | Outcome.ACCEPTED:
            return Verdict(outcome.value, tried.tries)
        case Outcome.AMBIGUOUS:
            return Verdict("unknown", tried.tries, NOT_REPEATED)
        case Outcome.REFUSED | Outcome.CHANNEL_BROKEN:
            return Verdict("failed", tried.tries)
        case Outcome.TEMPORARY | Outcome.THROTTLED:
            if Outcome.TEMPORARY not in news:
                return Verdict("retrying", tried.tries, again_at=now)
            if tried.tries == 0:
                return Verdict("retrying", 1, NEVER_HAD, again_at=now)
            return _later(tried, now, NEVER_HAD, None)


def penalty(answer: Answer, *, was_throttled: bool) -> timedelta:
    """How long the channel keeps quiet after "too fast": as told, else our own guess."""
    if was_throttled:
        said, guess = answer.repeated_after or answer.retry_after, THROTTLED_AGAIN
    else:
        said, guess = answer.retry_after, THROTTLED_FIRST
    return guess if said is None else max(said, SHORTEST_WAIT)


def delay(tries: int, delivery_id: str) -> timedelta:
    """How long to wait after the try that makes it `tries`; the same for the same delivery."""
    step = LADDER[tries - 1] if tries <= len(LADDER) else THEN_EVERY
    chance = zlib.crc32(f"{delivery_id}:{tries}".encode()) / 0xFFFFFFFF
    return step * (1 - JITTER + 2 * JITTER * chance)


def _later(tried: Tried, now: datetime, why: str, told: timedelta | None) -> Verdict:
    tries = tried.tries + 1
    wait = delay(tries, tried.delivery_id) if told is None else max(told, SHORTEST_WAIT)
    return Verdict("retrying", tries, why, again_at=min(now + wait, tried.expires_at))
