"""The database's history. `migrate` brings a database to the newest form; several may try at once."""

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, text

_FOLDER = Path(__file__).parent
_LOCK = 0x66617563  # PostgreSQL's advisory lock that one migrating process holds


def migrate(engine: Engine) -> None:
    """Upgrade to head in one transaction, under a lock: whoever comes second waits and finds it done."""
    with engine.execution_options(sqlite_begin="IMMEDIATE").begin() as connection:
        if engine.dialect.name == "postgresql":
            connection.execute(text("select pg_advisory_xact_lock(:key)"), {"key": _LOCK})
        command.upgrade(_config(connection), "head")


def head() -> str:
    """The newest revision that this program knows."""
    revision = ScriptDirectory.from_config(_config(None)).get_current_head()
    assert revision is not None, "the migrations are part of the install"  # noqa: S101
    return revision


def _config(connection: Connection | None) -> Config:
    config = Config()
    config.set_main_option("script_location", str(_FOLDER).replace("%", "%%"))
    config.attributes["connection"] = connection
    return config
