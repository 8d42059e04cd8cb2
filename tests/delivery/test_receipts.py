"""Texts and calls: who is told, in which order, and what the provider's receipts make of it."""

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import select, update

from channels import registry
from notifier.clock import utcnow
from notifier.model import Receipt
from tests.delivery.exchange import CLASSES, Exchange

if TYPE_CHECKING:
    from tests.delivery.conftest import House, Processes

pytestmark = pytest.mark.timeout(120)
ANN, BEN, CAT = "+8613800000001", "+8613800000002", "+8613800000003"
on_sqlite = pytest.mark.parametrize("engine_name", ["sqlite"], indirect=True)


@pytest.fixture(autouse=True)
def kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_CLASSES", {**registry._CLASSES, **CLASSES})


@pytest.fixture
def exchange() -> Iterator[Exchange]:
    with Exchange() as found:
        yield found


def sms(house: "House", exchange: Exchange, *to: str, name: str = "sms", **config: Any) -> str:
    return house.channel(name, "played_sms", url=exchange.url, to=to or (ANN,), **config)


def phone(house: "House", exchange: Exchange, *to: str, name: str = "phone", **config: Any) -> str:
    return house.channel(name, "played_phone", url=exchange.url, to=to or (ANN, BEN), **config)


def outcomes(house: "House", delivery: str) -> dict[str, tuple[str, str | None]]:
    return {one["to"]: (one["outcome"], one["code"]) for one in house.row(delivery).recipients}


def story(house: "House", delivery: str) -> list[tuple[int, str, str | None]]:
    return [(one.n, one.trigger, one.outcome) for one in house.attempts(delivery)]


def questions(house: "House") -> list[Receipt]:
    with house.store.read() as session:
        return list(session.scalars(select(Receipt)))


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


def test_who_is_over_his_quota_is_told_as_soon_as_he_may_be(house: "House", exchange: Exchange) -> None:
    quota = {"quota": "1/3", "asks": False}
    both, ann = sms(house, exchange, ANN, BEN, **quota), sms(house, exchange, ANN, name="ann", **quota)
    with house.working() as engine:
        (first,) = house.alert(ann)
        house.told(first, state="accepted")
        (second,) = house.alert(both)
        engine.wake(house.shards)
        house.told(second, state="retrying")
        assert outcomes(house, second) == {ANN: ("throttled", "quota"), BEN: ("accepted", "OK")}
        assert f"{ANN} until" in house.row(second).why
        assert house.row(second).tries == 0
        house.told(second, state="accepted")
    assert exchange.called() == [ANN, BEN, ANN]
    assert [len(attempt.recipients) for attempt in house.attempts(second)] == [1, 1]


def test_a_quota_used_up_for_long_tells_the_fallback_at_once(house: "House", exchange: Exchange) -> None:
    mail = house.channel("mail", "email")
    channel = sms(house, exchange, quota="1/3600", asks=False)
    with house.working() as engine:
        (first,) = house.alert(channel)
        house.told(first, state="accepted")
        (second,) = house.alert(channel, fallback=["mail"])
        engine.wake(house.shards)
        house.told(second, state="failed")
        house.told(house.fallback_of(second, mail))
    row = house.row(second)
    assert (row.error_code, outcomes(house, second)) == ("quota", {ANN: ("refused", "quota")})
    assert f"quota is used up: {ANN} until" in row.why
    assert house.attempts(second) == []
    assert exchange.called() == [ANN]


def test_a_limit_of_the_provider_that_lasts_tells_the_fallback_at_once(
    house: "House", exchange: Exchange
) -> None:
    exchange.codes[ANN] += ["DAY_LIMIT"] * 3
    mail = house.channel("mail", "email")
    channel = sms(house, exchange)
    with house.working() as engine:
        for _ in range(2):
            (one,) = house.alert(channel, fallback=["mail"])
            engine.wake(house.shards)
            house.told(one, state="failed")
            house.told(house.fallback_of(one, mail))
            assert house.row(one).error_code == "DAY_LIMIT"
        (alone,) = house.alert(channel)
        engine.wake(house.shards)
        house.told(alone, state="retrying")
    assert 7100 < (house.row(alone).next_attempt_at - utcnow()).total_seconds() <= 7200


def test_nobody_waits_for_one_whose_quota_is_used_up_for_long(house: "House", exchange: Exchange) -> None:
    """The next alert of the job would wait with it."""
    both, ann = (
        sms(house, exchange, *to, name=name, quota="1/3600", asks=False)
        for name, to in (("both", (ANN, BEN)), ("ann", (ANN,)))
    )
    with house.working() as engine:
        (first,) = house.alert(ann)
        house.told(first, state="accepted")
        (second,) = house.alert(both)
        engine.wake(house.shards)
        house.told(second, state="failed")
    assert outcomes(house, second) == {ANN: ("refused", "quota"), BEN: ("accepted", "OK")}
    assert house.row(second).error_code == "quota"


def test_a_burst_by_number_keeps_to_the_quota_and_loses_nothing(house: "House", exchange: Exchange) -> None:
    channel = sms(house, exchange, quota="2/4", asks=False)
    with house.working() as engine:
        ids = [house.alert(channel, title=f"alert {n}")[0] for n in range(8)]
        engine.wake(house.shards)
        for one in ids:
            house.until(lambda one=one: house.row(one).state in ("accepted", "merged"))
    told = " ".join(one.text for one in exchange.taken)
    assert all(f"alert {n}" in told for n in range(8))
    moments = sorted(attempt.finished_at for row in house.rows() for attempt in house.attempts(row.id))
    assert all(
        later - first >= timedelta(seconds=4) for first, later in zip(moments, moments[2:], strict=False)
    )


def test_without_a_fallback_a_quota_is_waited_for_however_long(house: "House", exchange: Exchange) -> None:
    channel = sms(house, exchange, quota="1/3600", asks=False)
    with house.working() as engine:
        (first,) = house.alert(channel)
        house.told(first, state="accepted")
        (second,) = house.alert(channel)
        engine.wake(house.shards)
        house.told(second, state="retrying")
    waits = (house.row(second).next_attempt_at - utcnow()).total_seconds()
    assert 3500 < waits < 3602
    assert (house.row(second).tries, f"{ANN} until" in house.row(second).why) == (0, True)
    assert exchange.called() == [ANN]


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


def test_a_number_over_its_quota_is_passed_over(house: "House", exchange: Exchange) -> None:
    channel = phone(house, exchange, quota="1/3600", asks=False)
    house.channel("mail", "email")
    with house.working() as engine:
        for called in ([ANN], [ANN, BEN]):
            (one,) = house.alert(channel)
            engine.wake(house.shards)
            house.told(one, state="accepted")
            assert exchange.called() == called
        (third,) = house.alert(channel, fallback=["mail"])
        engine.wake(house.shards)
        house.told(third, state="failed")
    assert outcomes(house, third) == {ANN: ("refused", "quota"), BEN: ("refused", "quota")}
    assert exchange.called() == [ANN, BEN]


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


def test_the_log_shows_the_params_that_were_sent(house: "House", exchange: Exchange) -> None:
    (one,) = house.alert(sms(house, exchange, params={"what": "{{ title }}"}), title="disk full")
    with house.working():
        house.told(one, state="accepted")
    (taken,) = exchange.taken
    assert taken.params == house.row(one).message["params"]
    assert "disk full" in taken.params["what"]
    assert (taken.text, house.row(one).message["format"]) == (house.row(one).message["text"], "sms")


def test_texts_and_calls_are_worth_different_times(house: "House", exchange: Exchange) -> None:
    (text,), (call,) = house.alert(sms(house, exchange)), house.alert(phone(house, exchange))
    worth = [house.row(one).expires_at - house.row(one).created_at for one in (text, call)]
    assert worth == [timedelta(hours=24), timedelta(minutes=30)]


def test_a_receipt_for_a_deleted_channel_is_not_asked_for(house: "House", exchange: Exchange) -> None:
    (one,) = house.alert(sms(house, exchange))
    with house.working():
        house.told(one, state="accepted")
        with house.store.write() as session:
            session.execute(update(Receipt).values(channel_id="gone", due_at=utcnow()))
        house.until(lambda: questions(house) == [])
    assert house.states([one]) == ["accepted"]


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
