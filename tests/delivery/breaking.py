"""What a test breaks under a running worker or server, for real: its disk, its database, its process.

A process stops at its fault point (`wait`), the fault is made, the process goes on into it.
"""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import psutil
import psycopg
from sqlalchemy import update

from notifier.auth import NewToken, Role, create_token
from notifier.clock import utcnow
from notifier.model import Delivery
from tests.conftest import wait_for

if TYPE_CHECKING:
    from tests.conftest import Postgres
    from tests.delivery.conftest import House, Processes

VOLUME_MB = 64
CHUNK = 4096
WIDE = 5000  # bytes of a row of which no two fit into one page of PostgreSQL
FELT = ("not_claimed", "outcome_waits", "sending_failed", "leases_not_renewed")


class NoVolumeError(Exception):
    """Nobody here may mount one."""


@dataclass(frozen=True)
class Volume:
    """A small disk of our own (tmpfs)."""

    folder: Path

    @classmethod
    @contextmanager
    def mounted(cls) -> Iterator["Volume"]:
        folder = Path(tempfile.mkdtemp(prefix="fc-disk-", dir="/tmp"))
        options = f"size={VOLUME_MB}m,mode=755"
        mount = ["mount", "-t", "tmpfs", "-o", options, "faultcast-test", str(folder)]
        try:
            if subprocess.run(mount, check=False, capture_output=True).returncode != 0:
                raise NoVolumeError
            try:
                yield cls(folder)
            finally:
                subprocess.run(["umount", "-l", str(folder)], check=True)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    @contextmanager
    def full(self) -> Iterator[None]:
        """Not one more page until the block ends."""
        ballast = self.folder / "ballast"
        with ballast.open("wb", buffering=0) as file, suppress(OSError):
            while file.write(bytes(CHUNK * 64)):
                pass
        with ballast.open("ab", buffering=0) as file, suppress(OSError):
            while file.write(bytes(CHUNK)):
                pass
        try:
            yield
        finally:
            ballast.unlink()


@contextmanager
def unwritable(pid: int, path: Path) -> Iterator[None]:
    """The process can make no file longer than this one is now: SQLite meets a real I/O error."""
    process = psutil.Process(pid)
    soft, hard = process.rlimit(psutil.RLIMIT_FSIZE)
    process.rlimit(psutil.RLIMIT_FSIZE, (path.stat().st_size, hard))
    try:
        yield
    finally:
        process.rlimit(psutil.RLIMIT_FSIZE, (soft, hard))


def cut_connections(postgres: "Postgres", database: str) -> None:
    """Ends all connections to it but the one that asks."""
    with postgres.connect("postgres") as connection:
        all_of = "select pg_terminate_backend(pid) from pg_stat_activity where datname = %s"
        connection.execute(all_of, (database,))


@contextmanager
def cut_off(postgres: "Postgres", database: str) -> Iterator[None]:
    """Nobody is connected to that database, and nobody can connect."""
    postgres.run(f"alter database {database} with allow_connections false")
    cut_connections(postgres, database)
    try:
        yield
    finally:
        postgres.run(f"alter database {database} with allow_connections true")


@contextmanager
def asleep(pid: int) -> Iterator[None]:
    """The whole process stands still."""
    os.kill(pid, signal.SIGSTOP)
    try:
        wait_for(lambda: _stands_still(pid))
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def _stands_still(pid: int) -> bool:
    """The signal is not the stop: where all processors are busy its threads go on for some milliseconds, and
    one may come to a lock, or past a fault point, meanwhile."""
    threads = (
        path.read_text().rpartition(")")[2].split() for path in Path(f"/proc/{pid}/task").glob("*/stat")
    )
    return all(state == "T" for state, *_ in threads)


@dataclass
class Disk:
    """Where the database of one test lies, and what can be done to it.

    `name`: of the database on PostgreSQL.
    """

    volume: Volume
    url: str
    postgres: "Postgres | None" = None
    name: str = ""
    readers: list["psycopg.Connection[tuple[Any, ...]]"] = field(default_factory=list)

    @contextmanager
    def fault(self, kind: str, pid: int) -> Iterator[None]:
        """`full` disk, or `lost` connection: with SQLite there is none to lose, so its file fails."""
        if kind == "full":
            with self.volume.full():
                yield
            for reader in self.readers:
                reader.close()
        elif self.postgres is not None:
            with cut_off(self.postgres, self.name):
                yield
        else:
            with unwritable(pid, Path(self.url.removeprefix("sqlite:///") + "-wal")):
                yield

    def widen(self, ids: Sequence[str]) -> None:
        """So that each new version of these rows needs a page of its own, which a full disk has not: a reader
        may still want the older ones, so none of their pages is used again."""
        if self.postgres is not None:
            with self.postgres.connect(self.name) as connection:
                connection.execute("alter table deliveries alter column job_name set storage plain")
                wide = "update deliveries set job_name = repeat('x', %s) where id = any(%s)"
                connection.execute(wide, (WIDE, list(ids)))
            reader = self.postgres.connect(self.name)
            reader.execute("begin isolation level repeatable read")
            reader.execute("select 1")
            self.readers.append(reader)


@contextmanager
def on_postgres(postgres: "Postgres", volume: Volume, template: str) -> Iterator[Disk]:
    """A database whose tables lie on that volume."""
    name = f"small{time.monotonic_ns()}"
    postgres.run(f"create database {name} template {template} tablespace fc_small")
    try:
        yield Disk(volume, postgres.url(name), postgres, name)
    finally:
        with suppress(psycopg.Error):
            postgres.run(f"alter database {name} with allow_connections true")
        postgres.run(f"drop database {name} with (force)")


@contextmanager
def tablespace(postgres: "Postgres", volume: Volume) -> Iterator[None]:
    folder = volume.folder / "pg"
    folder.mkdir()
    owner = postgres.folder.stat()
    os.chown(folder, owner.st_uid, owner.st_gid)
    postgres.run(f"create tablespace fc_small location '{folder}'")
    try:
        yield
    finally:
        postgres.run("drop tablespace fc_small")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


@dataclass
class Producer:
    """Whoever publishes: tries each alert again, with the same Idempotency-Key, until it is accepted.

    Attributes:
        accepted: title → ids of its deliveries. Of what is in here we have the server's word.
        refused: the statuses of answers that were no promise.
    """

    url: str
    token: str
    patience_s: float = 60.0
    timeout_s: float = 5.0
    accepted: dict[str, list[str]] = field(default_factory=dict)
    refused: Counter[int] = field(default_factory=Counter)
    latencies: list[float] = field(default_factory=list)
    client: httpx.Client = field(default_factory=httpx.Client)

    @classmethod
    def of(cls, house: "House", url: str, **how: float) -> "Producer":
        with house.store.write() as session:
            _, token = create_token(session, NewToken("producer", Role.ADMIN), utcnow())
        return cls(url, token, **how)

    def publish(self, title: str, *channels: str) -> list[str]:
        """Once this returns the server has promised to tell it."""
        body = {"source": "t", "severity": "error", "title": title, "channels": list(channels)}
        headers = {"Authorization": f"Bearer {self.token}", "Idempotency-Key": title.replace(" ", "-")}
        deadline = time.monotonic() + self.patience_s
        while time.monotonic() < deadline:
            began = time.monotonic()
            with suppress(httpx.TransportError):
                answer = self.client.post(
                    f"{self.url}/api/v1/alerts", json=body, headers=headers, timeout=self.timeout_s
                )
                self.latencies.append(time.monotonic() - began)
                if answer.status_code == 202:
                    self.accepted[title] = answer.json()["deliveries"]
                    return self.accepted[title]
                self.refused[answer.status_code] += 1
            time.sleep(0.05)
        raise TimeoutError(f"{title} was not accepted within {self.patience_s} s: {dict(self.refused)}")

    @contextmanager
    def publishing(self, *titles: str, channels: Sequence[str]) -> Iterator[None]:
        """In a thread of its own; the block's end waits for it."""
        errors: list[Exception] = []

        def run() -> None:
            try:
                for title in titles:
                    self.publish(title, *channels)
            except Exception as error:  # noqa: BLE001  told in the test's own thread
                errors.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        yield
        thread.join()
        if errors:
            raise errors[0]


def hurry(house: "House", ids: Sequence[str], timeout_s: float = 30.0) -> None:
    """Until these are told. What waits for its next try has it now."""
    deadline = time.monotonic() + timeout_s
    while set(states := house.states(ids)) != {"delivered"}:
        assert time.monotonic() < deadline, f"not told within {timeout_s} s: {states}"
        with house.store.write() as session:
            session.execute(
                update(Delivery)
                .where(Delivery.state == "retrying", Delivery.next_attempt_at > utcnow())
                .values(next_attempt_at=utcnow())
            )
        time.sleep(0.05)


def balance(house: "House", told: Sequence[str]) -> int:
    """Every delivery arrived; no copy that its log does not admit. Answers how many copies there were."""
    copies = Counter(message.id for message in house.providers.messages(accepted=True))
    assert set(told) <= set(copies), "lost"
    for delivery, count in copies.items():
        admitted = sum(attempt.possible_duplicate for attempt in house.attempts(delivery))
        assert count - 1 <= admitted, f"{delivery} arrived {count} times, and the log admits {admitted} more"
    return sum(count - 1 for count in copies.values())


def has_felt(log: Path) -> Callable[[], bool]:
    """Whether the process has met a database that does not do what it is told."""
    return lambda: any(word in log.read_text() for word in FELT)


def gate_of(processes: "Processes", point: str) -> tuple[Path, dict[str, str]]:
    """Where a process waits at that point: the file that is there meanwhile, and its setting."""
    gate = processes.folder / f"gate-{point}"
    return gate, {"FAULTCAST_FAULTPOINT": f"{point}:1:wait:{gate}"}


class Door:
    """A TCP relay in front of a server, which may be shut, or open and cut every answer off.

    Attributes:
        url: where to knock instead.
        cuts: nothing that the server says gets out any more.
    """

    def __init__(self, url: str) -> None:
        host, _, port = url.removeprefix("http://").partition(":")
        self._behind = (host, int(port))
        self._port = free_port()
        self._listener: socket.socket | None = None
        self._open: set[socket.socket] = set()
        self.url = f"http://127.0.0.1:{self._port}"
        self.cuts = False

    def open(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", self._port), backlog=128)
        threading.Thread(target=self._let_in, args=(self._listener,), daemon=True).start()

    def shut(self) -> None:
        """Whoever is inside is thrown out; whoever knocks is refused."""
        listener, self._listener = self._listener, None
        if listener is not None:
            listener.shutdown(socket.SHUT_RDWR)
            listener.close()
        for one in list(self._open):
            _hang_up(one)

    def __enter__(self) -> "Door":
        self.open()
        return self

    def __exit__(self, *_: object) -> None:
        self.shut()

    def _let_in(self, listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                outside, _ = listener.accept()
                inside = socket.create_connection(self._behind)
                self._open |= {outside, inside}
                for source, target in ((outside, inside), (inside, outside)):
                    threading.Thread(target=self._relay, args=(source, target, outside), daemon=True).start()

    def _relay(self, source: socket.socket, target: socket.socket, outside: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                if self.cuts and target is outside:
                    break
                target.sendall(data)
        for one in (source, target):
            _hang_up(one)
            self._open.discard(one)


def _hang_up(one: socket.socket) -> None:
    with suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()
