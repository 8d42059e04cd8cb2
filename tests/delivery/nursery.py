"""Forks workers and servers that need not import anything: one line of JSON in, one line out.

Run by `conftest.py`. {"start": {environment}, "part": "worker" or "server", "log": path} → pid;
{"wait": pid} → exit code.
"""

import ctypes
import gc
import json
import os
import signal
import sys
from collections.abc import Callable, Mapping
from typing import Any

from sqlalchemy.orm import configure_mappers

from channels import registry
from master import worker
from master.server import Endpoint, run_server
from notifier import faultpoints
from notifier.engine import CONCURRENCY
from notifier.settings import Settings, load_settings
from tests.delivery import exchange, hasty

registry._CLASSES = {**registry._CLASSES, **exchange.CLASSES, **hasty.CLASSES}
PARTS: Mapping[str, Callable[[Settings], int]] = {
    "worker": lambda settings: worker.run(settings, CONCURRENCY),
    "server": lambda settings: run_server(settings, Endpoint()),
}


def main() -> None:
    configure_mappers()  # once, instead of in each child
    gc.freeze()
    for line in sys.stdin:
        asked = json.loads(line)
        answer = _start(**asked) if "start" in asked else _wait(asked["wait"])
        print(answer, flush=True)  # noqa: T201  that is the protocol


def _start(start: dict[str, str], log: str, part: str) -> int:
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        _work(PARTS[part], start, log, parent)
    return pid


def _work(run: Callable[[Settings], int], environment: dict[str, str], log: str, parent: int) -> None:
    """As `faultcast worker` or `faultcast server` does, in a forked child."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    if os.getppid() != parent:
        os._exit(1)
    output = os.open(log, os.O_CREAT | os.O_WRONLY)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.environ.update(environment)
    form: str | None = environment.get(faultpoints.VARIABLE)
    faultpoints._armed = faultpoints.FaultPoint(form) if form else None
    code = 1
    try:
        code = run(load_settings())
    finally:
        os._exit(code)


def _wait(pid: int) -> Any:
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    main()
