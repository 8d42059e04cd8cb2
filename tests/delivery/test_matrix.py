"""Every step of a delivery, each broken in every way, on both databases: nothing is lost.

A step is a fault point. The ways: its process is killed, it raises, the disk is full, the connection to the
database is lost (SQLite: the file fails). `test_stalls.py` has the fifth, a step that takes too long;
`bench/chaos.py` has the unabridged times, and kills at random. The oracle is the provider's own list.
"""

import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from notifier.doorbell import Bell
from tests.conftest import TEMPLATE
from tests.delivery.breaking import (
    Disk,
    NoVolumeError,
    Producer,
    Volume,
    balance,
    free_port,
    gate_of,
    has_felt,
    hurry,
    on_postgres,
    tablespace,
)
from tests.delivery.conftest import until

if TYPE_CHECKING:
    from tests.conftest import Postgres
    from tests.delivery.conftest import House, Processes

pytestmark = pytest.mark.timeout(120)
WORKER_POINTS = (
    "rung", "claimed", "intent_written", "bytes_sent", "answer_read", "outcome_written", "acknowledged",
)  # fmt: skip
SERVER_POINTS = ("accepted", "committed")
ANSWER_UNKNOWN = ("bytes_sent", "answer_read")  # who dies here leaves a message of which nobody knows
STILL_WRITES = ("claimed", "intent_written", "bytes_sent", "answer_read")
# PostgreSQL has found room for the rows when the alert is accepted, and keeps its word.
UNWRITTEN = {True: {("accepted", "full"), ("accepted", "lost")}, False: {("accepted", "lost")}}


@pytest.fixture(scope="module")
def volume() -> Iterator[Volume]:
    with ExitStack() as stack:
        try:
            yield stack.enter_context(Volume.mounted())
        except NoVolumeError:
            pytest.skip("a small disk can be mounted by root only")


@pytest.fixture(scope="module")
def postgres_volume(volume: Volume, postgres: "Postgres") -> Iterator[Volume]:
    with tablespace(postgres, volume):
        yield volume


@pytest.fixture
def disk(engine_name: str, request: pytest.FixtureRequest) -> Iterator[Disk]:
    if engine_name == "sqlite":
        small: Volume = request.getfixturevalue("volume")
        path = small.folder / "faultcast.db"
        path.write_bytes(Path(request.getfixturevalue("sqlite_template")).read_bytes())
        yield Disk(small, f"sqlite:///{path}")
        for left in small.folder.glob("faultcast.db*"):
            left.unlink()
        return
    small = request.getfixturevalue("postgres_volume")
    with on_postgres(request.getfixturevalue("postgres"), small, TEMPLATE) as found:
        yield found


@pytest.fixture
def database_url(disk: Disk) -> str:
    return disk.url


@pytest.fixture
def bell(valkey_url: str) -> Iterator[Bell]:
    found = Bell(valkey_url)
    yield found
    found.close()


def ring(house: "House", bell: Bell) -> None:
    bell.ring(house.store, set(house.shards))
    bell.flush()


@pytest.mark.parametrize("point", WORKER_POINTS)
def test_killed(point: str, house: "House", bell: Bell, processes: "Processes") -> None:
    ids = house.alert(house.channel())
    doomed = processes.worker(FAULTCAST_FAULTPOINT=f"{point}:1:kill")
    ring(house, bell)
    assert processes.exit_code(doomed) == -signal.SIGKILL
    house.lapse()
    with house.working():
        house.told(*ids)
    assert balance(house, ids) == (point in ANSWER_UNKNOWN)


@pytest.mark.parametrize("point", WORKER_POINTS)
def test_raised(point: str, house: "House", bell: Bell, processes: "Processes") -> None:
    """The same process goes on by itself."""
    channel = house.channel()
    ids = house.alert(channel)
    processes.worker(FAULTCAST_FAULTPOINT=f"{point}:1:raise")
    ring(house, bell)
    if point == "claimed":
        house.told(*ids, state="sending")
        house.lapse()
    hurry(house, ids)
    after = house.alert(channel)
    house.told(*after)
    assert balance(house, [*ids, *after]) == (point in ANSWER_UNKNOWN)


@pytest.mark.parametrize("kind", ["full", "lost"])
@pytest.mark.parametrize("point", WORKER_POINTS)
def test_without_a_database(
    point: str, kind: str, house: "House", bell: Bell, processes: "Processes", disk: Disk
) -> None:
    """The same process goes on by itself; it sends once, and what it was answered is not forgotten."""
    ids = house.alert(house.channel())
    disk.widen(ids)
    gate, setting = gate_of(processes, point)
    worker = processes.worker(**setting)
    ring(house, bell)
    until(gate.exists)
    with disk.fault(kind, worker):
        gate.unlink()
        if point in STILL_WRITES:
            until(has_felt(processes.logs[worker]))
    hurry(house, ids)
    assert balance(house, ids) == 0
    assert processes.term(worker) == 0


@pytest.mark.parametrize("action", ["kill", "raise"])
@pytest.mark.parametrize("point", SERVER_POINTS)
def test_a_server_that_breaks(point: str, action: str, house: "House", processes: "Processes") -> None:
    """Who was not answered asks again, and is told once."""
    house.channel()
    port = free_port()
    broken = processes.server(port, FAULTCAST_FAULTPOINT=f"{point}:1:{action}")
    producer = Producer.of(house, f"http://127.0.0.1:{port}")
    with producer.publishing("one", channels=["ops"]):
        if action == "kill":
            assert processes.exit_code(broken) == -signal.SIGKILL
            processes.server(port)
    assert producer.refused == ({} if action == "kill" else {500: 1})
    told_once(house, producer)


@pytest.mark.parametrize("kind", ["full", "lost"])
@pytest.mark.parametrize("point", SERVER_POINTS)
def test_a_server_without_a_database(
    point: str, kind: str, house: "House", processes: "Processes", disk: Disk
) -> None:
    """It answers 503 until there is one again, never a 202 that is not kept."""
    house.channel()
    port = free_port()
    gate, setting = gate_of(processes, point)
    server = processes.server(port, **setting)
    producer = Producer.of(house, f"http://127.0.0.1:{port}", timeout_s=30)
    with producer.publishing("one", channels=["ops"]):
        until(gate.exists)
        with disk.fault(kind, server):
            gate.unlink()
            if (point, kind) in UNWRITTEN[disk.postgres is None]:
                until(lambda: producer.refused[503] > 2)
                assert not producer.accepted
    assert set(producer.refused) <= {503}
    told_once(house, producer)
    assert processes.term(server) == 0


def told_once(house: "House", producer: Producer) -> None:
    (ids,) = producer.accepted.values()
    assert [row.id for row in house.rows()] == ids
    with house.working():
        house.told(*ids)
    assert balance(house, ids) == 0
