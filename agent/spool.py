"""Reports on disk while the master is away: append-only segments, read back in order, bounded in size.

One line a report: its class (`H` heartbeats only, `R` ordinary, `U` urgent), a blank, its JSON. A life of
the agent never appends to another's segment, so a line torn by a crash is the last of its file: passed over.
"""

import contextlib
import os
from collections import Counter, deque
from dataclasses import dataclass
from pathlib import Path

LIMIT = 64 << 20
SEGMENT = 1 << 20
HEARTBEAT, ORDINARY, URGENT = b"H", b"R", b"U"
_COMPACTED = "-c"


@dataclass
class _Segment:
    path: Path
    size: int

    @property
    def compacted(self) -> bool:
        return self.path.stem.endswith(_COMPACTED)


class Spool:
    """First in, first out. `dropped` counts the reports given up, by class, until it is taken."""

    def __init__(self, directory: Path, limit: int = LIMIT, segment: int = SEGMENT) -> None:
        self._directory = directory
        self._limit = limit
        self._segment = segment
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        paths = sorted(path for path in directory.iterdir() if path.suffix == ".reports")
        self._segments = deque(_Segment(path, path.stat().st_size) for path in paths)
        self._next = int(paths[-1].stem.removesuffix(_COMPACTED)) + 1 if paths else 1
        self._writing: int | None = None
        self._reading: int | None = None
        self._offset = self._acknowledged()
        self._peeked: bytes | None = None
        self._dropped: Counter[str] = Counter()
        self._unsynced = False

    @property
    def size(self) -> int:
        return sum(segment.size for segment in self._segments)

    def append(self, kind: bytes, report: bytes) -> None:
        """Keep one report (no newline in it); OSError when the disk takes no more."""
        line = kind + b" " + report + b"\n"
        if self._writing is None or self._segments[-1].size + len(line) > self._segment:
            self._open_segment()
        segment = self._segments[-1]
        assert self._writing is not None  # noqa: S101  _open_segment has set it or raised
        if os.write(self._writing, line) != len(line):
            os.ftruncate(self._writing, segment.size)
            raise OSError("no space left for reports")
        segment.size += len(line)
        self._unsynced = True
        if self.size > self._limit:
            self._make_room()

    def peek(self) -> bytes | None:
        """The oldest report, None when there is none."""
        while self._peeked is None and self._segments:
            line = self._next_line()
            if line is None:
                self._drop_first()
                continue
            if _is_whole(line):
                self._peeked = line
            else:
                self._offset += len(line)
        return self._peeked[2:-1] if self._peeked else None

    def done(self) -> None:
        """The report last peeked at is the master's now."""
        if self._peeked is None:
            return
        self._offset += len(self._peeked)
        self._peeked = None
        if self._offset >= self._segments[0].size:
            self._drop_first()
        else:
            self._acknowledge()

    def unsynced(self) -> int | None:
        """A descriptor to sync and close, so that what was appended outlives the machine; else None."""
        if not self._unsynced or self._writing is None:
            return None
        self._unsynced = False
        return os.dup(self._writing)

    def take_dropped(self) -> dict[str, int]:
        taken, self._dropped = dict(self._dropped), Counter()
        return taken

    def close(self) -> None:
        for fd in (self._writing, self._reading):
            if fd is not None:
                os.close(fd)
        self._writing = self._reading = None

    def _open_segment(self) -> None:
        path = self._directory / f"{self._next:016d}.reports"
        fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        if self._writing is not None:
            os.close(self._writing)
        self._writing = fd
        self._next += 1
        self._segments.append(_Segment(path, 0))

    def _next_line(self) -> bytes | None:
        """The line at the offset, whole or torn; None at the segment's end."""
        if self._reading is None:
            with contextlib.suppress(OSError):
                self._reading = os.open(self._segments[0].path, os.O_RDONLY | os.O_CLOEXEC)
        if self._reading is None:
            return None
        parts: list[bytes] = []
        at = self._offset
        while chunk := os.pread(self._reading, 64 << 10, at):
            end = chunk.find(b"\n")
            if end >= 0:
                return b"".join(parts) + chunk[: end + 1]
            parts.append(chunk)
            at += len(chunk)
        return b"".join(parts) or None

    def _drop_first(self) -> None:
        """The first segment is read to its end, or gone."""
        segment = self._segments.popleft()
        if self._reading is not None:
            os.close(self._reading)
            self._reading = None
        if not self._segments and self._writing is not None:
            os.close(self._writing)
            self._writing = None
        (self._directory / "read").unlink(missing_ok=True)  # before the segment: its name may be used again
        segment.path.unlink(missing_ok=True)
        self._offset = 0

    def _acknowledged(self) -> int:
        """How far the first segment was read in an earlier life."""
        with contextlib.suppress(OSError, ValueError):
            name, offset = (self._directory / "read").read_text(encoding="ascii").split()
            if self._segments and name == self._segments[0].path.name:
                return min(int(offset), self._segments[0].size)
        return 0

    def _acknowledge(self) -> None:
        with contextlib.suppress(OSError):
            note = f"{self._segments[0].path.name} {self._offset}"
            draft = self._directory / "read.new"
            draft.write_text(note, encoding="ascii")
            draft.replace(self._directory / "read")

    def _make_room(self) -> None:
        """Heartbeats go first, oldest segment first; then whole segments, the oldest first."""
        for n, segment in enumerate(list(self._segments)[:-1]):
            if self.size <= self._limit:
                return
            if not segment.compacted:
                self._compact(n)
        while self.size > self._limit and len(self._segments) > 1:
            self._give_up_first()

    def _compact(self, n: int) -> None:
        segment = self._segments[n]
        content = segment.path.read_bytes()[self._offset if n == 0 else 0 :]
        lines = [line for line in content.splitlines(keepends=True) if _is_whole(line)]
        kept = [line for line in lines if line[:1] != HEARTBEAT]
        path = segment.path.with_name(segment.path.stem + _COMPACTED + segment.path.suffix)
        path.write_bytes(b"".join(kept))
        path.chmod(0o600)
        segment.path.unlink()
        if len(kept) < len(lines):
            self._dropped["heartbeats"] += len(lines) - len(kept)
        self._segments[n] = _Segment(path, sum(map(len, kept)))
        if n == 0:
            self._rewind()

    def _give_up_first(self) -> None:
        content = self._segments[0].path.read_bytes()[self._offset :]
        self._dropped["reports"] += sum(map(_is_whole, content.splitlines(keepends=True)))
        self._drop_first()
        self._rewind()

    def _rewind(self) -> None:
        """The first segment is another file: what was peeked at may be gone or stand elsewhere."""
        if self._reading is not None:
            os.close(self._reading)
            self._reading = None
        self._offset, self._peeked = 0, None


def _is_whole(line: bytes) -> bool:
    return line[1:2] == b" " and line[:1] in (HEARTBEAT, ORDINARY, URGENT) and line.endswith(b"}\n")
