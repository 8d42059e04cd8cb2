"""Texts: what the provider's receipts, and its silence, make of them."""

from typing import TYPE_CHECKING

import pytest
from sqlalchemy import update

from notifier.clock import utcnow
from notifier.model import Receipt
from tests.delivery.exchange import Exchange
from tests.delivery.people import ANN, BEN, outcomes, questions, sms, story

if TYPE_CHECKING:
    from tests.delivery.conftest import House

pytestmark = pytest.mark.timeout(120)


def test_a_receipt_confirms_what_was_accepted(house: "House", exchange: Exchange) -> None:
    (one,) = house.alert(sms(house, exchange, ANN, BEN))
    with house.working():
        house.told(one, state="accepted")
        exchange.fates |= {ANN: "delivered"}
        house.until(lambda: outcomes(house, one)[ANN][0] == "delivered")
        assert house.row(one).state == "accepted"
        exchange.fates |= {BEN: "delivered"}
        house.told(one)
    assert outcomes(house, one) == {ANN: ("delivered", "delivered"), BEN: ("delivered", "delivered")}
    assert [r["message_id"] for r in house.row(one).recipients] == ["biz-1", "biz-2"]
    assert story(house, one) == [
        (1, "alert", "accepted"),
        (1, "receipt", "delivered"),
        (1, "receipt", "delivered"),
    ]
    assert exchange.called() == [ANN, BEN]
    assert {asked["id"] for asked in exchange.asked} == {"biz-1", "biz-2"}
    assert questions(house) == []


def test_a_text_that_did_not_arrive_fails_with_the_truth_about_each(
    house: "House", exchange: Exchange
) -> None:
    exchange.fates |= {ANN: "delivered", BEN: "UNDELIV"}
    mail = house.channel("mail", "email")
    (one,) = house.alert(sms(house, exchange, ANN, BEN), fallback=["mail"])
    with house.working():
        house.told(one, state="failed")
        house.told(house.fallback_of(one, mail))
    row = house.row(one)
    assert outcomes(house, one) == {ANN: ("delivered", "delivered"), BEN: ("refused", "UNDELIV")}
    assert (row.error_code, row.error_permanent) == ("UNDELIV", True)
    assert f"{BEN} (UNDELIV)" in row.why
    assert exchange.called() == [ANN, BEN]


def test_without_receipts_accepted_is_the_last_word(house: "House", exchange: Exchange) -> None:
    (one,) = house.alert(sms(house, exchange, asks=False))
    with house.working():
        house.told(one, state="accepted")
    assert questions(house) == []


def test_after_the_last_look_the_state_stays(house: "House", exchange: Exchange) -> None:
    (one,) = house.alert(sms(house, exchange))
    with house.working():
        house.until(lambda: len(exchange.asked) == 4)
        house.until(lambda: questions(house) == [])
    assert house.states([one]) == ["accepted"]
    assert story(house, one) == [(1, "alert", "accepted")]


def test_a_number_that_is_refused_fails_the_text_at_once_and_the_others_are_followed(
    house: "House", exchange: Exchange
) -> None:
    exchange.codes[BEN].append("ILLEGAL")
    (one,) = house.alert(sms(house, exchange, ANN, BEN))
    with house.working():
        house.told(one, state="failed")
        exchange.fates |= {ANN: "delivered"}
        house.until(lambda: outcomes(house, one)[ANN][0] == "delivered")
    assert house.states([one]) == ["failed"]
    assert (house.row(one).error_code, outcomes(house, one)[BEN]) == ("ILLEGAL", ("refused", "ILLEGAL"))


def test_only_who_was_not_told_is_sent_to_again(house: "House", exchange: Exchange) -> None:
    exchange.codes[BEN].append("SYSTEM_ERROR")
    (one,) = house.alert(sms(house, exchange, ANN, BEN, asks=False))
    with house.working():
        house.told(one, state="retrying")
        house.hasten(one)
        house.told(one, state="accepted")
    assert exchange.called() == [ANN, BEN]
    assert not any(attempt.possible_duplicate for attempt in house.attempts(one))


def test_a_lost_answer_is_cleared_up_by_asking(house: "House", exchange: Exchange) -> None:
    exchange.lost.append(True)
    exchange.fates |= {ANN: "delivered"}
    (one,) = house.alert(sms(house, exchange))
    with house.working():
        house.told(one)
    assert story(house, one) == [(1, "alert", "ambiguous"), (1, "receipt", "delivered")]
    assert exchange.called() == [ANN]
    assert house.row(one).recipients[0]["message_id"] == "biz-1"
    assert house.row(one).error_code is None


def test_what_the_provider_never_had_is_sent_again_and_is_no_duplicate(
    house: "House", exchange: Exchange
) -> None:
    exchange.lost.append(False)
    exchange.fates |= {ANN: "delivered"}
    (one,) = house.alert(sms(house, exchange))
    with house.working():
        house.told(one)
    assert story(house, one) == [
        (1, "alert", "ambiguous"),
        (1, "receipt", "temporary"),
        (2, "retry", "accepted"),
        (2, "receipt", "delivered"),
    ]
    assert exchange.called() == [ANN]
    assert not any(attempt.possible_duplicate for attempt in house.attempts(one))


def test_a_lost_answer_that_nobody_can_clear_up_stays_unknown(house: "House", exchange: Exchange) -> None:
    exchange.lost.append(True)
    exchange.is_mute = True
    house.channel("mail", "email")
    (one,) = house.alert(sms(house, exchange), fallback=["mail"])
    with house.working():
        house.told(one, state="unknown")
        house.until(lambda: len(exchange.asked) == 4 and not questions(house))
    assert house.states([one]) == ["unknown"]
    assert exchange.called() == [ANN]
    assert len(house.rows()) == 1, "the fallback was told"


def test_without_receipts_a_lost_answer_is_unknown_at_once(house: "House", exchange: Exchange) -> None:
    exchange.lost.append(True)
    (one,) = house.alert(sms(house, exchange, asks=False))
    with house.working():
        house.told(one, state="unknown")
    assert (questions(house), exchange.called()) == ([], [ANN])


def test_a_wrong_key_breaks_the_channel_and_tells_the_fallback(house: "House", exchange: Exchange) -> None:
    exchange.codes[ANN].append("WRONG_KEY")
    mail = house.channel("mail", "email")
    channel = sms(house, exchange)
    (one,) = house.alert(channel, fallback=["mail"])
    with house.working() as engine:
        house.told(one, state="failed")
        house.told(house.fallback_of(one, mail))
        (later,) = house.alert(channel)
        engine.wake(house.shards)
        house.told(later, state="held")
    assert house.get_channel(channel).health == "broken"


def test_the_members_of_a_digest_share_its_receipts(house: "House", exchange: Exchange) -> None:
    mail = house.channel("mail", "email")
    channel = sms(house, exchange)
    ids = [house.alert(channel, job="j", title=f"{n}", fallback=["mail"])[0] for n in range(2)]
    with house.working():
        house.told(*ids, state="merged")
        exchange.fates |= {ANN: "UNDELIV"}
        house.told(*ids, state="failed")
        house.told(*[house.fallback_of(one, mail) for one in ids], state="merged")
    assert exchange.called() == [ANN]


def test_the_log_shows_the_params_that_were_sent(house: "House", exchange: Exchange) -> None:
    (one,) = house.alert(sms(house, exchange, params={"what": "{{ title }}"}), title="disk full")
    with house.working():
        house.told(one, state="accepted")
    (taken,) = exchange.taken
    assert taken.params == house.row(one).message["params"]
    assert "disk full" in taken.params["what"]
    assert (taken.text, house.row(one).message["format"]) == (house.row(one).message["text"], "sms")


def test_a_receipt_for_a_deleted_channel_is_not_asked_for(house: "House", exchange: Exchange) -> None:
    (one,) = house.alert(sms(house, exchange))
    with house.working():
        house.told(one, state="accepted")
        with house.store.write() as session:
            session.execute(update(Receipt).values(channel_id="gone", due_at=utcnow()))
        house.until(lambda: questions(house) == [])
    assert house.states([one]) == ["accepted"]
