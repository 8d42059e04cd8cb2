"""The files in a tar archive, read once from its beginning to its end and never written anywhere."""

import re
import tarfile
from collections.abc import Iterator
from pathlib import PurePath
from typing import IO, Protocol, cast

_ARCHIVE = re.compile(r"(?i)\.(?:tar|tar\.gz|tgz)$")
_MOST = 1 << 22  # read at once: more is no log's block but a header that is to fill the memory
_STEP = 1 << 18


class Readable(Protocol):
    """What an archive is read from."""

    def read(self, size: int, /) -> bytes: ...


def is_archive(name: str) -> bool:
    """By its name alone: a log that was cut while open begins with zeros, as an empty archive does."""
    return _ARCHIVE.search(name) is not None


def members(file: Readable, most: int) -> Iterator[tuple[PurePath, float, IO[bytes]]]:
    """Each regular file's path, when it was written (seconds since 1970) and its content, which is to be read
    before the next one is asked for.

    Raises:
        tarfile.TarError: it is no such archive, is damaged or holds more than `most` files.
    """
    count = 0
    try:
        with tarfile.TarFile(fileobj=cast(IO[bytes], _Forward(file))) as archive:
            for member in archive:
                path = PurePath(*(part for part in PurePath(member.name).parts if part not in ("/", "..")))
                if not member.isreg() or member.issparse() or not path.name or path.name.startswith("."):
                    continue
                count += 1
                if count > most:
                    raise tarfile.ReadError(f"more than {most} files")
                content = archive.extractfile(member)
                if content is not None and not is_archive(path.name):
                    yield path, float(member.mtime), content
    except RecursionError:
        raise tarfile.ReadError("headers without end") from None


class _Forward:
    """Goes forward only, whatever places and lengths an archive's headers name."""

    def __init__(self, file: Readable) -> None:
        self._file, self._at = file, 0

    def read(self, size: int) -> bytes:
        if not 0 <= size <= _MOST:
            raise tarfile.ReadError(f"a header of more than {_MOST >> 20} MiB")
        found = self._file.read(size)
        self._at += len(found)
        return found

    def seek(self, to: int, _whence: int = 0) -> int:
        if to < self._at:
            raise tarfile.ReadError("a header that leads back")
        while self._at < to and self.read(min(_STEP, to - self._at)):
            pass
        return self._at

    def tell(self) -> int:
        return self._at

    def seekable(self) -> bool:
        return True
