"""`faultcast server`: uvicorn in this process, the controller in a thread beside it."""

import contextlib
import gc
import os
import signal
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from types import FrameType

import structlog
import uvicorn
from fastapi import FastAPI
from sqlalchemy.exc import DBAPIError

from master import datadir, logs
from master.agentdoor import LOOPBACK, loopback, open_door
from master.app import create_app
from master.certificate import Renewing, StaySecure
from master.cli.errors import FAILED, REFUSED, CommandError
from master.controller import Controller
from master.database import not_usable
from master.health import Health
from master.listening import listen, url_of
from master.runtimes.local import LocalRuntime, check_runtime
from master.services import open_services
from notifier.api.deps import Services
from notifier.auth import bootstrap_admin
from notifier.clock import utcnow
from notifier.migrations import SchemaError
from notifier.settings import Settings, SettingsError
from notifier.watchdog import Watchdog

KEEP_ALIVE_S = 75
END_WITHIN_S = 5
GARBAGE = 10_000  # new objects, before any that nobody needs are looked for
RENEW_TICKS = 50  # of a tenth of a second
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
    check_runtime(settings)
    if warning := datadir.ready(settings.data_dir):
        log.warning("data_dir_is_open", why=warning)
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(_listener(settings, endpoint))
        services = stack.enter_context(_services(settings))
        door = stack.enter_context(loopback(settings.data_dir / DOOR)) if settings.tls_cert else None
        runtime = LocalRuntime(settings.data_dir, settings.local_nodes)
        controller = Controller(services, runtime, server=_agents_address(settings, listener, door))
        app = create_app(services, controller)
        if door is not None:
            stack.enter_context(open_door(app, door))
        for part in (controller, _watchdog(services, app.state.health)):
            part.start()
            stack.callback(part.stop)
        gc.freeze()  # what is there by now stays, and need not be looked at again and again
        gc.set_threshold(GARBAGE)
        server = _Server(_config(app, settings), endpoint.ready_fd, _renewing(settings))
        # uvicorn raises a signal once more when it has ended: to the default handler that would be our death
        # before the lease is given up.
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, server.end)
        server.run(sockets=[listener])
        return 0 if server.started else FAILED


def _watchdog(services: Services, health: Health) -> Watchdog:
    url = services.settings.watchdog_url
    plain = None if url is None else url.get_secret_value()
    return Watchdog(plain, services.network, lambda: [one.name for one in health.checks() if not one.ok])


@contextlib.contextmanager
def _services(settings: Settings) -> Iterator[Services]:
    """Store and the like, and the admin's token in the data dir."""
    with contextlib.ExitStack() as stack:
        try:
            services = stack.enter_context(open_services(settings))
            bootstrap_admin(services.store, settings.data_dir, utcnow())
        except SettingsError as error:
            raise CommandError(str(error), REFUSED) from None
        except SchemaError as error:
            raise CommandError(str(error), FAILED) from None
        except DBAPIError as error:
            raise not_usable(error) from None
        yield services


def _agents_address(settings: Settings, listener: socket.socket, door: socket.socket | None) -> str:
    """Where agents of this machine reach us."""
    if door is not None:
        return f"http://{LOOPBACK}:{door.getsockname()[1]}"
    return url_of(settings, listener).replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:")


class _Server(uvicorn.Server):
    """Says on a descriptor when it serves; looks after its certificate."""

    def __init__(self, config: uvicorn.Config, ready_fd: int | None, renewing: Renewing | None) -> None:
        super().__init__(config)
        self._ready_fd = ready_fd
        self._renewing = renewing

    def end(self, _number: int, _frame: FrameType | None) -> None:
        self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started and self._ready_fd is not None:
            os.write(self._ready_fd, b"\n")

    async def on_tick(self, counter: int) -> bool:
        if self._renewing is not None and self.config.ssl is not None and counter % RENEW_TICKS == 0:
            self._renewing.look(self.config.ssl)
        return await super().on_tick(counter)


def _renewing(settings: Settings) -> Renewing | None:
    if settings.tls_cert is None or settings.tls_key is None:
        return None
    return Renewing(settings.tls_cert, settings.tls_key)


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
        app if settings.tls_cert is None else StaySecure(app),
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=END_WITHIN_S,
        ssl_certfile=settings.tls_cert,
        ssl_keyfile=None if settings.tls_key is None else str(settings.tls_key),
    )
