"""The crew: a few abreast while nobody waits, as many as there may be when all do, none after the end."""

import threading
import time
from collections.abc import Iterator

import pytest

from notifier.crew import ABREAST, Crew
from tests.scarce import no_more_threads

MOST = 24


@pytest.fixture
def crew() -> Iterator[Crew]:
    found = Crew(MOST)
    yield found
    found.close(wait=True)


class Work:
    """Counts who is at it; each waits for the gate."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.lock = threading.Condition()
        self.names: list[str] = []
        self.ended = 0

    def __call__(self) -> None:
        with self.lock:
            self.names.append(threading.current_thread().name)
            self.lock.notify_all()
        self.gate.wait()
        with self.lock:
            self.ended += 1
            self.lock.notify_all()

    def wait(self, *, begun: int = 0, ended: int = 0) -> None:
        with self.lock:
            done = self.lock.wait_for(lambda: len(self.names) >= begun and self.ended >= ended, 30)
            assert done, (len(self.names), self.ended)


def test_all_that_is_given_is_done_in_order(crew: Crew) -> None:
    done: list[int] = []
    work = Work()
    for n in range(200):
        crew.submit(lambda n=n: done.append(n))  # type: ignore[misc]
    crew.submit(work)
    work.gate.set()
    work.wait(ended=1)
    assert sorted(done) == list(range(200))


def test_who_waits_for_a_provider_makes_room_for_others_up_to_the_most(crew: Crew) -> None:
    work = Work()
    for _ in range(2 * MOST):
        crew.submit(work)
    work.wait(begun=MOST)
    assert len(set(work.names)) == MOST
    assert len(work.names) == MOST
    work.gate.set()
    work.wait(ended=2 * MOST)


def test_while_nobody_waits_a_handful_does_it_all(crew: Crew) -> None:
    names: set[str] = set()
    last = Work()
    last.gate.set()
    for _ in range(ABREAST):  # they leave at once, so nobody is ever late for long
        crew.submit(lambda: names.add(threading.current_thread().name))
    crew.submit(last)
    last.wait(ended=1)
    assert len(names) <= ABREAST + 1


def test_one_that_hangs_keeps_nobody_else_waiting(crew: Crew) -> None:
    hangs, quick = Work(), Work()
    quick.gate.set()
    for _ in range(ABREAST):
        crew.submit(hangs)
    hangs.wait(begun=ABREAST)
    began = time.monotonic()
    crew.submit(quick)
    quick.wait(ended=1)
    assert time.monotonic() - began < 10
    hangs.gate.set()


def test_where_no_more_threads_are_to_be_had_those_that_are_there_do_it(crew: Crew) -> None:
    work = Work()
    crew.submit(work)
    work.wait(begun=1)
    with no_more_threads("sender-.*"):
        crew.submit(work)
        work.gate.set()
        work.wait(ended=2)
    assert len(set(work.names)) == 1


def test_after_the_end_nothing_begins() -> None:
    crew, work = Crew(1), Work()
    crew.submit(work)
    crew.submit(work)
    work.wait(begun=1)
    crew.close(wait=False)
    work.gate.set()
    work.wait(ended=1)
    crew.submit(work)
    assert len(work.names) == 1
