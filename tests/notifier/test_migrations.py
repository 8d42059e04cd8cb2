"""The migrated database is the one that the models describe, on both engines and from many processes."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy import Engine, text

import master.model  # noqa: F401  its tables are migrated too
import notifier.model
from notifier.migrations import head, migrate
from notifier.storage import Base, make_engine

SQLITE_FORM = "select name, sql from sqlite_master where name != 'alembic_version' and sql is not null"
POSTGRES_FORM = (
    "select table_name || '.' || column_name, concat(data_type, ' ', is_nullable, ' ', column_default,"
    " character_maximum_length) from information_schema.columns"
    " where table_schema = 'public' and table_name != 'alembic_version'",
    "select indexname, indexdef from pg_indexes"
    " where schemaname = 'public' and tablename != 'alembic_version'",
    "select conname || conrelid::regclass, pg_get_constraintdef(oid) from pg_constraint"
    " where connamespace = 'public'::regnamespace and conrelid::regclass::text != 'alembic_version'",
)


def form(engine: Engine) -> dict[str, str]:
    """Every table, column, index and constraint by name, as the database itself words them."""
    queries = POSTGRES_FORM if engine.dialect.name == "postgresql" else (SQLITE_FORM,)
    with engine.connect() as connection:
        rows = [row for query in queries for row in connection.execute(text(query))]
    return {name: re.sub(r"\s+", " ", words) for name, words in rows}


MIGRATES = "import sys; from notifier.migrations import migrate; from notifier.storage import make_engine; "
MIGRATES += "migrate(make_engine(sys.argv[1]))"


def test_migrated_database_is_what_the_models_describe(empty_database_url: str) -> None:
    engine = make_engine(empty_database_url)
    migrate(engine)
    migrated = form(engine)
    with engine.begin() as connection:
        Base.metadata.drop_all(connection)
        Base.metadata.create_all(connection)
    described = form(engine)
    engine.dispose()
    assert len(migrated) > len(Base.metadata.tables)
    assert migrated == described


def test_migrating_again_changes_nothing(empty_database_url: str) -> None:
    engine = make_engine(empty_database_url)
    migrate(engine)
    first = form(engine)
    migrate(engine)
    assert form(engine) == first
    with engine.connect() as connection:
        assert connection.execute(text("select version_num from alembic_version")).scalars().all() == [head()]
    engine.dispose()


@pytest.mark.timeout(90)
def test_many_processes_may_migrate_at_once(empty_database_url: str) -> None:
    command = [sys.executable, "-W", "error", "-c", MIGRATES, empty_database_url]
    processes = [subprocess.Popen(command, stderr=subprocess.PIPE) for _ in range(4)]
    errors = [process.communicate(timeout=60)[1] for process in processes]
    assert [process.returncode for process in processes] == [0] * len(processes), errors
    engine = make_engine(empty_database_url)
    assert form(engine)
    engine.dispose()


def test_migrations_travel_with_the_package() -> None:
    folder = Path(notifier.model.__file__).parent / "migrations"
    assert (folder / "versions" / "__init__.py").is_file()
    assert list((folder / "versions").glob("v0001_*.py"))
