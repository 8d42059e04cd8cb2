"""What is old, or too much, goes; what is unfinished stays, whatever its age."""

import threading
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import func, select

from notifier import indexwriting, retention
from notifier.clock import utcnow
from notifier.housekeeping import Housekeeper, steps
from notifier.model import Alert, Attempt, Delivery, Followup, Idempotency, MeterUse, Receipt
from notifier.retention import Bounds
from notifier.searchmodel import SearchBits, SearchBlock, SearchSlot, SearchWatch
from notifier.settings import Settings
from notifier.storage import Base, Store
from notifier.turn import Turn
from notifier.writer import Writer
from tests.api.logbook import Log
from tests.conftest import wait_for

OLD = utcnow() - timedelta(days=100)
YOUNG = utcnow() - timedelta(days=2)
BOUNDS = Bounds(days=90)


@pytest.fixture
def log(store: Store) -> Log:
    return Log(store)


def swept(store: Store, bounds: Bounds = BOUNDS) -> int:
    return sum(steps(store, nullcontext, bounds))


def count(store: Store, table: type[Base]) -> int:
    with store.read() as session:
        return session.scalar(select(func.count()).select_from(table)) or 0


def alert_of(store: Store, delivery: str, **values: Any) -> str:
    """Its alert, with these columns changed."""
    with store.write() as session:
        alert = session.get_one(Alert, session.get_one(Delivery, delivery).alert_id or "")
        for name, value in values.items():
            setattr(alert, name, value)
        return alert.id


def test_what_is_old_goes_with_all_that_hangs_on_it(
    store: Store, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexwriting, "FULL", 4)
    monkeypatch.setattr(indexwriting, "OLD", 4)
    old = [log.add(n, OLD + timedelta(seconds=n)) for n in range(10)]
    young = log.add(11, YOUNG)
    log.attempt(old[0], "said")
    with store.write() as session:
        attempt = session.scalars(select(Attempt)).one()
        session.add(MeterUse(meter="m", started_at=OLD, attempt_id=attempt.id))
    log.index()
    assert swept(store) > 0
    with store.read() as session:
        assert session.scalars(select(Delivery.id)).all() == [young]
        assert session.scalars(select(SearchSlot.delivery_id)).all() == [young]
        words = set(session.scalars(select(SearchBits.term)))
    assert [count(store, table) for table in (Attempt, MeterUse, Alert)] == [0, 0, 1]
    assert b"11" in words
    assert b"3" not in words


KEPT: Mapping[str, Callable[[Store, Log], object]] = {
    "pending": lambda _, log: log.add(1, OLD, state="pending"),
    "held": lambda _, log: log.add(1, OLD, state="held"),
    "an open alert's": lambda store, log: alert_of(store, log.add(1, OLD), status="firing", dedup_key="k"),
    "an alert's with something to follow": lambda store, log: _followed(store, log.add(1, OLD)),
    "awaited": lambda store, log: _awaited(store, log.add(1, OLD, state="accepted")),
    "a digest with a waiting member": lambda _, log: _digest(log),
}


def _followed(store: Store, delivery: str) -> None:
    alert = alert_of(store, delivery)
    with store.write() as session:
        session.add(Followup(alert_id=alert, kind="remind", n=1, spec={}, due_at=utcnow()))


def _awaited(store: Store, delivery: str) -> None:
    with store.write() as session:
        session.add(Receipt(delivery_id=delivery, channel_id="chn_1", sent=[], due_at=utcnow()))


def _digest(log: Log) -> None:
    digest = log.add(1, OLD, is_digest=True, state="failed", alert_id=None)
    log.add(2, YOUNG, merged_into=digest, state="retrying")


@pytest.mark.parametrize("make", KEPT.values(), ids=KEPT)
def test_what_is_unfinished_stays(store: Store, log: Log, make: Callable[[Store, Log], object]) -> None:
    make(store, log)
    before = count(store, Delivery)
    log.index()
    swept(store)
    assert count(store, Delivery) == before


def test_what_is_unfinished_does_not_keep_the_rest(
    store: Store, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However much of it there is before the next that goes."""
    monkeypatch.setattr(retention, "LOOKS", 3)
    monkeypatch.setattr(retention, "BATCH", 2)
    for n in range(20):
        log.add(n, OLD + timedelta(seconds=n), state="delivered" if n % 5 == 4 else "held")
    assert swept(store) == 4
    assert count(store, Delivery) == 16


def test_more_than_so_many_are_not_kept(store: Store, log: Log) -> None:
    rows = [log.add(n, YOUNG + timedelta(seconds=n)) for n in range(10)]
    assert swept(store, Bounds(days=90, rows=4)) == 6
    with store.read() as session:
        assert list(session.scalars(select(Delivery.id).order_by(Delivery.id))) == rows[6:]


def test_what_providers_may_still_count_stays(store: Store, log: Log) -> None:
    for n in range(10):
        log.add(n, utcnow() - timedelta(hours=2) + timedelta(seconds=n))
    assert swept(store, Bounds(days=90, rows=1)) == 0


def test_alerts_that_nobody_was_told_of_go_too(store: Store, log: Log) -> None:
    alert_of(store, log.add(1, OLD))
    with store.write() as session:
        session.delete(session.scalars(select(Delivery)).one())
    swept(store)
    assert count(store, Alert) == 0


def test_answers_to_repeated_requests_go_after_a_day(store: Store) -> None:
    with store.write() as session:
        for key, created_at in (("old", OLD), ("new", utcnow())):
            session.add(
                Idempotency(
                    token_id="t", key=key, fingerprint="f", status=200, body={}, created_at=created_at
                )
            )
    swept(store)
    with store.read() as session:
        assert session.scalars(select(Idempotency.key)).all() == ["new"]


def test_one_of_several_keeps_house(store: Store) -> None:
    one, other = Turn(store, "k"), Turn(store, "k")
    assert [one.is_ours(), other.is_ours(), one.is_ours()] == [True, False, True]
    one.give_up()
    assert [other.is_ours(), one.is_ours()] == [True, False]


def test_a_worker_keeps_house_by_itself(store: Store, log: Log, database_url: str) -> None:
    old, young = log.add(1, OLD), log.add(2, YOUNG)
    writer = Writer(store)
    keeper = Housekeeper(store, writer, Settings(_env_file=None, database_url=database_url))
    keeper.start()
    try:
        wait_for(lambda: count(store, SearchSlot) == 1 and count(store, Delivery) == 1, timeout_s=20)
    finally:
        keeper.stop()
        writer.close()
    with store.read() as session:
        assert session.scalars(select(SearchSlot.delivery_id)).all() == [young] != [old]
    assert count(store, SearchWatch) == 0
    assert count(store, SearchBlock) > 0
    assert not [one for one in threading.enumerate() if one.name == "housekeeper"]


def test_while_much_is_being_sent_the_index_waits_but_not_for_ever(
    store: Store, log: Log, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.add(1, YOUNG)
    monkeypatch.setattr("notifier.housekeeping.ROUND_S", 0.01)
    monkeypatch.setattr("notifier.housekeeping.BEHIND_S", 1000.0)
    asked: list[None] = []
    settings = Settings(_env_file=None, database_url=database_url)
    keeper = Housekeeper(store, Writer(store), settings, lambda: asked.append(None) is None)
    keeper.start()
    try:
        wait_for(lambda: len(asked) > 3)
        assert count(store, SearchBlock) == 0
        monkeypatch.setattr("notifier.housekeeping.BEHIND_S", 0.0)
        wait_for(lambda: count(store, SearchSlot) == 1)
    finally:
        keeper.stop()
