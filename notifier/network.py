"""The network as this installation's channels may use it."""

from typing import Any

from channels.transport import Network, Response
from notifier import faultpoints
from notifier.settings import Secret, Settings


class _Breakable(Network):
    """For tests: may break between a request and the reading of its answer."""

    def request(self, method: str, url: str, **what: Any) -> Response:
        response = super().request(method, url, **what)
        faultpoints.hit("bytes_sent")
        return response


def network_of(settings: Settings) -> Network:
    """Guarded, and by the operator's proxy, certificates and mail server."""
    kind = _Breakable if faultpoints.is_armed("bytes_sent") else Network
    return kind(
        allow=settings.allow_targets,
        proxy=_plain(settings.https_proxy),
        no_proxy=settings.no_proxy,
        ca_bundle=None if settings.ca_bundle is None else str(settings.ca_bundle),
        smtp_url=_plain(settings.smtp_url),
    )


def _plain(secret: Secret) -> str | None:
    return None if secret is None else secret.get_secret_value()
