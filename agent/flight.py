"""PyTorch's flight recorder: which collectives a rank called last, by the dump that it wrote.

NCCL's watchdog dumps one file a rank when it times out or is told to. A program may do so itself, for gloo as
well: `torch._C._distributed_c10d._dump_fr_trace()` gives the same pickle, and `_dump_fr_trace_json()` JSON,
both with `TORCH_FR_BUFFER_SIZE` set.

What a training container wrote is never unpickled (agent/plainpickle.py).
"""

import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from agent import plainpickle

MAX_BYTES = 16 << 20  # of one dump
_MAX_GROUPS, _MAX_CALLS, _MAX_RANKS, _MAX_NAME = 64, 4, 4096, 200
_LATEST = 7_258_118_400  # the year 2200: what is beyond is no moment


class NoDumpError(ValueError):
    """No dump of the recorder, or one that holds more than plain data."""


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


def newest(dump: Mapping[str, Any]) -> datetime | None:
    """When its last call was made, by the rank's own clock; None where that is not told."""
    calls = (_number(_dict(entry).get("time_created_ns")) for entry in _list(dump.get("entries")))
    last = max((at for at in calls if at is not None and at > 0), default=None)
    return None if last is None else datetime.fromtimestamp(min(last / 1e9, _LATEST), UTC)


def groups(dump: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Of each process group: how far this rank is in it. Numbers count the group's collectives from 1.

    Returns:
        `[{"group", "ranks", "enqueued", "completed", "calls": [{"number", "op", "sizes"}]}]`; `calls` are the
        first ones that were not completed: a host runs ahead of its device, so the last one tells little.
    """
    status, config = _dict(dump.get("pg_status")), _dict(dump.get("pg_config"))
    made: dict[str, dict[int, Mapping[str, Any]]] = {}
    for entry in _list(dump.get("entries")):
        one = _dict(entry)
        name, number = _first(one.get("process_group")), _number(one.get("collective_seq_id"))
        if name is not None and number is not None and not one.get("is_p2p"):
            made.setdefault(name, {})[number] = one
    found = []
    named = [str(name) for name in status if _text(name) is not None]
    for name in list(dict.fromkeys([*named, *made]))[:_MAX_GROUPS]:
        told, calls = _dict(status.get(name)), made.get(name, {})
        enqueued = _number(told.get("last_enqueued_collective"))
        if enqueued is None or enqueued < 0:
            enqueued = max(calls, default=None)
        if enqueued is None:
            continue
        completed = max(0, _number(told.get("last_completed_collective")) or 0)
        waiting = sorted(number for number in calls if completed < number <= enqueued)[:_MAX_CALLS]
        found.append(
            {
                "group": name[:_MAX_NAME],
                "ranks": _ranks(config, name),
                "enqueued": enqueued,
                "completed": completed,
                "calls": [{"number": number, **_call(calls[number])} for number in waiting],
            }
        )
    return found


def _call(entry: Mapping[str, Any]) -> dict[str, str]:
    return {"op": (_text(entry.get("profiling_name")) or "")[:_MAX_NAME], "sizes": _sizes(entry)}


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
    if isinstance(value, str) and re.fullmatch(r"-?\d{1,19}", value):
        value = int(value)
    return value if isinstance(value, int) and abs(value) < 1 << 62 else None
