"""The database's history. `migrate` brings a database to the newest form; several may try at once."""

import random
import time
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Connection, Engine, inspect, text
from sqlalchemy.exc import OperationalError

if TYPE_CHECKING:
    from alembic.config import Config

_FOLDER = Path(__file__).parent
TRIES = 100
LOCK_MS = 300  # well below PostgreSQL's deadlock_timeout of 1 s: nobody else is made to give up
LOCKED = "55P03"  # lock_not_available
PAUSE_S = (0.05, 0.5)
_LOCK = 0x66617563  # PostgreSQL's advisory lock that one migrating process holds


class SchemaError(RuntimeError):
    """The tables are an older release's; the text says the mend."""


def migrate(engine: Engine) -> None:
    """Upgrade to head in one transaction, under a lock: whoever comes second waits and finds it done.

    A database of a newer release is left as it is: what came after us only added to it. Workers go on
    meanwhile: on PostgreSQL a table that is in use is not waited for with others locked (that would be a
    deadlock, and theirs as likely as ours), but all is tried again.

    Raises:
        OperationalError: the tables were in use at every try.
    """
    for tries_left in reversed(range(TRIES)):
        try:
            return _migrate(engine)
        except OperationalError as error:
            if tries_left == 0 or getattr(error.orig, "sqlstate", None) != LOCKED:
                raise
            time.sleep(random.uniform(*PAUSE_S))  # noqa: S311  no secret
    return None


def _migrate(engine: Engine) -> None:
    with engine.connect() as connection:
        if not is_older(revision(connection)):
            return
    with engine.execution_options(sqlite_begin="IMMEDIATE").begin() as connection:
        if engine.dialect.name == "postgresql":
            connection.execute(text("select pg_advisory_xact_lock(:key)"), {"key": _LOCK})
            connection.execute(text(f"set local lock_timeout = {LOCK_MS}"))
        if is_older(revision(connection)):
            _upgrade(connection)


def _upgrade(connection: Connection) -> None:
    from alembic import command  # noqa: PLC0415  slow, and seldom wanted

    command.upgrade(_config(connection), "head")


def _config(connection: Connection | None) -> "Config":
    from alembic.config import Config  # noqa: PLC0415  as above

    config = Config()
    config.set_main_option("script_location", str(_FOLDER).replace("%", "%%"))
    config.attributes["connection"] = connection
    return config


def check_revision(engine: Engine) -> None:
    """Raises SchemaError unless the tables are this release's or a newer one's."""
    with engine.connect() as connection:
        found = revision(connection)
    if is_older(found):
        raise SchemaError(f"FAULTCAST_DATABASE_URL: the database is {in_words(found)}: run faultcast migrate")


def revision(connection: Connection) -> str | None:
    """Where the database is; None: nobody has migrated it yet."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    found: str | None = connection.execute(text("select version_num from alembic_version")).scalar()
    return found


def is_older(found: str | None) -> bool:
    """Revisions are numbers of four digits, so they sort as text."""
    return found is None or found < head()


def is_newer(found: str | None) -> bool:
    return found is not None and found > head()


def in_words(found: str | None) -> str:
    if found is None:
        return f"without tables, this program wants revision {head()}"
    return f"at revision {found}, this program's is {head()}"


@cache
def head() -> str:
    """The newest revision that this program knows: its file's name begins with it."""
    return max(path.name[1:5] for path in (_FOLDER / "versions").glob("v[0-9]*_*.py"))
