"""A step that takes longer than a lease, in real time: whoever still holds his lease is left alone, and
whoever lost it sends nothing any more.

All scenes of a database run at once, each with a database of its own, a worker that stalls, and one that is
well.
"""

import os
import shutil
import signal
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from ipaddress import ip_network
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pydantic import SecretStr
from sqlalchemy import select
from sqlalchemy.exc import OperationalError

from channels.standin import StandIn
from notifier.doorbell import Bell
from notifier.model import Delivery
from notifier.secretbox import SecretBox
from notifier.settings import Settings
from notifier.storage import Store, make_engine
from tests.conftest import TEMPLATE
from tests.delivery.breaking import Producer, asleep, balance, free_port, gate_of
from tests.delivery.conftest import KEY, LOOPBACK, House, Nursery, is_dead, until

if TYPE_CHECKING:
    from tests.delivery.conftest import Processes

STALL_S = float(os.environ.get("FAULTCAST_TEST_STALL_S", "6"))  # a lease is 5 s
pytestmark = pytest.mark.timeout(90 + 4 * STALL_S)


@dataclass(frozen=True)
class Scene:
    """Where it stalls, and whether all of the process does; how many copies that makes."""

    point: str
    is_whole: bool = False
    copies: int = 0


SCENES = (
    Scene("claimed"),
    Scene("intent_written"),
    Scene("bytes_sent"),
    Scene("answer_read"),
    Scene("outcome_written"),
    Scene("acknowledged"),
    Scene("claimed", is_whole=True),
    Scene("intent_written", is_whole=True),
    Scene("bytes_sent", is_whole=True, copies=1),
    Scene("answer_read", is_whole=True, copies=1),
)


@dataclass(frozen=True)
class Stage:
    """All that one scene needs."""

    house: House
    environment: Mapping[str, str]
    folder: Path

    def play(self, scene: Scene, nursery: Nursery) -> int:
        (one,) = self.house.alert(self.house.channel())
        gate = self.folder / "gate"
        stalls = {"FAULTCAST_FAULTPOINT": f"{scene.point}:1:wait:{gate}"}
        pid = nursery.ask(
            start={**self.environment, **stalls}, part="worker", log=str(self.folder / "worker.log")
        )
        until(gate.exists, 60)
        with ExitStack() as stack:
            if scene.is_whole:
                self.send_to_sleep(stack, pid)
                gate.unlink()
            stack.enter_context(self.house.working(2))
            time.sleep(STALL_S)
            gate.unlink(missing_ok=True)
            if scene.is_whole:
                self.house.told(one, timeout_s=40)
        self.house.told(one, timeout_s=40)
        os.kill(pid, signal.SIGTERM)
        until(lambda: is_dead(pid), 40)
        assert nursery.ask(wait=pid) == 0
        return balance(self.house, [one])

    def send_to_sleep(self, stack: ExitStack, pid: int) -> None:
        """Not in the middle of a commit: its locks would keep everybody else waiting."""
        while True:
            sleep = stack.enter_context(ExitStack())
            sleep.enter_context(asleep(pid))
            if self.has_no_locks():
                return
            sleep.close()
            time.sleep(0.05)

    def has_no_locks(self) -> bool:
        try:
            if not self.house.store.is_postgres:
                with sqlite3.connect(self.folder / "faultcast.db", timeout=0.2) as connection:
                    connection.execute("begin immediate")
            else:
                with self.house.store.read() as session:
                    session.execute(select(Delivery.id).with_for_update(nowait=True))
        except (sqlite3.OperationalError, OperationalError):
            return False
        return True


@pytest.fixture
def stages(engine_name: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Sequence[Stage]]:
    with ExitStack() as stack:
        yield [_stage(stack, engine_name, request, tmp_path / f"{n}") for n in range(len(SCENES))]


def _stage(stack: ExitStack, engine_name: str, request: pytest.FixtureRequest, folder: Path) -> Stage:
    folder.mkdir()
    if engine_name == "sqlite":
        shutil.copy(request.getfixturevalue("sqlite_template"), folder / "faultcast.db")
        url = f"sqlite:///{folder / 'faultcast.db'}"
    else:
        url = stack.enter_context(request.getfixturevalue("postgres").database(TEMPLATE))
    engine = make_engine(url, pool_size=2)
    stack.callback(engine.dispose)
    settings = Settings(
        data_dir=folder,
        database_url=SecretStr(url),
        secret_key=SecretStr(KEY),
        allow_targets=(ip_network(LOOPBACK),),
        language="en",
    )
    providers = stack.enter_context(StandIn())
    environment = {
        "FAULTCAST_DATA_DIR": str(folder),
        "FAULTCAST_DATABASE_URL": url,
        "FAULTCAST_SECRET_KEY": KEY,
        "FAULTCAST_ALLOW_TARGETS": LOOPBACK,
    }
    return Stage(House(Store(engine), providers, settings, SecretBox(KEY)), environment, folder)


def test_a_worker_that_stalls(stages: Sequence[Stage], nursery: Nursery) -> None:
    """A thread that stalls keeps its lease, because another one renews it. A process that stands still loses
    it: it is told by others, marked where it may have been sent, and not told again on waking."""
    with ThreadPoolExecutor(len(SCENES)) as pool:
        copies = pool.map(lambda stage, scene: stage.play(scene, nursery), stages, SCENES)
        assert dict(zip(SCENES, copies, strict=True)) == {scene: scene.copies for scene in SCENES}


def test_a_bell_that_is_never_answered(house: House, valkey_url: str, processes: "Processes") -> None:
    """The listener is stuck in the bell's job; the look at the database goes on."""
    channel = house.channel()
    gate, setting = gate_of(processes, "rung")
    processes.worker(**setting)
    bell = Bell(valkey_url)
    bell.ring(house.store, [house.get_channel(channel).shard])
    until(gate.exists)
    ids = house.alert(channel)
    house.told(*ids, timeout_s=5)
    gate.unlink()
    bell.close()
    assert balance(house, ids) == 0


@pytest.mark.parametrize("point", ["accepted", "committed"])
def test_a_server_that_stalls(point: str, house: House, processes: "Processes") -> None:
    """The client does not wait so long; it asks again while the first request is still at it."""
    house.channel()
    port = free_port()
    gate, setting = gate_of(processes, point)
    processes.server(port, **setting)
    producer = Producer.of(house, f"http://127.0.0.1:{port}", timeout_s=0.5)
    with producer.publishing("one", channels=["ops"]):
        until(gate.exists)
        time.sleep(STALL_S / 6)
        gate.unlink()
    (ids,) = producer.accepted.values()
    assert [row.id for row in house.rows()] == ids
    with house.working():
        house.told(*ids)
    assert balance(house, ids) == 0
