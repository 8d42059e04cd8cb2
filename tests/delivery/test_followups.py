"""Escalation, reminders and the end of an alert through real workers: kill -9 between the steps, two of them,
a restart; the stand-in counts what arrived."""

import signal
import threading
from collections import Counter
from datetime import timedelta
from email import message_from_string
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import select, update

from channels.standin import Scripted
from notifier.acknowledging import ack
from notifier.alertconfigs import put_alert_config
from notifier.alerts import NewAlert, publish
from notifier.clock import utcnow
from notifier.ends import resolve
from notifier.model import Alert, Delivery, Followup
from notifier.rules import AlertConfigModel
from tests.delivery.conftest import until

if TYPE_CHECKING:
    from tests.delivery.conftest import House, Processes

pytestmark = pytest.mark.timeout(120)
on_sqlite = pytest.mark.parametrize("engine_name", ["sqlite"], indirect=True)
CALL = [{"after_s": 3600, "channels": ["call"]}]


def rules(house: "House", *given: dict[str, Any], escalation: Any = ()) -> None:
    config = AlertConfigModel.model_validate({"rules": list(given), "escalation": list(escalation)})
    with house.store.write() as session:
        put_alert_config(session, ("pool", "default"), config, utcnow())


def happens(house: "House", title: str = "it broke") -> str:
    """An alert by the rules; answers its id."""
    with house.store.write() as session:
        new = NewAlert(pool="default", item="custom", severity="error", title=title)
        return publish(session, new, utcnow()).alert_id


def passes(house: "House", seconds: float) -> None:
    """As if that much time had passed since."""
    step = timedelta(seconds=seconds)
    with house.store.write() as session:
        for row in session.scalars(select(Followup)):
            row.due_at -= step
        for alert in session.scalars(select(Alert)):
            alert.created_at -= step
        for delivery in session.scalars(select(Delivery)):
            delivery.created_at -= step
            if delivery.first_attempt_at is not None:
                delivery.first_attempt_at -= step


def rows(house: "House", alert: str, trigger: str) -> list[Delivery]:
    return [row for row in house.rows() if row.alert_id == alert and row.trigger == trigger]


def told(house: "House", alert: str, trigger: str, count: int = 1) -> None:
    """Wait until so many of its deliveries of that kind are delivered."""
    until(lambda: [row.state for row in rows(house, alert, trigger)] == ["delivered"] * count, 20)


def copies(house: "House") -> Counter[str]:
    return Counter(one.id for one in house.providers.messages(accepted=True))


def escalating(house: "House") -> str:
    house.channel("im")
    house.channel("call")
    rules(house, {"channels": ["im"]}, escalation=CALL)
    return happens(house)


@pytest.mark.parametrize("point", ["following_up", "followed_up"])
def test_a_worker_killed_between_the_steps_escalates_exactly_once(
    house: "House", processes: "Processes", point: str
) -> None:
    alert = escalating(house)
    doomed = processes.worker(FAULTCAST_FAULTPOINT=f"{point}:1:kill")
    told(house, alert, "alert")
    passes(house, 3600)
    assert processes.exit_code(doomed) == -signal.SIGKILL
    is_committed = point == "followed_up"
    assert len(rows(house, alert, "escalation")) == int(is_committed)
    with house.working():
        told(house, alert, "escalation")
    assert [row.channel for row in rows(house, alert, "escalation")] == ["call"]
    assert set(copies(house).values()) == {1}


@on_sqlite
def test_an_error_in_the_midst_of_it_is_made_good(house: "House", processes: "Processes") -> None:
    alert = escalating(house)
    processes.worker(FAULTCAST_FAULTPOINT="following_up:1:raise")
    told(house, alert, "alert")
    passes(house, 3600)
    told(house, alert, "escalation")


def test_two_workers_escalate_and_remind_once(house: "House", processes: "Processes") -> None:
    house.channel("im", limited=False)
    house.channel("call", limited=False)
    rules(house, {"channels": ["im"], "remind_every_s": 3600}, escalation=CALL)
    alerts = [happens(house, f"broken {n}") for n in range(8)]
    processes.worker()
    processes.worker()
    for alert in alerts:
        told(house, alert, "alert")
    passes(house, 3600)
    for alert in alerts:
        until(lambda alert=alert: len(rows(house, alert, "escalation")) == 1)  # type: ignore[misc]
        until(lambda alert=alert: len(rows(house, alert, "remind")) == 1)  # type: ignore[misc]
    until(lambda: {row.state for row in house.rows()} <= {"delivered", "merged"}, 20)
    assert len([row for row in house.rows() if row.alert_id is not None]) == 3 * len(alerts)
    assert set(copies(house).values()) == {1}


def test_escalation_survives_a_restart_and_ends_with_an_acknowledgement(house: "House") -> None:
    first = escalating(house)
    second = happens(house, "another")
    with house.working():
        told(house, first, "alert")
        told(house, second, "alert")
    with house.store.write() as session:
        ack(session, second, "li", utcnow())
    passes(house, 3600)
    with house.working():
        told(house, first, "escalation")
        until(lambda: not planned(house))
    assert rows(house, second, "escalation") == []


def planned(house: "House") -> list[Followup]:
    with house.store.read() as session:
        return list(session.scalars(select(Followup)))


# --- how it is told ---


@on_sqlite
def test_a_reminder_says_how_long_it_lasts_and_an_escalation_that_nobody_answered(house: "House") -> None:
    alert = escalating(house)
    rules(house, {"channels": ["im"], "remind_every_s": 3600}, escalation=CALL)
    again = happens(house, "disk full")
    with house.working():
        told(house, alert, "alert")
        told(house, again, "alert")
        with house.store.write() as session:
            session.execute(update(Alert).where(Alert.id == again).values(repeats=4))
        passes(house, 3600)
        told(house, again, "remind")
        told(house, again, "escalation")
    texts = {
        row.trigger: f"{row.message['title']}\n{row.message['text']}"
        for row in house.rows()
        if row.message is not None and row.alert_id == again
    }
    assert "Still firing: disk full" in texts["remind"]
    assert "still firing for 1 h 0 min, repeated 4 times" in texts["remind"]
    assert "Nobody took it on: disk full" in texts["escalation"]
    assert "nobody has taken it on for 1 h 0 min" in texts["escalation"]
    assert "firing" not in texts["alert"]


@on_sqlite
def test_mails_of_one_alert_are_one_thread(house: "House") -> None:
    house.channel("mail", kind="email")
    rules(house, {"channels": ["mail"], "remind_every_s": 3600})
    alert = happens(house)
    with house.working():
        told(house, alert, "alert")
        passes(house, 3600)
        told(house, alert, "remind")
        with house.store.write() as session:
            resolve(session, alert_id=alert, now=utcnow())
        told(house, alert, "resolve")
    mails = [message_from_string(one.body) for one in house.providers.messages("email", accepted=True)]
    assert len({mail["Message-ID"] for mail in mails}) == 3
    assert {mail["References"] for mail in mails} == {mail["In-Reply-To"] for mail in mails}
    assert mails[0]["References"].startswith(f"<{alert}@")


# --- the end ---


def test_of_many_that_resolve_at_once_one_tells(house: "House") -> None:
    alert = escalating(house)
    with house.working():
        told(house, alert, "alert")
        passes(house, 3600)
        told(house, alert, "escalation")
        start = threading.Barrier(6)

        def end() -> None:
            start.wait()
            with house.store.write() as session:
                resolve(session, alert_id=alert, now=utcnow())

        threads = [threading.Thread(target=end) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        told(house, alert, "resolve", 2)
    assert sorted(row.channel for row in rows(house, alert, "resolve")) == ["call", "im"]
    assert set(copies(house).values()) == {1}


def test_what_ends_while_it_is_being_sent_is_told_once_more(house: "House") -> None:
    house.channel("im")
    rules(house, {"channels": ["im"]})
    house.providers.script("webhook", Scripted(delay_s=1.0))
    with house.working():
        alert = happens(house)
        house.providers.wait(1)
        with house.store.write() as session:
            resolve(session, alert_id=alert, now=utcnow())
        told(house, alert, "alert")
        told(house, alert, "resolve")
    assert [one.body["status"] for one in house.providers.messages(accepted=True)] == ["firing", "resolved"]


def test_a_resolve_that_nobody_has_sent_survives_a_kill(house: "House", processes: "Processes") -> None:
    house.channel("im")
    rules(house, {"channels": ["im"]})
    alert = happens(house)
    with house.working():
        told(house, alert, "alert")
    with house.store.write() as session:
        resolve(session, alert_id=alert, now=utcnow())
    doomed = processes.worker(FAULTCAST_FAULTPOINT="claimed:1:kill")
    assert processes.exit_code(doomed) == -signal.SIGKILL
    with house.store.write() as session:  # said again, by somebody who does not know that it was
        assert resolve(session, alert_id=alert, now=utcnow()).delivery_ids == ()
    house.lapse()
    with house.working():
        told(house, alert, "resolve")
    assert len(rows(house, alert, "resolve")) == 1
    assert set(copies(house).values()) == {1}


def test_what_was_not_told_yet_is_told_together_with_its_end(house: "House") -> None:
    house.channel("im")
    rules(house, {"channels": ["im"]})
    alert = happens(house)
    with house.store.write() as session:
        resolve(session, alert_id=alert, now=utcnow())
    with house.working():
        until(lambda: {row.state for row in house.rows() if row.alert_id == alert} == {"merged"})
    assert len(house.providers.messages(accepted=True)) == 1
