"""Who is told, who is left, and what it means for the whole message."""

from datetime import UTC, datetime, timedelta
from itertools import product

import pytest

from channels.base import Answer, Outcome, Recipient
from notifier.recipients import QUOTA, TOLD, Audience, document, merge, over_quota, parsed, quota_words

NOW = datetime(2026, 11, 29, 3, 12, 41, tzinfo=UTC)
MAIL = Audience()
SMS = Audience(("a", "b", "c"), resends=False)
PHONE = Audience(("a", "b", "c"), is_sequential=True, resends=False)
MUTE = Audience(("a", "b", "c"), is_sequential=True, resends=False, asks=False)
O = Outcome  # noqa: E741  for tables


def told(**outcomes: Outcome) -> list[Recipient]:
    return [Recipient(to, outcome) for to, outcome in outcomes.items()]


def quota(to: str) -> Recipient:
    return Recipient(to, Outcome.THROTTLED, QUOTA)


WHOLE = {
    "mail: all told": (MAIL, told(a=O.DELIVERED, b=O.DELIVERED), O.DELIVERED),
    "mail: one later": (MAIL, told(a=O.DELIVERED, b=O.TEMPORARY), O.TEMPORARY),
    "mail: one refused": (MAIL, told(a=O.DELIVERED, b=O.REFUSED), O.REFUSED),
    "mail: one refused, one later": (MAIL, told(a=O.REFUSED, b=O.TEMPORARY), O.TEMPORARY),
    "mail: one refused, one unknown is sent again": (MAIL, told(a=O.REFUSED, b=O.AMBIGUOUS), O.AMBIGUOUS),
    "mail: one too fast": (MAIL, told(a=O.TEMPORARY, b=O.THROTTLED), O.THROTTLED),
    "sms: all told": (SMS, told(a=O.DELIVERED, b=O.DELIVERED, c=O.DELIVERED), O.DELIVERED),
    "sms: one without receipt": (SMS, told(a=O.DELIVERED, b=O.ACCEPTED, c=O.DELIVERED), O.ACCEPTED),
    "sms: one refused": (SMS, told(a=O.DELIVERED, b=O.ACCEPTED, c=O.REFUSED), O.REFUSED),
    "sms: one unknown": (SMS, told(a=O.DELIVERED, b=O.ACCEPTED, c=O.AMBIGUOUS), O.AMBIGUOUS),
    "sms: refused for certain counts before unknown": (
        SMS, told(a=O.REFUSED, b=O.AMBIGUOUS, c=O.DELIVERED), O.REFUSED,
    ),
    "sms: one not sent to yet": (SMS, told(a=O.DELIVERED, b=O.DELIVERED), O.TEMPORARY),
    "sms: one over quota": (SMS, [*told(a=O.DELIVERED, b=O.DELIVERED), quota("c")], O.THROTTLED),
    "sms: a try that failed comes before a quota": (
        SMS, [*told(a=O.DELIVERED, b=O.TEMPORARY), quota("c")], O.TEMPORARY,
    ),
    "phone: one answered": (PHONE, told(a=O.REFUSED, b=O.DELIVERED), O.DELIVERED),
    "phone: one is called": (PHONE, told(a=O.REFUSED, b=O.ACCEPTED), O.ACCEPTED),
    "phone: others are left": (PHONE, told(a=O.REFUSED, b=O.REFUSED), O.TEMPORARY),
    "phone: nobody answered": (PHONE, told(a=O.REFUSED, b=O.REFUSED, c=O.REFUSED), O.REFUSED),
    "phone: one may be ringing": (PHONE, told(a=O.REFUSED, b=O.AMBIGUOUS), O.AMBIGUOUS),
    "phone that tells nothing: others are left": (MUTE, told(a=O.AMBIGUOUS), O.TEMPORARY),
    "phone that tells nothing: nobody is left": (
        MUTE, told(a=O.AMBIGUOUS, b=O.REFUSED, c=O.REFUSED), O.AMBIGUOUS,
    ),
    "phone that tells nothing: another is called": (MUTE, told(a=O.AMBIGUOUS, b=O.ACCEPTED), O.ACCEPTED),
    "phone: one is over quota": (PHONE, [quota("a"), *told(b=O.REFUSED, c=O.REFUSED)], O.THROTTLED),
}  # fmt: skip


@pytest.mark.parametrize(("audience", "known", "expected"), WHOLE.values(), ids=WHOLE)
def test_the_whole_message(audience: Audience, known: list[Recipient], expected: Outcome) -> None:
    assert audience.outcome(Answer(Outcome.TEMPORARY), known) is expected


def every_picture(audience: Audience) -> list[list[Recipient]]:
    choices = [None, *Outcome]
    found = []
    for outcomes in product(choices, repeat=len(audience.order)):
        pairs = zip(audience.order, outcomes, strict=True)
        found.append([Recipient(to, outcome) for to, outcome in pairs if outcome is not None])
    return found


@pytest.mark.parametrize("audience", [SMS, PHONE, MUTE], ids=["sms", "phone", "mute"])
def test_over_all_combinations_state_and_who_is_left_agree(audience: Audience) -> None:
    for known in every_picture(audience):
        whole, left = audience.outcome(Answer(Outcome.REFUSED), known), audience.left(known)
        outcomes = [one.outcome for one in known]
        if not known:
            assert left is None
            continue
        assert left is not None
        assert left.isdisjoint(one.to for one in known if one.outcome is Outcome.AMBIGUOUS), "told twice"
        assert left.isdisjoint(one.to for one in known if one.outcome in TOLD), "told twice"
        if audience.is_sequential:
            assert (whole in TOLD) == any(outcome in TOLD for outcome in outcomes)
        else:
            assert (whole in TOLD) == (len(known) == 3 and all(outcome in TOLD for outcome in outcomes))
        assert (whole is Outcome.DELIVERED) <= (Outcome.DELIVERED in outcomes)
        assert not left or whole in (Outcome.TEMPORARY, Outcome.THROTTLED, Outcome.CHANNEL_BROKEN)
        assert left or whole not in (Outcome.TEMPORARY, Outcome.THROTTLED)


def test_without_recipients_the_answer_counts() -> None:
    assert MAIL.outcome(Answer(Outcome.THROTTLED), []) is Outcome.THROTTLED


def test_what_is_heard_later_replaces_what_was_known() -> None:
    merged = merge(told(a=O.DELIVERED, b=O.TEMPORARY), told(b=O.DELIVERED))
    assert list(merged) == told(a=O.DELIVERED, b=O.DELIVERED)


LEFT = {
    "mail: who was not told": (MAIL, told(a=O.DELIVERED, b=O.TEMPORARY, c=O.REFUSED), {"b"}),
    "mail: the lost one too": (MAIL, told(a=O.DELIVERED, b=O.AMBIGUOUS), {"b"}),
    "sms: who was never addressed": (SMS, told(a=O.DELIVERED, b=O.TEMPORARY), {"b", "c"}),
    "sms: the lost one not": (SMS, told(a=O.AMBIGUOUS, b=O.TEMPORARY, c=O.DELIVERED), {"b"}),
    "phone: all after the one who did not answer": (PHONE, told(a=O.REFUSED), {"b", "c"}),
    "phone: nobody while one is called": (PHONE, told(a=O.ACCEPTED), set()),
    "phone: nobody once one answered": (PHONE, told(a=O.REFUSED, b=O.DELIVERED), set()),
    "phone: nobody while one may be ringing": (PHONE, told(a=O.AMBIGUOUS), set()),
    "phone that tells nothing: the next, never the lost one": (MUTE, told(a=O.AMBIGUOUS), {"b", "c"}),
    "phone: the same one after an error": (PHONE, told(a=O.TEMPORARY), {"a", "b", "c"}),
}


@pytest.mark.parametrize(("audience", "known", "left"), LEFT.values(), ids=LEFT)
def test_who_is_left(audience: Audience, known: list[Recipient], left: set[str]) -> None:
    assert audience.left(known) == left


def test_who_is_not_mentioned_shares_what_happened_to_the_whole() -> None:
    heard = SMS.heard(Answer(Outcome.AMBIGUOUS, code="unanswered"), ("a", "b"))
    assert heard == (Recipient("a", O.AMBIGUOUS, "unanswered"), Recipient("b", O.AMBIGUOUS, "unanswered"))


def test_good_news_must_name_everybody() -> None:
    answer = Answer(Outcome.ACCEPTED, code="OK", recipients=(Recipient("a", O.ACCEPTED, "OK", "1"),))
    assert SMS.heard(answer, ("a", "b")) == (
        Recipient("a", O.ACCEPTED, "OK", "1"),
        Recipient("b", O.AMBIGUOUS, "no_word"),
    )


def test_a_call_has_the_answers_id() -> None:
    heard = PHONE.heard(Answer(Outcome.ACCEPTED, code="OK", message_id="call-1"), ("b",))
    assert heard == (Recipient("b", O.ACCEPTED, "OK", "call-1"),)


def test_robots_have_no_recipients() -> None:
    assert MAIL.heard(Answer(Outcome.DELIVERED), ("",)) == ()


def test_who_was_taken_off_the_channel_is_not_waited_for() -> None:
    known = [Recipient("gone", O.TEMPORARY), Recipient("left", O.DELIVERED), *told(a=O.TEMPORARY)]
    assert [one.to for one in SMS.present(known)] == ["left", "a"]


def test_a_quota_that_is_soon_free_is_waited_for() -> None:
    soon, late = NOW + timedelta(minutes=10), NOW + timedelta(minutes=11)
    found = over_quota({"a": soon, "b": late}, NOW, gives_up=True)
    assert found == (Recipient("a", O.THROTTLED, QUOTA), Recipient("b", O.REFUSED, QUOTA))
    assert over_quota({"b": late}, NOW) == (quota("b"),), "there is nobody else to be told"
    assert "b until 2026-11-29 03:23:41 UTC" in quota_words({"b": late})


def test_rows_keep_all_of_a_recipient() -> None:
    one = Recipient("a", O.ACCEPTED, "OK", "biz-1")
    assert parsed([document(one)]) == (one,)
    assert parsed([{"to": "a", "outcome": "accepted", "code": None}]) == (Recipient("a", O.ACCEPTED),)


def test_nobody_waits_for_ever_for_a_word_on_a_lost_call() -> None:
    lost = tuple(told(a=O.AMBIGUOUS))
    past = PHONE.past(lost)
    assert (PHONE.left(lost), PHONE.left(past)) == (frozenset(), {"b", "c"})
    assert PHONE.outcome(Answer(O.AMBIGUOUS), past) is O.TEMPORARY
    alone = Audience(("a",), is_sequential=True, resends=False)
    assert alone.past(lost) == lost
    assert SMS.past(lost) == lost
