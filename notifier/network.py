"""The network as this installation's channels may use it."""

from channels.transport import Network
from notifier.settings import Secret, Settings


def network_of(settings: Settings) -> Network:
    """Guarded, and by the operator's proxy, certificates and mail server."""
    return Network(
        allow=settings.allow_targets,
        proxy=_plain(settings.https_proxy),
        no_proxy=settings.no_proxy,
        ca_bundle=None if settings.ca_bundle is None else str(settings.ca_bundle),
        smtp_url=_plain(settings.smtp_url),
    )


def _plain(secret: Secret) -> str | None:
    return None if secret is None else secret.get_secret_value()
