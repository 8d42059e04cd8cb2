"""Log files that lie on disk, as one case: opened, put into one order of time, given their sources."""

import gzip
import io
import os
import stat
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from datetime import datetime, timedelta, tzinfo
from pathlib import Path, PurePath
from typing import IO, Protocol, cast

from master.bundlelogs import Entry, LogFile, LogReader
from master.bundlenames import Named, named
from master.bundleread import Bundle, BundleError, Line, NodeWorld, read_seen, seen_of
from master.bundlestamps import Sort, shift
from master.casefile import Seen

_SAMPLE = 1 << 16
_TEXT = frozenset(b"\t\n\r\f\b\x1b\v")
MAX_FILES = 10_000
_NOTHING, _ALIKE = timedelta(0), timedelta(minutes=5)
_SOURCES = {"log": "stderr"}


class Stream(Protocol):
    """A file, or what gunzip makes of one."""

    def read(self, size: int, /) -> bytes: ...
    def peek(self, size: int, /) -> bytes: ...
    def close(self) -> None: ...


def read_logs(
    paths: Sequence[Path], note: Callable[[str], None] = lambda _: None, zone: tzinfo | None = None
) -> Bundle:
    """All log files that are given, and those in folders, as one case. `note` is told what is left out;
    `zone`: in which stamps without one may have been written."""
    files = [found for path in paths for found in _files_of(path)]
    read: list[LogFile] = []
    known: set[tuple[int, int]] = set()
    for path, name, is_given in files:
        identity = _identity(path)
        if identity in known:
            continue
        known.add(identity)
        if path.suffix in (".json", ".jsonl"):
            note(f"{path}: read as a log; to have it read as a bundle give it alone")
        if (log := _read(path, named(name), is_given=is_given, note=note)) is not None:
            read.append(log)
    if not read:
        raise BundleError(f"{paths[0]}: holds no text log; name the log files themselves")
    return together(read, zone)


def _files_of(path: Path) -> Iterator[tuple[Path, PurePath, bool]]:
    """Files, each with the part of its path that names its source, and whether it was named itself."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        raise BundleError(f"{path}: no such file or folder; check the path") from None
    except (OSError, ValueError) as error:
        raise BundleError(f"{path}: {_why(error)}") from None
    if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
        raise BundleError(f"{path}: is a device; give a log file")
    if not stat.S_ISDIR(mode):
        yield path, PurePath(path.name), True
        return
    found = [Path(folder, name) for folder, name in _walk(path)]
    if not found:
        raise BundleError(f"{path}: the folder holds no file; name the one that holds the logs")
    if len(found) > MAX_FILES:
        raise BundleError(f"{path}: more than {MAX_FILES} files; name the folder of one job's logs")
    for one in sorted(found):
        yield one, PurePath(path.name) / one.relative_to(path), False


def _walk(path: Path) -> Iterator[tuple[str, str]]:
    def refuse(error: OSError) -> None:
        raise BundleError(f"{error.filename}: {_why(error)}") from None

    count = 0
    for folder, _, names in os.walk(path, onerror=refuse):
        for name in names:
            if not name.startswith(".") and Path(folder, name).is_file():
                count += 1
                yield folder, name
                if count > MAX_FILES:
                    return


def _identity(path: Path) -> tuple[int, int]:
    try:
        found = path.stat()
    except OSError as error:
        raise BundleError(f"{path}: {_why(error)}") from None
    return found.st_dev, found.st_ino


def _read(path: Path, name: Named, *, is_given: bool, note: Callable[[str], None]) -> LogFile | None:
    """One file; None where it lay in a folder and is no text."""
    try:
        with closing(_opened(path)) as stream:
            sample = stream.peek(_SAMPLE)[:_SAMPLE]
            if _is_text(sample):
                return LogReader(str(path), name).read(stream)
    except (OSError, EOFError, zlib.error) as error:
        raise BundleError(f"{path}: {_why(error)}") from None
    if is_given:
        raise BundleError(f"{path}: is no text in UTF-8; give the log that was printed")
    note(f"{path}: left out, it is no text")
    return None


def _opened(path: Path) -> Stream:
    file = io.BufferedReader(io.FileIO(path), _SAMPLE)
    if file.peek(2)[:2] != b"\x1f\x8b":
        return file
    return _Unzipped(file)


class _Unzipped(gzip.GzipFile):
    """Closes the file below it as well."""

    def __init__(self, file: Stream) -> None:
        super().__init__(fileobj=cast(IO[bytes], file))
        self._below = file

    def close(self) -> None:
        super().close()
        self._below.close()


def _is_text(sample: bytes) -> bool:
    """Hardly any control characters; a log that was cut while open begins with zeros."""
    sample = sample.lstrip(b"\0")
    odd = sum(1 for byte in sample if byte < 32 and byte not in _TEXT)
    return odd * 50 <= len(sample)


def _why(error: Exception) -> str:
    if isinstance(error, PermissionError):
        return "permission denied; make it readable or leave it out"
    if isinstance(error, EOFError | zlib.error | gzip.BadGzipFile):
        return "its gzip data is damaged or cut short; unpack what can be saved and give that"
    return f"cannot be read ({getattr(error, 'strerror', None) or error})"


def together(logs: Sequence[LogFile], zone: tzinfo | None = None) -> Bundle:
    """One case out of all files."""
    away = _local(logs, zone)
    best = min(log.clock.sort for log in logs)
    ends = [log.clock.at - away.get(id(log), _NOTHING) for log in logs if log.clock.sort is best]
    end = max(ends)
    moved = {id(log): _moved(log, best, end) - away.get(id(log), _NOTHING) for log in logs}
    nodes = _nodes(logs)
    marks = [
        (at + moved[id(log)], step) for log in logs for sort, at, step in log.steps if sort is log.clock.sort
    ]
    seen = [
        one for log in logs for entry in log.entries if (one := _seen(entry, log, moved[id(log)])) is not None
    ]
    began = [
        log.began + moved[id(log)]
        for log in logs
        if log.began is not None and log.named.kind == "log" and log.clock.sort <= Sort.YEARLESS
    ]
    ordered = sorted(seen, key=lambda one: one.at)
    first = min([end, *began, *(one.at for one in ordered[:1])])
    return read_seen(
        ordered, sorted(marks, key=lambda mark: mark[0]), nodes, (first, end), addresses=_addresses(logs)
    )


def _local(logs: Sequence[LogFile], zone: tzinfo | None) -> dict[int, timedelta]:
    """Files in local time beside others that tell their zone: they seem to end just its offset later."""
    zoned = [log.clock.at for log in logs if log.clock.is_zoned]
    offset = zone.utcoffset(max(zoned)) if zone is not None and zoned else None
    if not offset:
        return {}
    plain = [log for log in logs if log.clock.sort is Sort.FULL and not log.clock.is_zoned]
    return {id(log): offset for log in plain if abs(log.clock.at - max(zoned) - offset) <= _ALIKE}


def _moved(log: LogFile, best: Sort, end: datetime) -> timedelta:
    return (
        timedelta(0)
        if log.clock.sort is best and best <= Sort.CLOCK
        else shift(log.clock.sort, log.clock.at, end)
    )


def _seen(entry: Entry, log: LogFile, moved: timedelta) -> Seen | None:
    at = (entry.at if entry.sort is log.clock.sort else log.began or log.clock.at) + moved
    rank = entry.rank if entry.kind in ("log", "agent") else None
    if rank is None and entry.kind == "log" and _is_one_rank(log):
        rank = 0
    source = _SOURCES.get(entry.kind, entry.kind)
    return seen_of(Line(at, _node(log), rank, source, entry.text, (log.file, entry.number)))


def _is_one_rank(log: LogFile) -> bool:
    """A log that names nobody counts as one rank's; what a node's or several ranks' log says without a name
    may be anybody's."""
    return log.named.kind == "log" and not log.named.node and not log.ranks - {0}


def _node(log: LogFile) -> str:
    """By the file's name, else by the one host that NCCL's lines in a rank's file name."""
    if log.named.node or log.named.rank is None:
        return log.named.node
    return next(iter(log.hosts)) if len(log.hosts) == 1 else ""


def _nodes(logs: Iterable[LogFile]) -> list[NodeWorld]:
    ranks: dict[str, set[int]] = {}
    for log in logs:
        found = ranks.setdefault(_node(log), set())
        if log.named.rank is not None:
            found.add(log.named.rank)
        elif log.ranks - {0}:  # all ranks of one log: who is silent in it was there as well
            found |= (
                set(range(max(log.ranks) + 1)) if not log.named.node and len(log.ranks) > 1 else log.ranks
            )
        elif _is_one_rank(log):
            found.add(0)
    elsewhere = {rank for node, found in ranks.items() if node for rank in found}
    if "" in ranks:
        ranks[""] -= elsewhere
    return [(node, "", tuple(sorted(found))) for node, found in sorted(ranks.items())]


def _addresses(logs: Iterable[LogFile]) -> dict[str, str]:
    """How lines may call a node: by its host's name or address."""
    known: dict[str, str] = {}
    for log in logs:
        node = _node(log)
        if not node:
            continue
        for name in (f"node-{node}", f"node{node}", f"node_{node}"):
            known.setdefault(name, node)
        if len(log.hosts) == 1:
            for host, address in log.hosts.items():
                known.setdefault(host, node)
                known.setdefault(address, node)
    return known
