"""Follows a growing log file through rotation and truncation, with bounded reads and a bounded backlog."""

import contextlib
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent.lines import Line, Sieve, Splitter

MAX_BACKLOG = 64 << 20  # further behind than this, the middle is left out
KEPT = 1 << 20
CHUNK = 1 << 20
_PRINT = 64  # bytes before the offset that must still be there: a file may be emptied and grow back
_RETIRE_AFTER_S = 30.0  # a renamed file is followed on until its writer has been quiet for so long
_MAX_STREAMS = 4  # open at once when all are read
_MAX_UNSEEN = 32
_END = 8 << 10  # bytes of a file's end that are looked at before their turn
_PACKED = (".gz", ".xz", ".zst", ".bz2", ".lz4")


@dataclass(frozen=True)
class Position:
    """Where a reader stood. `offset`: the first line not yet seen whole; `read`: how far it had read, and
    `print` the bytes before that, by which a new reader knows the file again."""

    device: int
    inode: int
    offset: int
    read: int
    number: int | None
    print: str

    @classmethod
    def parse(cls, entry: dict[str, Any]) -> "Position | None":
        with contextlib.suppress(KeyError, TypeError, ValueError):
            number = entry["number"]
            return cls(
                int(entry["device"]),
                int(entry["inode"]),
                max(0, int(entry["offset"])),
                max(0, int(entry["read"])),
                None if number is None else int(number),
                str(entry["print"]),
            )
        return None


class Stream:
    """One open file."""

    def __init__(
        self, fd: int, position: Position | None = None, *, at_end: bool = False, sieve: Sieve | None = None
    ) -> None:
        self.fd = fd
        self._sieve = sieve
        facts = os.fstat(fd)
        self.identity = (facts.st_dev, facts.st_ino)
        self.offset = 0
        self.skipped = 0
        self.modified = facts.st_mtime
        self.size = facts.st_size
        self.quiet_since = 0.0
        self.splitter = Splitter(sieve=sieve)
        self._print = b""
        if position is not None and self._before(position.read).hex().endswith(position.print):
            self.offset = position.offset
            self.splitter = Splitter(position.number, sieve)
        elif at_end:
            self.offset = facts.st_size
            self.splitter.gap()
        self._print = self._before(self.offset)
        self._checked = 0

    def read(self, limit: int) -> list[Line]:
        """Lines that have ended since, of at most so many bytes."""
        facts = os.fstat(self.fd)
        found = self._after_truncation(facts)
        self.modified, self.size = facts.st_mtime, facts.st_size
        self._skip_backlog(facts.st_size)
        chunk = os.pread(self.fd, min(limit, CHUNK), self.offset) if facts.st_size > self.offset else b""
        if chunk.startswith(b"\0"):
            chunk = self._past_hole(chunk)
        self.offset += len(chunk)
        self._print = (self._print + chunk[-_PRINT:])[-_PRINT:]
        found += self.splitter.feed(chunk.lstrip(b"\0") if chunk.startswith(b"\0") else chunk)
        self.skipped += self.splitter.left_out
        self.splitter.left_out = 0
        return found

    @property
    def behind(self) -> bool:
        return self.size > self.offset

    def unread_end(self) -> list[str]:
        if not self.behind:
            return []
        start = max(self.offset, self.size - _END)
        splitter = Splitter()
        lines = splitter.feed(os.pread(self.fd, _END, start)) + splitter.rest()
        return [line.text for line in lines[start > self.offset :]]

    def position(self) -> Position:
        offset = self.offset - self.splitter.pending
        return Position(*self.identity, offset, self.offset, self.splitter.number, self._print.hex())

    def close(self) -> None:
        os.close(self.fd)

    def _before(self, offset: int) -> bytes:
        start = max(0, offset - _PRINT)
        return os.pread(self.fd, offset - start, start) if offset > start else b""

    def _after_truncation(self, facts: os.stat_result) -> list[Line]:
        """copytruncate and `> log`: start over, and let no half line hang on to the new ones."""
        changed, self._checked = facts.st_mtime_ns != self._checked, facts.st_mtime_ns
        if facts.st_size >= self.offset and not (changed and self._overwritten()):
            return []
        found = self.splitter.rest()
        self.splitter = Splitter(sieve=self._sieve)
        self.offset, self._print = 0, b""
        return found

    def _overwritten(self) -> bool:
        return bool(self._print) and not self._before(self.offset).endswith(self._print)

    def _skip_backlog(self, size: int) -> None:
        if size - self.offset <= MAX_BACKLOG:
            return
        self.skipped += size - KEPT - self.offset
        self.offset = size - KEPT
        self._print = self._before(self.offset)
        self.splitter.gap()

    def _past_hole(self, chunk: bytes) -> bytes:
        """A writer that goes on at its old offset after a truncation leaves a hole before its text."""
        with contextlib.suppress(OSError):
            data = os.lseek(self.fd, self.offset, os.SEEK_DATA)
            if data > self.offset:
                self.offset, self._print = data, b""
                return os.pread(self.fd, len(chunk), data)
        return chunk


def open_regular(path: Path) -> int | None:
    """A descriptor of a regular file, never waiting for a pipe's other end; None if it is none."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    if stat.S_ISREG(os.fstat(fd).st_mode):
        return fd
    os.close(fd)
    return None


class Follower:
    """All generations of one log path, oldest first. `at_end`: what stands there now is not read.
    `since`: rotated files written since then are read too, though no position of them is known. `sieve`: a
    Splitter's."""

    def __init__(
        self,
        path: Path,
        positions: list[Position] | None = None,
        *,
        at_end: bool = False,
        since: float | None = None,
        sieve: Sieve | None = None,
    ) -> None:
        self.path = path
        self._sieve = sieve
        self._since = since
        self._streams: list[Stream] = []
        self._at_end = at_end
        self._skipped = 0
        self._saved = positions or []
        if at_end:
            self._look()
            self._at_end = False  # what comes to stand there later is new

    def poll(self, limit: int, now: float) -> list[Line]:
        """New whole lines of at most so many bytes; `now` is any clock that only grows."""
        self._look()
        found: list[Line] = []
        for stream in self._streams:
            lines = stream.read(max(1, limit))
            limit -= CHUNK if stream.behind else 0
            if lines or stream.behind or not stream.quiet_since:
                stream.quiet_since = now
            found += lines
        self._retire(now, found)
        return found

    @property
    def behind(self) -> bool:
        return any(stream.behind for stream in self._streams)

    @property
    def modified(self) -> float | None:
        """When something was last written; None while nothing has been."""
        return max((stream.modified for stream in self._streams if stream.size), default=None)

    def unread_end(self) -> list[str]:
        """The last lines of the newest file, where reading has not come that far."""
        return self._streams[-1].unread_end() if self._streams else []

    def partial(self) -> str:
        """The newest line, if it has not ended."""
        return self._streams[-1].splitter.peek() if self._streams else ""

    def take_skipped(self) -> int:
        """Bytes left out since the last call."""
        for stream in self._streams:
            self._skipped += stream.skipped
            stream.skipped = 0
        skipped, self._skipped = self._skipped, 0
        return skipped

    def positions(self) -> list[Position]:
        return [stream.position() for stream in self._streams] or self._saved

    def close(self) -> None:
        for stream in self._streams:
            stream.close()
        self._streams = []

    def _look(self) -> None:
        """Open what has come to stand at the path, and what was rotated away unseen before it."""
        current = _identity(self.path)
        if current is not None and any(stream.identity == current for stream in self._streams):
            return
        paths = [*self._rotated_unseen(current), *([self.path] if current else [])]
        for path in paths:
            fd = open_regular(path)
            if fd is not None:
                self._streams.append(self._opened(fd))
                self._saved = self._saved if path != self.path else []

    def _opened(self, fd: int) -> Stream:
        facts = os.fstat(fd)
        saved = [
            place for place in self._saved if (place.device, place.inode) == (facts.st_dev, facts.st_ino)
        ]
        return Stream(fd, saved[0] if saved else None, at_end=self._at_end, sieve=self._sieve)

    def _rotated_unseen(self, current: tuple[int, int] | None) -> list[Path]:
        """Rotated siblings since what was followed last: saved by an earlier life, or newer than it."""
        known = {stream.identity for stream in self._streams} | {current}
        saved = {(place.device, place.inode) for place in self._saved}
        if not self._streams and self._since is None and not saved - known:
            return []
        siblings = sorted(
            (facts.st_mtime, path) for path, facts in self._siblings() if _key(facts) not in known
        )
        if not self._streams and saved - known:
            ours = [n for n, (_, path) in enumerate(siblings) if _identity(path) in saved]
            return [path for _, path in siblings[min(ours) :]][-_MAX_UNSEEN:] if ours else []
        after = self._streams[-1].modified if self._streams else self._since
        return [path for modified, path in siblings if after is not None and modified >= after][-_MAX_UNSEEN:]

    def _siblings(self) -> list[tuple[Path, os.stat_result]]:
        prefixes = (f"{self.path.name}.", f"{self.path.name}-")
        with contextlib.suppress(OSError):
            return [
                (path, path.stat())
                for path in self.path.parent.iterdir()
                if path.name.startswith(prefixes) and path.suffix not in _PACKED and path.is_file()
            ]
        return []

    def _retire(self, now: float, found: list[Line]) -> None:
        for stream in self._streams[:-1]:
            over = now - stream.quiet_since > _RETIRE_AFTER_S or len(self._streams) > _MAX_STREAMS
            if over and not stream.behind:
                found += stream.splitter.rest()
                self._skipped += stream.skipped
                stream.close()
                self._streams.remove(stream)


def _identity(path: Path) -> tuple[int, int] | None:
    with contextlib.suppress(OSError):
        return _key(path.stat())
    return None


def _key(facts: os.stat_result) -> tuple[int, int]:
    return facts.st_dev, facts.st_ino
