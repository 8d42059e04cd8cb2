"""Alerts become deliveries in one transaction: by rules or names, once, resolved once, nobody forgotten."""

import threading
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import func, select, update

from notifier.acknowledging import ack
from notifier.alertconfigs import put_alert_config
from notifier.alerts import (
    NewAlert,
    Published,
    has_expired,
    publish,
)
from notifier.ends import resolve
from notifier.failing import raise_channel_failing
from notifier.lasting import NOT_REPEATED
from notifier.mending import mended
from notifier.model import Alert, Channel, Delivery
from notifier.outbox import UNASKED
from notifier.problems import Problem
from notifier.reaper import reap
from notifier.rules import AlertConfigModel
from notifier.storage import Store
from tests.notifier.alerting import add_channels

NOW = datetime(2026, 11, 29, 4, tzinfo=UTC)  # noon in Shanghai
EVENT = "evt_1"


def at(minutes: float) -> datetime:
    return NOW + timedelta(minutes=minutes)


def set_rules(store: Store, *rules: dict[str, Any], job: str | None = None) -> None:
    owner = ("job", job) if job else ("pool", "default")
    with store.write() as session:
        put_alert_config(session, owner, AlertConfigModel.model_validate({"rules": list(rules)}), NOW)


def incident(*items: str, severity: str = "warning", **more: Any) -> NewAlert:
    return NewAlert(
        pool="default", item=items[0], items=items, severity=severity, title="rank 3 is gone",
        **{"event_id": EVENT, "job_id": "job_1", "job_name": "llm", **more},
    )  # fmt: skip


def custom(**more: Any) -> NewAlert:
    return NewAlert(
        **{
            "pool": "default",
            "item": "custom",
            "severity": "error",
            "title": "disk full",
            "token_id": "tok_1",
            **more,
        }
    )


def told(store: Store, new: NewAlert, now: datetime = NOW) -> Published:
    with store.write() as session:
        return publish(session, new, now)


def resolved(store: Store, now: datetime = NOW, **which: Any) -> Published:
    with store.write() as session:
        return resolve(session, now=now, **(which or {"event_id": EVENT}))


def log(store: Store) -> list[Delivery]:
    """All but the rows of channels that no rule asks for (test_unasked.py)."""
    with store.read() as session:
        rows = select(Delivery).where(Delivery.trigger != UNASKED)
        return list(session.scalars(rows.order_by(Delivery.id)))


def lines(rows: Sequence[Delivery]) -> list[tuple[str, str, str, str]]:
    return [(row.channel, row.status, row.trigger, row.state) for row in rows]


def alert_of(store: Store, alert_id: str) -> Alert:
    with store.read() as session:
        return session.get_one(Alert, alert_id)


def become(store: Store, channel: str, state: str, **values: Any) -> None:
    with store.write() as session:
        session.execute(update(Delivery).where(Delivery.channel == channel).values(state=state, **values))


# --- who is told ---


def test_rules_of_the_job_win_over_those_of_the_pool(store: Store) -> None:
    add_channels(store, "pool-ding", "job-ding")
    set_rules(store, {"channels": ["pool-ding"]})
    told(store, incident("jobFT", job_id="job_without_rules"))
    set_rules(store, {"channels": ["job-ding"]}, job="job_1")
    told(store, incident("jobFT"))
    assert [row.channel for row in log(store)] == ["pool-ding", "job-ding"]


def test_one_incident_is_one_delivery_a_channel_headed_by_its_most_specific_item(store: Store) -> None:
    add_channels(store, "all", "ft-only")
    set_rules(store, {"channels": ["all"]}, {"channels": ["ft-only", "all"], "items": ["jobFT"]})
    published = told(store, incident("jobHang", "jobFT", severity="error"))
    rows = log(store)
    assert {(row.channel, row.item, tuple(row.items), row.severity) for row in rows} == {
        ("all", "jobHang", ("jobFT",), "error"),
        ("ft-only", "jobFT", (), "warning"),
    }
    assert published.delivery_ids == tuple(row.id for row in rows)
    assert published.shards == {row.shard for row in rows}


def test_a_delivery_is_due_at_once_and_keeps_the_jobs_order(store: Store) -> None:
    add_channels(store, "ding", language="en", timezone="UTC")
    set_rules(store, {"channels": ["ding"], "fallback": ["ding", "mail"]})
    told(store, incident("jobFT"))
    (row,) = log(store)
    assert (row.state, row.next_attempt_at, row.expires_at) == ("pending", NOW, NOW + timedelta(hours=24))
    assert (row.order_key, row.language, row.timezone, row.fallback) == ("job:job_1", "en", "UTC", ["mail"])


def test_queue_channels_stand_before_the_pools_of_the_same_name(store: Store) -> None:
    add_channels(store, "ding")
    add_channels(store, "ding", queue="q1")
    set_rules(store, {"channels": ["ding"]})
    told(store, incident("jobFT", queue="q1"))
    told(store, incident("jobFT", queue="q2"))
    with store.read() as session:
        queues = dict(session.execute(select(Channel.id, Channel.queue)).all())
    assert [queues[row.channel_id] for row in log(store)] == ["q1", ""]


WHY = {
    "no configuration": ([], "no rules"),
    "no rule matches": ([{"channels": ["ding"], "items": ["jobHang"]}], "no rule matches"),
    "below the severity": ([{"channels": ["ding"], "min_severity": "error"}], "no rule matches"),
    "a channel that is gone": ([{"channels": ["gone"]}], "channel gone is not there"),
}


@pytest.mark.parametrize(("rules", "why"), WHY.values(), ids=WHY)
def test_where_nobody_is_told_the_alert_says_why(store: Store, rules: list[dict[str, Any]], why: str) -> None:
    add_channels(store, "ding")
    if rules:
        set_rules(store, *rules)
    published = told(store, incident("jobFT"))
    assert published.delivery_ids == ()
    assert why in alert_of(store, published.alert_id).why


def test_the_fallback_stands_in_for_a_channel_that_is_gone(store: Store) -> None:
    add_channels(store, "mail")
    set_rules(store, {"channels": ["gone"], "fallback": ["also-gone", "mail"]})
    published = told(store, incident("jobFT"))
    assert lines(log(store)) == [("mail", "firing", "fallback", "pending")]
    assert "mail is told instead" in published.why


def test_a_broken_channel_holds_and_its_fallback_is_told_at_once(store: Store) -> None:
    add_channels(store, "ding", health="broken", health_why="wrong key")
    add_channels(store, "mail")
    set_rules(store, {"channels": ["ding"], "fallback": ["mail"]})
    published = told(store, incident("jobFT"))
    rows = log(store)
    assert lines(rows) == [("ding", "firing", "alert", "held"), ("mail", "firing", "fallback", "pending")]
    assert (rows[0].next_attempt_at, "broken" in rows[0].why) == (None, True)
    assert published.delivery_ids == tuple(row.id for row in rows)
    assert published.shards == {rows[1].shard}


@pytest.mark.parametrize("by", ["rules", "name"])
def test_a_disabled_channel_has_a_row_that_says_so_and_its_fallback_is_told(store: Store, by: str) -> None:
    add_channels(store, "ding", enabled=False)
    add_channels(store, "mail")
    set_rules(store, {"channels": ["ding"], "fallback": ["mail"]})
    named = {"channels": ("ding",), "fallback": ("mail",)} if by == "name" else {}
    published = told(store, custom(**named))
    rows = {row.channel: row for row in log(store)}
    why = "channel ding is disabled; mail is told instead"
    assert (rows["ding"].state, rows["ding"].why, published.why) == ("suppressed", why, why)
    assert (rows["mail"].state, rows["mail"].trigger) == ("pending", "fallback")
    assert published.delivery_ids == (rows["mail"].id,)


def test_where_only_a_disabled_channel_is_asked_for_the_answer_says_so(store: Store) -> None:
    add_channels(store, "ding", enabled=False)
    published = told(store, custom(channels=("ding",)))
    assert (published.delivery_ids, published.why) == ((), "channel ding is disabled")
    assert [(row.state, row.why) for row in log(store)] == [("suppressed", "channel ding is disabled")]


def test_a_disabled_channel_that_asks_for_recoveries_has_a_row_for_them(store: Store) -> None:
    add_channels(store, "ding")
    add_channels(store, "boss", enabled=False)
    set_rules(store, {"channels": ["ding"]}, {"channels": ["boss"], "items": ["jobRecovered"]})
    told(store, incident("jobFT"))
    resolved(store, at(1))
    ends = [(row.channel, row.state) for row in log(store) if row.status == "resolved"]
    assert sorted(ends) == [("boss", "suppressed"), ("ding", "pending")]


def test_quiet_hours_hold_back_by_the_servers_clock(store: Store) -> None:
    add_channels(store, "ding")
    set_rules(store, {"channels": ["ding"], "quiet_hours": "11:00-13:30"})
    told(store, incident("jobFT"))
    (row,) = log(store)
    assert (row.state, row.next_attempt_at) == ("pending", at(90))
    assert "quiet hours" in row.why


@pytest.mark.parametrize("field", ["channels", "fallback"])
def test_a_named_channel_that_is_not_there_is_refused_and_nothing_kept(store: Store, field: str) -> None:
    add_channels(store, "ding")
    with pytest.raises(Problem) as caught, store.write() as session:
        publish(session, custom(**{"channels": ("ding",), field: ("ding", "nowhere")}), NOW)
    assert caught.value.errors == ((f"{field}.1", "there is no channel or on-call list nowhere in default"),)
    with store.read() as session:
        assert session.scalar(select(func.count()).select_from(Alert)) == 0


# --- repeats ---


def test_a_repeat_of_an_open_alert_is_counted_and_told_to_nobody(store: Store) -> None:
    add_channels(store, "ding")
    new = custom(channels=("ding",), dedup_key="disk", expires=timedelta(hours=1))
    first, again = told(store, new), told(store, new, at(30))
    assert (again.alert_id, again.delivery_ids, again.shards) == (first.alert_id, (), frozenset())
    alert = alert_of(store, first.alert_id)
    assert (alert.repeats, alert.last_at, alert.expires_at) == (1, at(30), at(90))


DIFFERENT = {
    "another token": {"token_id": "tok_2"},
    "another source": {"source": "x"},
    "another key": {"dedup_key": "y"},
}


@pytest.mark.parametrize("change", DIFFERENT.values(), ids=DIFFERENT)
def test_it_is_no_repeat_of(store: Store, change: dict[str, Any]) -> None:
    add_channels(store, "ding")
    told(store, custom(channels=("ding",), dedup_key="disk"))
    assert (
        len(told(store, custom(**{"channels": ("ding",), "dedup_key": "disk", **change})).delivery_ids) == 1
    )


def test_an_alert_that_was_not_repeated_in_time_is_over(store: Store) -> None:
    add_channels(store, "ding")
    new = custom(channels=("ding",), dedup_key="disk", expires=timedelta(hours=1))
    first, later = told(store, new), told(store, new, at(60))
    assert first.alert_id != later.alert_id
    assert len(later.delivery_ids) == 1
    assert alert_of(store, first.alert_id).resolved_at == at(60)


@pytest.mark.parametrize("reaped", [True, False])
def test_the_resolve_of_what_has_run_out_is_told_once(store: Store, reaped: bool) -> None:
    """Whether or not somebody has noticed by then that nobody repeated it."""
    add_channels(store, "ding")
    first = told(store, custom(channels=("ding",), dedup_key="disk", expires=timedelta(hours=1)))
    if reaped:
        with store.write() as session:
            reap(session, at(60))
        assert alert_of(store, first.alert_id).resolved_at == at(60)
        assert [row.status for row in log(store)] == ["firing"]
    late, again = (resolved(store, at(minutes), alert_id=first.alert_id) for minutes in (61, 62))
    assert (len(late.delivery_ids), late.why, again.delivery_ids) == (1, NOT_REPEATED, ())
    assert alert_of(store, first.alert_id).resolved_at == at(61)
    assert lines(log(store)) == [
        ("ding", "firing", "alert", "pending"),
        ("ding", "resolved", "resolve", "pending"),
    ]


def test_of_what_nobody_was_told_the_reason_is_kept_when_it_runs_out(store: Store) -> None:
    first = told(store, custom(dedup_key="disk", expires=timedelta(hours=1)))
    with store.write() as session:
        reap(session, at(60))
    assert alert_of(store, first.alert_id).why == f"{first.why}; {NOT_REPEATED}"
    assert resolved(store, at(61), alert_id=first.alert_id).delivery_ids == ()


def test_eight_posters_at_once_make_one_alert(store: Store) -> None:
    add_channels(store, "ding")
    new = custom(channels=("ding",), dedup_key="disk", expires=timedelta(hours=1))
    start, found = threading.Barrier(8), []

    def post() -> None:
        start.wait()
        found.append(told(store, new))

    threads = [threading.Thread(target=post) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({one.alert_id for one in found}) == 1
    assert sorted(len(one.delivery_ids) for one in found) == [0] * 7 + [1]
    assert alert_of(store, found[0].alert_id).repeats == 7
    assert len(log(store)) == 1


# --- the end of an alert ---


def test_the_resolve_goes_to_whoever_was_told_once(store: Store) -> None:
    add_channels(store, "ding", "errors")
    set_rules(store, {"channels": ["ding"]}, {"channels": ["errors"], "min_severity": "error"})
    told(store, incident("jobFT"))
    become(store, "ding", "delivered")
    first, again = resolved(store, at(1)), resolved(store, at(2))
    assert lines(log(store)) == [
        ("ding", "firing", "alert", "delivered"),
        ("ding", "resolved", "resolve", "pending"),
    ]
    row = log(store)[1]
    assert (row.item, row.severity, row.order_key) == ("jobRecovered", "info", "job:job_1")
    assert (first.delivery_ids, again.delivery_ids) == ((row.id,), ())


@pytest.mark.parametrize(
    "state", ["pending", "retrying", "sending", "accepted", "unknown", "merged", "delivered"]
)
def test_it_goes_where_the_first_may_have_arrived_or_will(store: Store, state: str) -> None:
    add_channels(store, "ding")
    set_rules(store, {"channels": ["ding"], "min_severity": "warning"})
    told(store, incident("jobFT"))
    become(store, "ding", state)
    assert len(resolved(store, at(1)).delivery_ids) == 1


@pytest.mark.parametrize("state", ["failed", "expired", "suppressed"])
def test_it_does_not_go_where_nothing_was_told(store: Store, state: str) -> None:
    add_channels(store, "ding")
    set_rules(store, {"channels": ["ding"]})
    told(store, incident("jobFT"))
    become(store, "ding", state)
    assert resolved(store, at(1)).delivery_ids == ()


def test_with_a_broken_channel_the_fallback_hears_of_it_once(store: Store) -> None:
    add_channels(store, "ding", health="broken")
    add_channels(store, "mail")
    set_rules(store, {"channels": ["ding"], "fallback": ["mail"]})
    told(store, incident("jobFT"))
    become(store, "mail", "delivered")
    resolved(store, at(1))
    assert sorted(lines(log(store))[2:]) == [
        ("ding", "resolved", "resolve", "held"), ("mail", "resolved", "resolve", "pending"),
    ]  # fmt: skip


def test_what_was_to_be_told_only_if_it_lasts_is_told_to_nobody(store: Store) -> None:
    add_channels(store, "ding")
    set_rules(store, {"channels": ["ding"], "items": ["jobFT"], "for_s": 300})
    told(store, incident("jobFT"))
    assert resolved(store, at(1)).delivery_ids == ()
    (row,) = log(store)
    assert (row.state, row.next_attempt_at, "over" in row.why) == ("suppressed", None, True)


def test_a_rule_may_ask_for_recoveries_alone(store: Store) -> None:
    add_channels(store, "ding", "boss")
    set_rules(
        store, {"channels": ["ding"], "items": ["jobFT"]}, {"channels": ["boss"], "items": ["jobRecovered"]}
    )
    told(store, incident("jobFT"))
    resolved(store, at(1))
    assert [(row.channel, row.status) for row in log(store)] == [
        ("ding", "firing"), ("ding", "resolved"), ("boss", "resolved"),
    ]  # fmt: skip


def test_the_resolve_keeps_its_own_words(store: Store) -> None:
    add_channels(store, "ding")
    first = told(store, custom(channels=("ding",)))
    resolved(store, at(1), alert_id=first.alert_id, title="disk cleaned", text="40 % free")
    alert = alert_of(store, first.alert_id)
    assert (alert.title, alert.status, alert.resolved_at) == ("disk full", "resolved", at(1))
    assert alert.context["resolved"] == {"title": "disk cleaned", "text": "40 % free"}


def test_the_first_to_acknowledge_stays(store: Store) -> None:
    first = told(store, custom())
    with store.write() as session:
        ack(session, first.alert_id, "li", at(1), "on my way")
        ack(session, first.alert_id, "wang", at(2), "me too")
    alert = alert_of(store, first.alert_id)
    assert (alert.acked_by, alert.acked_at, alert.ack_comment) == ("li", at(1), "on my way")


# --- a channel that fails ---


def fail(store: Store, name: str, now: datetime = NOW) -> Published:
    with store.write() as session:
        channel = session.scalars(select(Channel).where(Channel.name == name)).one()
        channel.health = "broken"
        session.flush()
        return raise_channel_failing(session, channel, "the key is wrong", now)


def test_a_failing_channel_is_told_elsewhere_once_until_it_is_mended(store: Store) -> None:
    add_channels(store, "ding", "mail")
    set_rules(store, {"channels": ["ding", "mail"], "items": ["channelFailing"]})
    first, again = fail(store, "ding"), fail(store, "ding", at(1))
    assert lines(log(store)) == [("mail", "firing", "alert", "pending")]
    assert again.alert_id == first.alert_id
    for minutes in (2, 3):
        with store.write() as session:
            channel = session.scalars(select(Channel).where(Channel.name == "ding")).one()
            shards = mended(session, channel, at(minutes))
    assert lines(log(store))[1:] == [("mail", "resolved", "resolve", "pending")]
    assert shards == {channel.shard}
    assert fail(store, "ding", at(3)).alert_id != first.alert_id


def test_the_failing_channels_own_fallback_hears_of_it(store: Store) -> None:
    add_channels(store, "ding", "mail")
    set_rules(store, {"channels": ["ding"], "fallback": ["mail"], "items": ["channelFailing"]})
    fail(store, "ding")
    assert lines(log(store)) == [("mail", "firing", "fallback", "pending")]


def test_an_alert_that_nobody_can_resolve_is_open_for_a_time_only(store: Store) -> None:
    add_channels(store, "ding")
    alert = alert_of(store, told(store, custom(channels=("ding",), expires=timedelta(hours=1))).alert_id)
    assert (has_expired(alert, at(59)), has_expired(alert, at(60))) == (False, True)
