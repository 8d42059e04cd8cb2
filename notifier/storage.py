"""The database: SQLite (one machine) or PostgreSQL, the same statements on both.

`Store.write()` is one transaction that may write (`BEGIN IMMEDIATE` on SQLite, so that two writers queue
instead of failing); `Store.read()` one that does not. Nothing commits but the end of the `with` block.
"""

import json
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, TypeVar
from zoneinfo import ZoneInfo

from sqlalchemy import BigInteger, Connection, Dialect, Engine, create_engine, event, make_url, text
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import DBAPIError, OperationalError
from sqlalchemy.orm import DeclarativeBase, Session
from sqlalchemy.types import JSON, TypeDecorator

from notifier import pinging
from notifier.afteryou import AfterYou
from notifier.clock import utcnow

T = TypeVar("T")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_BUSY_S = 30
_LOOK_EVERY_S = 0.0005
_CHECKPOINT = "wal_autocheckpoint=4000"  # pages, 16 MiB: most are written again before that
_ZONE = "zone"
_AFTER = "after"
_LASTS = "lasts"
IMMEDIATE = "IMMEDIATE"
ROUNDS = 5  # of a transaction that PostgreSQL ends because it and others wait for each other
_DEADLOCKS = frozenset({"40P01", "40001"})  # its words for that: nothing was kept
BINARY = {"binary": True}  # of a statement: PostgreSQL is to send bytes and numbers as they are, not as text
DEFAULT_TIMEZONE = "Asia/Shanghai"


def _json(value: Any) -> str:
    """Most of what is stored so is an empty list."""
    return "[]" if value in ((), []) else json.dumps(value)


class Instant(TypeDecorator[datetime]):
    """An aware UTC datetime, stored as whole microseconds since 1970: the same order on every database."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> int | None:  # noqa: ARG002
        return None if value is None else (value - _EPOCH) // _MICROSECOND

    def process_result_value(self, value: int | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002
        return None if value is None else _EPOCH + value * _MICROSECOND


class Base(DeclarativeBase):
    """Every table of the notifier (`notifier/model.py`) and of the master (`master/model.py`)."""

    type_annotation_map = {datetime: Instant, dict[str, Any]: JSON, list[Any]: JSON, list[str]: JSON}  # noqa: RUF012


def make_engine(url: str, *, pool_size: int = 10) -> Engine:
    """An engine with our pragmas. `url` is SQLAlchemy's (`sqlite:///…`, `postgresql+psycopg://…`)."""
    if make_url(url).get_backend_name() != "sqlite":
        engine = create_engine(
            url, pool_size=pool_size, max_overflow=20, json_serializer=_json, json_deserializer=_parsed,
            connect_args=pinging.patience(make_url(url).query),
        )  # fmt: skip
        event.listen(engine, "before_cursor_execute", _binary)
        pinging.look_after(engine)
        return engine
    engine = create_engine(
        url, pool_size=pool_size, max_overflow=20, connect_args={"timeout": _BUSY_S}, json_serializer=_json
    )
    after_you = AfterYou(engine.url.database)

    @event.listens_for(engine, "do_connect")
    def _make_it_ours(*_: Any) -> None:  # and its journals, which take after it
        with suppress(OSError):  # it is there. To open and close it again would give up SQLite's locks on it
            os.close(os.open(engine.url.database or "", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))

    @event.listens_for(engine, "connect")
    def _pragmas(connection: Any, _record: Any) -> None:
        connection.isolation_level = None  # the driver begins nothing by itself: we say which BEGIN
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", _CHECKPOINT):
            connection.execute(f"PRAGMA {pragma}")

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        mode = connection.get_execution_options().get("sqlite_begin", "DEFERRED")
        if mode == IMMEDIATE:
            lasts = connection.get_execution_options().get(_LASTS, True)
            connection.connection.cursor().execute(f"PRAGMA synchronous={'FULL' if lasts else 'NORMAL'}")
            _begin_writing(connection, after_you)
        else:
            connection.exec_driver_sql(f"BEGIN {mode}")

    return engine


def _parsed(data: bytes) -> Any:
    """Most are empty."""
    return [] if data == b"[]" else json.loads(data.decode())


def _binary(
    _connection: Connection, cursor: Any, _statement: str, _values: Any, context: Any, _many: bool
) -> None:
    if context.execution_options.get("binary"):
        cursor.format = 1


def _begin_writing(connection: Connection, after_you: AfterYou) -> None:
    """Begins as soon as no other process writes.

    SQLite's own waiting sleeps longer and longer, up to a tenth of a second, while others come and go.
    """
    raw: Any = connection.connection.dbapi_connection
    until = time.monotonic() + _BUSY_S
    after_you.step_aside()
    raw.execute("PRAGMA busy_timeout = 0")
    try:
        while time.monotonic() < until:
            try:
                raw.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode != sqlite3.SQLITE_BUSY:
                    break
                after_you.wait()
                time.sleep(_LOOK_EVERY_S)
            else:
                return
        connection.exec_driver_sql("BEGIN IMMEDIATE")  # SQLAlchemy is to meet what is wrong
    finally:
        after_you.wait_no_more()
        raw.execute(f"PRAGMA busy_timeout = {_BUSY_S * 1000}")


class InDoubtError(OperationalError):
    """The connection was lost while the database committed: all of the transaction is kept, or nothing."""


def is_deadlock(error: BaseException) -> bool:
    """Whether PostgreSQL has ended a transaction for the sake of others; it will do if it is tried again."""
    return isinstance(error, DBAPIError) and getattr(error.orig, "sqlstate", None) in _DEADLOCKS


class Store:
    """Hands out transactions. Shared by all threads of a process.

    `timezone` is the server's, by which quiet hours run (`zone_of`).
    """

    def __init__(self, engine: Engine, *, timezone: str = DEFAULT_TIMEZONE) -> None:
        self.engine = engine
        self._info = {_ZONE: ZoneInfo(timezone)}
        self._turn = threading.Lock()
        self._looking = engine
        if self.is_postgres:
            self._looking = engine.execution_options(isolation_level="AUTOCOMMIT")
        self._writing = engine.execution_options(sqlite_begin=IMMEDIATE)
        self._writing_for_now = engine.execution_options(sqlite_begin=IMMEDIATE, **{_LASTS: False})

    def alike(self) -> "Store":
        """Over the same database, by connections of its own; whoever asks for it disposes of its engine."""
        engine = make_engine(self.engine.url.render_as_string(hide_password=False), pool_size=1)
        return Store(engine, timezone=self._info[_ZONE].key)

    @property
    def is_postgres(self) -> bool:
        return self.engine.dialect.name == "postgresql"

    @contextmanager
    def write(self, *, lasts: bool = True) -> Iterator[Session]:
        """One transaction that writes; commits at the end, rolls back on any exception.

        What does not have to last, such as a lease, is kept on SQLite's disk (not from other processes) only
        with the next commit that does: the machine may lose it with its power, as if it had not come to it.
        """
        engine = self._writing if lasts else self._writing_for_now
        with Session(engine, expire_on_commit=False, info=self._info) as session:
            with self._own_turn(), _committed(session):
                yield session
            with suppress(Exception):  # a border: what is kept is kept, said or not, and only once
                for say in session.info.get(_AFTER, ()):
                    say()

    def run(self, work: Callable[[Session], T]) -> T:
        """`work` in one transaction that writes, begun again where it and others wait for each other's rows.

        This is for whatever takes the rows of several tables: no order suits all, as what many post at once
        shares a transaction.
        """
        for _ in range(ROUNDS - 1):
            try:
                with self.write() as session:
                    return work(session)
            except DBAPIError as error:
                if not is_deadlock(error):
                    raise
        with self.write() as session:
            return work(session)

    @contextmanager
    def _own_turn(self) -> Iterator[None]:
        """On SQLite the threads of a process queue here, and only the first of them for the database."""
        is_ours = not self.is_postgres and self._turn.acquire(timeout=_BUSY_S)
        try:
            yield
        finally:
            if is_ours:
                self._turn.release()

    @contextmanager
    def read(self) -> Iterator[Session]:
        """One transaction that only reads."""
        with Session(self.engine, expire_on_commit=False, info=self._info) as session, session.begin():
            yield session

    @contextmanager
    def look(self) -> Iterator[Session]:
        """The same where nothing is locked: PostgreSQL takes each statement for itself.

        Those of a transaction see no more of one moment there (READ COMMITTED), and to begin and end it are
        two more ways to the database and back.
        """
        with Session(self._looking, expire_on_commit=False, info=self._info) as session, session.begin():
            yield session

    def now(self, session: Session) -> datetime:
        """The database's clock, by which leases run (SQLite's is this machine's)."""
        if not self.is_postgres:
            return utcnow()
        moment: datetime = session.execute(text("select clock_timestamp()")).scalar_one()
        return moment.astimezone(UTC)


@contextmanager
def _committed(session: Session) -> Iterator[None]:
    """A transaction; of one that is lost on its way it is known whether that was in the commit itself.

    Raises:
        InDoubtError: it was.
    """
    is_ending = False
    try:
        with session.begin():
            yield
            session.flush()
            is_ending = True
    except DBAPIError as error:
        if not (is_ending and error.connection_invalidated):
            raise
        raise InDoubtError(
            error.statement, error.params, error.orig or error, connection_invalidated=True
        ) from error


def zone_of(session: Session) -> ZoneInfo:
    """The server's time zone."""
    zone: ZoneInfo = session.info.get(_ZONE) or ZoneInfo(DEFAULT_TIMEZONE)
    return zone


def after_commit(session: Session, say: Callable[[], None]) -> None:
    """For what may be said only of what is kept, such as a line in the log."""
    session.info.setdefault(_AFTER, []).append(say)


def said(session: Session) -> int:
    """How much is to be said so far, for `forget_said`."""
    return len(session.info.get(_AFTER, ()))


def forget_said(session: Session, so_far: int) -> None:
    """What came after that was taken back."""
    del session.info.get(_AFTER, [])[so_far:]


def insert_new(session: Session, table: type[Base], row: Mapping[str, Any]) -> bool:
    """Inserts `row` unless a unique index already holds its like; says whether it did.

    Where another transaction is about to commit the same, this waits for it.
    """
    statement = _insert_new(table, session.get_bind().dialect.name)
    done: Any = session.execute(statement, row)
    return bool(done.rowcount)


@cache
def _insert_new(table: type[Base], dialect: str) -> Any:
    made = (postgresql if dialect == "postgresql" else sqlite).insert(table.__table__)
    return made.on_conflict_do_nothing().execution_options(preserve_rowcount=True)
