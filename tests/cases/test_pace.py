"""A burst at a robot's real limit: nothing refused for its rate, nothing lost, one digest instead of many."""

import time

import pytest

from channels.standin import Scripted
from tests.cases.town import Town, answers, said

pytestmark = pytest.mark.timeout(170)


def missing(town: Town, kind: str, count: int) -> list[int]:
    shown = "".join(said(message) for message in town.arrived(kind))
    return [n for n in range(count) if f"alert {n:03}" not in shown]


def test_a_hundred_alerts_at_once_are_all_told_within_a_minute_and_none_is_refused(town: Town) -> None:
    """D-S10, feiyu563/PrometheusAlert#369: over twenty a minute the rest were lost."""
    town.channel("ding", "dingtalk")
    ids = [town.publish("ding", title=f"alert {n:03}")[0] for n in range(100)]
    began = time.monotonic()
    town.tell_all(ids, timeout_s=90)
    assert time.monotonic() - began < 60
    assert town.providers.messages("dingtalk", accepted=False) == []
    assert missing(town, "dingtalk", 100) == []
    assert len(town.arrived("dingtalk")) <= 20


@pytest.mark.parametrize("kind", ["dingtalk", "wecom"])
def test_the_twenty_first_of_a_minute_is_never_sent(town: Town, kind: str) -> None:
    """Row 2: nightingale#369, hippo4j#217, PrometheusAlert#369: 25 a minute."""
    town.channel("ops", kind)
    ids = [town.publish("ops", title=f"alert {n:03}")[0] for n in range(25)]
    town.tell_all(ids)
    assert town.providers.messages(kind, accepted=False) == []
    assert missing(town, kind, 25) == []


def test_too_fast_all_the_same_waits_a_minute_at_least_and_is_then_told(town: Town) -> None:
    """Row 2, the same threads: somebody else used up the robot's minute."""
    town.channel("ding", "dingtalk")
    town.providers.script("dingtalk", answers(130101, "send too fast, exceed 20 times per minute"))
    (one,) = town.publish("ding")
    town.settle(one, state="retrying")
    row = town.house.row(one)
    assert (row.next_attempt_at - town.attempts(one)[0].finished_at).total_seconds() >= 55
    town.house.edit_channel(row.channel_id, paused_until=None)
    town.settle_hastened(one, "delivered")


def test_twenty_three_alerts_of_one_moment_are_few_messages(town: Town) -> None:
    """Row 3: PrometheusAlert#395, #470: one payload of 23 alerts was 23 messages, and over the limit."""
    town.channel("wecom", "wecom")
    ids = [town.publish("wecom", title=f"alert {n:03}")[0] for n in range(23)]
    town.tell_all(ids)
    assert missing(town, "wecom", 23) == []
    assert len(town.arrived("wecom")) < 20


def test_a_burst_that_calls_people_by_phone_number_is_told_in_few_messages(town: Town) -> None:
    """Row 3, as its kind: WeCom calls numbers in a second message, which counts as well."""
    town.channel("wecom", "wecom", mentioned_mobiles=["13800001111"])
    ids = [town.publish("wecom", title=f"alert {n:03}")[0] for n in range(40)]
    town.tell_all(ids, timeout_s=35)
    assert town.providers.messages("wecom", accepted=False) == []
    assert missing(town, "wecom", 40) == []
    states = [town.house.row(one).state for one in ids]
    assert (states.count("delivered"), states.count("merged")) == (6, 34)


def test_a_burst_of_long_alerts_is_told_in_few_messages(town: Town) -> None:
    """Row 3, as its kind: each takes two messages, which nobody knew before it was made."""
    town.channel("wecom", "wecom")
    text = "\n".join(f"line {n} " + "长" * 40 for n in range(60))
    ids = [town.publish("wecom", title=f"alert {n:03}", text=text)[0] for n in range(20)]
    town.tell_all(ids, timeout_s=35)
    assert town.providers.messages("wecom", accepted=False) == []
    assert missing(town, "wecom", 20) == []
    assert {town.house.row(one).state for one in ids} == {"delivered", "merged"}


def test_what_is_critical_does_not_wait_behind_the_rest(town: Town) -> None:
    """Rows 2 and 3, as their kind: the one that matters among a hundred."""
    town.channel("ding", "dingtalk")
    for n in range(100):
        town.publish("ding", title=f"alert {n:03}", severity="warning")
    (grave,) = town.publish("ding", title="the one that matters", severity="critical")
    town.settle(grave, timeout_s=10)


def test_a_provider_in_trouble_for_a_moment_loses_nothing_of_a_burst(town: Town) -> None:
    """Row 1, as its kind: 30 alerts while the robot says no."""
    town.channel("lark", "feishu")
    town.providers.script("feishu", *[Scripted(503)] * 3)
    ids = [town.publish("lark", title=f"alert {n:03}")[0] for n in range(30)]
    town.tell_all(ids)
    assert missing(town, "feishu", 30) == []
