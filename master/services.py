"""The parts that a server process shares with its routes, made from the settings."""

from collections.abc import Iterator
from contextlib import contextmanager

from channels.transport import Network
from notifier.api.deps import Services
from notifier.doorbell import Bell
from notifier.secretbox import open_box
from notifier.settings import Secret, Settings
from notifier.storage import Store, make_engine


@contextmanager
def open_services(settings: Settings) -> Iterator[Services]:
    """Store, key, doorbell and network; closed at the end.

    Raises:
        SettingsError: the secret key is missing or another database's.
    """
    engine = make_engine(settings.sqlalchemy_url)
    bell = Bell(_plain(settings.redis_url))
    try:
        store = Store(engine)
        yield Services(store, settings, open_box(settings, store), bell, network_of(settings))
    finally:
        bell.close()
        engine.dispose()


def network_of(settings: Settings) -> Network:
    """The network as channels may use it."""
    return Network(
        allow=settings.allow_targets,
        proxy=_plain(settings.https_proxy),
        no_proxy=settings.no_proxy,
        ca_bundle=None if settings.ca_bundle is None else str(settings.ca_bundle),
        smtp_url=_plain(settings.smtp_url),
    )


def _plain(secret: Secret) -> str | None:
    return None if secret is None else secret.get_secret_value()
