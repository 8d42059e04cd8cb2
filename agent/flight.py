"""PyTorch's flight recorder: which collectives a rank called last, read from the file that was dumped.

NCCL's watchdog writes one file a rank when it times out, or when it is told to
(`TORCH_FR_DUMP_TEMP_FILE`, of old `TORCH_NCCL_DEBUG_INFO_TEMP_FILE`: a prefix before the rank). A program may
write it itself, for gloo as well: `torch._C._distributed_c10d._dump_fr_trace()` gives the same pickle, and
`_dump_fr_trace_json()` JSON, both with `TORCH_FR_BUFFER_SIZE` set.

What a training container wrote is never unpickled (agent/plainpickle.py).
"""

import contextlib
import json
import os
import re
import stat
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agent import plainpickle, proc
from agent.clock import utcnow

PREFIXES = ("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE")
USUAL_PREFIX = "/tmp/nccl_trace_rank_"  # noqa: S108  PyTorch's own default, which is only read
_MAX_BYTES = 16 << 20
_MAX_GROUPS, _MAX_RANKS, _MAX_NAME = 64, 4096, 200
_MAX_FILES = 4096
_NUMBERED = re.compile(r"(\d{1,7})(?:\.json|\.pkl|\.pickle)?$")
_TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")
_cache: dict[str, tuple[tuple[int, ...], list[dict[str, Any]]]] = {}


class NoDumpError(ValueError):
    """No dump of the recorder, or one that holds more than plain data."""


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
        if len(_cache) >= _MAX_GROUPS:
            _cache.clear()
        _cache[path] = old = (marks, groups(parse(content)))
    return old[1]


def of_folder(folder: Path) -> dict[int, list[dict[str, Any]]]:
    """Each rank's groups from the dumps in a folder; the number at the end of a file's name is its rank.

    Files that are no dumps are passed over.
    """
    found: dict[int, list[dict[str, Any]]] = {}
    for path in sorted(folder.iterdir())[:_MAX_FILES]:
        numbered = _NUMBERED.search(path.name)
        if numbered is None:
            continue
        with contextlib.suppress(OSError, NoDumpError):
            content, _ = _content(str(path), since=0.0)
            if content is not None:
                found[int(numbered[1])] = groups(parse(content))
    return found


def _content(path: str, since: float) -> tuple[bytes | None, tuple[int, ...]]:
    """A regular file whole, and what tells it from another; None if older, too large or anything else."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
    with os.fdopen(fd, "rb") as file:
        facts = os.fstat(fd)
        marks = (facts.st_dev, facts.st_ino, facts.st_mtime_ns, facts.st_size)
        if not stat.S_ISREG(facts.st_mode) or facts.st_size > _MAX_BYTES or facts.st_mtime < since:
            return None, marks
        return file.read(_MAX_BYTES), marks


def parse(content: bytes) -> Mapping[str, Any]:
    """A dump in either form.

    Raises:
        NoDumpError: it is neither.
    """
    try:
        read = json.loads(content) if content[:1] == b"{" else plainpickle.load(content)
    except (ValueError, RecursionError) as error:
        raise NoDumpError(f"no dump of PyTorch's flight recorder: {error}") from error
    if not isinstance(read, dict) or "entries" not in read:
        raise NoDumpError("no dump of PyTorch's flight recorder: it has no entries")
    return read


def groups(dump: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Of each process group: how far this rank is in it. Numbers count the group's collectives from 1.

    Returns:
        `[{"group", "ranks", "enqueued", "completed", "op", "sizes"}]`; `op` and `sizes` of the call that was
        enqueued last.
    """
    status, config = _dict(dump.get("pg_status")), _dict(dump.get("pg_config"))
    last: dict[str, Mapping[str, Any]] = {}
    for entry in _list(dump.get("entries")):
        one = _dict(entry)
        name = _first(one.get("process_group"))
        if name is not None and not one.get("is_p2p") and _number(one.get("collective_seq_id")) is not None:
            last[name] = one
    found = []
    named = [str(name) for name in status if _text(name) is not None]
    for name in list(dict.fromkeys([*named, *last]))[:_MAX_GROUPS]:
        told, call = _dict(status.get(name)), last.get(name, {})
        enqueued = _number(told.get("last_enqueued_collective"))
        if enqueued is None or enqueued < 0:
            enqueued = _number(call.get("collective_seq_id"))
        if enqueued is None:
            continue
        same = _number(call.get("collective_seq_id")) == enqueued
        found.append(
            {
                "group": name[:_MAX_NAME],
                "ranks": _ranks(config, name),
                "enqueued": enqueued,
                "completed": max(0, _number(told.get("last_completed_collective")) or 0),
                "op": (_text(call.get("profiling_name")) or "")[:_MAX_NAME] if same else "",
                "sizes": _sizes(call) if same else "",
            }
        )
    return found


def _sizes(call: Mapping[str, Any]) -> str:
    """`4x2,8`. Made of numbers alone: a list may hold itself, and be endless in words."""
    sizes = (_list(size)[:8] for size in _list(call.get("input_sizes"))[:32])
    return ",".join("x".join(str(_number(n)) for n in size) for size in sizes)[:_MAX_NAME]


def _ranks(config: Mapping[str, Any], name: str) -> list[int]:
    """`"ranks": "[0, 1]"`; the first group is called "0" by its entries and "" by its configuration."""
    told = _text(_dict(config.get(name) or (config.get("") if name == "0" else None)).get("ranks")) or ""
    return [int(one) for one in re.findall(r"\d{1,7}", told[: 8 * _MAX_RANKS])][:_MAX_RANKS]


def _dict(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> Sequence[Any]:
    return value if isinstance(value, list) else []


def _first(value: object) -> str | None:
    return _text(value[0]) if isinstance(value, (list, tuple)) and value else None


def _text(value: object) -> str | None:
    return str(value) if isinstance(value, str) or _number(value) is not None else None


def _number(value: object) -> int | None:
    """Some versions write numbers as texts."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value if abs(value) < 1 << 62 else None
    return int(value) if isinstance(value, str) and re.fullmatch(r"-?\d{1,18}", value) else None
