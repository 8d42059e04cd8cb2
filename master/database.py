"""The database as a command finds it: brought to this version's tables, or what is wrong in one line."""

from sqlalchemy.exc import DBAPIError

from master.cli.errors import FAILED, CommandError
from notifier.migrations import in_words, is_newer, migrate, revision
from notifier.settings import Settings
from notifier.storage import make_engine


def migrate_database(settings: Settings) -> str:
    """Brings the database to the newest form; answers what it is now. The data dir is there."""
    engine = make_engine(settings.sqlalchemy_url)
    try:
        migrate(engine)
        with engine.connect() as connection:
            found = revision(connection)
    except DBAPIError as error:
        raise not_usable(error) from None
    finally:
        engine.dispose()
    return f"the database is {in_words(found)}" if is_newer(found) else f"the database is at revision {found}"


def not_usable(error: DBAPIError) -> CommandError:
    """The driver's own words: they name host, user and database, never the password."""
    mend = "is the database there, and brought to this version (faultcast migrate)?"
    return CommandError(f"FAULTCAST_DATABASE_URL: {error.orig}; {mend}", FAILED)
