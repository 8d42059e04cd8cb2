"""Where what is read lies: in files that are named, in folders, in tar archives; packed by gzip or not."""

import gzip
import io
import os
import stat
import tarfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePath
from typing import IO, Protocol, cast

from master.bundleread import BundleError
from master.bundletar import is_archive, members

SAMPLE = 1 << 16
MAX_FILES = 10_000


class Stream(Protocol):
    """A file, or what gunzip makes of one."""

    def read(self, size: int, /) -> bytes: ...
    def peek(self, size: int, /) -> bytes: ...
    def close(self) -> None: ...


@dataclass(frozen=True)
class Found:
    """One file. `label`: as people read it. `name`: the part of its path that may name its source.
    `is_given`: it was named itself. `written`: seconds since 1970. `open`: its content, to be read before the
    next file is asked for."""

    label: str
    name: PurePath
    is_given: bool
    written: float
    open: Callable[[], Stream]


def files_of(path: Path, known: set[tuple[int, int]]) -> Iterator[Found]:
    """The files that a path means; `known` are those that were found before, by whatever name.

    Raises:
        BundleError: it cannot be read, is a device, an empty folder or one of too many files.
    """
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        raise BundleError(f"{path}: no such file or folder; check the path") from None
    except (OSError, ValueError) as error:
        raise BundleError(f"{path}: {why(error)}") from None
    if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
        raise BundleError(f"{path}: is a device; give a log file")
    is_folder = stat.S_ISDIR(mode)
    for one, name in _inside(path) if is_folder else [(path, PurePath(path.name))]:
        facts = _facts(one)
        if (facts.st_dev, facts.st_ino) not in known:
            known.add((facts.st_dev, facts.st_ino))
            yield from _unpacked(Found(str(one), name, not is_folder, facts.st_mtime, partial(_opened, one)))


def _inside(path: Path) -> Iterator[tuple[Path, PurePath]]:
    found = [Path(folder, name) for folder, name in _walk(path)]
    if not found:
        raise BundleError(f"{path}: the folder holds no file; name the one that holds the logs")
    if len(found) > MAX_FILES:
        raise BundleError(f"{path}: more than {MAX_FILES} files; name the folder of one job's logs")
    for one in sorted(found):
        yield one, PurePath(path.name) / one.relative_to(path)


def _walk(path: Path) -> Iterator[tuple[str, str]]:
    def refuse(error: OSError) -> None:
        raise BundleError(f"{error.filename}: {why(error)}") from None

    count = 0
    for folder, _, names in os.walk(path, onerror=refuse):
        for name in names:
            if not name.startswith(".") and Path(folder, name).is_file():
                count += 1
                yield folder, name
                if count > MAX_FILES:
                    return


def _facts(path: Path) -> os.stat_result:
    try:
        return path.stat()
    except OSError as error:
        raise BundleError(f"{path}: {why(error)}") from None


def _unpacked(found: Found) -> Iterator[Found]:
    """The file itself, or those that it holds as an archive."""
    if not is_archive(found.name.name):
        yield found
        return
    try:
        with closing(found.open()) as file:
            for inner, written, content in members(file, MAX_FILES):
                stream = partial(_plain, cast(Stream, content))
                yield Found(f"{found.label}/{inner}", found.name / inner, False, written, stream)
    except (tarfile.TarError, OSError, EOFError, zlib.error) as error:
        raise BundleError(f"{found.label}: {why(error)}") from None


def _opened(path: Path) -> Stream:
    return _plain(io.BufferedReader(io.FileIO(path), SAMPLE))


def _plain(file: Stream) -> Stream:
    return _Unzipped(file) if file.peek(2)[:2] == b"\x1f\x8b" else file


class _Unzipped(gzip.GzipFile):
    """Closes the file below it as well."""

    def __init__(self, file: Stream) -> None:
        super().__init__(fileobj=cast(IO[bytes], file))
        self._below = file

    def close(self) -> None:
        super().close()
        self._below.close()


def why(error: Exception) -> str:
    """What is wrong with a file, and the mend."""
    if isinstance(error, PermissionError):
        return "permission denied; make it readable or leave it out"
    if isinstance(error, tarfile.TarError):
        return f"no tar archive that can be read ({error}); unpack it and name the folder"
    if isinstance(error, EOFError | zlib.error | gzip.BadGzipFile):
        return "its gzip data is damaged or cut short; unpack what can be saved and give that"
    return f"cannot be read ({getattr(error, 'strerror', None) or error})"
