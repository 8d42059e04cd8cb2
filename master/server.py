"""`faultcast server`: uvicorn in this process, the controller in a thread beside it."""

import contextlib
import os
import socket
from collections.abc import Iterator
from dataclasses import dataclass

import structlog
import uvicorn
from fastapi import FastAPI

from master import logs
from master.agentdoor import LOOPBACK, loopback, open_door
from master.app import create_app
from master.cli.errors import FAILED, REFUSED, CommandError
from master.controller import Controller
from master.health import look
from master.listening import listen, url_of
from master.runtimes.base import Runtime
from master.runtimes.local import LocalRuntime
from master.services import open_services
from notifier.api.deps import Services
from notifier.settings import Settings, SettingsError
from notifier.watchdog import Watchdog

KEEP_ALIVE_S = 75
END_WITHIN_S = 5
DOOR = "agents.port"

log = structlog.get_logger()


@dataclass(frozen=True)
class Endpoint:
    """What `faultcast up` hands down: a socket that already listens, and where to say that we serve."""

    listen_fd: int | None = None
    ready_fd: int | None = None


def run_server(settings: Settings, endpoint: Endpoint) -> int:
    """Serves until SIGTERM or SIGINT; returns the exit code."""
    logs.configure(settings.log_format)
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(_listener(settings, endpoint))
        try:
            services = stack.enter_context(open_services(settings))
        except SettingsError as error:
            raise CommandError(str(error), REFUSED) from None
        door = stack.enter_context(loopback(settings.data_dir / DOOR)) if settings.tls_cert else None
        controller = Controller(
            services, _runtime(settings), server=_agents_address(settings, listener, door)
        )
        app = create_app(services, controller)
        if door is not None:
            stack.enter_context(open_door(app, door))
        for part in (controller, _watchdog(services)):
            part.start()
            stack.callback(part.stop)
        server = _Server(_config(app, settings), endpoint.ready_fd)
        server.run(sockets=[listener])
        return 0 if server.started else FAILED


def _watchdog(services: Services) -> Watchdog:
    url = services.settings.watchdog_url
    plain = None if url is None else url.get_secret_value()
    return Watchdog(plain, services.network, lambda: [one.name for one in look(services) if not one.ok])


def _runtime(settings: Settings) -> Runtime:
    if settings.runtime != "local":
        raise CommandError(f"FAULTCAST_RUNTIME: {settings.runtime} is not supported yet; set local", REFUSED)
    return LocalRuntime(settings.data_dir, settings.local_nodes)


def _agents_address(settings: Settings, listener: socket.socket, door: socket.socket | None) -> str:
    """Where agents of this machine reach us."""
    if door is not None:
        return f"http://{LOOPBACK}:{door.getsockname()[1]}"
    return url_of(settings, listener).replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:")


class _Server(uvicorn.Server):
    """Says on a descriptor when it serves."""

    def __init__(self, config: uvicorn.Config, ready_fd: int | None) -> None:
        super().__init__(config)
        self._ready_fd = ready_fd

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started and self._ready_fd is not None:
            os.write(self._ready_fd, b"\n")


@contextlib.contextmanager
def _listener(settings: Settings, endpoint: Endpoint) -> Iterator[socket.socket]:
    if endpoint.listen_fd is None:
        with listen(settings.host, settings.port) as listener:
            yield listener
    else:
        with socket.socket(fileno=endpoint.listen_fd) as listener:
            yield listener


def _config(app: FastAPI, settings: Settings) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=END_WITHIN_S,
        ssl_certfile=settings.tls_cert,
        ssl_keyfile=None if settings.tls_key is None else str(settings.tls_key),
    )
