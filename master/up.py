"""`faultcast up`: Valkey, server and workers as children of one process that keeps them alive."""

import contextlib
import fcntl
import os
import shutil
import socket
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import structlog

from master import datadir, logs
from master.cli.errors import FAILED, REFUSED, CommandError
from master.database import migrate_database
from master.listening import listen, url_of
from master.processes import Keeper, Program, faultcast
from master.runtimes.local import LocalRuntime, check_runtime
from master.stopping import stop_on_signals
from notifier.auth import bootstrap_admin
from notifier.clock import utcnow
from notifier.secretbox import open_box
from notifier.settings import SHARED_FIGURES, Settings, SettingsError
from notifier.storage import Store, make_engine
from notifier.valkey import Embedded, ValkeyError

LOOK_EVERY_S = 0.1
STOP_WITHIN_S = 12.0
VALKEY_EVERY_S = 1.0

log = structlog.get_logger()


def run_up(settings: Settings) -> int:
    """Serves until SIGTERM or SIGINT; returns the exit code."""
    logs.configure(settings.log_format)
    check_runtime(settings)
    stop = stop_on_signals()
    with contextlib.ExitStack() as stack:
        stack.enter_context(own_data_dir(settings.data_dir))
        listener = stack.enter_context(listen(settings.host, settings.port))
        _prepare(settings)
        stack.callback(LocalRuntime(settings.data_dir, settings.local_nodes).shutdown)
        bell = _Doorbell(stack.enter_context(_valkey(settings)))
        env = _environment(settings, bell.valkey)
        keeper = Keeper()
        stack.callback(keeper.stop, STOP_WITHIN_S)
        ready = _start_parts(keeper, settings, listener, env)
        stack.callback(os.close, ready)
        return _serve(keeper, bell, ready, stop, address=url_of(settings, listener))


@contextlib.contextmanager
def own_data_dir(folder: Path) -> Iterator[None]:
    """The data dir is ours alone while this lasts.

    Raises:
        CommandError: another `up` has it, or it cannot be used.
    """
    if warning := datadir.ready(folder):
        log.warning("data_dir_is_open", why=warning)
    try:
        lock = (folder / "up.lock").open("a+")
    except OSError as error:
        raise CommandError(f"--data-dir: {folder}: {error.strerror}; name a folder you may write") from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            pid = lock.read().strip() or "?"
            raise CommandError(
                f"--data-dir: {folder} is in use by another `faultcast up` (pid {pid}); "
                "stop it, or name another folder",
                FAILED,
            ) from None
        lock.truncate(0)
        lock.write(f"{os.getpid()}\n")
        lock.flush()
        yield


def _prepare(settings: Settings) -> None:
    """Tables, the key's check and the admin token, before anybody needs them."""
    migrate_database(settings)
    engine = make_engine(settings.sqlalchemy_url)
    try:
        store = Store(engine)
        open_box(settings, store)
        bootstrap_admin(store, settings.data_dir, utcnow())
    except SettingsError as error:
        raise CommandError(str(error), REFUSED) from None
    finally:
        engine.dispose()


class _Doorbell:
    """The embedded Valkey, if there is one. Without it alerts go out a second later: no reason to end."""

    def __init__(self, valkey: Embedded | None) -> None:
        self.valkey = valkey
        self._next_look = 0.0

    def look_after(self) -> None:
        if self.valkey is None or time.monotonic() < self._next_look:
            return
        self._next_look = time.monotonic() + VALKEY_EVERY_S
        try:
            self.valkey.ensure()
        except ValkeyError as error:
            log.warning("valkey_is_gone", why=str(error))


@contextlib.contextmanager
def _valkey(settings: Settings) -> Iterator[Embedded | None]:
    if settings.redis_url is not None:
        yield None
        return
    try:
        with Embedded(settings.data_dir) as valkey:
            yield valkey
    except ValkeyError as error:
        raise CommandError(str(error), FAILED) from None


def _environment(settings: Settings, valkey: Embedded | None) -> dict[str, str]:
    """What our own flags and the embedded parts mean for the children."""
    env = {
        **os.environ,
        "FAULTCAST_DATA_DIR": str(settings.data_dir.absolute()),
        "FAULTCAST_BIND": settings.bind,
    }
    env[SHARED_FIGURES] = str(_empty_folder(settings.data_dir / "metrics"))
    if valkey is not None:
        env["FAULTCAST_REDIS_URL"] = valkey.url
        env.pop("FAULTCAST_REDIS_URL_FILE", None)
    return env


def _empty_folder(folder: Path) -> Path:
    """Where the parts count together; counts begin anew with each start."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700)
    return folder.absolute()


def _start_parts(keeper: Keeper, settings: Settings, listener: socket.socket, env: dict[str, str]) -> int:
    """Starts server and workers; answers the descriptor on which the server says that it serves."""
    ready, say_ready = os.pipe()
    parent = ("--parent", str(os.getpid()))
    inherited = (listener.fileno(), say_ready)
    descriptors = ("--listen-fd", str(inherited[0]), "--ready-fd", str(inherited[1]))
    keeper.start(Program("server", faultcast("server", *descriptors, *parent), env, pass_fds=inherited))
    for n in range(settings.workers):
        keeper.start(Program(f"worker-{n + 1}", faultcast("worker", *parent), env))
    os.set_blocking(ready, False)
    return ready


def _serve(keeper: Keeper, bell: "_Doorbell", ready: int, stop: threading.Event, *, address: str) -> int:
    is_ready = False
    while not stop.wait(LOOK_EVERY_S):
        if not is_ready:
            code = keeper.exit_code("server")
            if code is not None:
                return code or FAILED  # it has said why
            is_ready = _has_word(ready)
            if is_ready:
                sys.stdout.write(f"ready {address}\n")
                sys.stdout.flush()
        keeper.look_after()
        bell.look_after()
    log.info("stopping")
    return 0


def _has_word(descriptor: int) -> bool:
    try:
        return bool(os.read(descriptor, 1))
    except BlockingIOError:
        return False
