"""A silenced alert is logged and told to nobody; what is still open when the silence ends is told then."""

import threading
from typing import Any

import pytest
from sqlalchemy import delete, select, update

from notifier.acknowledging import ack
from notifier.alerts import publish
from notifier.model import Alert, Channel, Delivery, Silence
from notifier.storage import Store
from tests.notifier.alerting import (
    NOW,
    add_channels,
    add_list,
    add_silence,
    alert_of,
    at,
    custom,
    end_silence,
    incident,
    lines,
    log,
    planned,
    resolved,
    set_rules,
    told,
    unsilenced,
)

KEPT = ("ding", "firing", "alert", "suppressed")
AGAIN = ("ding", "firing", "unsilence", "pending")


def test_a_silenced_alert_has_its_rows_and_says_who_silenced_it(store: Store) -> None:
    add_channels(store, "ding")
    silence = add_silence(store, comment="upgrade of the disks")
    published = told(store, custom(channels=("ding",), severity="critical"))
    (row,) = log(store)
    assert lines([row]) == [KEPT]
    assert row.next_attempt_at is None
    words = f"silenced until 2026-11-30 13:00 by wang: upgrade of the disks ({silence})"
    assert row.why == published.why == alert_of(store, published.alert_id).why == words
    assert (published.delivery_ids, published.shards) == ((), frozenset())
    assert planned(store) == [at(60)]


@pytest.mark.parametrize(
    "given",
    [
        pytest.param({"match": {"item": "jobFT"}}, id="another item"),
        pytest.param({"queue": "q2"}, id="another queue"),
        pytest.param({"starts_at": at(5), "duration_s": 60}, id="not yet"),
    ],
)
def test_what_a_silence_does_not_match_is_told(store: Store, given: dict[str, Any]) -> None:
    add_channels(store, "ding")
    add_silence(store, **given)
    assert len(told(store, custom(channels=("ding",), queue="q1")).delivery_ids) == 1


def test_what_was_told_before_is_not_touched(store: Store) -> None:
    add_channels(store, "ding")
    first = told(store, custom(channels=("ding",)))
    add_silence(store)
    assert lines(log(store)) == [("ding", "firing", "alert", "pending")]
    assert len(resolved(store, first.alert_id, at(1)).delivery_ids) == 1


def test_when_it_ends_what_is_still_open_is_told_once(store: Store) -> None:
    add_channels(store, "ding", "mail")
    add_silence(store)
    told(store, custom(channels=("ding",), fallback=("mail",)))
    assert unsilenced(store, at(59)) == set()
    shards = unsilenced(store, at(60))
    assert lines(log(store)) == [KEPT, AGAIN]
    row = log(store)[1]
    assert (row.next_attempt_at, row.fallback, shards) == (at(60), ["mail"], {row.shard})
    assert row.expires_at > at(60 * 24)
    assert unsilenced(store, at(61)) == set()
    assert len(log(store)) == 2


def test_one_that_is_ended_early_is_told_then(store: Store) -> None:
    add_channels(store, "ding")
    silence, other = add_silence(store), add_silence(store, match={"item": "jobFT"})
    told(store, custom(channels=("ding",)))
    end_silence(store, other, at(4))
    assert planned(store) == [at(60)]
    end_silence(store, silence, at(5))
    assert planned(store) == [at(5)]
    unsilenced(store, at(5))
    assert lines(log(store)) == [KEPT, AGAIN]


def test_while_another_silence_holds_its_end_is_waited_for(store: Store) -> None:
    add_channels(store, "ding")
    add_silence(store)
    first = told(store, custom(channels=("ding",)))
    second = add_silence(store, now=at(30), duration_s=7200)
    unsilenced(store, at(60))
    assert lines(log(store)) == [KEPT]
    assert second in log(store)[0].why
    assert planned(store) == [at(150)]
    unsilenced(store, at(150))
    assert lines(log(store)) == [KEPT, AGAIN]
    assert len(resolved(store, first.alert_id, at(151)).delivery_ids) == 1


def test_of_two_silences_the_later_end_counts(store: Store) -> None:
    add_channels(store, "ding")
    add_silence(store)
    add_silence(store, duration_s=600)
    told(store, custom(channels=("ding",)))
    assert planned(store) == [at(60)]


@pytest.mark.parametrize("what", ["resolved", "acknowledged", "expired"])
def test_what_is_settled_by_then_is_told_to_nobody(store: Store, what: str) -> None:
    add_channels(store, "ding")
    add_silence(store)
    alert_id = told(store, custom(channels=("ding",))).alert_id
    if what == "resolved":
        assert resolved(store, alert_id, at(10)).delivery_ids == ()
    with store.write() as session:
        row = session.get_one(Alert, alert_id)
        if what == "acknowledged":
            ack(session, alert_id, "li", at(10))
        elif what == "expired":
            row.expires_at = at(20)
    assert unsilenced(store, at(60)) == set()
    assert lines(log(store)) == [KEPT]


def test_the_end_of_an_incident_that_was_silenced_is_told_to_nobody(store: Store) -> None:
    """Also not to whoever asks for recoveries alone."""
    add_channels(store, "ding", "boss")
    set_rules(store, {"channels": ["ding"]}, {"channels": ["boss"], "items": ["jobRecovered"]})
    silence = add_silence(store, match={"job": "llm"})
    first = told(store, incident("jobFT"))
    end_silence(store, silence, at(1))
    assert resolved(store, first.alert_id, at(2)).delivery_ids == ()


def test_whoever_asks_for_recoveries_alone_is_silenced_as_well(store: Store) -> None:
    add_channels(store, "ding", "boss")
    set_rules(
        store, {"channels": ["ding"], "items": ["jobFT"]}, {"channels": ["boss"], "items": ["jobRecovered"]}
    )
    first = told(store, incident("jobFT"))
    add_silence(store, match={"job": "llm"}, now=at(1))
    resolved(store, first.alert_id, at(2))
    assert [line for line in lines(log(store)) if line[2] == "resolve"] == [
        ("ding", "resolved", "resolve", "pending"), ("boss", "resolved", "resolve", "suppressed"),
    ]  # fmt: skip


def test_who_was_told_meanwhile_is_not_told_again(store: Store) -> None:
    add_channels(store, "ding", "mail")
    add_silence(store)
    told(store, custom(channels=("ding", "mail")))
    with store.write() as session:  # somebody sent it by hand
        session.execute(update(Delivery).where(Delivery.channel == "mail").values(state="delivered"))
    unsilenced(store, at(60))
    assert [line[0] for line in lines(log(store)) if line[2] == "unsilence"] == ["ding"]


def test_quiet_hours_hold_back_what_a_silence_lets_go(store: Store) -> None:
    add_channels(store, "ding")
    set_rules(store, {"channels": ["ding"], "quiet_hours": "12:30-14:00"})
    add_silence(store)
    told(store, custom())
    unsilenced(store, at(60))  # 13:00 in Shanghai
    row = log(store)[-1]
    assert (row.trigger, row.next_attempt_at, row.why) == ("unsilence", at(120), "quiet hours until 14:00")


def test_what_is_told_only_if_it_lasts_has_to_last_when_a_silence_ends_before(store: Store) -> None:
    add_channels(store, "ding")
    set_rules(store, {"channels": ["ding"], "for_s": 3600})
    silence = add_silence(store)
    alert = told(store, custom()).alert_id
    end_silence(store, silence, at(10))
    unsilenced(store, at(10))
    *_, row = log(store)
    assert (row.trigger, row.next_attempt_at, row.why) == ("unsilence", at(60), "told if it lasts 3600 s")
    assert resolved(store, alert, at(20)).delivery_ids == ()


def test_what_has_lasted_when_a_silence_ends_is_told_at_once(store: Store) -> None:
    add_channels(store, "ding")
    set_rules(store, {"channels": ["ding"], "for_s": 60})
    add_silence(store)
    told(store, custom())
    unsilenced(store, at(60))
    *_, row = log(store)
    assert (row.trigger, row.next_attempt_at) == ("unsilence", at(60))


def test_a_broken_channel_holds_it_and_its_fallback_tells(store: Store) -> None:
    add_channels(store, "ding", "mail")
    add_silence(store)
    told(store, custom(channels=("ding",), fallback=("mail",)))
    with store.write() as session:
        session.execute(update(Channel).where(Channel.name == "ding").values(health="broken"))
    unsilenced(store, at(60))
    assert lines(log(store))[1:] == [
        ("ding", "firing", "unsilence", "held"), ("mail", "firing", "fallback", "pending"),
    ]  # fmt: skip


def test_whoever_has_the_turn_when_it_ends_is_told(store: Store) -> None:
    add_channels(store, "alice", "bob", "carl")
    add_list(store, "night", "alice", {"name": "team", "channels": ["bob", "carl"]})
    add_silence(store, ends_at="2026-12-01T10:00:00Z", duration_s=None)
    told(store, custom(channels=("night",)))
    unsilenced(store, at(30 * 60))
    rows = log(store)
    assert [line[0] for line in lines(rows)] == ["alice", "bob", "carl"]
    assert rows[1].why == "the silence has ended; on call: team (list night)"


def test_a_disabled_channel_stays_disabled_when_it_ends(store: Store) -> None:
    add_channels(store, "ding", enabled=False)
    add_silence(store)
    told(store, custom(channels=("ding",)))
    assert planned(store) == []
    assert log(store)[0].why == "channel ding is disabled"


def test_of_a_channel_that_was_disabled_meanwhile_the_fallback_is_told(store: Store) -> None:
    add_channels(store, "ding", "mail")
    silence = add_silence(store)
    told(store, custom(channels=("ding",), fallback=("mail",)))
    with store.write() as session:
        session.scalars(select(Channel).where(Channel.name == "ding")).one().enabled = False
    end_silence(store, silence, at(1))
    unsilenced(store, at(1))
    assert lines(log(store))[1:] == [("mail", "firing", "unsilence", "pending")]


def test_one_to_come_never_begins_and_one_that_is_over_stays(store: Store) -> None:
    coming, running = add_silence(store, starts_at=at(5)), add_silence(store)
    for silence in (coming, running):
        end_silence(store, silence, at(1))
        end_silence(store, silence, at(2))
    with store.read() as session:
        assert [session.get_one(Silence, one).ends_at for one in (coming, running)] == [at(1), at(1)]
    add_channels(store, "ding")
    told(store, custom(channels=("ding",)), at(6))
    assert lines(log(store)) == [("ding", "firing", "alert", "pending")]


def test_who_ends_a_silence_while_an_alert_is_being_kept_back_lets_it_go(store: Store) -> None:
    add_channels(store, "ding")
    silence = add_silence(store)
    ending = threading.Thread(target=end_silence, args=(store, silence, at(1)))
    with store.write() as session:
        publish(session, custom(channels=("ding",)), NOW)
        ending.start()
        ending.join(0.2)
        assert ending.is_alive(), "it waits for the alert"
    ending.join()
    assert planned(store) == [at(1)]
    unsilenced(store, at(1))
    assert lines(log(store)) == [KEPT, AGAIN]


def test_of_a_channel_that_was_deleted_meanwhile_the_fallback_is_told(store: Store) -> None:
    add_channels(store, "ding", "mail", "last")
    add_silence(store)
    told(store, custom(channels=("ding",), fallback=("mail", "last")))
    with store.write() as session:
        session.execute(delete(Channel).where(Channel.name == "ding"))
    unsilenced(store, at(60))
    kept, new = log(store)
    assert (new.channel, new.trigger, new.fallback) == ("mail", "unsilence", ["last"])
    assert kept.why.endswith(f"; told then: {new.id}")
