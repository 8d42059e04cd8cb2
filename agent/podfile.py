"""`pod.json`, by which the runtime tells the agent what to watch.

{"pid": the supervisor, "start": its start in clock ticks?, "main_pid", "log": a path or several, "progress":
path?, "rank": of the pod, "nproc": training processes in it, "patterns": [the job's own fault patterns]?}
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent.ranks import PodShape


class PodFileError(ValueError):
    """It is no pod's description; the text names the field."""


@dataclass(frozen=True)
class PodFile:
    """`start`: the supervisor's start in clock ticks, where the runtime says so."""

    shape: PodShape
    start: int | None
    logs: tuple[Path, ...]
    progress: Path | None
    patterns: tuple[str, ...] = ()


def parse(text: str, directory: Path) -> PodFile:
    """The description; relative paths are the pod directory's."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        raise PodFileError("pod.json is no JSON") from None
    if not isinstance(document, dict):
        raise PodFileError("pod.json is no JSON object")
    supervisor = _number(document, "pid")
    if supervisor is None:
        raise PodFileError("pod.json: pid is missing")
    shape = PodShape(
        rank=_number(document, "rank") or 0,
        nproc=max(1, _number(document, "nproc") or 1),
        main_pid=_number(document, "main_pid"),
        supervisor=supervisor,
    )
    logs = document.get("log") or []
    paths = [_path("log", one, directory) for one in (logs if isinstance(logs, list) else [logs])]
    progress = document.get("progress") or None
    return PodFile(
        shape=shape,
        start=_number(document, "start"),
        logs=tuple(paths),
        progress=None if progress is None else _path("progress", progress, directory),
        patterns=tuple(str(one) for one in document.get("patterns") or ()),
    )


def _number(document: dict[str, Any], name: str) -> int | None:
    value = document.get(name)
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**62):
        return value
    raise PodFileError(f"pod.json: {name} is no number")


def _path(name: str, value: object, directory: Path) -> Path:
    if not isinstance(value, str) or "\0" in value:
        raise PodFileError(f"pod.json: {name} is no path")
    return directory / value
