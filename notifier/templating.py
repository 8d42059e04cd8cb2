"""Users' templates, filled in a process of their own (`notifier/templating_child.py`) that they cannot harm.

It is started when it is first needed and again after it was stopped: a template gets one second (of the
processor, where the machine is busy), 256 MB and 64 k characters. It holds no secret, no database and no
open file.
"""

import atexit
import json
import os
import re
import select
import signal
import subprocess
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from channels import escaping
from notifier import templating_child as child

MAX_S = 1.0
MAX_STARVED = 4  # how often its time is given again because it had no processor
MAX_TRIAL_S = 0.5  # of each of many trials before a template is kept
START_S = 30.0  # a busy machine
BUSY_S = 5.0  # how long one waits for the templates of others
SHUNNED_S = 60.0  # a template that had to be stopped is not tried again for so long
MAX_SHUNNED = 256
PROGRAM = str(Path(child.__file__))
_DATA = re.compile(f"{child.OPEN}([^{child.CLOSE}]*){child.CLOSE}")
_ENDED = {
    -signal.SIGPROF: f"takes more than {MAX_S:g} s of the processor",
    -signal.SIGSEGV: "takes too much memory",
}
FROM_OUTSIDE = (-signal.SIGKILL, -signal.SIGTERM)
STOPPED = f"takes more than {MAX_S:g} s"


@dataclass(frozen=True)
class Fault:
    """What is wrong with a template. `line` is None where no line can be named."""

    line: int | None
    message: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.message}" if self.line else self.message


@dataclass(frozen=True)
class Filled:
    """`texts` by the templates' names, their values still marked (see `written`); `faults` of the others."""

    texts: Mapping[str, str] = field(default_factory=dict)
    faults: Mapping[str, Fault] = field(default_factory=dict)


def written(text: str, escape: Callable[[str], str]) -> str:
    """The text, in which every value was made literal by `escape`."""
    return _DATA.sub(lambda found: escape(found[1]), text)


def fill(templates: Mapping[str, str], facts: Mapping[str, Any], *, is_strict: bool = False) -> Filled:
    """Fills the templates. Never raises: what goes wrong is a fault of each.

    `is_strict`, for a template that is being saved: names that are no facts are faults too.
    """
    sources = {name: escaping.clean(source) for name, source in templates.items()}
    return _SANDBOX.fill(sources, facts, is_strict=is_strict) if sources else Filled()


class _StoppedError(Exception):
    """The process had to be ended, or ended by itself."""


class _KilledError(Exception):
    """Somebody else ended it."""


class Sandbox:
    """One process for all threads of this one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._shunned: OrderedDict[int, tuple[float, str]] = OrderedDict()

    def fill(self, templates: Mapping[str, str], facts: Mapping[str, Any], *, is_strict: bool) -> Filled:
        key = hash(tuple(sorted(templates.items())))
        if not self._lock.acquire(timeout=BUSY_S):
            return _all(templates, "waited too long for other templates")
        try:
            until, why = self._shunned.get(key, (0.0, ""))
            if time.monotonic() < until:
                return _all(templates, why)
            asked = {"templates": dict(templates), "facts": _plain(facts), "is_strict": is_strict}
            return self._ask_again(asked, MAX_TRIAL_S if is_strict else MAX_S)
        except _StoppedError as stopped:
            self._shunned[key] = (time.monotonic() + SHUNNED_S, str(stopped))
            while len(self._shunned) > MAX_SHUNNED:
                self._shunned.popitem(last=False)
            return _all(templates, str(stopped))
        except OSError as error:
            self.stop()
            return _all(templates, f"the process for templates does not start: {type(error).__name__}")
        finally:
            self._lock.release()

    def stop(self) -> None:
        """Ends the process; the next template starts another."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()
            process.wait()

    def forget(self) -> None:
        """In a forked process: what was started is the parent's."""
        self.__init__()  # type: ignore[misc]

    def _ask_again(self, asked: Mapping[str, Any], seconds: float) -> Filled:
        """A process that was killed under a template is no fault of the template."""
        try:
            return self._ask(asked, seconds)
        except _KilledError:
            try:
                return self._ask(asked, seconds)
            except _KilledError:
                raise _StoppedError("its process was killed") from None

    def _ask(self, asked: Mapping[str, Any], seconds: float) -> Filled:
        names = list(asked["templates"])
        process = self._started()
        try:
            assert process.stdin is not None  # noqa: S101  it was started with pipes
            process.stdin.write(json.dumps(asked).encode() + b"\n")
            process.stdin.flush()
            answer = json.loads(self._line(process, seconds))
        except BrokenPipeError:
            raise self._stopped() from None
        except ValueError:
            raise self._stopped("gives no answer") from None
        if "" in answer["errors"]:
            raise self._stopped(answer["errors"][""][1])
        faults = {name: Fault(*answer["errors"][name]) for name in names if name in answer["errors"]}
        return Filled(answer["texts"], faults)

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is not None and self._process.poll() is None:
            return self._process
        self.stop()
        self._process = subprocess.Popen(
            [sys.executable, "-E", "-P", "-X", "utf8", PROGRAM],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd="/", env={},
        )  # fmt: skip
        self._line(self._process, START_S)
        return self._process

    def _line(self, process: subprocess.Popen[bytes], seconds: float) -> bytes:
        """What it says next. On a machine that leaves it no processor it gets more time, but no more work."""
        assert process.stdout is not None  # noqa: S101  it was started with pipes
        descriptor = process.stdout.fileno()
        poll, found = select.poll(), bytearray()
        poll.register(descriptor, select.POLLIN)
        deadline, worked, patience = time.monotonic() + seconds, _worked_s(process), MAX_STARVED
        while not found.endswith(b"\n"):
            left = deadline - time.monotonic()
            if left <= 0 or not poll.poll(left * 1000):
                if patience == 0 or _worked_s(process) - worked > seconds / 2:
                    raise self._stopped(STOPPED)
                deadline, patience = deadline + seconds, patience - 1
                continue
            piece = os.read(descriptor, 1 << 16)
            if not piece:
                raise self._stopped()
            found += piece
        return bytes(found)

    def _stopped(self, why: str = "") -> Exception:
        """Why it ended, which it knows itself if nothing is given."""
        code = self._process.wait() if self._process is not None and not why else None
        self.stop()
        if code in FROM_OUTSIDE:
            return _KilledError()
        return _StoppedError(why or _ENDED.get(code or 0, f"ended its process ({code})"))


def _worked_s(process: subprocess.Popen[bytes]) -> float:
    """Seconds of the processor that it has had."""
    try:
        times = psutil.Process(process.pid).cpu_times()
    except psutil.Error:
        return 0.0
    return float(times.user + times.system)


def _all(templates: Mapping[str, str], message: str) -> Filled:
    return Filled({}, {name: Fault(None, message) for name in templates})


def _plain(facts: Mapping[str, Any]) -> dict[str, Any]:
    """As JSON has it; facts are texts and lists of texts already."""
    return {str(name): value for name, value in facts.items()}


_SANDBOX = Sandbox()
os.register_at_fork(after_in_child=_SANDBOX.forget)
atexit.register(_SANDBOX.stop)
