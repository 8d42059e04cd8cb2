"""Reads collected stacks: who waits for the others, whose stack moves, who is the odd one out."""

import re
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import pairwise
from typing import Any

from agent.wire import Kind
from master.casefile import FEW_BYTES, CaseFile
from master.diagnosis.world import as_int

# A rank inside a collective waits for the others: torch.distributed's own frames, a wait for the device,
# and DDP's backward pass, whose all-reduce runs in C++ below `_engine_run_backward`.
_COLLECTIVE = re.compile(
    r"distributed_c10d\.py|_functional_collectives\.py|c10d_logger\.py|"
    r"torch/distributed/rendezvous\.py|"
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
# Phases that last: by the names that people give their functions, and by the libraries' own files.
_EVALUATING = re.compile(
    r"(?:^|_)(?:eval\w*|valid(?:at\w*)?|test|predict\w*|generat(?:e|ion)\w*|infer\w*|metrics?|score) \("
    r"|(?:evaluation|prediction)_loop|\b(?:evaluate|eval|validate|validation|inference)\.py",
    re.IGNORECASE,
)
# not torch/utils/checkpoint.py, which is a way to compute
_SAVING = re.compile(
    r"\b_?(?:save|write|store|dump|fsync)\w* \(|torch/distributed/checkpoint|serialization\.py|safetensors|"
    r"(?<!load_)state_dict"
)
_STARTING = re.compile(
    r"importlib|rendezvous\.py|init_process_group|from_pretrained|load_state_dict|_launch \(multiprocessing"
)
_LINE = re.compile(r"^(.*):(\d+)\)$")
_TIGHT = 2  # lines: `while True: pass` is seen now on the one, now on the other
_DEEP = 40
_NEAR_THE_TOP = 4
_FEW_PLACES = 3
_WINDOW = timedelta(seconds=6)


class Doing(StrEnum):
    """What a stack shows its process at."""

    WAITING = "waiting"  # in a collective, for the others
    OUTSIDE = "outside"  # for something that is no rank of this job
    COMPILING = "compiling"
    OWN = "own"  # in code of its own


class Phase(StrEnum):
    """What a stack shows the program to be in. Phases take their time."""

    TRAINING = "training"
    EVALUATING = "evaluating"
    SAVING = "saving"
    STARTING = "starting"


@dataclass(frozen=True)
class Sample:
    at: datetime
    frames: tuple[str, ...]
    error: str | None
    gil: bool | None = None
    io_bytes: int | None = None
    switches: int | None = None


@dataclass(frozen=True)
class Pose:
    """How one rank stood over its last samples. `still` for how long without a change, seen `looks` times;
    `moved`: at some time since the suspicion it was elsewhere, or moved bytes; `together`: inside a
    collective of torch's."""

    rank: int
    doing: Doing
    frames: tuple[str, ...]
    samples: int
    still: timedelta
    moving: bool
    moved: bool
    looks: int
    phase: Phase
    together: bool
    rounds: int  # how often it went from one place to another, if these are but a few
    woken: bool  # its main thread waited for something in between and went on, or that is not told
    holds: bool | None  # Python's lock, at most looks: it computes, and waits for nobody; None: not told


def samples_of(case: CaseFile, since: datetime) -> dict[int, list[Sample]]:
    """Each rank's stacks collected after a moment, oldest first; none from before a debugger let go."""
    found: dict[int, list[Sample]] = {}
    let_go = (seen.at for seen in case.seen if seen.kind == Kind.STACKS and seen.data.get("state") == "t")
    since = max([since, *let_go])
    for seen in case.seen:
        if seen.kind != Kind.STACKS or seen.rank is None or seen.at < since:
            continue
        found.setdefault(seen.rank, []).append(sample(seen.at, seen.data))
    for samples in found.values():
        samples.sort(key=lambda sample: sample.at)
    return found


def sample(at: datetime, data: Mapping[str, Any]) -> Sample:
    """One rank's stack as its agent told it; agents of another version may tell less."""
    frames = data.get("frames")
    read = tuple(str(frame) for frame in frames[:_DEEP]) if isinstance(frames, (list, tuple)) else ()
    error = None if read else str(data.get("error") or "no frames")
    gil = data.get("gil")
    moved, switches = as_int(data.get("io_bytes")), as_int(data.get("switches"))
    return Sample(at, read, error, gil if isinstance(gil, bool) else None, moved, switches)


def poses(samples: Mapping[int, Sequence[Sample]]) -> list[Pose]:
    """How each rank stands; ranks of which no stack could be read are left out."""
    return [
        _pose(rank, readable)
        for rank, all_of_it in sorted(samples.items())
        if (readable := [sample for sample in all_of_it if sample.frames])
    ]


def _pose(rank: int, samples: Sequence[Sample]) -> Pose:
    newest = samples[-1]
    same = [newest]
    for sample in reversed(samples[:-1]):
        if not _same_place(sample.frames, newest.frames) or _bytes_between(sample, same[-1]):
            break
        same.append(sample)
    looks = len(same)
    return Pose(
        rank=rank,
        doing=doing(newest.frames),
        frames=newest.frames,
        samples=len(samples),
        still=newest.at - same[-1].at,
        moving=len(samples) > 1 and looks == 1,
        moved=looks < len(samples),
        looks=looks,
        phase=phase(newest.frames),
        rounds=_rounds(samples),
        woken=same[-1].switches is None or same[-1].switches != newest.switches,
        holds=_mostly([sample.gil for sample in same if sample.gil is not None]),
        together=any(_COLLECTIVE.search(frame) for frame in newest.frames[:_NEAR_THE_TOP]),
    )


def _rounds(samples: Sequence[Sample]) -> int:
    works = any(_bytes_between(one, other) for one, other in pairwise(samples))
    if works or len({sample.frames for sample in samples}) > _FEW_PLACES:
        return 0
    return sum(one.frames != other.frames for one, other in pairwise(samples))


def _mostly(told: Sequence[bool]) -> bool | None:
    return 3 * sum(told) >= 2 * len(told) if told else None


def _bytes_between(earlier: Sample, later: Sample) -> bool:
    """A writer stands in its `write` all the time: its bytes tell that it lives."""
    if earlier.io_bytes is None or later.io_bytes is None:
        return False
    windows = max(1.0, (later.at - earlier.at) / _WINDOW)
    return abs(later.io_bytes - earlier.io_bytes) >= FEW_BYTES * windows


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
    for frame in frames[:_NEAR_THE_TOP]:
        if _COLLECTIVE.search(frame) or _DEVICE_WAIT.search(frame):
            return Doing.WAITING
        if _OUTSIDE.search(frame):
            return Doing.OUTSIDE
        if not _TORCH.search(frame):
            break
    return Doing.OWN


def phase(frames: Sequence[str]) -> Phase:
    """By the innermost frame that tells."""
    for frame in frames:
        for which, form in (
            (Phase.SAVING, _SAVING),
            (Phase.EVALUATING, _EVALUATING),
            (Phase.STARTING, _STARTING),
        ):
            if form.search(frame):
                return which
    return Phase.TRAINING


def crowd(all_poses: Sequence[Pose], world_size: int, runs: Container[int] = ()) -> frozenset[int]:
    """Ranks that wait for others. `runs`: those that use CPU.

    They are in a collective, or, as NCCL's host threads are, at a line of their own program where the result
    is needed that does not come. py-spy shows no frame for `loss.item()`; but such a thread uses CPU and has
    let go of Python's lock. Where that is not told, most of all ranks at one place are such threads.
    """
    waiting = {pose.rank for pose in all_poses if pose.doing is Doing.WAITING}
    hosts = [pose for pose in all_poses if pose.doing is Doing.OWN and pose.rank in runs and not pose.holds]
    waiting |= {pose.rank for pose in hosts if pose.holds is False and len(all_poses) > 1}
    places: dict[tuple[str, ...], set[int]] = {}
    for pose in hosts:
        places.setdefault(pose.frames, set()).add(pose.rank)
    largest = max(places.values(), key=len, default=set())
    if len(largest) > 1 and len(largest | waiting) * 2 > world_size:
        waiting |= largest
    return frozenset(waiting)


def odd_ones(all_poses: Sequence[Pose], world_size: int, runs: Container[int] = ()) -> list[int]:
    """The ranks that do not wait while the others do; else the smaller of two kinds of collective; a tie,
    or more kinds than two: none."""
    waiting = crowd(all_poses, world_size, runs)
    busy = [pose for pose in all_poses if pose.rank not in waiting]
    if busy:
        few = len(busy) * 2 < world_size or (len(busy) == 1 and world_size == 2)
        sure = waiting and all(_is_known(pose, runs) for pose in busy)
        return [pose.rank for pose in busy] if few and sure and _apart(busy, all_poses, waiting, runs) else []
    if not all(pose.together for pose in all_poses):
        return []  # where hosts wait for their devices, the place says little of who came and who did not
    groups = sorted(_alike(all_poses).values(), key=len)
    if len(groups) == 2 and len(groups[0]) < len(groups[1]) and len(groups[0]) * 2 < world_size:
        return groups[0]
    return []


def _is_known(pose: Pose, runs: Container[int]) -> bool:
    """Not perhaps one more host that waits for its device."""
    return pose.doing is not Doing.OWN or pose.holds is not False or pose.rank not in runs


def _apart(
    busy: Sequence[Pose], all_poses: Sequence[Pose], waiting: frozenset[int], runs: Container[int]
) -> bool:
    """Not merely some lines farther in the function where others wait for their devices, as they do."""
    where = {_function(pose) for pose in all_poses if pose.rank in waiting and pose.doing is Doing.OWN}
    alike = (pose for pose in busy if pose.doing is Doing.OWN and not pose.holds and pose.rank in runs)
    return all(_function(pose) not in where for pose in alike)


def _function(pose: Pose) -> str:
    return pose.frames[0].rpartition(":")[0]


def _alike(all_poses: Iterable[Pose]) -> dict[str, list[int]]:
    """Ranks by the collective they are in."""
    groups: dict[str, list[int]] = {}
    for pose in all_poses:
        called = next(frame.partition(" (")[0] for frame in pose.frames if _COLLECTIVE.search(frame))
        groups.setdefault(called, []).append(pose.rank)
    return groups
