"""The row of a digest in the log says what its message says."""

from sqlalchemy import select

from notifier.acknowledging import ack
from notifier.digests import gather
from notifier.model import Channel, Delivery
from notifier.plan import Merge
from notifier.storage import Store
from notifier.tasks import Task, load
from tests.notifier.alerting import NOW, add_channels, at, custom, log, resolved, told


def gathered(store: Store) -> tuple[Delivery, Task]:
    """All that is unsent in one digest, and what its sender reads of it."""
    with store.write() as session:
        rows = session.scalars(select(Delivery).where(Delivery.state == "pending").order_by(Delivery.id))
        digest_id = gather(session, Merge(None, tuple(row.id for row in rows)), at(5))
    with store.read() as session:
        digest = session.get_one(Delivery, digest_id)
        channels = {row.id: row for row in session.scalars(select(Channel))}
        (task,) = load(session, [digest], channels, "token", NOW)
        return digest, task


def burning(store: Store, title: str, severity: str = "error") -> str:
    return told(store, custom(title=title, severity=severity, channels=("robot",))).alert_id


def test_it_is_headed_by_what_goes_on(store: Store) -> None:
    add_channels(store, "robot")
    burning(store, "a", "warning")
    resolved(store, burning(store, "b", "critical"), at(1))
    digest, _ = gathered(store)
    assert (digest.status, digest.severity) == ("firing", "critical")  # by which it has a place of its own


def test_it_is_over_where_all_of_it_is(store: Store) -> None:
    add_channels(store, "robot")
    for title in ("a", "b"):
        resolved(store, burning(store, title), at(1))
    digest, task = gathered(store)
    assert (digest.status, len(task.views)) == ("resolved", 4)


def test_who_has_taken_an_alert_on_is_read_with_it(store: Store) -> None:
    add_channels(store, "robot")
    burning(store, "a")
    alert = burning(store, "b")
    with store.write() as session:
        ack(session, alert, "li", at(1))
    _, task = gathered(store)
    assert [(view.title, view.acked_by) for view in task.views] == [("a", ""), ("b", "li")]
    assert len(log(store)) == 3
