"""What a commit promises on SQLite: to outlast the machine's power, unless it need not. And who is next."""

import threading
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session

from notifier.afteryou import AfterYou
from notifier.storage import Store, after_commit, make_engine
from tests.conftest import wait_for

FULL, NORMAL = 2, 1


def note(session: Session, key: str) -> None:
    session.execute(text("insert into meta (key, value) values (:key, '')"), {"key": key})


def run(store: Store, key: str) -> None:
    with store.write() as session:
        note(session, key)


def test_only_what_need_not_last_is_not_synced(sqlite_url: str) -> None:
    store = Store(make_engine(sqlite_url))
    for lasts in (True, False, True, False, True):
        with store.write(lasts=lasts) as session:
            assert session.scalar(text("pragma synchronous")) == (FULL if lasts else NORMAL)
            session.execute(
                text("insert or replace into meta values ('lasts', :lasts)"), {"lasts": str(lasts)}
            )
        with Store(make_engine(sqlite_url)).read() as session:  # others see it all the same
            assert session.scalar(text("select value from meta where key = 'lasts'")) == str(lasts)
    store.engine.dispose()


def test_a_database_is_made_for_us_alone_and_one_that_was_there_keeps_its_mode(tmp_path: Path) -> None:
    for name, before, after in (("new.db", None, 0o600), ("old.db", 0o640, 0o640)):
        path = tmp_path / name
        if before is not None:
            path.touch()
            path.chmod(before)
        engine = make_engine(f"sqlite:///{path}")
        with engine.begin() as connection:
            connection.execute(text("create table facts (n integer)"))
            modes = {one.name: one.stat().st_mode & 0o777 for one in tmp_path.glob(f"{name}*")}
        engine.dispose()
        assert modes == {name + suffix: after for suffix in ("", "-wal", "-shm")}


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long those stepped aside who had to."""
    found: list[float] = []

    class Clock:
        sleep = staticmethod(found.append)

    monkeypatch.setattr("notifier.afteryou.time", Clock)
    return found


def test_who_waits_for_the_lock_is_let_in_by_who_comes_later(sqlite_url: str, slept: list[float]) -> None:
    database = sqlite_url.removeprefix("sqlite:///")
    writing, waiting, later = (Store(make_engine(sqlite_url)) for _ in range(3))
    with writing.write() as session:
        note(session, "first")
        thread = threading.Thread(target=lambda: run(waiting, "second"))
        thread.start()
        wait_for(lambda: AfterYou(database).step_aside() or slept)
    thread.join()
    slept.clear()
    run(later, "third")
    assert not slept, "nobody waits any more"
    for store in (writing, waiting, later):
        store.engine.dispose()


def test_who_waits_is_seen_until_it_ends(tmp_path: Path, slept: list[float]) -> None:
    """Its last end is its process', of which nothing stays behind."""
    one, other = AfterYou(str(tmp_path / "x")), AfterYou(str(tmp_path / "x"))
    for waits in (False, True):
        one.step_aside()
        if waits:
            one.wait()
        other.step_aside()
        assert len(slept) == waits
    one.wait_no_more()
    other.step_aside()
    one.wait()
    del one
    other.step_aside()
    assert len(slept) == 1


@pytest.mark.parametrize("database", [None, "/nowhere/x.db"])
def test_without_a_file_all_goes_on(database: str | None, slept: list[float]) -> None:
    who = AfterYou(database)
    who.step_aside()
    who.wait()
    who.wait_no_more()
    assert not slept


@pytest.mark.parametrize("error", [BrokenPipeError, RuntimeError])
def test_what_cannot_be_said_is_kept_all_the_same(store: Store, error: type[Exception]) -> None:
    """A log that is full, gone or faulty makes nobody try again what is committed."""

    def say() -> None:
        raise error

    with store.write() as session:
        note(session, "kept")
        after_commit(session, say)
    with store.read() as session:
        assert session.scalar(text("select count(*) from meta where key = 'kept'")) == 1
