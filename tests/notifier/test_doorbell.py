"""The bell: rung without waiting, heard within moments, obeyed for one function only."""

import logging
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis
from rq import Queue, Worker
from rq.job import Job
from rq.serializers import JSONSerializer

from notifier.doorbell import DRAIN, MANY, QUEUE, SHARDS, Bell, bell_id, move_on, shard_of
from notifier.listener import Listener
from notifier.storage import Store, make_engine
from notifier.valkey import Embedded


class Heard:
    """What a listener was told."""

    def __init__(self) -> None:
        self.shards: list[int] = []
        self.changed = threading.Condition()

    def __call__(self, shard: int) -> None:
        with self.changed:
            self.shards.append(shard)
            self.changed.notify_all()

    def wait(self, count: int, timeout_s: float = 10.0) -> list[int]:
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.shards) >= count, timeout_s), self.shards
            return list(self.shards)


@pytest.fixture
def bank(sqlite_url: str) -> Iterator[Store]:
    engine = make_engine(sqlite_url)
    yield Store(engine)
    engine.dispose()


@pytest.fixture
def client(valkey_url: str) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(valkey_url) as found:
        yield found


@pytest.fixture
def bell(valkey_url: str) -> Iterator[Bell]:
    found = Bell(valkey_url)
    yield found
    found.close()


@pytest.fixture
def heard(valkey_url: str) -> Iterator[Heard]:
    found = Heard()
    listener = Listener(valkey_url, found)
    listener.start()
    yield found
    listener.stop()


def queue(client: redis.Redis) -> Queue:
    return Queue(QUEUE, connection=client, serializer=JSONSerializer)


def until(condition: Callable[[], object], timeout_s: float = 10.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)


def test_shards_are_the_same_everywhere_and_all_used() -> None:
    assert shard_of("chn_01") == shard_of("chn_01")
    assert {shard_of(f"chn_{n}") for n in range(500)} == set(range(SHARDS))


def test_a_bell_carries_a_shard_and_nothing_else(bank: Store, bell: Bell, client: redis.Redis) -> None:
    bell.ring(bank, [3])
    assert bell.flush()
    (job,) = queue(client).jobs
    assert (job.id, job.func_name, job.args, job.kwargs) == (bell_id(3, 0), DRAIN, [3], {})
    assert (job.result_ttl, job.failure_ttl) == (0, 0)
    assert client.ttl(job.key) > 0


def test_ringing_twice_is_one_job_until_a_claim_has_moved_on(
    bank: Store, bell: Bell, client: redis.Redis
) -> None:
    for _ in range(5):
        bell.ring(bank, [3])
        bell.flush()
    assert queue(client).job_ids == [bell_id(3, 0)]
    with bank.write() as session:
        move_on(session, [3])
    bell.ring(bank, [3])
    bell.flush()
    assert queue(client).job_ids == [bell_id(3, 0), bell_id(3, 1)]


def test_after_much_at_once_the_next_round_is_later(
    bank: Store, bell: Bell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("notifier.doorbell.APART_S", 0.0)
    monkeypatch.setattr("notifier.doorbell.APART_IN_BURST_S", 0.6)
    for _ in range(MANY):
        bell.ring(bank, {3})
        assert bell.flush()
    with bell._changed:
        for _ in range(MANY):
            bell.ring(bank, {3})
    assert bell.flush(0.5)
    bell.ring(bank, {3})
    assert not bell.flush(0.2)
    assert bell.flush(5)


def test_generations_only_grow(store: Store) -> None:
    for expected in (1, 2, 3):
        with store.write() as session:
            move_on(session, [7])
        with store.read() as session:
            assert session.connection().exec_driver_sql("select generation from shards").scalar() == expected


def test_a_bell_is_heard_at_once_and_leaves_nothing_behind(
    bank: Store, bell: Bell, client: redis.Redis, heard: Heard
) -> None:
    until(lambda: client.smembers("rq:workers"))
    began = time.monotonic()
    bell.ring(bank, [2, 1])
    assert heard.wait(1) == [1]  # whoever hears it looks at all
    assert time.monotonic() - began < 1.0
    until(lambda: not client.keys("rq:job:*"))
    assert client.llen(f"rq:queue:{QUEUE}:intermediate") == 0


def test_a_bell_left_by_a_worker_that_died_stops_nobody(
    bank: Store, bell: Bell, client: redis.Redis, heard: Heard
) -> None:
    """Its hash stays, and RQ refuses the same name; the next claim gives the bell another one."""
    bell.ring(bank, [5])
    heard.wait(1)
    Job.create(DRAIN, [5], id=bell_id(5, 0), connection=client, serializer=JSONSerializer).save()
    bell.ring(bank, [5])
    bell.flush()
    assert heard.shards == [5]
    with bank.write() as session:
        move_on(session, [5])
    bell.ring(bank, [5])
    assert heard.wait(2) == [5, 5]


FORGED = {
    "os.system": ("os.system", ["touch {proof}"], {}),
    "a function of ours that is no bell": ("notifier.doorbell.shard_of", ["x"], {}),
    "our bell with an address": (DRAIN, ["{proof}"], {}),
    "our bell for no shard": (DRAIN, [99], {}),
    "our bell for true": (DRAIN, [True], {}),
    "our bell with more": (DRAIN, [1, 2], {}),
    "our bell with keywords": (DRAIN, [1], {"shard": 2}),
    "nothing": ("", [], {}),
}


@pytest.mark.parametrize(("function", "args", "kwargs"), FORGED.values(), ids=FORGED)
def test_any_other_job_is_refused_and_dropped(
    function: str,
    args: list[object],
    kwargs: dict[str, object],
    client: redis.Redis,
    heard: Heard,
    tmp_path: Path,
) -> None:
    proof = tmp_path / "proof"
    args = [arg.format(proof=proof) if isinstance(arg, str) else arg for arg in args]
    queue(client).enqueue_call(function, args, kwargs, job_id="forged")
    queue(client).enqueue(DRAIN, 4, job_id="after")
    assert heard.wait(1) == [4]
    until(lambda: not client.keys("rq:job:*"))
    assert not proof.exists()


def test_a_stock_worker_would_have_obeyed(client: redis.Redis, tmp_path: Path) -> None:
    """What the table guards against: the same job in RQ's own worker runs the command."""
    proof = tmp_path / "proof"
    queue(client).enqueue_call("os.system", [f"touch {proof}"], job_id="forged")
    logging.getLogger("rq.worker").disabled = True
    Worker([queue(client)], connection=client, serializer=JSONSerializer).work(burst=True)
    logging.getLogger("rq.worker").disabled = False
    assert proof.exists()


CALLBACKS = ("success_callback_name", "failure_callback_name", "stopped_callback_name")


@pytest.mark.parametrize("name", CALLBACKS)
def test_a_bell_with_a_callback_calls_nothing(client: redis.Redis, heard: Heard, name: str) -> None:
    """A callback is imported by name: this one would end the process."""
    job = Job.create(DRAIN, [6], id="called", connection=client, serializer=JSONSerializer, origin=QUEUE)
    job.save()
    client.hset(job.key, name, "os.abort")
    client.rpush(f"rq:queue:{QUEUE}", job.id)
    assert heard.wait(1) == [6]


GARBAGE = {
    "no hash": None,
    "not JSON": {"data": b"\x80\x04garbage", "created_at": "2026-11-29T00:00:00Z"},
    "no date": {"data": b"[]", "created_at": "yesterday"},
}


@pytest.mark.parametrize("fields", GARBAGE.values(), ids=GARBAGE)
def test_garbage_does_not_stop_the_listener(
    client: redis.Redis, heard: Heard, fields: dict[str, bytes] | None
) -> None:
    if fields:
        client.hset("rq:job:garbage", mapping=fields)
    client.rpush(f"rq:queue:{QUEUE}", "garbage")
    queue(client).enqueue(DRAIN, 4, job_id="after")
    assert heard.wait(1) == [4]


def test_ringing_costs_nothing_when_redis_is_down(bank: Store, tmp_path: Path) -> None:
    bell = Bell(f"unix://{tmp_path}/nobody.sock")
    began = time.monotonic()
    bell.ring(bank, range(SHARDS))
    assert time.monotonic() - began < 0.3
    assert bell.flush()
    bell.close()


def test_a_redis_that_hangs_delays_nobody(bank: Store, tmp_path: Path) -> None:
    with Embedded(tmp_path) as server:
        client, bell = redis.Redis.from_url(server.url), Bell(server.url)
        client.execute_command("CLIENT", "PAUSE", "1500", "ALL")
        began = time.monotonic()
        bell.ring(bank, [1])
        assert time.monotonic() - began < 0.3
        assert bell.flush()
        assert time.monotonic() - began < 1.0
        bell.close()
        client.close()


def test_a_full_redis_costs_the_bell_only(bank: Store, tmp_path: Path) -> None:
    with Embedded(tmp_path) as server, redis.Redis.from_url(server.url) as client:
        client.config_set("maxmemory", "1")
        bell = Bell(server.url)
        bell.ring(bank, [1])
        assert bell.flush()
        assert client.keys("rq:job:*") == []
        client.config_set("maxmemory", "0")
        bell.ring(bank, [1])
        assert bell.flush()
        assert len(client.keys("rq:job:*")) == 1
        bell.close()


def test_a_listener_lives_through_a_restart_and_a_wipe(bank: Store, tmp_path: Path) -> None:
    heard = Heard()
    server = Embedded(tmp_path)
    server.start()
    listener, bell = Listener(server.url, heard), Bell(server.url)
    listener.start()
    bell.ring(bank, [1])
    heard.wait(1)
    with redis.Redis.from_url(server.url) as client:
        client.flushall()
    bell.ring(bank, [2])
    heard.wait(2)
    server.stop()
    bell.ring(bank, [3])  # lost, and nobody minds
    bell.flush()
    server.start()
    with bank.write() as session:
        move_on(session, [4])
    until(lambda: bell.ring(bank, [4]) or (bell.flush() and 4 in heard.shards))
    listener.stop()
    bell.close()
    server.stop()


def test_without_redis_there_is_no_bell(bank: Store) -> None:
    bell = Bell(None)
    bell.ring(bank, [1])
    bell.close()
