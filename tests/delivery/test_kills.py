"""Kill -9 of workers, of Valkey, and a wiped Valkey: nothing is lost (`test_matrix.py` has every point).

The oracle is outside: the stand-ins note every message that they took, with our delivery's id. A second
copy is allowed only where the log says that it may be one.
"""

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import pytest
import redis

from channels.standin import Scripted
from notifier.doorbell import Bell, bell_id
from notifier.valkey import Embedded

if TYPE_CHECKING:
    from tests.delivery.conftest import House, Processes

pytestmark = pytest.mark.timeout(150)
SOON_S = 12.0  # a lease runs out after 5 s, the poll looks every second
AT_ONCE_S = 5.0


@pytest.fixture
def bell(valkey_url: str) -> Iterator[Bell]:
    found = Bell(valkey_url)
    yield found
    found.close()


def ring(house: "House", bell: Bell) -> None:
    bell.ring(house.store, set(house.shards))
    bell.flush()


def balance(house: "House", told: Sequence[str]) -> int:
    """Every delivery arrived; no copy that its log does not admit. Answers how many copies there were."""
    copies = Counter(message.id for message in house.providers.messages(accepted=True))
    assert set(told) <= set(copies), "lost"
    for delivery, count in copies.items():
        admitted = sum(attempt.possible_duplicate for attempt in house.attempts(delivery))
        assert count - 1 <= admitted, f"{delivery} arrived {count} times, and the log admits {admitted} more"
    return sum(count - 1 for count in copies.values())


on_sqlite = pytest.mark.parametrize("engine_name", ["sqlite"], indirect=True)


@on_sqlite
def test_a_worker_killed_while_the_provider_has_the_message(house: "House", processes: "Processes") -> None:
    """In real time: the lease runs out after five seconds."""
    house.providers.script("webhook", Scripted(delay_s=30))
    (one,) = house.alert(house.channel())
    doomed = processes.worker()
    house.providers.wait(1)
    processes.kill(doomed)
    with house.working():
        house.told(one, timeout_s=SOON_S)
    assert balance(house, [one]) == 1
    assert [(a.outcome, a.possible_duplicate) for a in house.attempts(one)] == [
        ("ambiguous", False),
        ("delivered", True),
    ]


@on_sqlite
def test_after_a_kill_inside_the_bells_job_the_next_alert_goes_out_at_once(
    house: "House", bell: Bell, processes: "Processes", valkey_url: str
) -> None:
    channel = house.channel()
    (first,) = house.alert(channel)
    house.edit(first, next_attempt_at=None)  # for the bell to find nothing, and the poll neither
    doomed = processes.worker(FAULTCAST_FAULTPOINT="rung:1:kill")
    ring(house, bell)
    assert processes.exit_code(doomed) == -signal.SIGKILL
    stuck = f"rq:job:{bell_id(house.shards[0], 0)}"
    assert processes.client.exists(stuck)  # RQ refuses another bell of that name
    with house.worker(valkey_url):
        began = time.monotonic()
        (second,) = house.alert(channel)
        ring(house, bell)
        house.told(second, timeout_s=AT_ONCE_S)
        assert time.monotonic() - began < AT_ONCE_S


@on_sqlite
def test_a_worker_that_stalls_longer_than_its_lease_sends_nothing_any_more(
    house: "House", processes: "Processes"
) -> None:
    (one,) = house.alert(house.channel())
    stalled = processes.worker(FAULTCAST_FAULTPOINT="claimed:1:stall:4")
    house.told(one, state="sending")
    house.lapse()
    with house.working():
        house.told(one)
    os.kill(stalled, signal.SIGTERM)
    assert processes.exit_code(stalled) == 0
    assert balance(house, [one]) == 0
    assert len(house.attempts(one)) == 1


@on_sqlite
def test_two_workers_and_a_provider_that_was_down_make_one_copy(
    house: "House", processes: "Processes"
) -> None:
    """Alertmanager's #4108: each of two peers kept trying, and both delivered on recovery."""
    house.providers.script("webhook", *[Scripted(status=500, delay_s=0.1)] * 6)
    channel = house.channel()
    processes.worker()
    processes.worker()
    (one,) = house.alert(channel)
    for tries in range(1, 7):
        until_tried(house, one, tries)
        house.hasten(one)
    house.told(one)
    assert balance(house, [one]) == 0
    assert len(house.attempts(one)) == 7


def until_tried(house: "House", delivery: str, tries: int) -> None:
    deadline = time.monotonic() + 20
    while (row := house.row(delivery)).tries < tries or row.state != "retrying":
        assert time.monotonic() < deadline, f"{row.state} after {row.tries} tries"
        time.sleep(0.01)


@on_sqlite
def test_sigterm_finishes_what_is_under_way_and_leaves_the_rest_to_others(
    house: "House", processes: "Processes"
) -> None:
    house.providers.script("webhook", *[Scripted(delay_s=1.5)] * 4)
    channels = [house.channel(f"c{n}") for n in range(4)]
    leaving = processes.worker()
    under_way = house.alert(*channels)
    house.providers.wait(4)
    os.kill(leaving, signal.SIGTERM)
    later = house.alert(*channels, title="later")
    assert processes.exit_code(leaving) == 0
    assert house.states(under_way) == ["delivered"] * 4
    with house.working():
        house.told(*later)
    assert balance(house, [*under_way, *later]) == 0


@on_sqlite
def test_workers_killed_at_random_lose_nothing(house: "House", bell: Bell, processes: "Processes") -> None:
    chance = random.Random(20261129)  # noqa: S311  which worker dies when, the same in every run
    channels = [house.channel(f"c{n}") for n in range(4)]
    workers = [processes.worker(), processes.worker()]
    told: list[str] = []
    for _ in range(5):
        for _ in range(6):
            told += house.alert(*channels, severity=chance.choice(("info", "error")))
            ring(house, bell)
            time.sleep(chance.random() * 0.05)
        victim = chance.randrange(2)
        processes.kill(workers[victim])
        workers[victim] = processes.worker()
    house.told(*told, timeout_s=40)
    balance(house, told)


def test_valkey_killed_wiped_and_gone_is_latency_only(house: "House") -> None:
    channel = house.channel()
    with Embedded(house.settings.data_dir) as valkey, house.worker(valkey.url):
        bell = Bell(valkey.url)

        def tell() -> None:
            ids = house.alert(channel)
            ring(house, bell)
            house.told(*ids, timeout_s=AT_ONCE_S)

        tell()
        assert valkey.pid is not None
        os.kill(valkey.pid, signal.SIGKILL)
        tell()
        valkey.ensure()
        tell()
        with redis.Redis.from_url(valkey.url) as client:
            for _ in range(5):
                client.flushall()
                tell()
        bell.close()
    assert len(house.arrived()) == 8
    balance(house, [row.id for row in house.rows()])
