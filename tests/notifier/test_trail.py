"""What the log says of an incident: only what is kept, and always under its one id."""

import pytest
from structlog.testing import capture_logs

from notifier.acknowledging import ack
from notifier.alerts import NewAlert, publish
from notifier.clock import utcnow
from notifier.ends import resolve
from notifier.model import Alert, Delivery
from notifier.storage import Store
from notifier.trail import MAX_TOLD_OF, names_of
from notifier.wording import AlertView


def new(**more: object) -> NewAlert:
    given = {"pool": "p", "source": "s", "item": "custom", "severity": "error", "title": "t", "channels": ()}
    return NewAlert(**{**given, **more})  # type: ignore[arg-type]


def test_all_that_is_kept_of_an_alert_is_said_under_one_id(store: Store) -> None:
    now = utcnow()
    with capture_logs() as said:
        with store.write() as session:
            alert_id = publish(session, new(), now).alert_id
            assert said == [], "not before it is kept"
        for work in (
            lambda s: ack(s, alert_id, "ann", now),
            lambda s: resolve(s, alert_id=alert_id, now=now),
        ):
            with store.write() as session:
                work(session)
        with store.write() as session:
            ack(session, alert_id, "ben", now)
    assert [line["event"] for line in said] == ["alert_accepted", "alert_acknowledged", "alert_accepted"]
    assert {line["incident"] for line in said} == {alert_id}
    assert [line.get("status") for line in said] == ["firing", None, "resolved"]
    assert said[1]["by"] == "ann"


def test_what_is_rolled_back_was_never_said(store: Store) -> None:
    def fails() -> None:
        with store.write() as session:
            publish(session, new(), utcnow())
            raise RuntimeError

    with capture_logs() as said, pytest.raises(RuntimeError):
        fails()
    assert said == []


def test_a_fault_is_the_incident_of_its_alert(store: Store) -> None:
    with capture_logs() as said, store.write() as session:
        alert_id = publish(
            session, new(event_id="evt_1", job_id="job_1", job_name="train"), utcnow()
        ).alert_id
        assert session.get_one(Alert, alert_id)
    (line,) = said
    assert (line["incident"], line["alert"], line["job"]) == ("evt_1", alert_id, "job_1")


class Sent:
    def __init__(self, row: Delivery, *views: AlertView) -> None:
        self.row, self.views = row, views


def view(n: int, event: str | None) -> AlertView:
    return AlertView(
        delivery_id=f"dlv_{n}", alert_id=f"alr_{n}", item="custom", severity="error", title="t",
        created_at=utcnow(), scope="p", items=(), status="firing", text="",
        event={"id": event} if event else None,
    )  # fmt: skip


def test_a_digest_names_each_incident_that_it_tells_of() -> None:
    row = Delivery(id="dlv_9", channel="ops", kind="webhook", is_digest=True, alert_id=None, event_id=None)
    named = names_of(Sent(row, view(1, "evt_1"), view(2, "evt_1"), view(3, None)))
    assert named == {
        "delivery": "dlv_9",
        "channel": "ops",
        "kind": "webhook",
        "incidents": ["evt_1", "alr_3"],
    }
    many = names_of(Sent(row, *(view(n, None) for n in range(200))))["incidents"]
    assert isinstance(many, list)
    assert len(many) == MAX_TOLD_OF
