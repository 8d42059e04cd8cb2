"""Masters as processes that can be killed, and the API that agents speak to meanwhile."""

import multiprocessing
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import uvicorn
from fastapi import FastAPI

from master.api.router import mount as mount_master
from master.controller import Controller
from master.runtimes.local import LocalRuntime
from master.services import network_of
from notifier import faultpoints
from notifier.api.deps import Services
from notifier.api.router import mount as mount_notifier
from notifier.doorbell import Bell
from notifier.secretbox import open_box
from notifier.settings import Settings
from notifier.storage import Store, make_engine

ANSWER_S = 60
NODES = 3
_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["tests.master.masters"])


def until(condition: Callable[[], object], what: str, within_s: float = ANSWER_S) -> None:
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.02)


def services_of(settings: Settings) -> Services:
    store = Store(make_engine(settings.sqlalchemy_url))
    return Services(store, settings, open_box(settings, store), Bell(None), network_of(settings))


@dataclass(frozen=True)
class Town:
    """One data dir, one database, one address."""

    data_dir: Path
    database_url: str
    server: str = ""

    @property
    def settings(self) -> Settings:
        return Settings(
            _env_file=None, data_dir=self.data_dir, database_url=self.database_url, local_nodes=NODES,
            secret_key="a-secret-key-of-tests",
        )  # fmt: skip

    def runtime(self) -> LocalRuntime:
        return LocalRuntime(self.data_dir, NODES)

    @contextmanager
    def serving(self) -> Iterator["Town"]:
        """The API in a thread of this process; its own controller never looks at anything."""
        services = services_of(self.settings)
        app = FastAPI()
        mount_notifier(app, services)
        mount_master(app, Controller(services, self.runtime(), server="http://none"))
        config = uvicorn.Config(app, host="127.0.0.1", port=0, log_config=None, lifespan="off")
        server = uvicorn.Server(config)
        server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.run, daemon=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            thread.start()
            until(lambda: server.started, "the API")
        port = server.servers[0].sockets[0].getsockname()[1]
        try:
            yield Town(self.data_dir, self.database_url, f"http://127.0.0.1:{port}")
        finally:
            server.should_exit = True
            thread.join()
            services.store.engine.dispose()

    def master(self, faultpoint: str | None = None) -> ForkServerProcess:
        """A new master; with a fault point (`name:nth`) it kills itself there."""
        process = _context.Process(target=_rule, args=(self, faultpoint), daemon=True)
        process.start()
        return process


def _rule(town: Town, faultpoint: str | None) -> None:
    if faultpoint is not None:
        faultpoints._armed = faultpoints.FaultPoint(f"{faultpoint}:kill")
    controller = Controller(services_of(town.settings), town.runtime(), server=town.server)
    controller.start()
    signal.pause()
