"""A keyed creation is done once, however many ask at once, and for a day; a key is one token's own."""

import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import select

from notifier.idempotency import KEPT, Answer, Call, once, purge
from notifier.model import Idempotency, Meta
from notifier.problems import Problem
from notifier.secretbox import SecretBox
from notifier.storage import Store

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)
BOX = SecretBox("a-secret-key-of-tests")
CALL = Call("tok_1", "key", "/channels", {"name": "a"}, NOW)


def create(store: Store, call: Call) -> Answer:
    """Makes a row of its own each time that it is really done."""
    with store.write() as session:

        def work() -> Answer:
            made = f"made-{len(session.scalars(select(Meta)).all())}"
            session.add(Meta(key=made, value=""))
            session.flush()
            return Answer(201, {"id": made, "secret": "CANARY"}, {"ETag": '"1"'})

        return once(session, BOX, call, work)


def made(store: Store) -> int:
    with store.read() as session:
        return len(session.scalars(select(Meta)).all())


def test_the_second_is_answered_what_the_first_was(store: Store) -> None:
    first, again = create(store, CALL), create(store, CALL)
    assert (first.is_replay, again.is_replay, made(store)) == (False, True, 1)
    assert (again.status, again.body, again.headers["ETag"]) == (201, first.body, '"1"')


def test_what_is_kept_of_an_answer_is_sealed(store: Store) -> None:
    create(store, CALL)
    with store.read() as session:
        assert "CANARY" not in str(session.scalars(select(Idempotency)).one().body)


DONE_AGAIN = {
    "without a key": replace(CALL, key=None),
    "with another key": replace(CALL, key="other"),
    "by another token": replace(CALL, token_id="tok_2"),
    "a day later": replace(CALL, at=NOW + KEPT + timedelta(seconds=1)),
}


@pytest.mark.parametrize("call", DONE_AGAIN.values(), ids=DONE_AGAIN)
def test_it_is_done_again(store: Store, call: Call) -> None:
    create(store, CALL)
    assert not create(store, call).is_replay
    assert made(store) == 2


@pytest.mark.parametrize("change", [{"body": {"name": "b"}}, {"path": "/tokens"}], ids=["body", "path"])
def test_one_key_for_two_things_is_refused(store: Store, change: dict[str, object]) -> None:
    create(store, CALL)
    with pytest.raises(Problem) as caught:
        create(store, replace(CALL, **change))  # type: ignore[arg-type]
    assert (caught.value.status, caught.value.errors[0][0]) == (422, "Idempotency-Key")
    assert made(store) == 1


@pytest.mark.parametrize("key", ["", " ", "a b", "é", "x" * 256, "a\n"])
def test_a_key_that_is_none_is_refused(store: Store, key: str) -> None:
    with pytest.raises(Problem) as caught:
        create(store, replace(CALL, key=key))
    assert caught.value.errors[0][0] == "Idempotency-Key"


def test_what_fails_may_be_tried_again_with_the_same_key(store: Store) -> None:
    def fail() -> Answer:
        raise Problem(409)

    with pytest.raises(Problem), store.write() as session:
        once(session, BOX, CALL, fail)
    assert not create(store, CALL).is_replay


def test_of_four_at_once_one_is_done(store: Store) -> None:
    start, answers = threading.Barrier(4), []

    def ask() -> None:
        start.wait()
        answers.append(create(store, CALL))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answer.is_replay for answer in answers) == [False, True, True, True]
    assert {str(answer.body) for answer in answers} == {str(answers[0].body)}
    assert made(store) == 1


def test_old_answers_are_forgotten(store: Store) -> None:
    create(store, CALL)
    with store.write() as session:
        purge(session, NOW + timedelta(seconds=1))
    assert not create(store, CALL).is_replay
