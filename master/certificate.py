"""HTTPS as this server speaks it: a renewed certificate is taken up as it serves, browsers stay with it."""

import ssl
from pathlib import Path

import structlog
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

STAY_S = 30 * 24 * 3600  # long enough to matter, short enough to go back

log = structlog.get_logger()


class Renewing:
    """Looks whether the files have changed; what cannot be loaded is left for the next look."""

    def __init__(self, certificate: Path, key: Path) -> None:
        self._files = certificate, key
        self._loaded = self._stamps()
        self._refused: tuple[tuple[int, int], ...] = ()

    def look(self, context: ssl.SSLContext) -> None:
        """New connections get the new certificate; those that are open keep theirs."""
        found = self._stamps()
        if found in (self._loaded, self._refused):
            return
        try:
            # Elsewhere first: a certificate without its own key would leave the context in use with neither.
            self._load(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
            self._load(context)
        except (ssl.SSLError, OSError) as error:
            self._refused = found
            log.warning("certificate_not_taken_up", why=type(error).__name__)
            return
        self._loaded, self._refused = found, ()
        log.info("certificate_taken_up")

    def _load(self, context: ssl.SSLContext) -> None:
        context.load_cert_chain(*self._files, lambda: "")  # nobody is there to type a passphrase

    def _stamps(self) -> tuple[tuple[int, int], ...]:
        """When and how they were last written; a file that is away has none."""
        found = []
        for path in self._files:
            try:
                state = path.stat()
            except OSError:
                found.append((0, 0))
            else:
                found.append((state.st_mtime_ns, state.st_ino))
        return tuple(found)


class StaySecure:
    """ASGI middleware: browsers shall not ask this host over plain HTTP any more (RFC 6797)."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def secured(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)["strict-transport-security"] = f"max-age={STAY_S}"
            await send(message)

        await self._app(scope, receive, secured)
