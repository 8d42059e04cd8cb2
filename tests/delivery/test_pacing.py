"""Limits, penalties, slow providers and long messages, against stand-ins that count as the real ones do."""

import time
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from channels.standin import Scripted
from notifier.clock import utcnow
from notifier.mending import mended
from notifier.model import Channel

if TYPE_CHECKING:
    from tests.delivery.conftest import House

pytestmark = pytest.mark.timeout(90)
on_sqlite = pytest.mark.parametrize("engine_name", ["sqlite"], indirect=True)
NORMAL = Scripted()  # the provider's own answer
LONG = "\n".join(f"line {n} " + "长" * 40 for n in range(60))  # two parts for WeCom


def test_a_burst_is_told_within_seconds_and_never_over_the_limit(house: "House") -> None:
    """Twelve singly, all the others in one digest, which names them; what is critical at once."""
    ding = house.channel("ding", "dingtalk")
    with house.working(concurrency=64) as engine:
        ids = house.burst(ding, *[f"alert {n:03}" for n in range(60)])
        engine.wake(house.shards)
        critical = [house.alert(ding, title=f"grave {n}", severity="critical")[0] for n in range(3)]
        engine.wake(house.shards)
        house.told(*critical)  # by themselves: what has to wait for a turn is merged
        house.until(lambda: {row.state for row in map(house.row, ids)} == {"delivered", "merged"})
    assert house.states(ids).count("delivered") == 12
    assert house.providers.messages(accepted=False) == []
    said = "".join(f"{one.title}\n{one.text}" for one in house.providers.messages(accepted=True))
    assert [n for n in range(60) if f"alert {n:03}" not in said] == []


@on_sqlite
def test_two_limits_at_once(house: "House") -> None:
    """Feishu: five a second, a hundred a minute."""
    feishu = house.channel("feishu", "feishu")
    ids = [house.alert(feishu, title=f"{n}")[0] for n in range(12)]
    began = time.monotonic()
    with house.working(concurrency=64):
        house.told(*ids)
    assert time.monotonic() - began > 2.0
    assert house.providers.messages(accepted=False) == []


def test_too_fast_pauses_the_channel_for_all_and_costs_no_try(house: "House") -> None:
    house.providers.script("dingtalk", Scripted(status=200, body={"errcode": 130101, "errmsg": "too fast"}))
    ding = house.channel("ding", "dingtalk")
    with house.working() as engine:
        (first,) = house.alert(ding)
        house.told(first, state="retrying")
        (second,) = house.alert(ding)
        engine.wake(house.shards)
        paused_until = house.get_channel(ding).paused_until
        house.until(lambda: house.row(second).next_attempt_at == paused_until)
    assert 55 < (paused_until - utcnow()).total_seconds() <= 61
    assert (house.row(first).tries, house.row(second).state) == (0, "pending")


def test_too_fast_again_pauses_for_ten_minutes(house: "House") -> None:
    answer = Scripted(status=200, body={"errcode": 130101, "errmsg": "too fast"})
    house.providers.script("dingtalk", answer, answer)
    ding = house.channel("ding", "dingtalk")
    (one,) = house.alert(ding)
    with house.working() as engine:
        house.told(one, state="retrying")
        house.edit_channel(ding, paused_until=None)
        house.hasten(one)
        engine.wake(house.shards)
        house.until(lambda: len(house.attempts(one)) == 2 and house.row(one).state == "retrying")
    assert 590 < (house.get_channel(ding).paused_until - utcnow()).total_seconds() <= 601


def test_a_slow_provider_delays_nobody_else(house: "House") -> None:
    house.providers.script("wecom", *[Scripted(delay_s=3)] * 100)
    slow = [house.channel(f"slow{n}", "wecom") for n in range(8)]
    quick = house.channel("quick")
    with house.working(concurrency=64) as engine:
        for _ in range(8):
            house.alert(*slow)
        engine.wake(house.shards)
        house.until(lambda: len(house.providers.messages("wecom")) >= 8)
        began = time.monotonic()
        for _ in range(3):
            ids = house.alert(quick)
            engine.wake(house.shards[-1:])
            house.told(*ids)
        assert time.monotonic() - began < 2.5


def test_a_wrong_signature_is_signed_again_once_then_the_channel_is_broken(house: "House") -> None:
    robot = house.providers.robot("dingtalk", secret="SEC" + "1" * 64)
    ding = house.channel("ding", "dingtalk", webhook_url=robot.url, secret="SEC" + "2" * 64)
    (one,) = house.alert(ding)
    with house.working():
        house.told(one, state="failed")
    assert [(a.n, a.trigger, a.outcome) for a in house.attempts(one)] == [
        (1, "alert", "channel_broken"),
        (2, "sign_again", "channel_broken"),
    ]
    assert house.get_channel(ding).health == "broken"


def test_parts_that_were_told_are_not_sent_again(house: "House") -> None:
    house.providers.script("wecom", NORMAL, Scripted(status=500))
    (one,) = house.alert(house.channel("wecom", "wecom"), text=LONG)
    with house.working() as engine:
        house.told(one, state="retrying")
        house.hasten(one)
        engine.wake(house.shards)
        house.told(one)
    attempts = [(a.n, a.part, a.parts, a.outcome) for a in house.attempts(one)]
    assert attempts == [
        (1, 1, 2, "delivered"),
        (1, 2, 2, "temporary"),
        (2, 2, 2, "delivered"),
    ]
    assert house.row(one).attempt_count == 2


def test_a_long_message_begins_only_when_all_its_parts_have_a_turn(house: "House") -> None:
    wecom = house.channel("wecom", "wecom")
    short = [house.alert(wecom, title=f"{n}")[0] for n in range(11)]
    with house.working(concurrency=64) as engine:
        house.told(*short)
        (long,) = house.alert(wecom, text=LONG)
        engine.wake(house.shards)
        house.until(lambda: house.row(long).next_attempt_at > utcnow() + timedelta(seconds=20))
    row = house.row(long)
    assert (house.attempts(long), row.state, row.tries, row.error_code) == ([], "pending", 0, None)
    assert row.why == "waits for its turn: it takes 2 messages"
    assert 25 < (row.next_attempt_at - row.created_at).total_seconds() < 31  # company may come until then


def test_held_deliveries_are_told_in_one_digest_less_what_the_fallback_told(house: "House") -> None:
    ops, mail = house.channel(), house.channel("mail", "email")
    house.edit_channel(ops, health="broken")
    alone = [house.alert(ops, job=f"j{n}", title=f"{n}")[0] for n in range(2)]
    (both,) = house.alert(ops, title="both", fallback=["mail"])
    with house.store.write() as session:
        house.tell_fallback(session, both)
    with house.working() as engine:
        engine.wake(house.shards)
        house.told(house.fallback_of(both, mail))
        with house.store.write() as session:
            mended(session, session.get_one(Channel, ops), utcnow())
        engine.wake(house.shards)
        house.told(*alone, state="merged")
    assert house.states([both]) == ["suppressed"]
    assert len(house.providers.messages("webhook", accepted=True)) == 1


def test_what_the_fallback_told_in_a_digest_is_not_told_again(house: "House") -> None:
    ops, mail = house.channel(), house.channel("mail", "email")
    house.edit_channel(ops, health="broken")
    ids = [house.alert(ops, job="j", title=f"{n}", fallback=["mail"])[0] for n in range(2)]
    with house.store.write() as session:
        for one in ids:
            house.tell_fallback(session, one)
    with house.working() as engine:
        house.told(*[house.fallback_of(one, mail) for one in ids], state="merged")
        with house.store.write() as session:
            mended(session, session.get_one(Channel, ops), utcnow())
        engine.wake(house.shards)
        house.told(*ids, state="suppressed")
    assert house.providers.messages("webhook") == []


def test_a_next_try_is_never_later_than_the_end(house: "House") -> None:
    house.providers.script("webhook", Scripted(status=503, headers={"Retry-After": "7200"}))
    (one,) = house.alert(house.channel())
    end = utcnow() + timedelta(minutes=30)
    house.edit(one, expires_at=end)
    with house.working():
        house.told(one, state="retrying")
    assert house.row(one).next_attempt_at == end


def test_what_quiet_hours_held_back_is_told_in_one_digest(house: "House") -> None:
    ops = house.channel()
    over, others = ([house.alert(ops, job=f"j{n}{k}")[0] for k in range(3)] for n in range(2))
    for one in over:
        house.edit(one, why="quiet hours until 08:00", next_attempt_at=utcnow())
    for one in others:
        house.edit(one, why="quiet hours until 09:00", next_attempt_at=utcnow() + timedelta(hours=1))
    with house.working() as engine:
        engine.wake(house.shards)
        house.told(*over, state="merged")
    assert house.states(others) == ["pending"] * 3
    assert len(house.providers.messages("webhook", accepted=True)) == 1
