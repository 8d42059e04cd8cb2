"""The writer: what is ready together is committed together, and one that fails fails alone."""

import threading
import time
from collections.abc import Iterator

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from notifier.storage import Store
from notifier.writer import Writer


@pytest.fixture
def writer(store: Store) -> Iterator[Writer]:
    found = Writer(store)
    found.start()
    yield found
    found.close()


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
        while writer._queue.qsize() < len(keys):
            time.sleep(0.001)
    writer.start()
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


def test_close_finishes_what_was_handed_over(store: Store) -> None:
    writer = Writer(store)
    with writer.turn:
        waiting = threading.Thread(target=lambda: writer.run(lambda session: note(session, "last")))
        waiting.start()
        while writer._queue.empty():
            time.sleep(0.001)
    writer.start()
    writer.close()
    waiting.join()
    assert noted(store) == 1
