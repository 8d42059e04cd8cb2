"""The parts that a server process shares with its routes, made from the settings."""

from collections.abc import Iterator
from contextlib import contextmanager

from master.directory import Jobs
from notifier import metrics
from notifier.api.deps import Services
from notifier.doorbell import Bell
from notifier.migrations import check_revision
from notifier.network import network_of
from notifier.secretbox import open_box
from notifier.settings import Settings
from notifier.storage import Store, make_engine


@contextmanager
def open_services(settings: Settings) -> Iterator[Services]:
    """Store, key, doorbell and network; closed at the end.

    Raises:
        SettingsError: the secret key is missing or another database's.
        SchemaError: the tables are an older release's.
    """
    engine = make_engine(settings.sqlalchemy_url)
    bell = Bell(None if settings.redis_url is None else settings.redis_url.get_secret_value())
    try:
        check_revision(engine)
        metrics.watch(engine)
        store = Store(engine, timezone=settings.timezone)
        box = open_box(settings, store)
        yield Services(store, settings, box, bell, network_of(settings), Jobs())
    finally:
        bell.close()
        engine.dispose()
