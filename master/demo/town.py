"""The demo's little town: `faultcast up`, the stand-in providers and a client, all on this machine."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from master.cli.client import Client

READY_WITHIN_S = 60
END_WITHIN_S = 30
LOOK_EVERY_S = 0.1
Found = TypeVar("Found")


class DemoFailure(Exception):  # noqa: N818  the demo failed, and says why
    """A promise was not kept; the words say which."""


@dataclass(frozen=True)
class Town:
    """`keep`: server and data stay when the demo ends."""

    data_dir: Path
    url: str
    client: Client
    pid: int


@contextlib.contextmanager
def town(smtp_url: str, language: str, *, keep: bool) -> Iterator[Town]:
    """`faultcast up` with everything embedded, in a data dir of its own, gone afterwards unless `keep`."""
    data_dir = Path(tempfile.mkdtemp(prefix="faultcast-demo-"))
    with (data_dir / "up.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "master.cli", "up", "--data-dir", str(data_dir), "--bind", "127.0.0.1:0"],
            env=_environment(smtp_url, language),
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            start_new_session=keep,
        )
    try:
        url = _wait_ready(process, data_dir)
        token = (data_dir / "admin.token").read_text().strip()
        yield Town(data_dir, url, Client(url, token), process.pid)
    finally:
        if not keep:
            _end(process)
            shutil.rmtree(data_dir, ignore_errors=True)


def _environment(smtp_url: str, language: str) -> dict[str, str]:
    """No setting of the user's leaks in: the demo stands on embedded parts alone."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FAULTCAST_")}
    return {
        **kept,
        "FAULTCAST_ALLOW_TARGETS": "127.0.0.0/8",
        "FAULTCAST_SMTP_URL": smtp_url,
        "FAULTCAST_LANGUAGE": language,
    }


def _wait_ready(process: "subprocess.Popen[str]", data_dir: Path) -> str:
    timer = _after(READY_WITHIN_S, process)
    with timer:
        line = process.stdout.readline() if process.stdout else ""
    if not line.startswith("ready "):
        log = (data_dir / "up.log").read_text(errors="replace")[-2000:]
        raise DemoFailure(f"the server did not start within {READY_WITHIN_S} s:\n{log}")
    return line.split()[1]


@contextlib.contextmanager
def _after(seconds: float, process: "subprocess.Popen[str]") -> Iterator[None]:
    """Ends a process that takes too long, so that reading its words ends too."""
    timer = threading.Timer(seconds, process.kill)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _end(process: "subprocess.Popen[str]") -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(END_WITHIN_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def wait_for(look: Callable[[], Found | None], within_s: float, complaint: str) -> Found:
    """The first answer that says something.

    Raises:
        DemoFailure: with `complaint`, when none came in time.
    """
    end = time.monotonic() + within_s
    while time.monotonic() < end:
        if found := look():
            return found
        time.sleep(LOOK_EVERY_S)
    raise DemoFailure(f"{complaint} within {within_s:.0f} s")
