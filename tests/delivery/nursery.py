"""Forks worker processes that need not import anything: one line of JSON in, one line out.

Run by `conftest.py`. {"start": {environment}, "log": path} → pid; {"wait": pid} → exit code.
"""

import ctypes
import json
import os
import signal
import sys
import threading
from typing import Any

from channels import registry
from notifier import faultpoints
from notifier.settings import load_settings
from notifier.worker import run_worker
from tests.delivery import exchange, hasty

registry._CLASSES = {**registry._CLASSES, **exchange.CLASSES, **hasty.CLASSES}


def main() -> None:
    for line in sys.stdin:
        asked = json.loads(line)
        answer = _start(asked["start"], asked["log"]) if "start" in asked else _wait(asked["wait"])
        print(answer, flush=True)  # noqa: T201  that is the protocol


def _start(environment: dict[str, str], log: str) -> int:
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        _work(environment, log, parent)
    return pid


def _work(environment: dict[str, str], log: str, parent: int) -> None:
    """As `faultcast worker` does, in a forked child."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    if os.getppid() != parent:
        os._exit(1)
    output = os.open(log, os.O_CREAT | os.O_WRONLY)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.environ.update(environment)
    form: str | None = environment.get(faultpoints.VARIABLE)
    faultpoints._armed = faultpoints.FaultPoint(form) if form else None
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    code = 1
    try:
        run_worker(load_settings(), stop=stop)
        code = 0
    finally:
        os._exit(code)


def _wait(pid: int) -> Any:
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    main()
