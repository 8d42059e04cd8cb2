"""Reads collected stacks: who waits for the others, whose stack moves, who is the odd one out."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from agent.wire import Kind
from master.casefile import CaseFile

# A rank inside a collective waits for the others: torch.distributed's own frames, a wait for the device,
# and DDP's backward pass, whose all-reduce runs in C++ below `_engine_run_backward`.
_COLLECTIVE = re.compile(
    r"distributed_c10d\.py|_functional_collectives\.py|c10d_logger\.py|"
    r"\b(?:all_?reduce|all_?gather\w*|all_to_all\w*|reduce_scatter\w*|barrier|monitored_barrier)\b \("
)
_DEVICE_WAIT = re.compile(r"^(?:synchronize|_engine_run_backward|run_backward|item|tolist) \(|\(torch/cuda/")
_TORCH = re.compile(r"\(\S*torch/(?:_ops|cuda|autograd|_tensor|utils/_contextlib|distributed)\S*\)$")
# Waits for somebody outside: data, storage, a service, a child. They end by themselves, or not.
_OUTSIDE = re.compile(
    r"\b(?:ssl|socket|selectors|subprocess|connectionpool|connection|queues|popen_\w+|dataloader|serialization|"
    r"filesystem|fetch|threading|client)\.py|fsspec|\bs3|urllib3|requests|botocore|torch/utils/data|"
    r"\b(?:sleep|poll|select|read|recv_into|write|save|load|communicate|waitpid|urlopen)\b \("
)
_COMPILING = re.compile(r"_inductor|_dynamo|triton|cpp_extension|nvcc|codecache")
_LINE = re.compile(r"^(.*):(\d+)\)$")
_TIGHT = 2  # lines: `while True: pass` is seen now on the one, now on the other
_DEEP = 40


class Doing(StrEnum):
    """What a stack shows its process at."""

    WAITING = "waiting"  # in a collective, for the others
    OUTSIDE = "outside"  # for something that is no rank of this job
    COMPILING = "compiling"
    OWN = "own"  # in code of its own


@dataclass(frozen=True)
class Sample:
    at: datetime
    frames: tuple[str, ...]
    error: str | None


@dataclass(frozen=True)
class Pose:
    """How one rank stood over its last samples. `still` for how long without a change."""

    rank: int
    doing: Doing
    frames: tuple[str, ...]
    samples: int
    still: timedelta
    moving: bool


def samples_of(case: CaseFile, since: datetime) -> dict[int, list[Sample]]:
    """Each rank's stacks collected after a moment, oldest first."""
    found: dict[int, list[Sample]] = {}
    for seen in case.seen:
        if seen.kind != Kind.STACKS or seen.rank is None or seen.at < since:
            continue
        frames = seen.data.get("frames")
        read = tuple(str(frame) for frame in frames[:_DEEP]) if isinstance(frames, list) else ()
        error = None if read else str(seen.data.get("error") or "no frames")
        found.setdefault(seen.rank, []).append(Sample(seen.at, read, error))
    for samples in found.values():
        samples.sort(key=lambda sample: sample.at)
    return found


def poses(samples: Mapping[int, Sequence[Sample]]) -> list[Pose]:
    """How each rank stands; ranks of which no stack could be read are left out."""
    return [
        _pose(rank, readable)
        for rank, all_of_it in sorted(samples.items())
        if (readable := [sample for sample in all_of_it if sample.frames])
    ]


def _pose(rank: int, samples: Sequence[Sample]) -> Pose:
    newest = samples[-1]
    same_since = newest.at
    for sample in reversed(samples):
        if not _same_place(sample.frames, newest.frames):
            break
        same_since = sample.at
    moving = len(samples) > 1 and not _same_place(samples[-2].frames, newest.frames)
    return Pose(rank, doing(newest.frames), newest.frames, len(samples), newest.at - same_since, moving)


def _same_place(one: Sequence[str], other: Sequence[str]) -> bool:
    """Equal stacks, or two lines of one tight loop: innermost frames a few lines apart, all else equal."""
    if one[1:] != other[1:]:
        return False
    here, there = _LINE.match(one[0]), _LINE.match(other[0])
    if here is None or there is None or here[1] != there[1]:
        return one[0] == other[0]
    return abs(int(here[2]) - int(there[2])) <= _TIGHT


def doing(frames: Sequence[str]) -> Doing:
    """What the innermost frames show. Below a frame of the program's own nothing counts: a signal handler
    or a callback runs on top of whatever was going on."""
    if any(_COMPILING.search(frame) for frame in frames):
        return Doing.COMPILING
    for frame in frames[:4]:
        if _COLLECTIVE.search(frame) or _DEVICE_WAIT.search(frame):
            return Doing.WAITING
        if _OUTSIDE.search(frame):
            return Doing.OUTSIDE
        if not _TORCH.search(frame):
            break
    return Doing.OWN


def odd_ones(all_poses: Sequence[Pose], world_size: int) -> list[int]:
    """The ranks that do not wait while the others do; else the smallest group of like stacks; a tie: none."""
    busy = [pose.rank for pose in all_poses if pose.doing is not Doing.WAITING]
    if busy and (len(busy) * 2 < world_size or (len(busy) == 1 and world_size == 2)):
        return busy
    if busy and len(busy) < len(all_poses):
        return []
    groups = sorted(_alike(all_poses).values(), key=len)
    if len(groups) > 1 and len(groups[0]) < len(groups[1]) and len(groups[0]) * 2 < world_size:
        return groups[0]
    return []


def _alike(all_poses: Iterable[Pose]) -> dict[str, list[int]]:
    """Ranks by what their stack is in, whatever line."""
    groups: dict[str, list[int]] = {}
    for pose in all_poses:
        key = next((frame.partition(" (")[0] for frame in pose.frames if _COLLECTIVE.search(frame)), None)
        groups.setdefault(key or pose.frames[0].rpartition(":")[0], []).append(pose.rank)
    return groups
