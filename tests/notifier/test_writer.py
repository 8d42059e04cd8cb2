"""The writer: what is ready together is committed together, and one that fails fails alone."""

import threading
import time
from collections import Counter
from collections.abc import Iterator
from functools import partial

import pytest
from sqlalchemy import event, text
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.orm import Session

from notifier.storage import Store, make_engine
from notifier.writer import Writer
from tests.scarce import no_more_threads


@pytest.fixture
def writer(store: Store) -> Iterator[Writer]:
    found = Writer(store)
    yield found
    found.close()


@pytest.fixture
def commits(store: Store) -> list[str]:
    found: list[str] = []
    event.listen(store.engine, "commit", lambda _: found.append("commit"))
    return found


def note(session: Session, key: str) -> str:
    session.execute(text("insert into meta (key, value) values (:key, '')"), {"key": key})
    return key


def noted(store: Store) -> int:
    with store.read() as session:
        return int(session.execute(text("select count(*) from meta")).scalar_one())


def together(store: Store, keys: list[str]) -> list[object]:
    """All are in the queue before the writer begins; what each came to."""
    writer = Writer(store)
    came: dict[int, object] = {}

    def one(n: int) -> None:
        try:
            came[n] = writer.run(lambda session: note(session, keys[n]))
        except DBAPIError as error:
            came[n] = error

    threads = [threading.Thread(target=one, args=(n,)) for n in range(len(keys))]
    with writer.turn:
        for thread in threads:
            thread.start()
        while len(writer._waiting) < len(keys):
            time.sleep(0.001)
    for thread in threads:
        thread.join()
    writer.close()
    return [came[n] for n in range(len(keys))]


def test_answers_what_the_work_answered_once_it_is_committed(writer: Writer, store: Store) -> None:
    assert writer.run(lambda session: note(session, "a")) == "a"
    assert noted(store) == 1


def test_many_at_once_are_all_committed(store: Store) -> None:
    keys = [f"k{n}" for n in range(50)]
    assert together(store, keys) == keys
    assert noted(store) == 50


def test_one_that_fails_fails_alone(store: Store) -> None:
    came = together(store, ["a", "b", "a", "c"])
    assert sorted(type(one).__name__ for one in came) == ["IntegrityError", "str", "str", "str"]
    assert noted(store) == 3


def test_who_is_refused_is_tried_again_after_the_others_and_those_are_committed_together(
    store: Store, commits: list[str]
) -> None:
    """`refuse` is what a client's mistake looks like: found when something was written already."""
    writer, tried = Writer(store), Counter[str]()

    def refuse(session: Session) -> None:
        tried["refused"] += 1
        note(session, "half")
        raise LookupError

    with writer.turn:
        good = [writer.submit(partial(note, key=key)) for key in ("a", "b")]
        bad = writer.submit(refuse)
        good.append(writer.submit(partial(note, key="c")))
    assert [one.result(10) for one in good] == ["a", "b", "c"]
    assert isinstance(bad.exception(10), LookupError)
    assert (len(commits), tried["refused"], noted(store)) == (1, 2, 3)
    writer.close()


@pytest.mark.parametrize("engine_name", ["sqlite"], indirect=True)
def test_what_comes_while_the_database_is_waited_for_comes_along(store: Store, commits: list[str]) -> None:
    writer = Writer(store)
    with store.write() as session:
        note(session, "other")
        came = [writer.submit(partial(note, key=key)) for key in ("a", "b", "c")]
        commits.clear()
    assert [one.result(10) for one in came] == ["a", "b", "c"]
    assert len(commits) == 2  # the other's and one more
    writer.close()


def test_without_a_database_all_are_told_so() -> None:
    writer = Writer(Store(make_engine("postgresql+psycopg://nobody@/none?host=/nowhere")))
    came = [writer.submit(partial(note, key=key)) for key in ("a", "b")]
    assert all(isinstance(one.exception(10), DBAPIError) for one in came)
    writer.close()


def test_what_nobody_waits_for_any_more_is_not_done(store: Store) -> None:
    writer = Writer(store)
    with writer.turn:
        left = writer.submit(partial(note, key="a"))
        assert left.cancel()
    assert writer.submit(partial(note, key="b")).result(10) == "b"
    assert noted(store) == 1
    writer.close()


@pytest.mark.parametrize("engine_name", ["postgres"], indirect=True)
def test_one_that_waits_for_anothers_lock_keeps_nobody_else_waiting(store: Store) -> None:
    writer = Writer(store, threads=2)
    with store.write() as session:
        note(session, "held")
        waits = writer.submit(partial(note, key="held"))
        assert [writer.submit(partial(note, key=key)).result(10) for key in ("a", "b")] == ["a", "b"]
        assert not waits.done()
    assert isinstance(waits.exception(10), IntegrityError)
    writer.close()


def test_an_idle_thread_ends_and_another_takes_over(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("notifier.writer.IDLE_S", 0.01)
    writer = Writer(store)
    for key in ("a", "b"):
        assert writer.submit(partial(note, key=key)).result(10) == key
        for thread in list(writer._threads):
            thread.join(10)
        assert not writer._threads
    assert noted(store) == 2


def test_where_no_thread_is_to_be_had_whoever_asks_is_told_so_and_the_next_one_is_served(
    writer: Writer, store: Store
) -> None:
    with no_more_threads("writer"), pytest.raises(RuntimeError, match="thread"):
        writer.submit(partial(note, key="a"))
    assert writer.submit(partial(note, key="b")).result(10) == "b"
    assert noted(store) == 1


def test_close_finishes_what_was_handed_over(store: Store) -> None:
    writer = Writer(store)
    with writer.turn:
        waiting = threading.Thread(target=lambda: writer.run(lambda session: note(session, "last")))
        waiting.start()
        while not writer._waiting:
            time.sleep(0.001)
    writer.close()
    waiting.join()
    assert noted(store) == 1
