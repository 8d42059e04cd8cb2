"""File systems that a node needs: full, without inodes, read-only all of a sudden.

Full means that next to nothing is left: less than 1 % and less than 1 GiB for whoever is not root, or less
than 0.1 % of the inodes. Kubernetes evicts far earlier (10 % and 5 %) and tells so itself, as DiskPressure;
what is meant here is that training's writes fail (ENOSPC, EROFS).
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from agent.findings import Condition, Finding

_GIB = 1 << 30


@dataclass(frozen=True)
class Room:
    """One file system. Bytes and inodes that are free for whoever is not root."""

    read_only: bool
    size: int
    free: int
    inodes: int
    inodes_free: int

    @property
    def full(self) -> str:
        """What there is none of any more, or ""."""
        if self.size and self.free < min(_GIB, self.size // 100):
            return f"{self.free >> 20} MiB of {self.size >> 30} GiB left"
        if self.inodes and self.inodes_free < self.inodes // 1000:
            return f"{self.inodes_free} of {self.inodes} inodes left"
        return ""


def read_room(path: Path) -> Room | None:
    """None where it is gone or does not answer as a file system does."""
    try:
        told = os.statvfs(path)
    except OSError:
        return None
    return Room(
        read_only=bool(told.f_flag & os.ST_RDONLY),
        size=told.f_blocks * told.f_frsize,
        free=told.f_bavail * told.f_frsize,
        inodes=told.f_files,
        inodes_free=told.f_favail,
    )


def look(before: Mapping[str, Room], after: Mapping[str, Room]) -> list[Finding]:
    """What went wrong between the two; by path."""
    found: list[Finding] = []
    for path, now in after.items():
        was = before.get(path)
        if was is None:
            continue
        if now.read_only and not was.read_only:
            found.append(_finding("disk.read_only", path, "has become read-only"))
        if now.full and not was.full:
            found.append(_finding("disk.full", path, f"is full: {now.full}"))
    return found


@dataclass
class DiskProbe:
    """Looks again and again."""

    paths: Sequence[Path]
    room: Callable[[Path], Room | None] = read_room
    was_writable: frozenset[str] = frozenset()
    _before: dict[str, Room] = field(default_factory=dict)

    def look(self) -> tuple[list[Finding], list[Condition]]:
        """What is new, and what stands. One that was read-only from the start is meant to be so."""
        after = {str(path): room for path in self.paths if (room := self.room(path)) is not None}
        found, self._before = look(self._before, after), after
        self.was_writable |= {path for path, room in after.items() if not room.read_only}
        stand: list[Condition] = []
        for path, room in after.items():
            if room.read_only and path in self.was_writable:
                stand.append(
                    Condition("disk_read_only", path, "error", f"the file system of {path} is read-only")
                )
            elif room.full:
                stand.append(
                    Condition("disk_full", path, "error", f"the file system of {path} is full: {room.full}")
                )
        return found, stand


def _finding(signature: str, path: str, text: str) -> Finding:
    return Finding(signature, f"file system of {path} {text}", {"path": path})
