"""How a training process ended: the kernel's word, else the supervisor's, else torchelastic's."""

import contextlib
import fcntl
import json
import os
import re
import struct
from dataclasses import dataclass, field
from datetime import datetime

from agent import proc
from agent.clock import rfc3339, utcnow

# pidfd_info of linux/pidfd.h (6.15): mask, cgroupid, thirteen 32-bit ids, exit_code; 64 bytes at first
_GET_INFO = 0xC040FF0B
_INFO_SIZE = 64
_INFO_EXIT = 1 << 3
_EXIT_CODE_AT = 60

# torch/distributed/elastic/multiprocessing/api.py and errors/__init__.py
_FAILED = re.compile(r"failed \(exitcode: (-?\d{1,6})\) local_rank: (\d{1,6}) \(pid: (\d{1,9})\)")


@dataclass(frozen=True)
class Exit:
    """An exit code or a signal; neither where nobody could tell. `at`: where the supervisor says when."""

    code: int | None = None
    signal: int | None = None
    at: str | None = field(default=None, compare=False)

    @property
    def known(self) -> bool:
        return self.code is not None or self.signal is not None


@dataclass(frozen=True)
class Failure:
    """What torchelastic said of a worker."""

    pid: int
    local_rank: int
    exit: Exit


def from_wait_status(status: int) -> Exit:
    """The kernel's encoding: the signal in the low seven bits, else the code in the next byte."""
    signal = status & 0x7F
    return Exit(signal=signal) if signal else Exit(code=status >> 8 & 0xFF)


def from_returncode(code: int) -> Exit:
    """Python's convention: a signal is negative."""
    return Exit(signal=-code) if code < 0 else Exit(code=code)


def torchelastic_failure(line: str) -> Failure | None:
    match = _FAILED.search(line)
    if match is None:
        return None
    code, local, pid = (int(part) for part in match.groups())
    return Failure(pid, local, from_returncode(code))


def supervised(line: str) -> tuple[int, Exit] | None:
    """One line of exits.jsonl, or None if it is none."""
    try:
        entry = json.loads(line)
        pid, code, signal, at = entry["pid"], entry.get("exit_code"), entry.get("signal"), entry.get("at")
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
    if not all(part is None or (isinstance(part, int) and abs(part) < 2**31) for part in (code, signal)):
        return None
    if not isinstance(pid, int):
        return None
    return pid, Exit(None if signal else code, signal or None, _moment(at))


def _moment(text: object) -> str | None:
    """A time with its zone, by this machine's clock; one that is none or has not come yet says nothing."""
    with contextlib.suppress(TypeError, ValueError):
        moment = datetime.fromisoformat(str(text))
        if moment.tzinfo is not None and moment <= utcnow():
            return rfc3339(moment)
    return None


class Watched:
    """A live process and the descriptor that becomes readable when it ends (None on kernels without)."""

    def __init__(self, pid: int, start: int) -> None:
        self.pid = pid
        self.start = start
        self.fd: int | None = None
        with contextlib.suppress(OSError):
            self.fd = os.pidfd_open(pid)
        now = proc.stat(pid)
        if now is None or now.start != start:
            self.close()  # the pid may be another's by now

    def ended(self) -> bool:
        """Whether it is over, asked of /proc: also true where the pid belongs to another by now."""
        now = proc.stat(self.pid)
        return now is None or now.start != self.start or (now.state in "ZX" and self._sole())

    def alive(self) -> bool:
        """Whether it runs still. A zombie leader whose threads are being ended is neither alive nor over."""
        now = proc.stat(self.pid)
        return now is not None and now.start == self.start and now.state not in "ZX"

    def _sole(self) -> bool:
        """A zombie leader may stand before threads that still run; then the process is not over."""
        with contextlib.suppress(OSError):
            return len(os.listdir(f"/proc/{self.pid}/task")) <= 1  # noqa: PTH208  only the count matters
        return True

    def exit(self) -> Exit:
        """How it ended. While a zombie its stat line says so (to those who may trace it); once it has
        been reaped, the descriptor does."""
        now = proc.stat(self.pid)
        if now is not None and now.start == self.start and now.state in "ZX":
            status = now.exit_status
            if status or os.access(f"/proc/{self.pid}/io", os.R_OK):
                return from_wait_status(status)
        return self._from_descriptor()

    def _from_descriptor(self) -> Exit:
        if self.fd is None:
            return Exit()
        answer = bytearray(_INFO_SIZE)
        struct.pack_into("=Q", answer, 0, _INFO_EXIT)
        try:
            fcntl.ioctl(self.fd, _GET_INFO, answer)
        except OSError:
            return Exit()  # the kernel is older than 6.15
        (mask,) = struct.unpack_from("=Q", answer, 0)
        if not mask & _INFO_EXIT:
            return Exit()
        return from_wait_status(struct.unpack_from("=i", answer, _EXIT_CODE_AT)[0])

    def close(self) -> None:
        if self.fd is not None:
            os.close(self.fd)
            self.fd = None
