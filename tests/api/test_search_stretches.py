"""Blocks of the index whose bitmaps were joined: only settled ones, and what comes after all is found."""

from collections.abc import Callable
from contextlib import nullcontext
from datetime import timedelta

import httpx
import pytest
from sqlalchemy import func, select

from notifier import indexing, indexwriting, meeting, retention, stretches
from notifier.api.deps import Services
from notifier.clock import utcnow
from notifier.expunging import WHY
from notifier.housekeeping import Housekeeper, steps
from notifier.model import Delivery, Receipt
from notifier.retention import Bounds
from notifier.searchmodel import LATE, SearchBlock, SearchSlot, SearchStretch
from notifier.settings import Settings
from notifier.storage import Store
from notifier.writer import Writer
from tests.api.logbook import CHANNELS, NOW, Log, ids, wanted
from tests.conftest import wait_for

COUNT = 40


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stretches of four blocks of four; a word of two of them is joined."""
    monkeypatch.setattr(indexwriting, "FULL", 4)
    monkeypatch.setattr(indexwriting, "OLD", 5)
    monkeypatch.setattr(stretches, "SHIFT", 2)
    monkeypatch.setattr(stretches, "FEWEST", 2)
    monkeypatch.setattr(meeting, "FIRST", 1)
    monkeypatch.setattr(meeting, "TOGETHER", 12)
    monkeypatch.setattr(meeting, "GROWS", 2)
    monkeypatch.setattr(meeting, "LEAPS", 64)


@pytest.fixture
def log(services: Services) -> Log:
    return Log(services.store)


def filled(log: Log) -> list[str]:
    """Ten blocks: two stretches and a half."""
    log.index()
    rows = [log.add(n) for n in range(COUNT)]
    log.index()
    log.check()
    return rows


def joined(store: Store, term: bytes | None = None) -> set[int]:
    rows = select(SearchStretch.stretch)
    with store.read() as session:
        return set(session.scalars(rows if term is None else rows.where(SearchStretch.term == term)))


def test_a_word_of_many_blocks_is_joined_and_one_of_few_is_not(admin: httpx.Client, log: Log) -> None:
    rows = filled(log)
    assert log.join() > 0
    assert joined(log.store, LATE) == joined(log.store, b"body") == {0, 1}
    assert joined(log.store, b"7") == {0, 1}
    assert joined(log.store, b"17") == set()
    assert ids(admin, q="nccl body", limit=3) == wanted(rows, lambda n: n % 4 == 0)
    assert ids(admin, q="body 17") == [rows[17]]
    assert log.join() == 0


def test_old_blocks_are_joined_too(admin: httpx.Client, log: Log) -> None:
    rows = [log.add(n) for n in range(COUNT)]
    log.index()
    assert log.join() > 0
    assert joined(log.store, LATE) == {-2, -1}
    assert ids(admin, q="nccl body", limit=3) == wanted(rows, lambda n: n % 4 == 0)
    assert ids(admin, q="nccl", channel="mail") == wanted(rows, lambda n: n % 4 == 0 and n % 3 == 1)


def _watched(log: Log, row: str) -> Callable[[], None]:
    log.change(row, state="sending")
    return lambda: log.change(row, state="failed")


def _awaited(log: Log, row: str) -> Callable[[], None]:
    with log.store.write() as session:
        session.add(Receipt(delivery_id=row, channel_id="chn_1", sent=[], due_at=NOW))

    def settle() -> None:
        with log.store.write() as session:
            session.delete(session.scalars(select(Receipt)).one())

    return settle


@pytest.mark.parametrize("unsettle", [_watched, _awaited])
def test_nothing_is_joined_that_may_change(
    log: Log, unsettle: Callable[[Log, str], Callable[[], None]]
) -> None:
    log.index()
    rows = [log.add(n) for n in range(COUNT)]
    settle = unsettle(log, rows[5])
    log.index()
    log.check()
    log.join()
    assert joined(log.store) == {1}
    settle()
    log.index()
    log.join()
    assert joined(log.store) == {0, 1}


def test_nothing_is_joined_that_was_not_looked_through(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indexing, "LATEST", timedelta(days=1))
    filled(log)
    assert log.join() == 0


def test_what_comes_into_a_joined_block_after_all_is_found(admin: httpx.Client, log: Log) -> None:
    """A clock was set back by ten minutes: what was joined without it counts no more, until it is anew."""
    rows = filled(log)
    log.join()
    assert ids(admin, q="body", kind="wecom", limit=3) == rows[::-1]  # what was read is kept
    late = log.add(3, NOW + timedelta(seconds=3.5), why="body nccl comet")
    with log.store.write() as session:
        session.get_one(SearchBlock, 1).is_checked = False
    log.index()
    assert log.count(SearchSlot) == COUNT + 1
    for _ in range(2):
        everything = sorted([*rows, late], reverse=True)
        assert ids(admin, q="body", limit=3) == everything
        assert ids(admin, q="body", kind="wecom", limit=3) == everything
        assert ids(admin, q="nccl", limit=50) == sorted([*rows[::4], late], reverse=True)
        assert ids(admin, q="comet") == [late]
        log.join()
        assert joined(log.store, LATE) == {0, 1}


def test_a_start_that_was_broken_off_is_made_good(admin: httpx.Client, log: Log) -> None:
    rows = filled(log)
    begun = stretches.steps(log.store, nullcontext)
    assert next(begun)
    begun.close()
    assert ids(admin, q="nccl body", limit=3) == wanted(rows, lambda n: n % 4 == 0)
    log.join()
    assert joined(log.store, LATE) == {0, 1}
    assert ids(admin, q="nccl body", limit=3) == wanted(rows, lambda n: n % 4 == 0)


def test_what_was_expunged_is_in_no_stretch(admin: httpx.Client, log: Log) -> None:
    log.index()
    rows = [log.add(n, why="geheim" if n in {6, 11} else "") for n in range(COUNT)]
    log.index()
    log.check()
    log.join()
    assert joined(log.store, b"geheim") == {0}
    for gone, left in ((rows[6], [rows[11]]), (rows[11], [])):
        assert admin.delete(f"/deliveries/{gone}/content").status_code == 200
        assert ids(admin, q="geheim") == left
    assert joined(log.store, b"geheim") == set()
    assert ids(admin, state="failed", kind="wecom") == wanted(rows, lambda n: n % 4 == 0)


def test_what_was_expunged_is_found_by_the_same_words_in_the_index_or_not(
    admin: httpx.Client, log: Log
) -> None:
    rows = filled(log)
    for n, one in enumerate([rows[0], log.add(COUNT)]):
        assert admin.delete(f"/deliveries/{one}/content").json()["why"] == WHY, n
    assert ids(admin, q=WHY) == []
    assert ids(admin, channel=CHANNELS[0], limit=1)[-1] == rows[0]


def test_stretches_go_with_their_blocks(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    log.index()
    old = utcnow() - timedelta(days=100)
    for n in range(24):
        log.add(n, old + timedelta(seconds=n) if n < 20 else utcnow() - timedelta(days=2, seconds=-n))
    log.index()
    log.check()
    log.join()
    assert joined(log.store) == {0}
    monkeypatch.setattr(retention, "BITS", 3)
    for _ in steps(log.store, nullcontext, Bounds(days=90)):
        pass
    with log.store.read() as session:
        assert session.scalar(select(func.count()).select_from(Delivery)) == 4
    assert joined(log.store) == set()


def test_a_worker_joins_them_by_itself(log: Log, database_url: str) -> None:
    filled(log)
    writer = Writer(log.store)
    keeper = Housekeeper(log.store, writer, Settings(_env_file=None, database_url=database_url))
    keeper.start()
    try:
        wait_for(lambda: joined(log.store, LATE) == {0, 1}, timeout_s=20)
    finally:
        keeper.stop()
        writer.close()
