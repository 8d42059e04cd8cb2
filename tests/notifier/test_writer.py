"""The writer: what is ready together is committed together, and one that fails fails alone."""

import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future
from functools import partial

import pytest
from sqlalchemy import event, text
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.orm import Session

from notifier.clock import utcnow
from notifier.ids import new_id
from notifier.storage import InDoubtError, Store, after_commit, make_engine
from notifier.writer import MAX_BATCH, BusyError, Writer
from tests.losing import Losing, losing
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


on_postgres = pytest.mark.parametrize("engine_name", ["postgres"], indirect=True)


@pytest.fixture
def way(database_url: str) -> Iterator[Losing]:
    with losing(database_url) as found:
        yield found


@pytest.fixture
def far(way: Losing) -> Iterator[Store]:
    """The same database, over connections that may be lost."""
    engine = make_engine(way.url)
    yield Store(engine)
    engine.dispose()


class Noting:
    """Notes something new each time; `keys`: what."""

    def __init__(self) -> None:
        self.keys: list[str] = []

    def __call__(self, session: Session) -> str:
        self.keys.append(new_id("m", utcnow()))
        return note(session, self.keys[-1])


def both(writer: Writer, *, again: bool = False) -> tuple[list[Noting], list[Future[str]]]:
    """Two that are committed together."""
    works = [Noting(), Noting()]
    with writer.turn:
        return works, [writer.submit(work, again=again) for work in works]


@on_postgres
@pytest.mark.parametrize("kept", [True, False])
def test_what_may_be_kept_is_not_done_again(way: Losing, far: Store, store: Store, kept: bool) -> None:
    """Its caller hears so: the connection was lost in the commit itself."""
    writer = Writer(far)
    assert writer.run(lambda session: note(session, "a")) == "a"
    way.lose(kept)
    works, came = both(writer)
    assert [type(one.exception(10)) for one in came] == [InDoubtError, InDoubtError]
    assert [len(work.keys) for work in works] == [1, 1]
    assert noted(store) == (3 if kept else 1)
    writer.close()


@on_postgres
@pytest.mark.parametrize("kept", [True, False])
def test_what_is_done_once_however_often_is_done_again(
    way: Losing, far: Store, store: Store, kept: bool
) -> None:
    writer = Writer(far)
    assert writer.run(lambda session: note(session, "a")) == "a"
    way.lose(kept, kept)  # and in the second try of the first, again
    works, came = both(writer, again=True)
    assert [one.result(10) for one in came] == [work.keys[-1] for work in works]
    assert [len(work.keys) for work in works] == [3, 2]
    assert way.lost == 2
    writer.close()


@on_postgres
def test_one_alone_that_may_be_kept_is_not_done_again_either(way: Losing, far: Store, store: Store) -> None:
    writer, work = Writer(far), Noting()
    way.lose(True)
    with pytest.raises(InDoubtError):
        writer.run(work)
    assert (len(work.keys), noted(store)) == (1, 1)
    writer.close()


@on_postgres
def test_a_connection_that_is_lost_before_the_commit_is_no_doubt(
    way: Losing, far: Store, store: Store
) -> None:
    """Nothing can be kept: it is done again by itself."""
    writer, tried = Writer(far), list[str]()

    def cut_off(session: Session) -> str:
        tried.append("x")
        if len(tried) == 1:
            session.execute(text("select pg_terminate_backend(pg_backend_pid())"))
        return note(session, "b")

    with writer.turn:
        came = [writer.submit(partial(note, key="a")), writer.submit(cut_off)]
    assert [one.result(10) for one in came] == ["a", "b"]
    assert noted(store) == 2
    writer.close()


@on_postgres
def test_who_is_ended_because_others_wait_for_him_begins_anew(store: Store) -> None:
    """A deadlock with somebody else: PostgreSQL ends one of the two."""
    writer, tried = Writer(store), Counter[str]()
    has_a, has_b = threading.Event(), threading.Event()
    with store.write() as session:
        for key in ("a", "b"):
            note(session, key)

    def lock(session: Session, key: str) -> None:
        session.execute(text("select key from meta where key = :key for update"), {"key": key})

    def mine(session: Session) -> str:
        tried["mine"] += 1
        session.execute(text("set local deadlock_timeout = '10ms'"))
        lock(session, "a")
        has_a.set()
        assert has_b.wait(10)
        lock(session, "b")
        return "done"

    def others() -> None:
        with store.write() as session:
            session.execute(text("set local deadlock_timeout = '60s'"))
            lock(session, "b")
            has_b.set()
            assert has_a.wait(10)
            lock(session, "a")

    other = threading.Thread(target=others)
    other.start()
    assert writer.submit(mine).result(30) == "done"
    other.join()
    assert tried["mine"] == 2
    writer.close()


def test_so_much_may_wait_and_no_more(store: Store) -> None:
    writer = Writer(store, room=3)
    with writer.turn:
        came = [writer.submit(partial(note, key=key), weight=2) for key in ("a", "b")]
        with pytest.raises(BusyError):
            writer.submit(partial(note, key="c"))
    assert [one.result(10) for one in came] == ["a", "b"]
    assert writer.submit(partial(note, key="c")).result(10) == "c"
    writer.close()


def test_what_weighs_much_is_committed_by_itself(store: Store, commits: list[str]) -> None:
    writer = Writer(store)
    with writer.turn:
        came = [writer.submit(partial(note, key=f"k{n}"), weight=MAX_BATCH // 2) for n in range(4)]
    assert [one.result(10) for one in came] == ["k0", "k1", "k2", "k3"]
    assert len(commits) == 2
    writer.close()


def test_many_that_are_refused_keep_the_order_and_the_one_commit(store: Store, commits: list[str]) -> None:
    """Each hears why in its place: before those that came after it."""
    writer = Writer(store)

    def refuse(session: Session, key: str) -> None:
        seen = session.execute(text("select count(*) from meta")).scalar_one()
        note(session, key)
        after_commit(session, lambda: said.append("never"))
        raise LookupError(seen)

    def tell(session: Session, key: str) -> str:
        after_commit(session, lambda: said.append(key))
        return note(session, key)

    said: list[str] = []
    with writer.turn:
        good = [writer.submit(partial(tell, key="a"))]
        bad = [writer.submit(partial(refuse, key="b"))]
        good.append(writer.submit(partial(tell, key="b")))
        bad.append(writer.submit(partial(refuse, key="c")))
    assert [one.result(10) for one in good] == ["a", "b"]
    assert [one.exception(10).args for one in bad] == [(1,), (2,)]  # type: ignore[union-attr]
    assert (len(commits), said) == (1, ["a", "b"])
    writer.close()


def test_nothing_that_is_raised_ends_the_thread(writer: Writer, store: Store) -> None:
    def leave(session: Session) -> None:
        raise SystemExit

    with writer.turn:
        came = [writer.submit(leave), writer.submit(partial(note, key="a"))]
    assert isinstance(came[0].exception(10), SystemExit)
    assert came[1].result(10) == "a"
    (thread,) = writer._threads
    assert thread.is_alive()
