"""Quotas of each number: who waits, who is told meanwhile, and when the fallback is."""

from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from notifier.clock import utcnow
from tests.delivery.exchange import Exchange
from tests.delivery.people import ANN, BEN, outcomes, phone, sms

if TYPE_CHECKING:
    from tests.delivery.conftest import House

pytestmark = pytest.mark.timeout(120)


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


@pytest.mark.parametrize("make", [sms, phone])
def test_what_the_provider_would_not_have_takes_no_quota(
    house: "House", exchange: Exchange, make: Callable[..., str]
) -> None:
    exchange.codes[ANN] += ["ILLEGAL", "WRONG_KEY"]
    channel = make(house, exchange, ANN, quota="1/3600", asks=False)
    with house.working() as engine:
        for state in ("failed", "failed", "accepted", "retrying"):
            (one,) = house.alert(channel)
            engine.wake(house.shards)
            house.told(one, state=state)
            house.edit_channel(channel, health="ok")
    assert exchange.called() == [ANN]


def test_who_is_refused_beside_others_keeps_his_quota(house: "House", exchange: Exchange) -> None:
    exchange.codes[ANN].append("ILLEGAL")
    channel = sms(house, exchange, ANN, BEN, quota="1/3600", asks=False)
    with house.working() as engine:
        (first,) = house.alert(channel)
        house.told(first, state="failed")
        (second,) = house.alert(channel)
        engine.wake(house.shards)
        house.told(second, state="failed")
    assert exchange.called() == [BEN, ANN]
    assert outcomes(house, second) == {ANN: ("accepted", "OK"), BEN: ("refused", "quota")}
