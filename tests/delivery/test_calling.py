"""Calls: who is called, in which order, and when that ends."""

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from tests.delivery.exchange import Exchange
from tests.delivery.people import ANN, BEN, CAT, outcomes, phone, questions, sms, story

if TYPE_CHECKING:
    from tests.delivery.conftest import House

pytestmark = pytest.mark.timeout(120)


def test_who_does_not_answer_makes_room_for_the_next(house: "House", exchange: Exchange) -> None:
    exchange.fates |= {ANN: "no_answer", BEN: "delivered"}
    (one,) = house.alert(phone(house, exchange, ANN, BEN, CAT))
    with house.working():
        house.told(one)
    assert exchange.called() == [ANN, BEN]
    assert outcomes(house, one) == {ANN: ("refused", "no_answer"), BEN: ("delivered", "delivered")}
    assert story(house, one) == [
        (1, "alert", "accepted"),
        (1, "receipt", "refused"),
        (2, "next", "accepted"),
        (2, "receipt", "delivered"),
    ]


def test_nobody_is_called_while_another_phone_rings(house: "House", exchange: Exchange) -> None:
    (one,) = house.alert(phone(house, exchange))
    with house.working():
        house.until(lambda: len(exchange.asked) == 4 and not questions(house))
    assert (house.states([one]), exchange.called()) == (["accepted"], [ANN])


def test_when_nobody_answers_the_fallback_is_told(house: "House", exchange: Exchange) -> None:
    exchange.fates |= {ANN: "no_answer", BEN: "busy"}
    mail = house.channel("mail", "email")
    (one,) = house.alert(phone(house, exchange), fallback=["mail"])
    with house.working():
        house.told(one, state="failed")
        house.told(house.fallback_of(one, mail))
    assert house.row(one).why == f"nobody answered: {ANN} (no_answer), {BEN} (busy)"
    assert exchange.called() == [ANN, BEN]


def test_a_call_that_is_refused_goes_on_to_the_next_in_the_same_try(
    house: "House", exchange: Exchange
) -> None:
    exchange.codes |= {ANN: exchange.codes[ANN], BEN: exchange.codes[BEN]}
    exchange.codes[ANN].append("ILLEGAL")
    exchange.codes[BEN].append("BUSINESS_LIMIT")
    (one,) = house.alert(phone(house, exchange, ANN, BEN, CAT, asks=False))
    with house.working():
        house.told(one, state="accepted")
    assert exchange.called() == [CAT]
    assert story(house, one) == [(1, "alert", "refused"), (2, "next", "throttled"), (3, "next", "accepted")]
    assert house.get_channel(house.row(one).channel_id).paused_until is None


def test_an_error_of_the_provider_does_not_wake_the_next(house: "House", exchange: Exchange) -> None:
    exchange.codes[ANN].append("SYSTEM_ERROR")
    (one,) = house.alert(phone(house, exchange, asks=False))
    with house.working():
        house.told(one, state="retrying")
        house.hasten(one)
        house.told(one, state="accepted")
    assert exchange.called() == [ANN]


def test_a_call_whose_answer_was_lost_is_asked_for_before_anybody_is_called(
    house: "House", exchange: Exchange
) -> None:
    exchange.lost.append(True)
    exchange.fates |= {ANN: "no_answer", BEN: "delivered"}
    (one,) = house.alert(phone(house, exchange))
    with house.working():
        house.told(one)
    assert exchange.called() == [ANN, BEN]
    assert not any(attempt.possible_duplicate for attempt in house.attempts(one))


@pytest.mark.parametrize("has_arrived", [True, False])
def test_where_nobody_can_be_asked_a_lost_call_goes_on_to_the_next_at_once(
    house: "House", exchange: Exchange, has_arrived: bool
) -> None:
    exchange.lost.append(has_arrived)
    (one,) = house.alert(phone(house, exchange, ANN, BEN, CAT, asks=False))
    with house.working():
        house.told(one, state="accepted")
    assert exchange.called() == ([ANN, BEN] if has_arrived else [BEN])
    assert story(house, one) == [(1, "alert", "ambiguous"), (2, "next", "accepted")]
    assert outcomes(house, one) == {ANN: ("ambiguous", "unanswered"), BEN: ("accepted", "OK")}
    assert not any(attempt.possible_duplicate for attempt in house.attempts(one))


def test_a_lost_call_of_which_nothing_is_heard_goes_on_to_the_next(
    house: "House", exchange: Exchange
) -> None:
    exchange.lost.append(True)
    exchange.is_mute = True
    (one,) = house.alert(phone(house, exchange))
    with house.working():
        house.told(one, state="accepted")
        assert outcomes(house, one) == {ANN: ("ambiguous", "silent"), BEN: ("accepted", "OK")}
        exchange.fates |= {ANN: "delivered"}
        exchange.is_mute = False
        house.told(one)
    assert exchange.called() == [ANN, BEN]
    assert not any(attempt.possible_duplicate for attempt in house.attempts(one))


def test_when_nothing_is_heard_of_the_last_call_it_stays_unknown(house: "House", exchange: Exchange) -> None:
    exchange.lost.append(True)
    exchange.is_mute = True
    (one,) = house.alert(phone(house, exchange, ANN))
    with house.working():
        house.until(lambda: len(exchange.asked) == 4 and not questions(house))
    assert (house.states([one]), exchange.called()) == (["unknown"], [ANN])


def test_when_all_calls_are_lost_it_is_unknown(house: "House", exchange: Exchange) -> None:
    exchange.lost += [True, True]
    (one,) = house.alert(phone(house, exchange, asks=False))
    with house.working():
        house.told(one, state="unknown")
    assert exchange.called() == [ANN, BEN]


def test_a_digest_that_goes_on_to_the_next_number_takes_its_members_along(
    house: "House", exchange: Exchange
) -> None:
    exchange.fates |= {ANN: "no_answer"}
    channel = phone(house, exchange)
    ids = [house.alert(channel, job="j", title=f"{n}")[0] for n in range(2)]
    with house.working():
        house.until(lambda: exchange.called() == [ANN, BEN])
        exchange.fates |= {BEN: "delivered"}
        house.told(house.digest_of(*ids))
    assert house.states(ids) == ["merged", "merged"]


def test_texts_and_calls_are_worth_different_times(house: "House", exchange: Exchange) -> None:
    (text,), (call,) = house.alert(sms(house, exchange)), house.alert(phone(house, exchange))
    worth = [house.row(one).expires_at - house.row(one).created_at for one in (text, call)]
    assert worth == [timedelta(hours=24), timedelta(minutes=30)]
