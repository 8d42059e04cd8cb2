"""Which process is which rank: a pure function of the pod's processes.

Workers of torchrun carry RANK and LOCAL_RANK; their DataLoader children inherit both, so the topmost
process of a rank is the rank. Shells and launchers are never a rank while something runs below them.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

_SHELLS = frozenset({"sh", "bash", "dash", "ash", "zsh", "ksh", "fish", "busybox"})
# fmt: off
_WRAPPERS = {
    "torchrun", "accelerate", "deepspeed", "colossalai", "mpirun", "mpiexec", "orterun", "horovodrun",
    "srun", "ft_launcher", "dlrover-run", "env", "timeout", "nice", "ionice", "nohup", "setsid", "stdbuf",
    "tini", "dumb-init", "catatonit", "sudo", "su", "gosu", "runuser", "numactl", "taskset", "chrt", "time",
    "strace", "gdb", "nsys", "ncu", "uv", "poetry", "conda", "mamba", "script", "xargs", "tee",
}
_LAUNCHER_MODULES = {
    "torch.distributed.run", "torch.distributed.launch", "torch.distributed.launcher",
    "accelerate.commands.launch", "deepspeed.launcher.runner", "deepspeed.launcher.launch", "deepspeed",
    "horovod.runner", "nvidia_resiliency_ext.fault_tolerance.launcher",
}
# fmt: on
_SPAWNED = "from multiprocessing.spawn import spawn_main"
_PYTHON = re.compile(r"(python|pypy)[\d.]*[a-z]*")
_SETTLED_S = 2.0  # a program that is neither Python nor a shell counts once it has lived so long


@dataclass(frozen=True)
class Member:
    """One process of the pod, as far as ranks are concerned."""

    pid: int
    ppid: int
    start: int
    argv: tuple[str, ...]
    rank: int | None = None
    local_rank: int | None = None
    age_s: float = 0.0


@dataclass(frozen=True)
class PodShape:
    """`rank`: of the pod. `nproc`: training processes it should have."""

    rank: int
    nproc: int
    main_pid: int | None
    supervisor: int


@dataclass(frozen=True)
class Worker:
    rank: int
    local_rank: int
    pid: int
    start: int


def assign(members: Iterable[Member], pod: PodShape, *, python_only: bool = False) -> dict[int, Worker]:
    """The workers by global rank. `python_only`: training was seen to be Python, so that what runs in its
    place once it has ended is none."""
    everyone = {member.pid: member for member in members}
    supervisor = everyone.pop(pod.supervisor, None)
    # between fork and exec a child still looks like the supervisor
    table = {pid: one for pid, one in everyone.items() if supervisor is None or one.argv != supervisor.argv}
    told = [member for member in table.values() if member.rank is not None and member.local_rank is not None]
    if told:
        return _told_by_environment(told, table)
    main = table.get(pod.main_pid or -1)
    tops = _tops(table, main)
    if pod.nproc > 1:
        spawned = _spawned(tops, table, pod)
        if spawned:
            return spawned
    top = next((one for one in tops if is_python(one.argv)), None)
    if top is None and not python_only:
        top = _settled(tops) or _script(main, table)
    if top is None or pod.nproc > 1:
        return {}
    return {pod.rank: Worker(pod.rank, 0, top.pid, top.start)}


def is_launcher(argv: tuple[str, ...]) -> bool:
    """Shells, wrappers and launchers: they start training and are not training."""
    if not argv:
        return False
    name = _name(argv[0])
    if name in _SHELLS or name in _WRAPPERS:
        return True
    if not _PYTHON.fullmatch(name):
        return False
    module, script = _python_target(argv)
    return module in _LAUNCHER_MODULES or _name(script) in _WRAPPERS


def _is_shell(argv: tuple[str, ...]) -> bool:
    return bool(argv) and _name(argv[0]) in _SHELLS


def is_python(argv: tuple[str, ...]) -> bool:
    return bool(argv) and bool(_PYTHON.fullmatch(_name(argv[0])))


def _name(path: str) -> str:
    return PurePosixPath(path).name.removeprefix("-")  # a login shell is called -bash


def _python_target(argv: tuple[str, ...]) -> tuple[str, str]:
    """The module or the script that a Python command line runs."""
    words = iter(argv[1:])
    for word in words:
        if word == "-m":
            return next(words, ""), ""
        if word == "-c":
            return "", ""
        if word in {"-W", "-X"}:
            next(words, "")
        elif not word.startswith("-"):
            return "", word
    return "", ""


def _told_by_environment(told: list[Member], table: Mapping[int, Member]) -> dict[int, Worker]:
    workers: dict[int, Worker] = {}
    for member in sorted(told, key=lambda member: member.start):
        if is_launcher(member.argv) or _same_rank_above(member, table):
            continue
        rank, local = member.rank or 0, member.local_rank or 0
        workers[rank] = Worker(rank, local, member.pid, member.start)  # the newest start wins
    return workers


def _same_rank_above(member: Member, table: Mapping[int, Member]) -> bool:
    for above in _ancestors(member, table):
        if above.rank == member.rank and above.local_rank is not None and not is_launcher(above.argv):
            return True
    return False


def _ancestors(member: Member, table: Mapping[int, Member]) -> list[Member]:
    found: list[Member] = []
    above = table.get(member.ppid)
    while above is not None and above not in found:
        found.append(above)
        above = table.get(above.ppid)
    return found


def _tops(table: Mapping[int, Member], main: Member | None) -> list[Member]:
    """Under the main process, every process that no other but launchers stands above."""
    found = []
    for member in table.values():
        above = _ancestors(member, table)
        if main is not None and member is not main and main not in above:
            continue
        if not is_launcher(member.argv) and all(is_launcher(one.argv) for one in above):
            found.append(member)
    return sorted(found, key=lambda member: member.start)


def _settled(tops: list[Member]) -> Member | None:
    """A program of another language that has run for a while: not a shell's passing `sleep`."""
    return next((member for member in tops if member.argv and member.age_s >= _SETTLED_S), None)


def _script(main: Member | None, table: Mapping[int, Member]) -> Member | None:
    """A shell script that is itself all the training there is; not one whose launcher has yet to start it."""
    if main is None or main.age_s < _SETTLED_S:
        return None
    return main if all(_is_shell(one.argv) or not is_launcher(one.argv) for one in table.values()) else None


def _spawned(tops: list[Member], table: Mapping[int, Member], pod: PodShape) -> dict[int, Worker]:
    """Workers of `mp.spawn` or `elastic_launch(function)`: their ranks are not in their first
    environment, but they are started in the order of their ranks."""
    parents = {member.pid for member in tops}
    kids = sorted(
        (m for m in table.values() if m.ppid in parents and any(_SPAWNED in word for word in m.argv)),
        key=lambda member: (member.start, member.pid),
    )
    if len(kids) != pod.nproc:
        return {}
    first = pod.rank * pod.nproc
    return {first + n: Worker(first + n, n, kid.pid, kid.start) for n, kid in enumerate(kids)}
