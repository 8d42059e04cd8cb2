"""The end of an alert goes where its beginning went, whatever becomes of that one afterwards."""

import pytest
from sqlalchemy import select

from notifier.acknowledging import ack
from notifier.mending import release_held
from notifier.model import Attempt, Channel, Delivery
from notifier.settle import close
from notifier.storage import Store
from tests.notifier.alerting import add_channels, at, custom, lines, log, resolved, set_rules, told


def health(store: Store, channel: str, health: str) -> None:
    with store.write() as session:
        session.scalars(select(Channel).where(Channel.name == channel)).one().health = health


def state(store: Store, state: str, **which: str) -> None:
    with store.write() as session:
        for row in session.scalars(select(Delivery).filter_by(**which)):
            row.state = state


def fails(store: Store, **which: str) -> None:
    with store.write() as session:
        row = session.scalars(select(Delivery).filter_by(**which)).one()
        row.state, row.next_attempt_at = "failed", None
        close(session, row, at(2))


def mended(store: Store, name: str) -> None:
    with store.write() as session:
        channel = session.scalars(select(Channel).where(Channel.name == name)).one()
        channel.health = "ok"
        release_held(session, channel, at(3))


def test_a_mended_channel_is_not_told_the_end_of_what_its_fallback_told(store: Store) -> None:
    add_channels(store, "robot", "mail")
    set_rules(store, {"channels": ["robot"], "fallback": ["mail"]})
    health(store, "robot", "broken")
    alert = told(store, custom()).alert_id
    state(store, "delivered", channel="mail")
    resolved(store, alert, at(1))
    mended(store, "robot")
    assert lines(log(store)) == [
        ("robot", "firing", "alert", "suppressed"),
        ("mail", "firing", "fallback", "delivered"),
        ("robot", "resolved", "resolve", "suppressed"),
        ("mail", "resolved", "resolve", "pending"),
    ]


def test_a_mended_channel_is_told_the_end_of_what_it_told_itself(store: Store) -> None:
    add_channels(store, "robot", "mail")
    set_rules(store, {"channels": ["robot"], "fallback": ["mail"]})
    alert = told(store, custom()).alert_id
    state(store, "delivered", channel="robot")
    health(store, "robot", "broken")
    resolved(store, alert, at(1))
    mended(store, "robot")
    assert ("robot", "resolved", "resolve", "pending") in lines(log(store))


def test_whoever_is_told_in_place_of_one_that_failed_after_the_end_hears_of_the_end_instead(
    store: Store,
) -> None:
    add_channels(store, "robot", "mail")
    set_rules(store, {"channels": ["robot"], "fallback": ["mail"]})
    alert = told(store, custom()).alert_id
    state(store, "sending", channel="robot")
    resolved(store, alert, at(1))
    fails(store, channel="robot", status="firing")
    assert lines(log(store)) == [
        ("robot", "firing", "alert", "failed"),
        ("robot", "resolved", "resolve", "suppressed"),
        ("mail", "firing", "fallback", "pending"),
        ("mail", "resolved", "fallback", "pending"),
    ]


def test_the_end_stays_where_another_message_told_of_the_alert(store: Store) -> None:
    add_channels(store, "robot", "mail")
    set_rules(store, {"channels": ["robot"], "fallback": ["mail"], "remind_every_s": 60})
    alert = told(store, custom()).alert_id
    state(store, "delivered", channel="robot")
    with store.write() as session:
        first = session.scalars(select(Delivery)).one()
        again = Delivery(**{c.key: getattr(first, c.key) for c in Delivery.__table__.columns})
        again.id, again.trigger, again.state = first.id[:-1] + "~", "remind", "sending"
        session.add(again)
    resolved(store, alert, at(1))
    fails(store, trigger="remind")
    assert ("robot", "resolved", "resolve", "pending") in lines(log(store))


def test_an_acknowledgement_withdraws_what_waits_for_a_broken_channel(store: Store) -> None:
    add_channels(store, "robot")
    set_rules(store, {"channels": ["robot"]})
    health(store, "robot", "broken")
    alert = told(store, custom()).alert_id
    with store.write() as session:
        row = session.scalars(select(Delivery)).one()
        row.trigger = "escalation"
        ack(session, alert, "li", at(1))
    assert [(row.state, row.why) for row in log(store)] == [("suppressed", "acknowledged by li")]


def test_what_quiet_hours_keep_back_is_told_with_its_end_when_they_are_over(store: Store) -> None:
    add_channels(store, "robot", "mail")
    set_rules(store, {"channels": ["robot"], "quiet_hours": "11:00-13:00"}, {"channels": ["mail"]})
    alert = told(store, custom()).alert_id
    resolved(store, alert, at(1))
    due = {(row.channel, row.status): (row.next_attempt_at, row.why) for row in log(store)}
    assert due["robot", "resolved"] == due["robot", "firing"] == (at(60), "quiet hours until 13:00")
    assert due["mail", "resolved"] == (at(1), "")


def test_an_end_in_quiet_hours_is_told_when_they_are_over(store: Store) -> None:
    add_channels(store, "robot", "mail")
    set_rules(store, {"channels": ["robot"], "quiet_hours": "13:00-15:00"}, {"channels": ["mail"]})
    alert = told(store, custom()).alert_id
    state(store, "delivered")
    set_rules(store, {"channels": ["mail"]})  # what was told keeps the rule by which it was
    resolved(store, alert, at(61))
    due = {row.channel: (row.next_attempt_at, row.why) for row in log(store) if row.status == "resolved"}
    assert due == {"robot": (at(180), "quiet hours until 15:00"), "mail": (at(61), "")}


def test_the_end_of_what_wakes_people_does_not_wait(store: Store) -> None:
    add_channels(store, "robot")
    set_rules(store, {"channels": ["robot"], "quiet_hours": "11:00-15:00"})
    alert = told(store, custom(severity="critical")).alert_id
    state(store, "delivered")
    resolved(store, alert, at(61))
    assert [(row.status, row.next_attempt_at) for row in log(store)][1:] == [("resolved", at(61))]


@pytest.mark.parametrize(
    ("outcome", "becomes"),
    [("temporary", "suppressed"), ("throttled", "suppressed"), ("ambiguous", "retrying"), (None, "retrying")],
)
def test_an_acknowledgement_withdraws_a_call_that_reached_nobody(
    store: Store, outcome: str | None, becomes: str
) -> None:
    add_channels(store, "robot")
    alert = told(store, custom(channels=("robot",))).alert_id
    with store.write() as session:
        row = session.scalars(select(Delivery)).one()
        row.trigger, row.state, row.attempt_count = "escalation", "retrying", 1
        session.add(
            Attempt(
                delivery_id=row.id, channel_id=row.channel_id, n=1, part=1, parts=1, trigger="escalation",
                lease_token="t", started_at=at(0), possible_duplicate=False, recipients=[], outcome=outcome,
            )
        )  # fmt: skip
        session.flush()
        ack(session, alert, "li", at(1))
    assert [row.state for row in log(store)] == [becomes]
