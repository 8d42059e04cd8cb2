"""Once, in order, and never lost: whatever dies, repeats itself or answers too late."""

import signal
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from channels.standin import Scripted
from master.bundle import answer as diagnose
from master.bundle import from_document
from tests.cases.town import Town, said

if TYPE_CHECKING:
    from tests.delivery.conftest import House, Processes

both_databases = pytest.mark.parametrize("engine_name", ["sqlite", "postgres"])
KNOWN = {"dedup_key": "disk-a", "source": "cron"}


def resolve(town: Town, **more: str) -> list[str]:
    body = {"title": "disk is fine", "status": "resolved", **KNOWN, **more}
    answer = town.api.post("/alerts", json=body)
    assert answer.status_code == 202, answer.text
    found: list[str] = answer.json()["deliveries"]
    return found


@both_databases
def test_two_workers_make_one_copy_when_a_receiver_is_back(town: Town) -> None:
    """D-S12, prometheus/alertmanager#4108: both members retried a 5xx, both got through."""
    town.channel("hook")
    town.providers.script("webhook", *[Scripted(500)] * 4)
    (one,) = town.publish("hook")
    with town.working(), town.working():
        town.settle_hastened(one, "delivered")
    assert len(town.arrived("webhook")) == 1
    assert town.outcomes(one) == ["temporary"] * 4 + ["delivered"]


def test_a_repeat_after_a_lost_answer_has_the_same_id_and_admits_it(town: Town) -> None:
    """D-S13, prometheus/alertmanager#2657: the receiver took it, and the client asked again as if anew."""
    town.channel("hook")
    town.providers.script("webhook", Scripted(close="before"))
    (one,) = town.publish("hook")
    town.settle_hastened(one, "delivered")
    assert [message.id for message in town.arrived("webhook")] == [one, one]
    assert [(a.outcome, a.possible_duplicate) for a in town.attempts(one)] == [
        ("ambiguous", False),
        ("delivered", True),
    ]


@pytest.mark.parametrize("form", ["faultcast", "cloudevents", "alertmanager"])
def test_each_try_is_signed_for_its_own_moment_and_has_the_same_id(town: Town, form: str) -> None:
    """Standard Webhooks: a receiver takes a signature of the last five minutes only, and knows a repeat by
    its id. The stand-in verifies with the public library, whichever of two secrets it has."""
    old, new = "whsec_" + "b2xs" * 8, "whsec_" + "bmV3" * 8
    hook = town.robot("webhook", secret=old)
    town.channel("hook", url=hook.url, secret=f"{new} {old}", format=form)
    town.providers.script("webhook", Scripted(503))
    (one,) = town.publish("hook")
    town.settle_hastened(one, "delivered")
    tries = [message.headers for message in town.providers.messages("webhook")]
    assert [headers["webhook-id"] for headers in tries] == [one, one]
    begun = [int(attempt.started_at.timestamp()) for attempt in town.attempts(one)]
    stamps = [int(headers["webhook-timestamp"]) for headers in tries]
    assert all(began <= stamp <= began + 60 for began, stamp in zip(begun, stamps, strict=True))


@pytest.mark.parametrize("kind", ["dingtalk", "wecom", "feishu"])
def test_a_robot_whose_answer_was_lost_is_not_asked_again_at_once(town: Town, kind: str) -> None:
    """D-S13, the same thread: a chat group sees every copy, so wait first."""
    town.channel("ops", kind)
    town.providers.script(kind, Scripted(close="before"))
    (one,) = town.publish("ops")
    town.settle(one, state="retrying")
    waits = town.house.row(one).next_attempt_at - town.attempts(one)[0].finished_at
    assert waits.total_seconds() >= 4


def test_one_unknown_mailbox_stops_nobody_else_and_nobody_is_told_twice(town: Town) -> None:
    """D-S14 and row 22: prometheus/alertmanager#3496, grafana#16651, kubesphere#4380."""
    to = ["a@example.com", "bogus@example.com", "c@example.org"]
    town.channel("mail", "email", to=to)
    town.providers.mail.recipients["bogus@example.com"] = "550 5.1.1 no such user"
    (one,) = town.publish("mail")
    town.settle(one, state="failed")
    (mail,) = town.arrived("email")
    assert mail.called == ("a@example.com", "c@example.org")
    assert {(one["to"], one["outcome"], one["code"]) for one in town.delivery(one)["recipients"]} == {
        ("a@example.com", "delivered", "250 2.0.0"),
        ("bogus@example.com", "refused", "550 5.1.1"),
        ("c@example.org", "delivered", "250 2.0.0"),
    }


def test_a_mailbox_that_is_busy_is_tried_again_alone(town: Town) -> None:
    """D-S14, the same threads, as their kind: a 4xx for one of them."""
    town.channel("mail", "email", to=["a@example.com", "busy@example.com"])
    town.providers.mail.recipients["busy@example.com"] = "450 4.2.1 busy"
    (one,) = town.publish("mail")
    town.settle(one, state="retrying")
    town.providers.mail.recipients.clear()
    town.settle_hastened(one, "delivered")
    assert [mail.called for mail in town.arrived("email")] == [("a@example.com",), ("busy@example.com",)]


def test_a_webhook_that_fails_sends_no_mail_again(town: Town) -> None:
    """D-S15, prometheus/alertmanager#1494: each retry of the one re-sent the other."""
    town.channel("hook")
    town.channel("mail", "email")
    town.providers.script("webhook", *[Scripted(500)] * 5)
    hook, mail = town.publish("hook", "mail")
    town.settle_hastened(hook, "delivered", timeout_s=60)
    assert len(town.attempts(hook)) == 6
    assert len(town.arrived("email")) == len(town.attempts(mail)) == 1


@both_databases
def test_eight_posters_at_once_make_one_delivery(town: Town) -> None:
    """Row 13: prometheus/alertmanager#2222, #4152, #4008, #1550, #1005."""
    town.channel("hook")
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda _: town.publish("hook", **KNOWN), range(8)))
    (one,) = [delivery for ids in made for delivery in ids]
    town.settle(one)
    assert len(town.arrived("webhook")) == 1


def test_three_replicas_tell_one_fire_and_one_resolve_in_order(town: Town) -> None:
    """D-S20, prometheus/alertmanager#4008: copies after "resolved"."""
    town.channel("hook")
    with ThreadPoolExecutor(3) as pool:
        fired = [one for ids in pool.map(lambda _: town.publish("hook", **KNOWN), range(3)) for one in ids]
    town.settle(*fired)
    with ThreadPoolExecutor(3) as pool:
        answers = pool.map(
            lambda _: town.api.post("/alerts", json={"title": "ok", "status": "resolved", **KNOWN}), range(3)
        )
        over = [one for answer in answers if answer.status_code == 202 for one in answer.json()["deliveries"]]
    town.settle(*over)
    assert [message.body["status"] for message in town.arrived("webhook")] == ["firing", "resolved"]


def test_each_fire_has_its_own_resolve_also_after_a_restart(town: Town) -> None:
    """Row 14: prometheus/alertmanager#2398, #2060, #2675, #2265: with a restart between."""
    town.channel("hook")
    for _ in range(2):
        town.settle(*town.publish("hook", **KNOWN))  # each `settle` is an engine of its own
        town.settle(*resolve(town))
    statuses = [message.body["status"] for message in town.arrived("webhook")]
    assert statuses == ["firing", "resolved"] * 2


def test_what_nobody_heard_of_is_not_resolved(town: Town) -> None:
    """Row 14, the same threads: no word of an end without a beginning."""
    town.channel("hook")
    town.providers.script("webhook", Scripted(410))
    (lost,) = town.publish("hook", **KNOWN)
    town.settle(lost, state="failed")
    assert resolve(town) == []
    assert town.arrived("webhook") == []


def test_a_resolve_never_goes_alone_before_an_alert_that_still_waits(town: Town) -> None:
    """Row 14, the same threads: both in one message, or in order."""
    town.channel("hook")
    town.providers.script("webhook", Scripted(500))
    (first,) = town.publish("hook", title="disk full", **KNOWN)
    town.settle(first, state="retrying")
    over = resolve(town)
    town.house.hasten(first)
    town.tell_all([first, *over])
    shown = [said(message) for message in town.arrived("webhook")]
    assert "disk full" in shown[0]


@both_databases
@pytest.mark.parametrize(
    ("point", "copies"), [("claimed", 1), ("intent_written", 1), ("bytes_sent", 2), ("answer_read", 2)]
)
def test_a_worker_killed_anywhere_loses_nothing_and_a_copy_is_flagged(
    house: "House", processes: "Processes", point: str, copies: int
) -> None:
    """Row 20: convoy#1833, #1667, pull 1977; rq#2015, #2022, #2061, #2424, #1854: kill -9."""
    (one,) = house.alert(house.channel())
    doomed = processes.worker(FAULTCAST_FAULTPOINT=f"{point}:1:kill")
    assert processes.exit_code(doomed) == -signal.SIGKILL
    house.lapse()
    with house.working():
        house.told(one)
    assert Counter(message.id for message in house.providers.messages(accepted=True)) == {one: copies}
    assert sum(attempt.possible_duplicate for attempt in house.attempts(one)) >= copies - 1


def test_without_redis_an_alert_is_a_second_late_at_most(town: Town) -> None:
    """Row 20, the same threads: Redis away or wiped. Here there is none at all, and nobody rings."""
    town.channel("hook")
    with town.house.working():
        (one,) = town.publish("hook")
        town.house.told(one, timeout_s=5)


def test_ten_ranks_of_one_job_that_fail_together_are_one_fault() -> None:
    """Row 25: ccfos/nightingale#2701: ten messages. Here one fault, and so one delivery a channel."""
    ranks = list(range(10))
    world = {
        "job_start": "2026-01-12T03:00:00Z",
        "nodes": [{"name": "node-a", "ip": "10.0.0.1", "ranks": ranks}],
    }
    line = "RuntimeError: CUDA error: uncorrectable ECC error encountered"
    log = [
        {"t": f"2026-01-12T03:00:1{rank}Z", "node": "node-a", "rank": rank, "src": "stderr", "line": line}
        for rank in ranks
    ]
    found = diagnose(from_document({"world": world, "log": log}, "case 25"))
    (fault,) = found["faults"]
    assert fault["culprit"] == {"rank": None, "node": "node-a"}
    assert len({one["rank"] for one in fault["evidence"]}) > 1
