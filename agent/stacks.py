"""Python stacks of training processes, by py-spy without pausing them.

`--nonblocking` reads memory only: a stopped process answers too, and a dump that is cut short leaves nobody
stopped. A stack read while it moves may be torn, so a failed dump is tried again.
"""

import contextlib
import json
import shutil
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Any

from agent import dumps, proc
from agent.clock import stamp
from agent.wire import Kind, Observation

TIME_CAP_S = 5.0
_TRIES = 3
_PARALLEL = 4
_MAX_FRAMES = 60
_MAX_THREADS = 16
_MAX_CHILDREN = 16
_MAX_NAME = 300
_MAX_OUTPUT = 4 << 20


@dataclass(frozen=True)
class Target:
    """A rank's process and those below it, with what they are called."""

    rank: int
    pid: int
    children: tuple[tuple[int, str], ...] = ()


@dataclass(frozen=True)
class Stack:
    """`frames`: of the main thread, innermost first; `gil`: it runs Python or C that keeps Python's lock, so
    it does not wait for a device, a lock or a file; `error` in their place."""

    frames: tuple[str, ...] = ()
    threads: tuple[dict[str, Any], ...] = ()
    error: str | None = None
    gil: bool | None = None


def program() -> str | None:
    """Where py-spy is: beside this Python, else on the path."""
    beside = Path(sys.executable).with_name("py-spy")
    return str(beside) if beside.is_file() else shutil.which("py-spy")


def parse(text: str) -> Stack:
    """py-spy's JSON: a list of threads, each with its frames."""
    try:
        threads = json.loads(text)
        read = [_thread(one) for one in threads[:_MAX_THREADS]]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return Stack(error="py-spy gave no stack that can be read")
    if not read:
        return Stack(error="the process has no Python thread")
    main = next((one for one in read if one["name"] == "MainThread"), read[-1])
    return Stack(tuple(main["frames"]), tuple(one for one in read if one is not main), gil=main["gil"])


def _thread(one: Mapping[str, Any]) -> dict[str, Any]:
    frames = [
        f"{frame['name']} ({frame.get('short_filename') or frame['filename']}:{frame['line']})"[:_MAX_NAME]
        for frame in one["frames"][:_MAX_FRAMES]
    ]
    name = str(one.get("thread_name") or "unknown")[:_MAX_NAME]
    return {
        "name": name,
        "frames": frames,
        "active": bool(one.get("active")),
        "gil": bool(one.get("owns_gil")),
    }


def dump(spy: str, pid: int, cap_s: float = TIME_CAP_S) -> Stack:
    """One process's stack, or why there is none."""
    error = ""
    for _ in range(_TRIES):
        try:
            done = subprocess.run(
                [spy, "dump", "--json", "--nonblocking", "--pid", str(pid)],
                capture_output=True,
                stdin=subprocess.DEVNULL,
                timeout=cap_s,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return Stack(error=f"py-spy gave no answer in {cap_s:g} s")
        except OSError as problem:
            return Stack(error=f"py-spy did not start: {problem.strerror}")
        if done.returncode == 0:
            return parse(done.stdout[:_MAX_OUTPUT].decode("utf-8", "replace"))
        error = _reason(done.stderr.decode("utf-8", "replace"))
    return Stack(error=error)


def _reason(text: str) -> str:
    """The words of py-spy's error, without its own stack."""
    words = text.partition("Stack backtrace:")[0].split()
    return " ".join(words)[:500] or "py-spy failed and did not say why"


def observe(spy: str | None, target: Target, cap_s: float = TIME_CAP_S) -> Observation:
    """The stacks of one rank as they are reported."""
    if spy is None:
        own, below = Stack(error="py-spy is not installed beside the agent"), []
    else:
        deadline = time.monotonic() + 2 * cap_s
        own = dump(spy, target.pid, cap_s)
        below = [
            (pid, name, dump(spy, pid, min(cap_s, deadline - time.monotonic())))
            for pid, name in target.children[:_MAX_CHILDREN]
            if time.monotonic() < deadline
        ]
    data = {
        "pid": target.pid,
        "frames": list(own.frames),
        "error": own.error,
        "gil": own.gil,
        "state": found.state if (found := proc.stat(target.pid)) else None,
        "io_bytes": sum(proc.io_bytes(pid) for pid in (target.pid, *(pid for pid, _ in target.children))),
        "flight": dumps.of_process(target.pid, target.rank),
        "switches": proc.voluntary_switches(target.pid),
        "threads": list(own.threads),
        "children": [
            {"pid": pid, "cmd": name, "frames": list(stack.frames), "error": stack.error}
            for pid, name, stack in below
        ],
    }
    return Observation(Kind.STACKS, stamp(), target.rank, data)


class Collector:
    """One collection at a time, beside the watching; `done` is called with all it found, in its thread."""

    def __init__(self, done: Callable[[list[Observation]], Any]) -> None:
        self._done = done
        self._running: Thread | None = None

    @property
    def busy(self) -> bool:
        return self._running is not None and self._running.is_alive()

    def begin(self, targets: Sequence[Target]) -> None:
        """Collect of all targets at once."""
        self._running = Thread(target=self._collect, args=(deque(targets),), name="stacks", daemon=True)
        self._running.start()

    def _collect(self, targets: deque[Target]) -> None:
        if not targets:
            why = "no training process was found in the pod"
            self._done([Observation(Kind.STACKS, stamp(), None, {"pid": None, "frames": [], "error": why})])
            return
        spy = program()
        found: list[Observation] = []

        def work() -> None:
            with contextlib.suppress(IndexError):
                while True:
                    found.append(observe(spy, targets.popleft()))

        helpers = [
            Thread(target=work, name="py-spy", daemon=True) for _ in range(min(_PARALLEL, len(targets)))
        ]
        for helper in helpers:
            helper.start()
        for helper in helpers:
            helper.join()
        self._done(sorted(found, key=lambda one: one.rank or 0))
