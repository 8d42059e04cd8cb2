"""Processes that the kernel killed for want of memory, by the counters of their control groups.

cgroup v2: `memory.events` (Linux, admin-guide/cgroup-v2: `oom_kill` counts processes of the group killed by
any OOM killer, groups below included); v1: `oom_kill` in `memory.oom_control`, of the group alone. The kernel
counts before it kills, so whoever has seen the end sees the count.
"""

import contextlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from agent import proc
from agent.findings import Finding

KILLED = "memory.killed_in_cgroup"
MOUNT = Path("/sys/fs/cgroup")
_SMALL = 4096
_MAX_GROUPS = 256
_MAX_PROCS = 4096


@dataclass(frozen=True)
class Memory:
    """A control group's counters. `path`: as people know it; `folder`: where its files lie."""

    path: str
    folder: Path
    oom_kill: int
    pressure: str = ""  # v2: share of the last 10 s in which all of it waited for memory, in percent


@dataclass(frozen=True)
class Growth:
    """Since the last look."""

    memory: Memory
    killed: int

    def finding(self, **captured: str) -> Finding:
        many = "1 process" if self.killed == 1 else f"{self.killed} processes"
        line = f"memory cgroup {self.memory.path}: {many} killed for want of memory"
        line += f" (memory pressure {self.memory.pressure} %)" if self.memory.pressure else ""
        return Finding(KILLED, line, {"cgroup": self.memory.path} | captured)


def group_of(text: bytes) -> str | None:
    """The memory controller's group by a process's /proc/<pid>/cgroup; None where there is none."""
    unified: str | None = None
    for line in text.decode("utf-8", "replace").splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if "memory" in controllers.split(","):
            return path
        if number == "0" and not controllers:
            unified = path
    return unified


def folder_of(pid: int, mount: Path = MOUNT) -> tuple[str, Path] | None:
    """Where a process's memory counters lie, here or in its own container's view of /sys."""
    path = group_of(proc.read(f"/proc/{pid}/cgroup") or b"")
    if path is None:
        return None
    own = Path(f"/proc/{pid}/root") / mount.relative_to("/")
    inner = path.lstrip("/")
    if ".." not in Path(inner).parts:
        for folder in (mount / "memory" / inner, mount / inner):
            if _oom_kill(folder) is not None:
                return path, folder
    # A container of the same pod: its own root of control groups, through its root directory.
    for folder in (own / "memory", own):
        if _oom_kill(folder) is not None:
            return path, folder
    return None


def read(path: str, folder: Path) -> Memory | None:
    """The group's counters; None once it is gone."""
    count = _oom_kill(folder)
    return None if count is None else Memory(path, folder, count, _pressure(folder))


@dataclass
class Groups:
    """The control groups under watch, by their paths."""

    _known: dict[str, Memory] = field(default_factory=dict)

    def watch(self, path: str, folder: Path) -> None:
        """From now on; what was counted before is not ours."""
        if path not in self._known and len(self._known) < _MAX_GROUPS and (now := read(path, folder)):
            self._known[path] = now

    def keep(self, paths: Iterable[str]) -> None:
        """Forget all others."""
        wanted = frozenset(paths)
        self._known = {path: known for path, known in self._known.items() if path in wanted}

    def look(self) -> list[Growth]:
        """Which counted more since the last look."""
        found: list[Growth] = []
        for path, was in list(self._known.items()):
            now = read(path, was.folder)
            if now is None:
                del self._known[path]
                continue
            self._known[path] = now
            if now.oom_kill > was.oom_kill:
                found.append(Growth(now, now.oom_kill - was.oom_kill))
        return found


def holds_only(folder: Path, members: Iterable[int]) -> bool:
    """Whether no process but those is in the group: then whoever was killed in it was one of them."""
    with contextlib.suppress(OSError, ValueError), (folder / "cgroup.procs").open() as file:
        pids = [int(line) for line in file.read(_SMALL * 16).split()]
        return len(pids) < _MAX_PROCS and frozenset(pids) <= frozenset(members)
    return False


def _oom_kill(folder: Path) -> int | None:
    for name in ("memory.events", "memory.oom_control"):
        for line in _lines(folder / name):
            if line[0] == "oom_kill" and len(line) == 2 and line[1].isdecimal():
                return int(line[1])
    return None


def _pressure(folder: Path) -> str:
    """`full avg10=12.34 …` of memory.pressure (Linux, accounting/psi)."""
    for line in _lines(folder / "memory.pressure"):
        averages: Mapping[str, str] = dict(part.split("=", 1) for part in line[1:] if "=" in part)
        if line[0] == "full" and averages.get("avg10", "0.00") != "0.00":
            return averages["avg10"]
    return ""


def _lines(path: Path) -> list[list[str]]:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return []
    try:
        text = os.read(fd, _SMALL).decode("ascii", "replace")
    except OSError:
        return []
    finally:
        os.close(fd)
    return [parts for line in text.splitlines() if (parts := line.split())]
