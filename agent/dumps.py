"""The flight recorder's dump of a process that is watched: which file it is, and that it is this run's."""

import contextlib
import os
import stat
import time
from typing import Any

from agent import proc
from agent.clock import utcnow
from agent.flight import MAX_BYTES, NoDumpError, groups, parse

PREFIXES = (
    "TORCH_FR_DUMP_TEMP_FILE",
    "TORCH_NCCL_DEBUG_INFO_TEMP_FILE",
)  # before the rank; the second of old
USUAL_PREFIX = "/tmp/nccl_trace_rank_"  # noqa: S108  PyTorch's own default, which is only read
_MAX_KNOWN = 64
_TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")
_cache: dict[str, tuple[tuple[int, ...], list[dict[str, Any]]]] = {}


def of_process(pid: int, rank: int) -> list[dict[str, Any]]:
    """What the dump of a rank's process tells of its groups; nothing if there is none.

    A file that is older than the process is another run's.
    """
    own = proc.stat(pid)
    if own is None:
        return []
    since = utcnow().timestamp() - time.clock_gettime(time.CLOCK_BOOTTIME) + own.start / _TICKS_A_SECOND
    told = proc.environ(pid, PREFIXES)
    for prefix in [*(told[name] for name in PREFIXES if told.get(name)), USUAL_PREFIX]:
        path = (
            f"/proc/{pid}/root{prefix}{rank}" if prefix.startswith("/") else f"/proc/{pid}/cwd/{prefix}{rank}"
        )
        with contextlib.suppress(OSError, NoDumpError):
            content, marks = _content(path, since)
            if content is not None:
                return _known(path, marks, content)
    return []


def _known(path: str, marks: tuple[int, ...], content: bytes) -> list[dict[str, Any]]:
    """A dump is asked for with every look and read but once."""
    old = _cache.get(path)
    if old is None or old[0] != marks:
        if len(_cache) >= _MAX_KNOWN:
            _cache.clear()
        _cache[path] = old = (marks, groups(parse(content)))
    return old[1]


def _content(path: str, since: float) -> tuple[bytes | None, tuple[int, ...]]:
    """A regular file whole, and what tells it from another; None if older, too large or anything else."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
    with os.fdopen(fd, "rb") as file:
        facts = os.fstat(fd)
        marks = (facts.st_dev, facts.st_ino, facts.st_mtime_ns, facts.st_size)
        if not stat.S_ISREG(facts.st_mode) or facts.st_size > MAX_BYTES or facts.st_mtime < since:
            return None, marks
        return file.read(MAX_BYTES), marks
