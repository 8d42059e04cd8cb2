"""The database gains what a new release wants while the one before works on it, and loses nothing."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, MetaData, Table, func, inspect, select, text

from master.services import open_services
from notifier import migrations
from notifier.migrations import SchemaError, check_revision, head, migrate
from notifier.model import Attempt, Delivery
from notifier.settings import Settings
from notifier.storage import Store, make_engine
from notifier.worker import run_worker
from tests.conftest import wait_for

BEFORE = "0002"  # the release before this one
LOAD = 40  # rows before, and at least so many after
KEY = "the key of this database"


def upgrade(engine: Engine, revision: str) -> None:
    with engine.execution_options(sqlite_begin="IMMEDIATE").begin() as connection:
        command.upgrade(migrations._config(connection), revision)


@pytest.fixture
def engine(empty_database_url: str) -> Iterator[Engine]:
    engine = make_engine(empty_database_url)
    yield engine
    engine.dispose()


@pytest.fixture
def old(engine: Engine) -> Engine:
    """A database as the release before left it."""
    upgrade(engine, BEFORE)
    return engine


def revisions() -> list[str]:
    scripts = ScriptDirectory.from_config(migrations._config(None)).walk_revisions()
    return sorted(script.revision for script in scripts)


Form = dict[str, dict[str, tuple[str, bool]]]


def form(engine: Engine) -> Form:
    """table → column → type and whether a row must have it."""
    found = inspect(engine)
    return {
        table: {
            column["name"]: (str(column["type"]), not column["nullable"] and column["default"] is None)
            for column in found.get_columns(table)
        }
        for table in found.get_table_names()
    }


def rules(engine: Engine, tables: Form) -> set[tuple[str, ...]]:
    """What a row of these tables must obey beside its columns."""
    found = inspect(engine)
    unique = {(t, *map(str, i["column_names"])) for t in tables for i in found.get_indexes(t) if i["unique"]}
    unique |= {(t, *one["column_names"]) for t in tables for one in found.get_unique_constraints(t)}
    foreign = {(t, *one["constrained_columns"]) for t in tables for one in found.get_foreign_keys(t)}
    checks = {(t, str(one["sqltext"])) for t in tables for one in found.get_check_constraints(t)}
    return unique | foreign | checks


def test_each_release_only_adds(engine: Engine) -> None:
    """Nothing is taken from a table or changed, and no old table wants more of a row than before."""
    first, *later = revisions()
    upgrade(engine, first)
    for revision in later:
        before, obeyed = form(engine), rules(engine, form(engine))
        upgrade(engine, revision)
        after = form(engine)
        for table, columns in before.items():
            assert {name: after[table].get(name) for name in columns} == columns, (revision, table)
            added = {name: must for name, (_, must) in after[table].items() if name not in columns}
            assert not any(added.values()), (revision, table, added)
        assert rules(engine, before) == obeyed, revision
    assert revision == head()


class OldRelease:
    """Writes rows as the release before did, naming the columns that it knew, until it is told to end."""

    def __init__(self, url: str) -> None:
        self.engine = make_engine(url)
        self.tables = MetaData()
        self.tables.reflect(self.engine)
        self.written = 0
        self.error: BaseException | None = None
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> "OldRelease":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join()
        self.engine.dispose()

    def _run(self) -> None:
        try:
            while not self._ending.is_set():
                with self.engine.execution_options(sqlite_begin="IMMEDIATE").begin() as connection:
                    self._one(connection, self.written)
                self.written += 1
        except BaseException as error:  # noqa: BLE001  the test's thread shall tell it
            self.error = error

    def _one(self, connection: Connection, n: int) -> None:
        """An alert told once: accepted, claimed, intended, answered."""
        alerts, deliveries = self.tables.tables["alerts"], self.tables.tables["deliveries"]
        attempts = self.tables.tables["attempts"]
        connection.execute(alerts.insert(), row(alerts, id=f"alt_{n:08}", status="firing", repeats=n))
        mine = deliveries.c.id == f"dlv_{n:08}"
        given = {"id": f"dlv_{n:08}", "alert_id": f"alt_{n:08}", "state": "pending", "channel": "old"}
        connection.execute(deliveries.insert(), row(deliveries, **given))
        connection.execute(deliveries.update().where(mine).values(state="sending", lease_token="t"))
        made = row(attempts, delivery_id=f"dlv_{n:08}", n=1, part=1, parts=1)
        made.pop("id")
        connection.execute(attempts.insert(), made)
        connection.execute(
            attempts.update().where(attempts.c.delivery_id == f"dlv_{n:08}").values(outcome="delivered")
        )
        connection.execute(deliveries.update().where(mine).values(state="delivered", attempt_count=1))
        read = connection.execute(select(deliveries).where(mine)).one()
        assert read.state == "delivered"


def row(table: Table, **given: Any) -> dict[str, Any]:
    """All columns that this release knew, those that do not matter here by a plain value."""
    plain = {"VARCHAR": "", "TEXT": "", "BIGINT": 1, "INTEGER": 1, "BOOLEAN": False, "JSON": []}
    values = {}
    for column in table.columns:
        kind = str(column.type).partition("(")[0]
        values[column.name] = None if column.nullable else plain[kind]
    return {**values, **given}


def test_the_release_before_works_on_while_tables_are_added(old: Engine, empty_database_url: str) -> None:
    with OldRelease(empty_database_url) as release:
        wait_for(lambda: release.written >= LOAD or release.error)
        migrate(old)
        until = release.written + LOAD
        wait_for(lambda: release.written >= until or release.error)
    assert release.error is None
    store = Store(old)
    with store.read() as session:
        for table in (Delivery, Attempt):
            assert session.scalar(select(func.count()).select_from(table)) == release.written
        states = session.execute(select(Delivery.state, Attempt.outcome, Attempt.claimed_at).join(Attempt))
        assert {tuple(row) for row in states} == {("delivered", "delivered", None)}


def test_this_release_does_not_start_on_older_tables(
    old: Engine, empty_database_url: str, tmp_path: Path
) -> None:
    settings = Settings(_env_file=None, data_dir=tmp_path, database_url=empty_database_url, secret_key=KEY)
    for start in (lambda: run_worker(settings), open_services(settings).__enter__):
        with pytest.raises(SchemaError, match=f"at revision {BEFORE}.*run faultcast migrate"):
            start()
    migrate(old)
    check_revision(old)


def test_tables_of_a_later_release_are_left_as_they_are(engine: Engine) -> None:
    migrate(engine)
    with engine.begin() as connection:
        connection.execute(text("update alembic_version set version_num = '9999'"))
    migrate(engine)
    check_revision(engine)
    with engine.connect() as connection:
        assert migrations.revision(connection) == "9999"
        assert head() in migrations.in_words("9999")
