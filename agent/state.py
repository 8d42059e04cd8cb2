"""What one life of the agent leaves to the next: in one small file, replaced whole."""

import contextlib
import fcntl
import json
import os
from pathlib import Path
from typing import Any

_MAX = 4 << 20


class AlreadyWatchedError(RuntimeError):
    """Another agent watches this directory."""


class Memory:
    """A JSON object on disk. A damaged or foreign file counts as none: watching starts anew."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._written = ""

    def load(self) -> dict[str, Any]:
        with contextlib.suppress(OSError, ValueError, RecursionError):
            if self._path.stat().st_size <= _MAX:
                document = json.loads(self._path.read_text(encoding="utf-8"))
                return document if isinstance(document, dict) else {}
        return {}

    def save(self, document: dict[str, Any]) -> None:
        """Write it if it has changed; a full disk costs repetition after a restart, nothing else."""
        text = json.dumps(document, sort_keys=True)
        if text == self._written:
            return
        with contextlib.suppress(OSError):
            draft = self._path.with_name(self._path.name + ".new")
            draft.write_text(text, encoding="utf-8")
            draft.chmod(0o600)
            draft.replace(self._path)
            self._written = text


def lock(path: Path) -> int:
    """The right to watch this directory, held while this process lives; else AlreadyWatchedError."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        raise AlreadyWatchedError(f"another agent already watches {path.parent}") from None
    return fd


def dicts(value: object) -> list[dict[str, Any]]:
    """The JSON objects in what should be a list of them."""
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []
