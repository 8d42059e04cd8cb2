"""What each answer makes of a delivery."""

from datetime import UTC, datetime, timedelta

import pytest

from channels.base import Answer, Mend, Outcome, Recipient
from notifier import retry
from notifier.retry import Tried, Verdict, after, after_loss, after_receipts, delay

NOW = datetime(2026, 11, 29, 3, 12, 41, tzinfo=UTC)
HOUR = timedelta(hours=1)


def seconds(count: float) -> timedelta:
    return timedelta(seconds=count)


def tried(**what: object) -> Tried:
    return Tried(**{"delivery_id": "dlv_1", "tries": 0, "expires_at": NOW + 24 * HOUR, **what})  # type: ignore[arg-type]


def answered(outcome: Outcome, **what: object) -> Answer:
    return Answer(outcome, message="said so", **what)  # type: ignore[arg-type]


STATES = {
    "delivered": (answered(Outcome.DELIVERED), tried(), "delivered"),
    "accepted is not delivered": (answered(Outcome.ACCEPTED), tried(), "accepted"),
    "temporary is tried again": (answered(Outcome.TEMPORARY), tried(), "retrying"),
    "throttled is tried again": (answered(Outcome.THROTTLED), tried(), "retrying"),
    "a lost answer is asked for again": (answered(Outcome.AMBIGUOUS), tried(), "retrying"),
    "a lost answer of a phone call is not": (
        answered(Outcome.AMBIGUOUS),
        tried(resend_when_unknown=False),
        "unknown",
    ),
    "refused is final": (answered(Outcome.REFUSED), tried(), "failed"),
    "a broken channel ends its delivery": (answered(Outcome.CHANNEL_BROKEN), tried(), "failed"),
}


@pytest.mark.parametrize(("answer", "known", "state"), STATES.values(), ids=STATES)
def test_state_after(answer: Answer, known: Tried, state: str) -> None:
    assert after(answer, known, NOW).state == state


def test_every_outcome_has_a_verdict() -> None:
    for outcome in Outcome:
        for resend in (True, False):
            verdict = after(answered(outcome), tried(resend_when_unknown=resend), NOW)
            assert (verdict.again_at is not None) == (verdict.state == "retrying")


def test_only_a_broken_channel_breaks_the_channel() -> None:
    broken = [outcome for outcome in Outcome if after(answered(outcome), tried(), NOW).breaks_channel]
    assert broken == [Outcome.CHANNEL_BROKEN]


MENDS = {
    "offered": (answered(Outcome.REFUSED, mend=Mend.SHORTEN), (), Mend.SHORTEN),
    "each once": (answered(Outcome.REFUSED, mend=Mend.SHORTEN), ("shorten",), None),
    "another is another chance": (
        answered(Outcome.REFUSED, mend=Mend.PLAIN_TEXT),
        ("shorten",),
        Mend.PLAIN_TEXT,
    ),
    "a wrong signature may be the clock's fault": (
        answered(Outcome.CHANNEL_BROKEN, mend=Mend.SIGN_AGAIN),
        (),
        Mend.SIGN_AGAIN,
    ),
    "nothing is mended that was told": (answered(Outcome.DELIVERED, mend=Mend.SHORTEN), (), None),
    "none offered": (answered(Outcome.REFUSED), (), None),
}


@pytest.mark.parametrize(("answer", "done", "expected"), MENDS.values(), ids=MENDS)
def test_mend(answer: Answer, done: tuple[str, ...], expected: Mend | None) -> None:
    assert retry.mend(answer, done) is expected


@pytest.mark.parametrize(
    ("tries", "step_s"),
    [(0, 5), (1, 15), (2, 45), (3, 120), (4, 300), (5, 600), (6, 900), (7, 900), (90, 900)],
)
def test_the_ladder(tries: int, step_s: int) -> None:
    for n in range(50):
        known = tried(delivery_id=f"dlv_{n}", tries=tries)
        verdict = after(answered(Outcome.TEMPORARY), known, NOW)
        assert verdict.again_at is not None
        assert 0.8 * step_s <= (verdict.again_at - NOW).total_seconds() <= 1.2 * step_s
        assert verdict.tries == tries + 1


def test_jitter_spreads_deliveries_and_is_the_same_for_each() -> None:
    waits = [delay(1, f"dlv_{n}").total_seconds() for n in range(200)]
    assert waits == [delay(1, f"dlv_{n}").total_seconds() for n in range(200)]
    assert min(waits) < 4.2
    assert max(waits) > 5.8


@pytest.mark.parametrize("outcome", [Outcome.TEMPORARY, Outcome.AMBIGUOUS])
def test_the_providers_word_wins_over_the_ladder(outcome: Outcome) -> None:
    verdict = after(answered(outcome, retry_after=seconds(7)), tried(tries=5), NOW)
    assert verdict.again_at == NOW + seconds(7)


def test_a_try_beyond_the_end_is_not_planned() -> None:
    known = tried(tries=9, expires_at=NOW + seconds(60))
    assert after(answered(Outcome.TEMPORARY), known, NOW).again_at == NOW + seconds(60)


PENALTIES = {
    "as told": ({"retry_after": seconds(7)}, False, 7),
    "nothing told": ({}, False, 60),
    "nothing told, again": ({}, True, 600),
    "told for the first time only": ({"retry_after": seconds(60)}, True, 60),
    "told for both": ({"retry_after": seconds(60), "repeated_after": seconds(600)}, True, 600),
    "told to come back at once": ({"retry_after": seconds(0)}, False, 1),
}


@pytest.mark.parametrize(("words", "again", "pause_s"), PENALTIES.values(), ids=PENALTIES)
def test_too_fast_pauses_the_channel_and_costs_no_try(
    words: dict[str, timedelta], again: bool, pause_s: float
) -> None:
    known = tried(tries=2, was_throttled=again)
    verdict = after(answered(Outcome.THROTTLED, **words), known, NOW)
    assert verdict.pause_until == verdict.again_at == NOW + seconds(pause_s)
    assert verdict.tries == 2


def test_a_lost_worker_costs_a_try_but_no_time() -> None:
    assert after_loss(tried(tries=1), 1, NOW) == Verdict("retrying", 2, retry.LOST, again_at=NOW)


def test_a_message_that_keeps_killing_workers_climbs_the_ladder() -> None:
    verdict = after_loss(tried(tries=1), 2, NOW)
    assert verdict.again_at is not None
    assert verdict.again_at >= NOW + seconds(12)


def test_a_lost_phone_call_is_not_repeated() -> None:
    assert after_loss(tried(resend_when_unknown=False), 1, NOW).state == "unknown"


AFTER_A_LOSS = {
    "of those who may have been told": (Outcome.AMBIGUOUS, "unknown"),
    "others are over their quota for a moment": (Outcome.THROTTLED, "retrying"),
    "others were not told yet": (Outcome.TEMPORARY, "retrying"),
    "others were refused for certain": (Outcome.REFUSED, "failed"),
}


@pytest.mark.parametrize(("outcome", "state"), AFTER_A_LOSS.values(), ids=AFTER_A_LOSS)
def test_after_a_loss_whoever_was_not_sent_to_is_told(outcome: Outcome, state: str) -> None:
    assert after_loss(tried(resend_when_unknown=False), 1, NOW, outcome).state == state


AFTER_RECEIPTS = {
    "all told": (Outcome.DELIVERED, {Outcome.DELIVERED}, 0, ("delivered", 0, None)),
    "taken, not told yet": (Outcome.ACCEPTED, {Outcome.ACCEPTED}, 0, ("accepted", 0, None)),
    "nothing is known of one": (Outcome.AMBIGUOUS, {Outcome.DELIVERED}, 0, ("unknown", 0, None)),
    "one refused": (Outcome.REFUSED, {Outcome.REFUSED}, 0, ("failed", 0, None)),
    "the next one is called at once": (Outcome.TEMPORARY, {Outcome.REFUSED}, 4, ("retrying", 4, 0)),
    "never had it": (Outcome.TEMPORARY, {Outcome.TEMPORARY}, 0, ("retrying", 1, 0)),
}


@pytest.mark.parametrize(
    ("outcome", "news", "tries", "expected"), AFTER_RECEIPTS.values(), ids=AFTER_RECEIPTS
)
def test_a_receipt_moves_the_state(
    outcome: Outcome, news: set[Outcome], tries: int, expected: tuple[str, int, float | None]
) -> None:
    verdict = after_receipts(outcome, news, tried(tries=tries), NOW)
    again_s = None if verdict.again_at is None else (verdict.again_at - NOW).total_seconds()
    assert (verdict.state, verdict.tries, again_s) == expected


def test_what_a_provider_never_had_several_times_climbs_the_ladder() -> None:
    verdict = after_receipts(Outcome.TEMPORARY, {Outcome.TEMPORARY}, tried(tries=1), NOW)
    assert verdict.again_at is not None
    assert verdict.again_at >= NOW + seconds(12)


def test_numbers_over_their_limit_for_long_do_not_pause_the_channel() -> None:
    """Or the next alert would wait for hours before its fallback is told."""
    both = (Recipient("a", Outcome.THROTTLED), Recipient("b", Outcome.THROTTLED))
    for wait, is_paused in ((timedelta(minutes=10), True), (timedelta(hours=2), False)):
        verdict = after(answered(Outcome.THROTTLED, recipients=both, retry_after=wait), tried(), NOW)
        assert (verdict.again_at, verdict.pause_until is not None) == (NOW + wait, is_paused)


def test_one_numbers_limit_does_not_pause_the_channel() -> None:
    others = (Recipient("a", Outcome.THROTTLED), Recipient("b", Outcome.ACCEPTED))
    verdict = after(answered(Outcome.THROTTLED, recipients=others), tried(), NOW)
    assert (verdict.state, verdict.pause_until) == ("retrying", None)
