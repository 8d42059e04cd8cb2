"""What /proc tells of processes. Reading only: nothing here ever signals or stops one."""

import contextlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

_EXIT_CODE = 52 - 3  # proc(5) numbers fields from 1; what follows the name starts at field 3
_ENVIRON_MAX = 256 * 1024
_CMDLINE_MAX = 8 * 1024
_FORGET_FOREIGN = 60  # scans after which processes known to be no part of the pod are looked at again


@dataclass(frozen=True, slots=True)
class Proc:
    """One line of /proc/<pid>/stat. `start` (clock ticks since boot) tells a reused pid apart;
    `ticks` counts the process's own time and that of its children that were waited for."""

    pid: int
    ppid: int
    start: int
    state: str
    comm: str
    ticks: int
    exit_status: int = 0


def parse_stat(text: bytes) -> Proc | None:
    """The parts of a stat line, or None if it is not one. The name may hold blanks and brackets."""
    head, _, rest = text.rpartition(b")")
    pid, _, comm = head.partition(b" (")
    fields = rest.split()
    try:
        return Proc(
            pid=int(pid),
            ppid=int(fields[1]),
            start=int(fields[19]),
            state=fields[0].decode("ascii"),
            comm=comm.decode("utf-8", "replace"),
            ticks=sum(int(part) for part in fields[11:15]),
            exit_status=int(fields[_EXIT_CODE]) if len(fields) > _EXIT_CODE else 0,
        )
    except (ValueError, IndexError):
        return None


def read(path: str, limit: int = 4096) -> bytes | None:
    """A small file of /proc whole; None when it is gone or not ours to read."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return os.read(fd, limit)
    except OSError:
        return None
    finally:
        os.close(fd)


def stat(pid: int) -> Proc | None:
    text = read(f"/proc/{pid}/stat")
    return parse_stat(text) if text else None


def environ(pid: int, names: Iterable[str]) -> dict[str, str]:
    """Those variables of a process's first environment. Others are not kept: they may be secrets."""
    wanted = frozenset(names)
    found: dict[str, str] = {}
    for entry in (read(f"/proc/{pid}/environ", _ENVIRON_MAX) or b"").split(b"\0"):
        name, _, value = entry.decode("utf-8", "replace").partition("=")
        if name in wanted:
            found[name] = value
    return found


def argv(pid: int) -> tuple[str, ...]:
    text = read(f"/proc/{pid}/cmdline", _CMDLINE_MAX) or b""
    return tuple(part.decode("utf-8", "replace") for part in text.rstrip(b"\0").split(b"\0")) if text else ()


def io_bytes(pid: int) -> int:
    """Bytes read and written by system calls, also to caches and network file systems."""
    return sum(_numbers(read(f"/proc/{pid}/io"), b"rchar:", b"wchar:"))


def voluntary_switches(pid: int) -> int:
    return sum(_numbers(read(f"/proc/{pid}/status"), b"voluntary_ctxt_switches:"))


def _numbers(text: bytes | None, *names: bytes) -> list[int]:
    lines = (text or b"").splitlines()
    return [int(line.split()[1]) for line in lines if line.startswith(names) and line.split()[1].isdigit()]


def open_file(pid: int, fd: int) -> Path | None:
    """The regular file behind a descriptor of a process, None if it is anything else."""
    with contextlib.suppress(OSError):
        target = Path(f"/proc/{pid}/fd/{fd}").readlink()
        if target.is_absolute() and target.is_file():
            return target
    return None


@dataclass
class Table:
    """The pod's processes: all that descend from a root, and stay so when their parents die.

    What was once seen to be no part of the pod cannot become one, so it is not read at each scan.
    """

    _members: dict[int, Proc] = field(default_factory=dict)
    _foreign: set[int] = field(default_factory=set)
    _scans: int = 0

    def scan(self, roots: frozenset[int], hidden: int) -> Mapping[int, Proc]:
        """The members now, roots included; `hidden` is the agent itself, left out with all it started."""
        self._scans += 1
        if self._scans % _FORGET_FOREIGN == 0:
            self._foreign.clear()
        pids = {int(name) for name in os.listdir("/proc") if name.isdigit()}  # noqa: PTH208  needs names only
        self._foreign &= pids
        fresh = {pid: found for pid in pids - self._foreign if (found := stat(pid))}
        known = {pid for pid, old in self._members.items() if pid in fresh and fresh[pid].start == old.start}
        verdicts = {0: False, 1: False} | dict.fromkeys(known | roots, True) | {hidden: False}
        self._members = {pid: found for pid, found in fresh.items() if _descends(pid, fresh, verdicts)}
        self._foreign |= fresh.keys() - self._members.keys()
        return self._members

    def forget(self) -> None:
        """The roots have changed: look at everything again."""
        self._members, self._foreign = {}, set()


def _descends(pid: int, table: Mapping[int, Proc], verdicts: dict[int, bool]) -> bool:
    """Whether a process descends from a root; fills in what it learns on the way."""
    path: list[int] = []
    while pid not in verdicts and pid in table and pid not in path:
        path.append(pid)
        pid = table[pid].ppid
    verdict = verdicts.get(pid, False)
    verdicts.update(dict.fromkeys(path, verdict))
    return verdict
