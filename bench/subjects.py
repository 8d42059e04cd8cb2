"""The systems that `throughput.py` compares: started, posted to, asked for their log, weighed."""

import contextlib
import http.client
import json
import os
import secrets
import shutil
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import psutil
from sqlalchemy import create_engine, make_url

from notifier.valkey import Embedded

START_S = 60.0
POSTERS = 4
WEIGH_EVERY_S = 0.5
ALERTMANAGER = ("prometheus-alertmanager", "alertmanager")
HERE = Path(__file__).parent


@dataclass
class Subject:
    """One running system. `roots` are its processes; all they start counts as theirs."""

    name: str
    roots: Sequence[int]
    peak_mib: float = 0.0

    def post(self, numbers: range) -> None:
        """Publish these alerts; returns when all of them were accepted."""
        raise NotImplementedError

    def logged(self) -> int | None:
        """How many deliveries its log calls delivered; None: it keeps none."""
        return None

    def processes(self) -> list[psutil.Process]:
        found = []
        for pid in self.roots:
            with contextlib.suppress(psutil.NoSuchProcess):
                root = psutil.Process(pid)
                found += [root, *root.children(recursive=True)]
        return found

    def cpu_s(self) -> float:
        """All that was used so far, ended children included."""
        total = 0.0
        for process in self.processes():
            with contextlib.suppress(psutil.NoSuchProcess):
                times = process.cpu_times()
                total += times.user + times.system + times.children_user + times.children_system
        return total

    def weigh(self) -> None:
        total = 0
        for process in self.processes():
            with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                total += process.memory_full_info().pss
        self.peak_mib = max(self.peak_mib, total / 2**20)


@contextlib.contextmanager
def weighed(subject: Subject) -> Iterator[None]:
    """Its peak memory is noted until the block ends: what its processes share counts once."""
    ended = threading.Event()

    def watch() -> None:
        subject.weigh()
        while not ended.wait(WEIGH_EVERY_S):
            subject.weigh()

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    yield
    ended.set()
    thread.join()
    subject.weigh()


@dataclass
class Posted(Subject):
    """What is posted to over HTTP, an alert at a time, by a few clients at once."""

    address: str = ""
    path: str = ""
    headers: dict[str, str] = field(default_factory=dict)

    def body(self, number: int) -> Any:
        raise NotImplementedError

    def post(self, numbers: range) -> None:
        threads = [threading.Thread(target=self._post, args=(numbers[k::POSTERS],)) for k in range(POSTERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _post(self, numbers: range) -> None:
        connection = connected(self.address)
        for number in numbers:
            self.ask(connection, "POST", self.path, self.body(number))

    def ask(self, connection: http.client.HTTPConnection, method: str, path: str, body: Any = None) -> Any:
        content = None if body is None else json.dumps(body)
        connection.request(method, path, content, {"Content-Type": "application/json", **self.headers})
        answer = connection.getresponse()
        said = answer.read()
        if answer.status >= 300:
            raise SystemExit(f"{self.name} said {answer.status}: {said.decode()[:300]}")
        return json.loads(said) if said else None


@dataclass
class Faultcast(Posted):
    channels: Sequence[str] = ()

    def body(self, number: int) -> Any:
        return {
            "source": "bench", "item": "custom", "severity": "error", "title": f"burst-{number}",
            "text": "rank 7 waits in AllReduce for more than 600 s", "labels": {"node": "gpu-17"},
            "channels": list(self.channels),
        }  # fmt: skip

    def logged(self) -> int:
        connection, count, cursor = connected(self.address), 0, ""
        while True:
            page = self.ask(connection, "GET", f"/api/v1/deliveries?state=delivered&limit=500{cursor}")
            count += len(page["items"])
            if page["next_cursor"] is None:
                return count
            cursor = f"&cursor={page['next_cursor']}"


@dataclass
class Backlog(Faultcast):
    """`start` starts the workers, and answers their processes."""

    start: Callable[[], list[int]] = list


Ours = TypeVar("Ours", bound=Faultcast)


@dataclass
class Alertmanager(Posted):
    def body(self, number: int) -> Any:
        labels = {"alertname": "burst", "probe": f"burst-{number}", "severity": "error", "node": "gpu-17"}
        return [
            {"labels": labels, "annotations": {"summary": "rank 7 waits in AllReduce for more than 600 s"}}
        ]


@dataclass
class OneJobEach(Subject):
    redis_url: str = ""
    database: str = ""
    targets: Sequence[str] = ()

    def post(self, numbers: range) -> None:
        command = [sys.executable, HERE / "rqpeer.py", "publish", self.redis_url, self.database]
        subprocess.run([*command, str(numbers.start), str(numbers.stop), *self.targets], check=True)

    def logged(self) -> int:
        with contextlib.closing(sqlite3.connect(self.database)) as rows:
            (count,) = rows.execute(
                "select count(*) from deliveries d join attempts a on a.delivery_id = d.id "
                "where d.state = 'delivered' and a.outcome = 'delivered'"
            ).fetchone()
            return int(count)


@contextlib.contextmanager
def fresh(server: str) -> Iterator[str]:
    """An empty database on the server of that URL, gone at the end."""
    name, url = f"bench_{secrets.token_hex(4)}", make_url(server)
    with create_engine(url, isolation_level="AUTOCOMMIT").connect() as connection:
        connection.exec_driver_sql(f"create database {name}")
        try:
            yield url.set(database=name).render_as_string(hide_password=False)
        finally:
            connection.exec_driver_sql(f"drop database {name} with (force)")


@contextlib.contextmanager
def faultcast(folder: Path, targets: Sequence[str], workers: int, database: str | None) -> Iterator[Subject]:
    """The whole of it in one command; `database`: the URL of a PostgreSQL, else SQLite."""
    environment = {**os.environ, "FAULTCAST_ALLOW_TARGETS": "127.0.0.1/32"}
    own = contextlib.ExitStack()
    if database is not None:
        url = own.enter_context(fresh(database))
        environment |= {"FAULTCAST_DATABASE_URL": url, "FAULTCAST_SECRET_KEY": "bench" * 8}
    command = [Path(sys.executable).with_name("faultcast"), "up", "--data-dir", folder / "data"]
    command += ["--bind", "127.0.0.1:0", "--workers", str(workers)]
    with (
        own,
        (folder / "faultcast.log").open("wb") as log,
        subprocess.Popen(
            command, env=environment, cwd=folder, stdout=subprocess.PIPE, stderr=log, text=True
        ) as process,
    ):
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            if not line.startswith("ready "):
                raise SystemExit(f"faultcast did not start: {(folder / 'faultcast.log').read_text()[-1000:]}")
            name = "faultcast" if database is None else "faultcast (PostgreSQL)"
            found = _ours(Faultcast, folder, urlsplit(line.split()[1]).netloc, targets)
            found.name, found.roots = name, [process.pid]
            yield found
        finally:
            process.terminate()


@contextlib.contextmanager
def backlog(folder: Path, targets: Sequence[str], workers: int) -> Iterator[Backlog]:
    """A server without workers: they are started when all has been accepted."""
    address = f"127.0.0.1:{free_port()}"
    with Embedded(folder) as valkey, contextlib.ExitStack() as stack:
        environment = {
            **os.environ, "FAULTCAST_ALLOW_TARGETS": "127.0.0.1/32", "FAULTCAST_REDIS_URL": valkey.url,
            "FAULTCAST_BIND": address, "FAULTCAST_DATA_DIR": str(folder / "data"),
        }  # fmt: skip
        faultcast = Path(sys.executable).with_name("faultcast")
        log = stack.enter_context((folder / "faultcast.log").open("wb"))

        def start(part: str) -> int:
            process = subprocess.Popen([faultcast, part], env=environment, cwd=folder, stderr=log)
            stack.enter_context(process)
            stack.callback(process.terminate)
            return process.pid

        subprocess.run([faultcast, "migrate"], env=environment, check=True, stdout=log, stderr=log)
        server = start("server")
        found = _ours(Backlog, folder, address, targets)
        found.name, found.roots = "faultcast, a backlog", [server]
        found.start = lambda: [start("worker") for _ in range(workers)]
        yield found


def _ours(kind: type[Ours], folder: Path, address: str, targets: Sequence[str]) -> Ours:
    """With a webhook channel for each target."""
    connection, written = connected(address), folder / "data" / "admin.token"
    deadline = time.monotonic() + START_S
    while not written.exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    token = written.read_text().strip()
    names = [f"c{n}" for n in range(len(targets))]
    found = kind("", [], channels=names, address=address, path="/api/v1/alerts")
    found.headers = {"Authorization": f"Bearer {token}"}
    for name, url in zip(names, targets, strict=True):
        body = {"name": name, "kind": "webhook", "config": {"url": url}}
        found.ask(connection, "POST", "/api/v1/channels", body)
    return found


@contextlib.contextmanager
def alertmanager(folder: Path, targets: Sequence[str]) -> Iterator[Subject]:
    """Debian's package: every alert a group of its own, told at once by all webhooks of one receiver."""
    binary = next(filter(None, map(shutil.which, ALERTMANAGER)), None)
    if binary is None:
        raise SystemExit("install Alertmanager first: apt-get install prometheus-alertmanager")
    route = {"receiver": "burst", "group_by": ["probe"], "group_wait": "0s", "group_interval": "5m"}
    hooks = [{"url": url, "send_resolved": False} for url in targets]
    config = {"route": route, "receivers": [{"name": "burst", "webhook_configs": hooks}]}
    (folder / "alertmanager.json").write_text(json.dumps(config))  # is YAML
    address = f"127.0.0.1:{free_port()}"
    command = [binary, f"--config.file={folder / 'alertmanager.json'}", f"--storage.path={folder / 'am'}"]
    command += [f"--web.listen-address={address}", "--cluster.listen-address="]
    with (folder / "am.log").open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            connected(address).close()
            yield Alertmanager("alertmanager", [process.pid], address=address, path="/api/v2/alerts")
        finally:
            process.terminate()


@contextlib.contextmanager
def one_job_each(folder: Path, targets: Sequence[str], workers: int) -> Iterator[Subject]:
    """RQ's simple workers on a Valkey of their own."""
    database = str(folder / "peer.db")
    with Embedded(folder) as valkey, contextlib.ExitStack() as stack:
        command = [sys.executable, HERE / "rqpeer.py", "worker", valkey.url, database]
        processes = [stack.enter_context(subprocess.Popen(command)) for _ in range(workers)]
        try:
            roots = [os.getpid()] if valkey.pid is None else [valkey.pid]
            pids = [*roots, *(one.pid for one in processes)]
            yield OneJobEach(
                "one RQ job each", pids, redis_url=valkey.url, database=database, targets=targets
            )
        finally:
            for process in processes:
                process.kill()


def connected(address: str) -> http.client.HTTPConnection:
    host, _, port = address.rpartition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=60)
    deadline = time.monotonic() + START_S
    while True:
        try:
            connection.connect()
        except OSError:
            if time.monotonic() > deadline:
                raise SystemExit(f"nothing answers at {address}") from None
            time.sleep(0.1)
        else:
            connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return connection


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
