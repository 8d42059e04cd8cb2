"""A notifier without its API: channels that lead to stand-ins, alerts put into the database, an engine."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import psutil
import pytest
import redis
import urllib3
from pydantic import SecretStr
from sqlalchemy import select, update
from sqlalchemy.orm import Session

from channels import registry
from channels.config import split
from channels.registry import ADAPTERS
from channels.standin import StandIn
from master.runtimes.local import LocalRuntime
from notifier import meters
from notifier.clock import utcnow
from notifier.doorbell import shard_of
from notifier.engine import Engine
from notifier.fallback import tell_fallback
from notifier.ids import new_id
from notifier.leases import Leases
from notifier.lookup import known
from notifier.model import Alert, Attempt, Channel, Delivery, Template
from notifier.network import network_of
from notifier.outbox import Telling, put
from notifier.secretbox import SecretBox
from notifier.settings import Settings
from notifier.storage import Store
from notifier.tools import Tools
from notifier.worker import run_worker
from notifier.writer import Writer
from tests.delivery.exchange import CLASSES, Exchange

KEY = "a key for tests, long enough"
LOOPBACK = "127.0.0.1/32"


def until(condition: Callable[[], object], timeout_s: float = 15.0) -> None:
    """Until it is true; fails when it never was."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"waited {timeout_s} s in vain"
        time.sleep(0.01)


@dataclass
class House:
    """What a test says: there is a channel, something happened, what became of it."""

    store: Store
    providers: StandIn
    settings: Settings
    box: SecretBox
    shards: list[int] = field(default_factory=list)

    def channel(self, name: str = "ops", kind: str = "webhook", **config: Any) -> str:
        """A channel to a robot of its own; answers its id."""
        if kind == "email":
            config = {"to": ["ops@example.com"], "smtp_url": self.providers.smtp_url, **config}
        elif not {"url", "webhook_url", "endpoint"} & set(config):
            limited = config.pop("limited", True)
            url = self.providers.robot(kind, limited=limited).url
            config["url" if kind == "webhook" else "webhook_url"] = url
        parsed = ADAPTERS[kind].Config(**config)
        plain, secret = split(parsed)
        now = utcnow()
        channel_id = new_id("chn", now)
        with self.store.write() as session:
            session.add(
                Channel(
                    id=channel_id,
                    pool="default",
                    name=name,
                    kind=kind,
                    config=plain,
                    secrets=self.box.seal(secret, owner=channel_id),
                    shard=shard_of(channel_id),
                    created_at=now,
                    updated_at=now,
                )
            )
            meters.register(session, channel_id, parsed)
        return channel_id

    def template(self, text: str, **where: str) -> None:
        """Words of somebody's own."""
        now = utcnow()
        with self.store.write() as session:
            session.add(Template(id=new_id("tpl", now), pool="default", text=text, created_at=now, **where))

    def burst(self, channel: str, *titles: str) -> list[str]:
        """Much happened at once, each in a job of its own: all of it comes in one commit, however long that
        takes to write."""
        with self.store.write() as session:
            rows = [self._alert(session, channel, job=f"j{n}", title=one) for n, one in enumerate(titles)]
        return [delivery for (delivery,) in rows]

    def alert(self, *channels: str, **what: Any) -> list[str]:
        """Something happened and is to be told on these channels (ids); answers the deliveries."""
        with self.store.write() as session:
            return self._alert(session, *channels, **what)

    def _alert(
        self,
        session: Session,
        *channels: str,
        job: str | None = None,
        severity: str = "error",
        status: str = "firing",
        title: str = "it broke",
        text: str = "",
        fallback: Sequence[str] = (),
    ) -> list[str]:
        now = utcnow()
        alert = Alert(
            id=new_id("alr", now), pool="default", source="test", item="custom", items=["custom"],
            severity=severity, status=status, title=title, body=text, labels={}, context={}, job_id=job,
            created_at=now, last_at=now,
        )  # fmt: skip
        session.add(alert)
        telling = Telling(item="custom", severity=severity, status=status, fallback=tuple(fallback))
        told = [(known(session.get_one(Channel, one)), telling) for one in channels]
        rows = put(session, alert, told, now)
        self.shards += [row.shard for row in rows]
        return [row.id for row in rows]

    def row(self, delivery_id: str) -> Delivery:
        with self.store.read() as session:
            return session.get_one(Delivery, delivery_id)

    def rows(self) -> list[Delivery]:
        with self.store.read() as session:
            return list(session.scalars(select(Delivery).order_by(Delivery.id)))

    def states(self, ids: Sequence[str]) -> list[str]:
        return [self.row(one).state for one in ids]

    def get_channel(self, channel_id: str) -> Channel:
        with self.store.read() as session:
            return session.get_one(Channel, channel_id)

    def edit_channel(self, channel_id: str, **values: object) -> None:
        with self.store.write() as session:
            row = session.get_one(Channel, channel_id)
            for name, value in values.items():
                setattr(row, name, value)

    def digest_of(self, *ids: str) -> str:
        """The one digest that tells of all of these, as soon as there is one."""
        until(lambda: len({self.row(one).merged_into for one in ids} - {None}) == 1)
        return str(self.row(ids[0]).merged_into)

    def fallback_of(self, delivery_id: str, channel_id: str) -> str:
        """The delivery that took this one's place on that channel, as soon as there is one."""
        alert_id = self.row(delivery_id).alert_id

        def found() -> list[str]:
            return [
                row.id for row in self.rows()
                if (row.alert_id, row.channel_id, row.trigger) == (alert_id, channel_id, "fallback")
            ]  # fmt: skip

        until(found)
        (one,) = found()
        return one

    def attempts(self, delivery_id: str) -> list[Attempt]:
        with self.store.read() as session:
            rows = select(Attempt).where(Attempt.delivery_id == delivery_id).order_by(Attempt.id)
            return list(session.scalars(rows))

    def edit(self, delivery_id: str, **values: object) -> None:
        """Time travel, mostly: a row as it would be later."""
        with self.store.write() as session:
            row = session.get_one(Delivery, delivery_id)
            for name, value in values.items():
                setattr(row, name, value)

    def hasten(self, *ids: str) -> None:
        """The next try of these is now. What is being sent stays: there the moment is its lease's end."""
        past = utcnow() - timedelta(seconds=1)
        unsent = update(Delivery).where(Delivery.id.in_(ids), Delivery.state != "sending")
        with self.store.write() as session:
            session.execute(unsent.values(next_attempt_at=past))

    def until(self, condition: Callable[[], object]) -> None:
        until(condition)

    def tell_fallback(self, session: Session, delivery_id: str) -> None:
        """As publishing does for a delivery that is held from the start."""
        tell_fallback(session, session.get_one(Delivery, delivery_id), utcnow())

    def lapse(self) -> None:
        """Time passes: every lease has run out."""
        past = utcnow() - timedelta(seconds=1)
        with self.store.write() as session:
            session.execute(
                update(Delivery)
                .where(Delivery.state == "sending")
                .values(next_attempt_at=past, lease_until=past)
            )

    def tools(self) -> Tools:
        writer = Writer(self.store)
        return Tools(self.store, writer, Leases(), self.box, network_of(self.settings), self.settings)

    @contextmanager
    def worker(self, redis_url: str) -> Iterator[None]:
        """A whole worker, listener and all, in a thread of this process until the block ends."""
        with in_thread(self.settings.model_copy(update={"redis_url": SecretStr(redis_url)})):
            yield

    @contextmanager
    def working(self, concurrency: int = 16) -> Iterator[Engine]:
        """An engine that sends until the block ends."""
        engine = Engine(self.tools(), concurrency)
        engine.start()
        try:
            yield engine
        finally:
            engine.stop()

    def told(self, *ids: str, state: str = "delivered", timeout_s: float = 15.0) -> None:
        """Wait until these are told (or else in that state)."""
        until(lambda: set(self.states(ids)) == {state}, timeout_s)

    def arrived(self) -> list[str]:
        """The titles of what the providers took, in order, without the sign in front."""
        return [one.title.lstrip("🔵🟠🔴🚨✅🟢 ") for one in self.providers.messages(accepted=True)]


class Nursery:
    """The process that forks workers (`nursery.py`)."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "tests.delivery.nursery"]
        root = Path(__file__).parents[2]
        self._process = subprocess.Popen(
            command, cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._lock = threading.Lock()

    def ask(self, **what: object) -> int:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with self._lock:
            self._process.stdin.write(json.dumps(what) + "\n")
            self._process.stdin.flush()
            return int(self._process.stdout.readline())

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


@dataclass
class Processes:
    """Worker processes over the same database and Valkey."""

    nursery: Nursery
    environment: Mapping[str, str]
    folder: Path
    client: redis.Redis
    started: list[int] = field(default_factory=list)
    logs: dict[int, Path] = field(default_factory=dict)

    def worker(self, **environment: str) -> int:
        """The pid of a worker that already listens, or has met its fault point before."""
        before = self._listening()
        log = self.folder / f"worker-{len(self.logs)}.log"
        pid = self.nursery.ask(start={**self.environment, **environment}, part="worker", log=str(log))
        self.started.append(pid)
        self.logs[pid] = log
        until(lambda: self._listening() > before or is_dead(pid), 60)
        is_doomed = "FAULTCAST_FAULTPOINT" in environment and is_dead(pid)
        assert is_doomed or self._listening() > before, log.read_text()
        return pid

    def server(self, port: int, **environment: str) -> int:
        """The pid of a server that answers on that port."""
        log = self.folder / f"server-{len(self.logs)}.log"
        address = {"FAULTCAST_BIND": f"127.0.0.1:{port}", "FAULTCAST_LOCAL_NODES": "1"}
        pid = self.nursery.ask(
            start={**self.environment, **address, **environment}, part="server", log=str(log)
        )
        self.started.append(pid)
        self.logs[pid] = log
        until(lambda: _is_up(port) or is_dead(pid), 60)
        assert not is_dead(pid), log.read_text()
        return pid

    def kill(self, pid: int) -> None:
        os.kill(pid, signal.SIGKILL)
        self.exit_code(pid)

    def exit_code(self, pid: int) -> int:
        """When it has ended."""
        self.started.remove(pid)
        return self.nursery.ask(wait=pid)

    def term(self, pid: int) -> int:
        """Tell it to end, and wait until it has; its exit code."""
        os.kill(pid, signal.SIGTERM)
        return self.exit_code(pid)

    def _listening(self) -> int:
        return int(self.client.scard("rq:workers"))


def _is_up(port: int) -> bool:
    try:
        return urllib3.request("GET", f"http://127.0.0.1:{port}/healthz", retries=False).status == 200
    except urllib3.exceptions.HTTPError:
        return False


def is_dead(pid: int) -> bool:
    return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    found = Nursery()
    yield found
    found.close()


@pytest.fixture
def processes(house: "House", nursery: Nursery, database_url: str, valkey_url: str) -> Iterator[Processes]:
    environment = {
        "FAULTCAST_DATA_DIR": str(house.settings.data_dir),
        "FAULTCAST_DATABASE_URL": database_url,
        "FAULTCAST_REDIS_URL": valkey_url,
        "FAULTCAST_SECRET_KEY": KEY,
        "FAULTCAST_ALLOW_TARGETS": LOOPBACK,
    }
    with redis.Redis.from_url(valkey_url) as client:
        found = Processes(nursery, environment, house.settings.data_dir, client)
        yield found
        for pid in list(found.started):
            found.kill(pid)
        LocalRuntime(house.settings.data_dir, 1).shutdown()  # the nodes' agents outlive a server


@contextmanager
def in_thread(settings: Settings) -> Iterator[None]:
    """A whole worker, listener and all, in a thread of this process."""
    stop = threading.Event()
    thread = threading.Thread(target=run_worker, args=(settings,), kwargs={"stop": stop})
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@pytest.fixture
def providers() -> Iterator[StandIn]:
    with StandIn() as found:
        yield found


@pytest.fixture
def house(store: Store, database_url: str, providers: StandIn, tmp_path: Path) -> House:
    settings = Settings(
        data_dir=tmp_path,
        database_url=SecretStr(database_url),
        secret_key=SecretStr(KEY),
        allow_targets=(ip_network(LOOPBACK),),
        language="en",
    )
    return House(store, providers, settings, SecretBox(KEY))


@pytest.fixture
def exchange(monkeypatch: pytest.MonkeyPatch) -> Iterator[Exchange]:
    """A played provider of texts and calls, with kinds of channel of its own."""
    monkeypatch.setattr(registry, "_CLASSES", {**registry._CLASSES, **CLASSES})
    with Exchange() as found:
        yield found
