"""What a provider's receipts make of a delivery."""

from datetime import UTC, datetime, timedelta
from itertools import product

import pytest

from channels.base import Outcome, Recipient
from notifier.asking import MOVABLE, Finding, judge, news
from notifier.model import Delivery
from notifier.recipients import SETTLED, TOLD, Audience, merge

NOW = datetime(2026, 11, 29, 3, 12, 41, tzinfo=UTC)
SMS = Audience(("a", "b"), resends=False)
PHONE = Audience(("a", "b"), is_sequential=True, resends=False)
O = Outcome  # noqa: E741  for tables
OPEN = (O.ACCEPTED, O.AMBIGUOUS)
SAID = (O.DELIVERED, O.REFUSED, O.ACCEPTED, O.TEMPORARY)


def delivery(state: str, **values: object) -> Delivery:
    expires_at = NOW + timedelta(hours=1)
    return Delivery(id="dlv_1", state=state, tries=0, expires_at=expires_at, trigger="alert", **values)


def found(audience: Audience, known: list[Recipient], *said: Recipient) -> Finding:
    fresh = news(known, said)
    return Finding(audience, fresh, merge(known, fresh))


def told(**outcomes: Outcome) -> list[Recipient]:
    return [Recipient(to, outcome) for to, outcome in outcomes.items()]


MOVES = {
    "every text arrived": ("accepted", SMS, told(a=O.DELIVERED, b=O.ACCEPTED), O.DELIVERED, "delivered"),
    "one of two arrived": ("unknown", SMS, told(a=O.AMBIGUOUS, b=O.ACCEPTED), O.DELIVERED, None),
    "the lost one was taken": ("unknown", SMS, told(a=O.ACCEPTED, b=O.AMBIGUOUS), O.ACCEPTED, "accepted"),
    "one did not arrive": ("accepted", SMS, told(a=O.ACCEPTED, b=O.ACCEPTED), O.REFUSED, "failed"),
    "one was never had": ("unknown", SMS, told(a=O.DELIVERED, b=O.AMBIGUOUS), O.TEMPORARY, "retrying"),
    "one arrived while another waits": (
        "retrying",
        SMS,
        told(a=O.TEMPORARY, b=O.ACCEPTED),
        O.DELIVERED,
        None,
    ),
    "one arrived of a failed text": ("failed", SMS, told(a=O.REFUSED, b=O.ACCEPTED), O.DELIVERED, None),
    "answered": ("accepted", PHONE, told(a=O.REFUSED, b=O.ACCEPTED), O.DELIVERED, "delivered"),
    "the last one did not answer": ("accepted", PHONE, told(a=O.REFUSED, b=O.ACCEPTED), O.REFUSED, "failed"),
    "the lost call rang in vain": ("unknown", PHONE, told(a=O.REFUSED, b=O.AMBIGUOUS), O.REFUSED, "failed"),
    "expired is over": ("expired", SMS, told(a=O.DELIVERED, b=O.ACCEPTED), O.DELIVERED, None),
    "told in a digest by now": ("merged", SMS, told(a=O.DELIVERED, b=O.ACCEPTED), O.DELIVERED, None),
}


@pytest.mark.parametrize(("state", "audience", "known", "said", "expected"), MOVES.values(), ids=MOVES)
def test_a_word_on_b_moves_the_delivery(
    state: str, audience: Audience, known: list[Recipient], said: Outcome, expected: str | None
) -> None:
    verdict = judge(delivery(state), found(audience, known, Recipient("b", said, "code")), NOW)
    assert (verdict and verdict.state) == expected


def test_the_next_one_is_called_at_once() -> None:
    verdict = judge(
        delivery("accepted"), found(PHONE, told(a=O.ACCEPTED), Recipient("a", O.REFUSED, "busy")), NOW
    )
    assert verdict is not None
    assert (verdict.state, verdict.again_at, verdict.tries) == ("retrying", NOW, 0)
    assert verdict.why == "nobody answered: a (busy)"


def test_a_test_is_not_tried_again() -> None:
    row = delivery("unknown")
    row.trigger = "test"
    verdict = judge(row, found(Audience(), told(a=O.AMBIGUOUS), Recipient("a", O.TEMPORARY)), NOW)
    assert verdict is not None
    assert (verdict.state, verdict.again_at) == ("failed", None)


def test_what_waits_in_a_digest_is_not_moved() -> None:
    row = delivery("retrying", merged_into="dlv_2")
    assert (
        judge(row, found(SMS, told(a=O.DELIVERED, b=O.AMBIGUOUS), Recipient("b", O.TEMPORARY)), NOW) is None
    )


@pytest.mark.parametrize("audience", [SMS, PHONE], ids=["sms", "phone"])
def test_over_all_combinations_nobody_is_told_twice_or_forgotten(audience: Audience) -> None:
    """Every picture of two recipients, every word on those whose fate is open, in every state."""
    for state, first, second in product(MOVABLE, [*O], [None, *O]):
        known = told(a=first) + (told(b=second) if second is not None else [])
        for said in product([None, *SAID], repeat=len(known)):
            words = [Recipient(one.to, word) for one, word in zip(known, said, strict=True) if word]
            finding = found(audience, known, *words)
            if not finding.fresh:
                continue
            changed = {one.to for one in finding.fresh}
            assert changed <= {one.to for one in known if one.outcome in OPEN}
            verdict = judge(delivery(state), finding, NOW)
            after = verdict.state if verdict else state
            left = audience.left(finding.recipients) or frozenset()
            if verdict is not None:
                assert (after == "retrying") == bool(left) or O.CHANNEL_BROKEN in (first, second)
                assert (verdict.again_at is not None) == (after == "retrying")
            outcomes = {one.to: one.outcome for one in finding.recipients}
            if after == "delivered" and verdict is not None:
                agree = any if audience.is_sequential else all
                assert agree(outcome is O.DELIVERED for outcome in outcomes.values())
            assert all(
                outcomes[to] not in TOLD and outcomes[to] is not O.AMBIGUOUS for to in left & set(outcomes)
            )


def test_only_news_about_what_is_open_counts() -> None:
    known = [
        Recipient("a", O.REFUSED, "busy"),
        Recipient("b", O.AMBIGUOUS),
        Recipient("c", O.ACCEPTED, "OK", "1"),
    ]
    said = (
        Recipient("a", O.DELIVERED),
        Recipient("b", O.ACCEPTED, None, "2"),
        Recipient("c", O.ACCEPTED, "queued"),
        Recipient("d", O.DELIVERED),
    )
    assert news(known, said) == (Recipient("b", O.ACCEPTED, None, "2"),)
    assert all(one.outcome in SETTLED for one in news(known, (Recipient("c", O.REFUSED, "x"),)))
    assert news(known, (Recipient("b", O.THROTTLED), Recipient("c", O.CHANNEL_BROKEN))) == ()
