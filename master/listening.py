"""The address at which the server is reached."""

import contextlib
import os
import socket
from collections.abc import Iterator

from master.cli.errors import FAILED, CommandError
from notifier.settings import Settings


@contextlib.contextmanager
def listen(host: str, port: int) -> Iterator[socket.socket]:
    """The listening socket. It outlives a server that dies: who calls meanwhile waits for the next one.

    Raises:
        CommandError: the address cannot be had.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=1024)
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise CommandError(
            f"--bind: {host}:{port}: {reason}; stop what uses it, or choose another (--bind HOST:PORT)",
            FAILED,
        ) from None
    # Head and body of an answer are two segments: without this a client that waits to acknowledge the first
    # (40 ms) holds up the second. asyncio sets it only on sockets that name their protocol.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with listener:
        yield listener


def url_of(settings: Settings, listener: socket.socket) -> str:
    """The address at which we can be reached, with the real port."""
    scheme = "https" if settings.tls_cert else "http"
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    return f"{scheme}://{host}:{listener.getsockname()[1]}"
