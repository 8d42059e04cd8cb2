"""Escalation and reminders on a real database: each once, by whichever worker, as long as they matter."""

import threading
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from sqlalchemy import select, update
from sqlalchemy.orm import Session

from notifier.acknowledging import ack
from notifier.alertconfigs import put_alert_config
from notifier.alerts import Published
from notifier.ends import close
from notifier.failing import raise_channel_failing
from notifier.fallback import hold, tell_fallback
from notifier.following import BATCH, Followed, follow
from notifier.mending import mended
from notifier.model import Alert, Channel, Delivery, Followup, Oncall, Silence
from notifier.oncall import Spec, turn
from notifier.rules import AlertConfigModel
from notifier.silences import end
from notifier.storage import Store
from tests.notifier.test_alerts import (
    NOW,
    add_channels,
    alert_of,
    at,
    become,
    custom,
    incident,
    lines,
    log,
    resolved,
    told,
)

HOUR = timedelta(hours=1)
ZONE = ZoneInfo("Asia/Shanghai")
ONE_ENGINE = pytest.mark.parametrize("engine_name", ["sqlite"], indirect=True)  # the same statements


def configure(store: Store, *rules: dict[str, Any], escalation: Any = ()) -> None:
    config = AlertConfigModel.model_validate({"rules": list(rules), "escalation": list(escalation)})
    with store.write() as session:
        put_alert_config(session, ("pool", "default"), config, NOW)


def followed(store: Store, now: datetime) -> Followed:
    with store.write() as session:
        return follow(session, now)


def planned(store: Store) -> list[tuple[str, int, datetime]]:
    with store.read() as session:
        rows = session.scalars(select(Followup).order_by(Followup.kind, Followup.n))
        return [(row.kind, row.n, row.due_at) for row in rows]


def escalating(store: Store) -> None:
    """IM at once, a text message after 5 minutes, a call after 15."""
    add_channels(store, "im", "sms", "phone")
    steps = [{"after_s": 300, "channels": ["sms"]}, {"after_s": 900, "channels": ["phone", "im"]}]
    configure(store, {"channels": ["im"]}, escalation=steps)


def reminding(store: Store, *channels: str, every_s: int = 600, **rule: Any) -> None:
    add_channels(store, *channels)
    configure(store, {"channels": list(channels), "remind_every_s": every_s, **rule})


# --- escalation ---


def test_each_step_is_told_once_when_nobody_acknowledged(store: Store) -> None:
    escalating(store)
    told(store, incident("jobHang", severity="error"))
    become(store, "im", "delivered")
    assert followed(store, at(4.9)).count == 0
    first = followed(store, at(5))
    assert lines(log(store))[1:] == [("sms", "firing", "escalation", "pending")]
    assert (first.shards, log(store)[1].why) == (
        frozenset({log(store)[1].shard}),
        "nobody acknowledged for 300 s",
    )
    assert followed(store, at(6)).count == 0
    followed(store, at(15))
    assert lines(log(store))[2:] == [
        ("phone", "firing", "escalation", "pending"), ("im", "firing", "escalation", "pending"),
    ]  # fmt: skip
    assert planned(store) == []


def test_steps_that_are_overdue_together_keep_their_distance(store: Store) -> None:
    """No worker ran for a while: whoever is called first has time to answer."""
    escalating(store)
    told(store, incident("jobHang", severity="error"))
    become(store, "im", "delivered")
    followed(store, at(60))
    assert [row.channel for row in log(store)] == ["im", "sms"]
    followed(store, at(69.9))
    assert len(log(store)) == 2
    followed(store, at(70))
    assert [row.channel for row in log(store)] == ["im", "sms", "phone", "im"]


def test_steps_of_the_same_moment_are_told_together(store: Store) -> None:
    add_channels(store, "im", "sms", "phone")
    steps = [{"after_s": 300, "channels": [name]} for name in ("sms", "phone")]
    configure(store, {"channels": ["im"]}, escalation=steps)
    told(store, incident("jobHang", severity="error"))
    become(store, "im", "delivered")
    followed(store, at(60))
    assert [row.channel for row in log(store)] == ["im", "sms", "phone"]


def test_a_slow_channel_keeps_no_step_back(store: Store) -> None:
    """Its message waits for its turn yet: the step counts from the alert."""
    escalating(store)
    told(store, incident("jobHang", severity="error"))
    followed(store, at(4.9))
    assert [row.channel for row in log(store)] == ["im"]
    followed(store, at(5))
    assert [row.channel for row in log(store)] == ["im", "sms"]
    become(store, "im", "delivered", first_attempt_at=at(6))
    followed(store, at(15))
    assert [row.channel for row in log(store)] == ["im", "sms", "phone", "im"]


def test_what_a_broken_channel_holds_is_escalated_as_planned(store: Store) -> None:
    escalating(store)
    told(store, incident("jobHang", severity="error"))
    become(store, "im", "held")
    followed(store, at(5))
    assert [row.channel for row in log(store)] == ["im", "sms"]


def acknowledged(session: Session, alert_id: str) -> None:
    ack(session, alert_id, "li", at(1))


def closed(session: Session, alert_id: str) -> None:
    close(session, session.get_one(Alert, alert_id), at(1))


def over_without_a_word(session: Session, alert_id: str) -> None:
    session.get_one(Alert, alert_id).status = "resolved"


def not_repeated_in_time(session: Session, alert_id: str) -> None:
    session.get_one(Alert, alert_id).expires_at = at(2)


@pytest.mark.parametrize("end", [acknowledged, closed, over_without_a_word, not_repeated_in_time])
def test_nothing_is_told_any_more_once_it_is(store: Store, end: Callable[[Session, str], None]) -> None:
    add_channels(store, "im", "sms")
    steps = [{"after_s": 300, "channels": ["sms"]}]
    configure(store, {"channels": ["im"], "remind_every_s": 300}, escalation=steps)
    published = told(store, incident("jobHang", severity="error"))
    become(store, "im", "delivered")
    with store.write() as session:
        end(session, published.alert_id)
    followed(store, at(5))
    assert len(log(store)) == 1
    assert planned(store) == []


def test_after_a_resolve_nobody_is_called(store: Store) -> None:
    escalating(store)
    told(store, incident("jobHang", severity="error"))
    resolved(store, at(1))
    assert planned(store) == []
    followed(store, at(20))
    assert [row.trigger for row in log(store)] == ["alert", "resolve"]


def test_who_was_told_by_escalation_hears_of_the_end_once(store: Store) -> None:
    escalating(store)
    told(store, incident("jobHang", severity="error"))
    become(store, "im", "delivered")
    for minutes in (5, 15):
        followed(store, at(minutes))
    become(store, "im", "delivered")
    become(store, "sms", "accepted")
    become(store, "phone", "failed")
    resolved(store, at(21))
    assert sorted(row.channel for row in log(store) if row.status == "resolved") == ["im", "sms"]


def test_what_was_planned_stays_whatever_becomes_of_the_rules(store: Store) -> None:
    escalating(store)
    told(store, incident("jobHang", severity="error"))
    become(store, "im", "delivered")
    configure(store)
    followed(store, at(5))
    assert [row.channel for row in log(store)] == ["im", "sms"]


def test_a_step_whose_channel_is_gone_by_then_is_done_with(store: Store) -> None:
    add_channels(store, "im")
    configure(store, {"channels": ["im"]}, escalation=[{"after_s": 300, "channels": ["gone"]}])
    told(store, incident("jobHang", severity="error"))
    become(store, "im", "delivered")
    followed(store, at(5))
    assert ([row.channel for row in log(store)], planned(store)) == (["im"], [])
    with store.read() as session:
        (alert,) = session.scalars(select(Alert))
        assert "is not there to be told (nobody acknowledged for" in alert.why


def test_a_step_whose_channel_is_disabled_has_a_row_that_says_so(store: Store) -> None:
    add_channels(store, "im")
    add_channels(store, "sms", enabled=False)
    configure(store, {"channels": ["im"]}, escalation=[{"after_s": 300, "channels": ["sms"]}])
    told(store, incident("jobHang", severity="error"))
    become(store, "im", "delivered")
    followed(store, at(5))
    assert lines(log(store))[1:] == [("sms", "firing", "escalation", "suppressed")]
    assert log(store)[1].why == "channel sms is disabled"


def test_named_channels_are_no_rules(store: Store) -> None:
    escalating(store)
    told(store, custom(channels=("im",)))
    assert planned(store) == []


def test_an_acknowledgement_withdraws_what_nobody_has_begun_to_send(store: Store) -> None:
    escalating(store)
    published = told(store, incident("jobHang", severity="error"))
    become(store, "im", "delivered")
    followed(store, at(5))
    with store.write() as session:
        ack(session, published.alert_id, "li", at(6))
    assert planned(store) == []
    assert [(row.state, row.why) for row in log(store)] == [
        ("delivered", ""),
        ("suppressed", "acknowledged by li"),
    ]
    followed(store, at(60))
    assert len(log(store)) == 2


@pytest.mark.parametrize(
    "rule", [{"quiet_hours": "11:00-12:20"}, {"for_s": 1200}], ids=["quiet hours", "for_s"]
)
def test_who_is_called_counts_from_when_anybody_could_know(store: Store, rule: dict[str, Any]) -> None:
    add_channels(store, "im", "sms")
    steps = [{"after_s": 300, "channels": ["sms"]}]
    configure(store, {"channels": ["im"], **rule}, escalation=steps)
    told(store, incident("jobHang", severity="error"))
    followed(store, at(5))
    assert (len(log(store)), planned(store)) == (1, [("escalate", 0, at(25))])
    become(store, "im", "delivered")
    followed(store, at(25))
    assert [row.trigger for row in log(store)] == ["alert", "escalation"]


def test_quiet_hours_of_some_do_not_keep_the_step_back(store: Store) -> None:
    add_channels(store, "im", "night", "sms")
    quiet = {"channels": ["im"], "quiet_hours": "11:00-13:00"}
    configure(store, quiet, {"channels": ["night"]}, escalation=[{"after_s": 300, "channels": ["sms"]}])
    told(store, incident("jobHang", severity="error"))
    become(store, "night", "retrying")
    followed(store, at(5))
    assert [row.channel for row in log(store)] == ["im", "night", "sms"]


def test_whoever_has_the_turn_by_then_is_called(store: Store) -> None:
    add_channels(store, "im", "ann-sms", "bob-sms")
    people = [{"name": "ann", "channels": ["ann-sms"]}, {"name": "bob", "channels": ["bob-sms"]}]
    spec = Spec.model_validate(
        {"turn": "daily", "handover": "12:10", "start": "2026-11-28", "people": people}
    )
    with store.write() as session:
        session.add(
            Oncall(
                id="onc_1", pool="default", name="night", spec=spec.model_dump(mode="json"), version=1,
                created_at=NOW, updated_at=NOW,
            )
        )  # fmt: skip
    steps = [{"after_s": after_s, "channels": ["night"]} for after_s in (300, 900)]
    configure(store, {"channels": ["im"], "remind_every_s": 900}, escalation=steps)
    told(store, incident("jobHang", severity="error"))
    become(store, "im", "delivered")
    before, after = turn(spec, at(5), ZONE).channels, turn(spec, at(15), ZONE).channels
    assert before != after
    followed(store, at(5))
    followed(store, at(15))
    called = [row.channel for row in log(store) if row.trigger == "escalation"]
    assert called == [*before, *after]
    assert "on call: " in log(store)[1].why


# --- reminders ---


def test_an_open_alert_is_told_again_on_its_beat(store: Store) -> None:
    reminding(store, "im", "mail")
    told(store, incident("jobHang", severity="error"))
    for minutes in (10, 20):
        become(store, "im", "delivered")
        become(store, "mail", "accepted")
        followed(store, at(minutes))
    rows = [row for row in log(store) if row.trigger == "remind"]
    assert [(row.channel, row.created_at) for row in rows] == [
        ("im", at(10)), ("mail", at(10)), ("im", at(20)), ("mail", at(20)),
    ]  # fmt: skip
    assert rows[0].why == "still firing after 600 s"
    assert planned(store) == [("remind", 0, at(30))]


def test_after_hours_away_it_is_told_once(store: Store) -> None:
    reminding(store, "im")
    told(store, incident("jobHang", severity="error"))
    become(store, "im", "delivered")
    followed(store, at(65))
    assert (len(log(store)), planned(store)) == (2, [("remind", 0, at(70))])


@pytest.mark.parametrize("state", ["pending", "retrying", "sending", "held"])
def test_reminders_never_pile_up(store: Store, state: str) -> None:
    reminding(store, "im")
    told(store, incident("jobHang", severity="error"))
    become(store, "im", state)
    followed(store, at(10))
    assert (len(log(store)), planned(store)) == (1, [("remind", 0, at(20))])


def test_two_rules_that_remind_one_channel_do_so_by_the_shorter_beat(store: Store) -> None:
    add_channels(store, "im")
    configure(
        store,
        {"channels": ["im"], "remind_every_s": 600},
        {"channels": ["im"], "remind_every_s": 1200},
    )
    told(store, incident("jobHang", severity="error"))
    for minutes in (10, 20):
        become(store, "im", "delivered")
        followed(store, at(minutes))
    assert [row.created_at for row in log(store)] == [NOW, at(10), at(20)]


def test_quiet_hours_hold_reminders_back_below_critical(store: Store) -> None:
    add_channels(store, "im", "boss")
    quiet = {"remind_every_s": 600, "quiet_hours": "12:05-13:00"}
    configure(
        store,
        {"channels": ["im"], "items": ["jobHang"], **quiet},
        {"channels": ["boss"], "items": ["jobGaveUp"], **quiet},
    )
    told(store, incident("jobGaveUp", "jobHang", severity="critical"))
    become(store, "im", "delivered")
    become(store, "boss", "delivered")
    for minutes in (10, 20):
        followed(store, at(minutes))
    waiting = {row.channel: (row.next_attempt_at, row.why) for row in log(store)[2:]}
    assert waiting == {
        "im": (at(60), "quiet hours until 13:00; still firing after 600 s"),
        "boss": (at(10), "still firing after 600 s"),
    }


def test_a_reminder_that_was_not_sent_is_none_when_it_is_over(store: Store) -> None:
    reminding(store, "im")
    told(store, incident("jobHang", severity="error"))
    become(store, "im", "delivered")
    followed(store, at(10))
    resolved(store, at(11))
    assert [(row.trigger, row.state) for row in log(store)] == [
        ("alert", "delivered"), ("remind", "suppressed"), ("resolve", "pending"),
    ]  # fmt: skip


def test_a_disabled_channel_is_not_reminded(store: Store) -> None:
    reminding(store, "im")
    told(store, incident("jobHang", severity="error"))
    become(store, "im", "delivered")
    with store.write() as session:
        session.execute(update(Channel).values(enabled=False))
    followed(store, at(10))
    assert len(log(store)) == 1


def test_a_failing_channel_is_never_reminded_of_itself(store: Store) -> None:
    reminding(store, "im", "mail")
    with store.write() as session:
        channel = session.scalars(select(Channel).where(Channel.name == "im")).one()
        raise_channel_failing(session, channel, "the key is wrong", NOW)
    become(store, "mail", "delivered")
    followed(store, at(10))
    assert [(row.channel, row.trigger) for row in log(store)] == [("mail", "alert"), ("mail", "remind")]


def test_alerts_from_outside_are_reminded_of_too(store: Store) -> None:
    reminding(store, "im")
    told(store, custom(dedup_key="disk", expires=HOUR))
    become(store, "im", "delivered")
    told(store, custom(dedup_key="disk", expires=HOUR), at(9))
    followed(store, at(10))
    assert [row.trigger for row in log(store)] == ["alert", "remind"]


# --- silences ---


def silence(store: Store, minutes: float) -> None:
    with store.write() as session:
        session.add(
            Silence(
                id="slc_1", pool="default", matchers=[{"name": "item", "op": "=", "value": "jobHang"}],
                starts_at=NOW - HOUR, ends_at=at(minutes), created_by="li", created_at=NOW - HOUR,
            )
        )  # fmt: skip


def ended(store: Store, now: datetime) -> None:
    with store.write() as session:
        end(session, session.get_one(Silence, "slc_1"), now)


def test_a_silenced_alert_is_told_when_the_silence_ends_and_escalated_from_then(store: Store) -> None:
    escalating(store)
    silence(store, 20)
    told(store, incident("jobHang", severity="error"))
    for minutes in (5, 15, 20):
        assert lines(log(store)) == [("im", "firing", "alert", "suppressed")]
        followed(store, at(minutes))
    assert lines(log(store))[1:] == [("im", "firing", "unsilence", "pending")]
    with store.write() as session:
        session.execute(
            update(Delivery)
            .where(Delivery.trigger == "unsilence")
            .values(state="delivered", first_attempt_at=at(20.02))
        )
    followed(store, at(24.9))
    assert len(log(store)) == 2
    followed(store, at(25.02))
    assert [row.channel for row in log(store)] == ["im", "im", "sms"]
    followed(store, at(34.9))
    assert len(log(store)) == 3
    followed(store, at(35.02))
    assert [row.channel for row in log(store)][3:] == ["phone", "im"]


def test_a_silence_ended_by_hand_is_noticed_soon(store: Store) -> None:
    escalating(store)
    silence(store, 600)
    told(store, incident("jobHang", severity="error"))
    followed(store, at(5))
    ended(store, at(5.25))
    followed(store, at(5.25))
    assert [row.trigger for row in log(store)] == ["alert", "unsilence"]
    followed(store, at(5.5))  # counts from now on
    followed(store, at(10.5))
    assert [row.trigger for row in log(store)] == ["alert", "unsilence", "escalation"]


def test_a_silence_keeps_reminders_back_and_the_beat_goes_on(store: Store) -> None:
    reminding(store, "im")
    told(store, incident("jobHang", severity="error"))
    become(store, "im", "delivered")
    silence(store, 15)
    followed(store, at(10))
    assert (len(log(store)), planned(store)) == (1, [("remind", 0, at(20))])
    followed(store, at(20))
    assert [row.trigger for row in log(store)] == ["alert", "remind"]


def test_what_was_acknowledged_while_silenced_is_told_to_nobody(store: Store) -> None:
    escalating(store)
    silence(store, 7)
    published = told(store, incident("jobHang", severity="error"))
    with store.write() as session:
        ack(session, published.alert_id, "li", at(1))
    followed(store, at(20))
    assert ([row.state for row in log(store)], planned(store)) == (["suppressed"], [])


# --- many workers, and what goes wrong ---


def test_of_many_workers_one_does_it(store: Store) -> None:
    escalating(store)
    for n in range(3):
        told(store, incident("jobHang", severity="error", event_id=f"evt_{n}"))
    become(store, "im", "delivered")
    start, done = threading.Barrier(6), list[int]()

    def work() -> None:
        start.wait()
        done.extend(followed(store, at(5)).count for _ in range(3))  # what is locked is left to others

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [row.channel for row in log(store)].count("sms") == 3
    assert sum(done) == 3


def test_one_that_cannot_be_followed_up_keeps_no_other_back(store: Store) -> None:
    escalating(store)
    bad, good = (told(store, incident("jobHang", severity="error", event_id=f"evt_{n}")) for n in range(2))
    become(store, "im", "delivered")
    with store.write() as session:
        session.execute(update(Followup).where(Followup.alert_id == bad.alert_id).values(spec={}))
    followed(store, at(5))
    assert {row.alert_id for row in log(store) if row.trigger == "escalation"} == {good.alert_id}
    with store.read() as session:
        left = session.scalars(select(Followup).where(Followup.alert_id == bad.alert_id)).all()
    assert min(row.due_at for row in left) == at(6)


def test_what_is_left_of_an_alert_that_is_no_more_goes_too(store: Store) -> None:
    with store.write() as session:
        session.add(Followup(alert_id="alr_gone", kind="escalate", n=0, spec={}, due_at=NOW))
    assert followed(store, at(1)).count == 1
    assert planned(store) == []


@ONE_ENGINE
def test_a_look_does_no_more_than_it_can_commit_soon(store: Store) -> None:
    escalating(store)
    for n in range(BATCH + 1):
        told(store, incident("jobHang", severity="error", event_id=f"evt_{n}"))
    assert [followed(store, at(5)).count for _ in range(3)] == [BATCH, 1, 0]


def test_posts_of_many_keys_at_once_make_one_alert_each(store: Store) -> None:
    reminding(store, "im")
    keys, times = [f"key-{n}" for n in range(12)], 5
    start, found = threading.Barrier(times), list[Published]()

    def post() -> None:
        start.wait()
        found.extend(told(store, custom(dedup_key=key, expires=HOUR)) for key in keys)

    threads = [threading.Thread(target=post) for _ in range(times)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    ids = {one.alert_id for one in found}
    assert (len(ids), len(log(store))) == (len(keys), len(keys))
    assert {alert_of(store, one).repeats for one in ids} == {times - 1}
    assert len(planned(store)) == len(keys)


@pytest.mark.parametrize("state", ["pending", "retrying", "held"])
def test_an_acknowledgement_withdraws_what_is_told_in_place_of_a_reminder_too(
    store: Store, state: str
) -> None:
    published = reminded_in_place(store)
    become(store, "mail", state)
    with store.write() as session:
        ack(session, published.alert_id, "li", at(11))
    assert [(row.channel, row.state) for row in log(store)][-1] == ("mail", "suppressed")
    assert log(store)[-1].why == "acknowledged by li"


def reminded_in_place(store: Store) -> Published:
    """The reminder's channel breaks: its fallback is told."""
    add_channels(store, "mail")
    reminding(store, "im", fallback=["mail"])
    published = told(store, incident("jobHang", severity="error"))
    become(store, "im", "delivered")
    followed(store, at(10))
    with store.write() as session:
        hold(session, session.scalars(select(Channel).where(Channel.name == "im")).one(), at(10))
    assert lines(log(store))[1:] == [
        ("im", "firing", "remind", "held"),
        ("mail", "firing", "remind_fallback", "pending"),
    ]
    return published


def test_nobody_is_told_in_place_of_a_reminder_of_what_is_taken_on(store: Store) -> None:
    """It was on its way when somebody took the alert on, and failed then."""
    add_channels(store, "mail")
    reminding(store, "im", fallback=["mail"])
    published = told(store, incident("jobHang", severity="error"))
    become(store, "im", "delivered")
    followed(store, at(10))
    reminder = log(store)[-1]
    with store.write() as session:
        session.get_one(Delivery, reminder.id).state = "sending"
        session.flush()
        ack(session, published.alert_id, "li", at(11))
        row = session.get_one(Delivery, reminder.id)
        row.state = "failed"
        assert tell_fallback(session, row, at(12)) == set()
    assert [row.channel for row in log(store)] == ["im", "im"]


def test_a_mended_channel_is_not_reminded_of_what_its_fallback_told(store: Store) -> None:
    reminded_in_place(store)
    become(store, "mail", "delivered")
    with store.write() as session:
        mended(session, session.scalars(select(Channel).where(Channel.name == "im")).one(), at(12))
    assert [(row.channel, row.state) for row in log(store)][1:] == [
        ("im", "suppressed"),
        ("mail", "delivered"),
    ]
