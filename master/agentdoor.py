"""Where agents of this machine reach a server that speaks TLS to the world: plain HTTP on the loopback.

The certificate is made out to a name, and agents beside the pods have neither name nor authority to check
it by. The port stays the same over restarts, because agents outlive the server.
"""

import contextlib
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import uvicorn
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

PATH = "/api/v1/agent/"
LOOPBACK = "127.0.0.1"
END_WITHIN_S = 2


class AgentsOnly:
    """Lets agents' reports through, and nothing else."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"].startswith(PATH):
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            await PlainTextResponse("for agents of this machine only\n", 404)(scope, receive, send)


@contextlib.contextmanager
def loopback(note: Path) -> Iterator[socket.socket]:
    """A listening socket on the port that `note` remembers, or on a new one if that is taken."""
    with _bound(_remembered(note)) as listener:
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # as in `listening.listen`
        note.write_text(f"{listener.getsockname()[1]}\n", encoding="ascii")
        yield listener


@contextlib.contextmanager
def open_door(app: ASGIApp, listener: socket.socket) -> Iterator[None]:
    """Serves agents on `listener`, from a thread, while this lasts."""
    config = uvicorn.Config(
        AgentsOnly(app),
        log_config=None,
        access_log=False,
        server_header=False,
        lifespan="off",
        timeout_graceful_shutdown=END_WITHIN_S,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, name="agents", daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.should_exit = True
        thread.join()


def _bound(port: int) -> socket.socket:
    try:
        return socket.create_server((LOOPBACK, port))
    except OSError:
        return socket.create_server((LOOPBACK, 0))


def _remembered(note: Path) -> int:
    try:
        port = int(note.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return 0
    return port if 0 < port < 65536 else 0
