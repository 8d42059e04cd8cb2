"""Texts and calls whose workers die or are late: each number gets its message once."""

import os
import random
import signal
import time
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from tests.delivery.exchange import Exchange
from tests.delivery.people import ANN, BEN, CAT, on_sqlite, outcomes, phone, questions, sms, story

if TYPE_CHECKING:
    from tests.delivery.conftest import House, Processes

pytestmark = pytest.mark.timeout(120)


def test_two_workers_do_not_ask_twice(house: "House", exchange: Exchange) -> None:
    channel = sms(house, exchange)
    ids = [house.alert(channel, title=f"{n}")[0] for n in range(12)]
    with house.working(), house.working():
        house.until(lambda: len(exchange.asked) >= 12 * 4 and not questions(house))
        assert len(exchange.asked) == 12 * 4
    assert set(house.states(ids)) == {"accepted"}


def test_a_worker_killed_while_the_provider_has_the_text(
    house: "House", exchange: Exchange, processes: "Processes"
) -> None:
    """In real time: one text, and asking clears up what became of it."""
    exchange.delay_s = 30
    exchange.fates |= {ANN: "delivered"}
    (one,) = house.alert(sms(house, exchange))
    doomed = processes.worker()
    house.until(lambda: exchange.called() == [ANN])
    processes.kill(doomed)
    exchange.delay_s = 0
    with house.working():
        house.told(one, timeout_s=12)
    assert exchange.called() == [ANN]
    assert story(house, one) == [(1, "alert", "ambiguous"), (1, "receipt", "delivered")]


@on_sqlite
def test_a_worker_killed_before_anything_left_is_cleared_up_too(
    house: "House", exchange: Exchange, processes: "Processes"
) -> None:
    exchange.fates |= {ANN: "no_answer", BEN: "delivered"}
    (one,) = house.alert(phone(house, exchange))
    doomed = processes.worker(FAULTCAST_FAULTPOINT="intent_written:1:kill")
    assert processes.exit_code(doomed) == -signal.SIGKILL
    house.lapse()
    with house.working():
        house.told(one)
    assert exchange.called() == [ANN, BEN]
    assert not any(attempt.possible_duplicate for attempt in house.attempts(one))


@on_sqlite
def test_a_worker_killed_between_two_calls_does_not_call_the_first_again(
    house: "House", exchange: Exchange, processes: "Processes"
) -> None:
    exchange.codes[ANN] += ["ILLEGAL", "OK"]
    (one,) = house.alert(phone(house, exchange))
    doomed = processes.worker(FAULTCAST_FAULTPOINT="intent_written:2:kill")
    assert processes.exit_code(doomed) == -signal.SIGKILL
    exchange.fates |= {BEN: "delivered"}
    house.lapse()
    with house.working():
        house.told(one)
    assert outcomes(house, one) == {ANN: ("refused", "ILLEGAL"), BEN: ("delivered", "delivered")}
    assert exchange.called() == [BEN]


def test_workers_killed_at_random_text_and_call_once(
    house: "House", exchange: Exchange, processes: "Processes"
) -> None:
    """The oracle is the provider: no number has the same message twice, and nobody is left out."""
    chance = random.Random(20261129)  # noqa: S311  which worker dies when, the same in every run
    exchange.fates |= {ANN: "no_answer", BEN: "delivered", CAT: "delivered"}
    channels = [phone(house, exchange), sms(house, exchange, BEN, CAT)]
    workers = [processes.worker(), processes.worker()]
    told: list[str] = []
    for _ in range(4):
        for _ in range(5):
            told += house.alert(*channels)
            exchange.delay_s = chance.choice((0.0, 0.02, 0.1))
            time.sleep(chance.random() * 0.2)
        victim = chance.randrange(2)
        processes.kill(workers[victim])
        workers[victim] = processes.worker()
    exchange.delay_s = 0.0
    house.told(*told, timeout_s=40)
    copies = Counter((one.reference, one.to) for one in exchange.taken)
    assert set(copies.values()) == {1}
    expected = {(row.id, to) for row in house.rows() for to in [one["to"] for one in row.recipients]}
    assert set(copies) == expected
    assert not any(attempt.possible_duplicate for one in told for attempt in house.attempts(one))


@pytest.mark.parametrize("point", ["answer_read", "outcome_written", "receipt_read"])
@on_sqlite
def test_a_worker_killed_on_the_way_of_a_receipt_sends_once(
    point: str, house: "House", exchange: Exchange, processes: "Processes"
) -> None:
    exchange.fates |= {ANN: "delivered"}
    (one,) = house.alert(sms(house, exchange))
    doomed = processes.worker(FAULTCAST_FAULTPOINT=f"{point}:1:kill")
    assert processes.exit_code(doomed) == -signal.SIGKILL
    house.lapse()
    with house.working():
        house.told(one, timeout_s=15)
    assert exchange.called() == [ANN]


@on_sqlite
def test_an_answer_that_comes_late_is_better_than_none(
    house: "House", exchange: Exchange, processes: "Processes"
) -> None:
    exchange.is_mute = True
    (one,) = house.alert(sms(house, exchange))
    stalled = processes.worker(FAULTCAST_FAULTPOINT="answer_read:1:stall:3")
    house.until(lambda: exchange.called() == [ANN])
    house.lapse()
    began = time.monotonic()
    with house.working():
        house.told(one, state="unknown")
        house.told(one, state="accepted", timeout_s=10)
        assert time.monotonic() - began < 10
    os.kill(stalled, signal.SIGTERM)
    assert processes.exit_code(stalled) == 0
    assert house.row(one).recipients[0]["message_id"] == "biz-1"
    assert exchange.called() == [ANN]
