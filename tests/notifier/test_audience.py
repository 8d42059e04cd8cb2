"""An on-call list stands wherever a channel's name may; whoever is not told has a row that says why."""

from dataclasses import replace

import pytest
from sqlalchemy import delete

from notifier.alertconfigs import check_channels, put_alert_config
from notifier.audience import known, reach
from notifier.fallback import tell_fallback
from notifier.lookup import lookup
from notifier.model import Channel, Delivery
from notifier.preview import Supposed, preview
from notifier.problems import Problem
from notifier.routing import Named
from notifier.rules import AlertConfigModel
from notifier.storage import Store
from tests.notifier.alerting import (
    NOW,
    add_channels,
    add_list,
    add_silence,
    alert_of,
    at,
    custom,
    drop_list,
    incident,
    lines,
    log,
    resolved,
    set_rules,
    told,
)

TOMORROW = at(30 * 60)
TEAM = {"name": "bob", "channels": ["bob-im", "bob-sms"]}


@pytest.fixture
def rota(store: Store) -> None:
    """Today alice, tomorrow bob with two channels."""
    add_channels(store, "alice", "bob-im", "bob-sms", "mail")
    add_list(store, "night", "alice", TEAM)


@pytest.mark.usefixtures("rota")
def test_rules_tell_whoever_has_the_turn_at_that_moment(store: Store) -> None:
    set_rules(store, {"channels": ["night"]})
    told(store, custom())
    told(store, custom(), TOMORROW)
    rows = log(store)
    assert [row.channel for row in rows] == ["alice", "bob-im", "bob-sms"]
    assert rows[1].why == "on call: bob (list night)"


@pytest.mark.usefixtures("rota")
def test_a_list_may_be_named_by_whoever_publishes(store: Store) -> None:
    assert len(told(store, custom(channels=("night", "bob-im")), TOMORROW).delivery_ids) == 2


@pytest.mark.usefixtures("rota")
def test_quiet_hours_and_turns_are_both_said(store: Store) -> None:
    set_rules(store, {"channels": ["night"], "quiet_hours": "11:00-13:00"})
    told(store, custom())
    assert log(store)[0].why == "quiet hours until 13:00; on call: alice (list night)"


@pytest.mark.usefixtures("rota")
def test_of_a_list_as_fallback_all_channels_of_the_turn_take_over(store: Store) -> None:
    add_channels(store, "ding")
    told(store, custom(channels=("ding",), fallback=("night", "mail")), TOMORROW)
    with store.write() as session:
        row = session.get_one(Delivery, log(store)[0].id)
        row.state = "failed"
        shards = tell_fallback(session, row, TOMORROW)
    new = log(store)[1:]
    assert lines(new) == [(name, "firing", "fallback", "pending") for name in ("bob-im", "bob-sms")]
    assert {row.shard for row in new} == shards
    assert {tuple(row.fallback) for row in new} == {("mail",)}
    assert new[0].why.endswith("; on call: bob (list night)")


def test_a_fallback_list_of_which_nobody_can_be_told_is_passed_over(store: Store) -> None:
    add_channels(store, "ding", "mail")
    add_channels(store, "alice", health="broken")
    add_list(store, "night", "alice")
    told(store, custom(channels=("ding",), fallback=("night", "mail")))
    with store.write() as session:
        tell_fallback(session, session.get_one(Delivery, log(store)[0].id), NOW)
    assert log(store)[1].channel == "mail"


def test_the_queues_list_stands_before_the_pools_channel_and_the_other_way(store: Store) -> None:
    add_channels(store, "x", "pool-person", "mine")
    add_channels(store, "mine", queue="q1")
    add_list(store, "x", "pool-person", queue="q1")
    add_list(store, "night", "pool-person")
    add_channels(store, "night", queue="q2")
    with store.read() as session:
        found = {
            (queue, name): [row.name for row in one.channels]
            for queue in ("", "q1", "q2")
            for name, one in reach(session, ("default", queue), ["x", "night", "none"], NOW).items()
        }
        own = lookup(session, "default", "q1", {"mine"})["mine"].queue
        assert known(session, ("default", "q1"), ["x", "night", "none"]) == {"x", "night"}
    assert found == {
        ("", "x"): ["x"], ("q1", "x"): ["pool-person"], ("q2", "x"): ["x"],
        ("", "night"): ["pool-person"], ("q1", "night"): ["pool-person"], ("q2", "night"): ["night"],
    }  # fmt: skip
    assert own == "q1"


@pytest.mark.usefixtures("rota")
def test_a_list_that_was_deleted_is_missing_and_the_fallback_is_told(store: Store) -> None:
    set_rules(store, {"channels": ["night"], "fallback": ["mail"]})
    drop_list(store, "night")
    published = told(store, custom())
    assert lines(log(store)) == [("mail", "firing", "fallback", "pending")]
    assert published.why == "channel night is not there to be told; mail is told instead"


def test_a_channel_of_the_turn_that_was_deleted_is_said(store: Store) -> None:
    add_channels(store, "alice", "alice-sms", "mail")
    add_list(store, "night", {"name": "alice", "channels": ["alice", "alice-sms"]})
    set_rules(store, {"channels": ["night"], "fallback": ["mail"]})
    with store.write() as session:
        session.execute(delete(Channel).where(Channel.name == "alice-sms"))
    some = told(store, custom())
    with store.write() as session:
        session.execute(delete(Channel).where(Channel.name == "alice"))
    none = told(store, custom())
    assert [row.channel for row in log(store)] == ["alice", "mail"]
    lost = "on call: alice (list night): channel {} is not there to be told"
    assert some.why == lost.format("alice-sms")
    assert none.why == f"{lost.format('alice, alice-sms')}; mail is told instead"


@pytest.mark.usefixtures("rota")
def test_rules_and_names_may_name_a_list_and_nothing_unknown(store: Store) -> None:
    rule = {"channels": ["alice"], "fallback": ["night"]}
    config = {"rules": [rule], "escalation": [{"after_s": 60, "channels": ["night"]}]}
    with store.read() as session:
        check_channels(session, AlertConfigModel.model_validate(config), "default", "q1")
        wrong = AlertConfigModel.model_validate({"rules": [rule | {"channels": ["day"]}]})
        with pytest.raises(Problem, match="no channel or on-call list day"):
            check_channels(session, wrong, "default")
        with pytest.raises(Problem, match=r"fallback.0: there is no channel or on-call list day"):
            Named.find(session, ("default", ""), ["night"], ["day"], NOW)


@pytest.mark.usefixtures("rota")
def test_the_preview_says_whose_turn_it_is_and_what_is_silenced(store: Store) -> None:
    set_rules(store, {"channels": ["night"]})
    asked = Supposed(pool="default", item="custom")
    with store.read() as session:
        (would,) = preview(session, asked, NOW).told
    silence = add_silence(store)
    with store.read() as session:
        silenced = preview(session, asked, NOW)
    assert (would.channel, would.state, would.why) == ("alice", "pending", "on call: alice (list night)")
    assert silenced.told[0].state == "suppressed"
    assert silence in silenced.why


# --- a row for whoever is not told ---


def test_a_channel_that_no_rule_tells_has_a_row_that_says_why(store: Store) -> None:
    add_channels(store, "ding", "boss", "mail")
    set_rules(
        store,
        {"channels": ["ding", "boss"], "items": ["jobFailed", "jobGaveUp"]},
        {"channels": ["boss"], "min_severity": "error"},
        {"channels": ["boss"], "match": {"team": "vision"}},
        {"channels": ["ding"], "fallback": ["mail"]},
    )
    published = told(store, incident("jobFT"))
    assert lines(log(store)) == [
        ("ding", "firing", "alert", "pending"), ("boss", "firing", "no_rule", "suppressed"),
    ]  # fmt: skip
    assert log(store)[1].why == (
        "no rule matches: rule 1 is for jobFailed, jobGaveUp; rule 2 tells from error up; "
        "rule 3 wants team=vision"
    )
    assert published.delivery_ids == (log(store)[0].id,)
    assert alert_of(store, published.alert_id).why == ""


def test_the_preview_says_of_every_rule_and_step_whom_it_does_not_tell_and_why(store: Store) -> None:
    add_channels(store, "ding", "boss", "mail", "sms")
    add_channels(store, "off", enabled=False)
    add_list(store, "night", "mail")
    config = {
        "rules": [
            {"channels": ["ding"], "items": ["jobHang"]},
            {"channels": ["boss", "off", "ding"], "items": ["jobFailed"]},
            {"channels": ["boss"], "min_severity": "critical"},
            {"channels": ["night", "gone"], "match": {"team": "vision"}},
        ],
        "escalation": [
            {"after_s": 60, "channels": ["sms", "boss"], "items": ["jobFailed"]},
            {"after_s": 90, "channels": ["sms", "ding"], "min_severity": "critical"},
        ],
    }
    with store.write() as session:
        put_alert_config(session, ("pool", "default"), AlertConfigModel.model_validate(config), NOW)
    asked = Supposed(pool="default", item="jobHang")
    with store.read() as session:
        seen = preview(session, asked, NOW)
        of_vision = preview(session, replace(asked, labels={"team": "vision"}), NOW)
    assert [one.channel for one in seen.told] == ["ding"]
    assert {one.channel: one.why for one in seen.not_told} == {
        "boss": "no rule matches: rule 2 is for jobFailed; rule 3 tells from critical up; "
        "step 1 of escalation is for jobFailed",
        "off": "channel off is disabled; no rule matches: rule 2 is for jobFailed",
        "mail": "no rule matches: rule 4 wants team=vision; on call: mail (list night)",
        "gone": "channel gone is not there to be told; no rule matches: rule 4 wants team=vision",
        "sms": "step 1 of escalation is for jobFailed; step 2 of escalation tells from critical up",
    }
    assert [one.channel for one in of_vision.told] == ["ding", "mail"]


def test_the_preview_takes_an_alert_from_outside_for_as_severe_as_it_would_be(store: Store) -> None:
    add_channels(store, "ding")
    set_rules(store, {"channels": ["ding"], "min_severity": "error"})
    with store.read() as session:
        seen = preview(session, Supposed(pool="default", item="custom"), NOW)
    assert (seen.severity, [one.channel for one in seen.told]) == ("error", ["ding"])


def test_no_end_is_told_to_those_but_recoveries_they_ask_for_are(store: Store) -> None:
    add_channels(store, "ding", "errors", "boss")
    set_rules(
        store,
        {"channels": ["ding"], "items": ["jobFT"]},
        {"channels": ["errors"], "min_severity": "error"},
        {"channels": ["boss"], "items": ["jobRecovered"]},
    )
    first = told(store, incident("jobFT"))
    resolved(store, first.alert_id, at(1))
    ended = [line for line in lines(log(store)) if line[1] == "resolved"]
    assert [line[0] for line in ended] == ["ding", "boss"]


def test_a_channel_is_not_told_of_twice_nor_one_that_is_not_there(store: Store) -> None:
    """It is the fallback of a missing one, and named by a rule that does not match."""
    add_channels(store, "mail")
    set_rules(
        store,
        {"channels": ["gone"], "fallback": ["mail"]},
        {"channels": ["mail", "lost"], "items": ["jobHang"]},
    )
    told(store, incident("jobFT"))
    assert lines(log(store)) == [("mail", "firing", "fallback", "pending")]


@pytest.mark.usefixtures("rota")
def test_of_a_list_whoever_has_the_turn_has_the_row(store: Store) -> None:
    set_rules(store, {"channels": ["night"], "items": ["jobHang"]}, {"channels": ["mail"]})
    told(store, custom())
    row = log(store)[1]
    assert (row.channel, row.trigger) == ("alice", "no_rule")
    assert row.why == "no rule matches: rule 1 is for jobHang; on call: alice (list night)"


# --- what else a rule says of how it is told ---


def test_each_rule_tells_in_its_own_language_else_in_the_channels(store: Store) -> None:
    add_channels(store, "ding", "mail", "hook", language="zh")
    set_rules(store, {"channels": ["ding"], "language": "en"}, {"channels": ["mail"]})
    told(store, custom())
    assert {row.channel: row.language for row in log(store)} == {"ding": "en", "mail": "zh"}


def test_quiet_hours_are_each_rules_own(store: Store) -> None:
    add_channels(store, "ding", "mail")
    set_rules(store, {"channels": ["ding"], "quiet_hours": "11:00-13:00"}, {"channels": ["mail"]})
    told(store, custom())
    assert {row.channel: row.next_attempt_at for row in log(store)} == {"ding": at(60), "mail": NOW}


def test_whoever_has_the_turn_is_told_on_what_is_enabled(store: Store) -> None:
    add_channels(store, "li-im")
    add_channels(store, "li-sms", enabled=False)
    add_channels(store, "gone")
    add_list(store, "night", {"name": "li", "channels": ["li-im", "li-sms", "gone"]})
    with store.write() as session:
        session.execute(delete(Channel).where(Channel.name == "gone"))
    published = told(store, custom(channels=("night",)))
    why = "on call: li (list night): channel gone is not there to be told; channel li-sms is disabled"
    assert published.why == why
    assert {(row.channel, row.state): row.why for row in log(store)} == {
        ("li-im", "pending"): "on call: li (list night)",
        ("li-sms", "suppressed"): why,
    }
