"""How processes and pods ended, and what each end means beside what the rank said before."""

import signal as signals
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from agent.signatures import Role, Trigger
from agent.wire import Kind
from master.casefile import Cause, Seen, Source
from master.diagnosis.signs import Sign, origin_of
from master.diagnosis.world import World, as_int, captured_of

LAUNCHERS = (
    "elastic.failed",
    "mpi.failed",
    "deepspeed.failed",
    "srun.failed",
)  # their word on a worker's end
_CRASHES = {signals.SIGSEGV, signals.SIGILL, signals.SIGFPE, signals.SIGSYS, signals.SIGTRAP}
STOPS = {signals.SIGTERM, signals.SIGINT, signals.SIGHUP, signals.SIGQUIT}
_IN_WORDS = {
    "Killed": signals.SIGKILL,
    "Segmentation fault": signals.SIGSEGV,
    "Aborted": signals.SIGABRT,
    "Bus error": signals.SIGBUS,
    "Floating point exception": signals.SIGFPE,
    "Illegal instruction": signals.SIGILL,
}
# A launcher that gives up on its workers, and a pod whose main process ended, kill what is left of them.
_CLEANUP_AFTER = timedelta(seconds=3)


@dataclass(frozen=True)
class End:
    """One process (or, without a rank, one pod) that did not end well."""

    at: datetime
    source: Source
    node: str
    pod: str | None
    rank: int | None
    code: int | None
    signal: int | None
    pid: int | None = None
    file: str | None = None
    line_no: int | None = None

    def words(self) -> str:
        who = f"rank {self.rank}" if self.rank is not None else f"pod {self.pod}" if self.pod else self.node
        if self.signal is not None:
            return f"{who} ended by signal {self.signal} ({signal_name(self.signal)})"
        return f"{who} ended with exit code {self.code if self.code is not None else 'unknown'}"


def signal_name(number: int) -> str:
    try:
        return signals.Signals(number).name
    except ValueError:
        return f"signal {number}"


def ends(seen: Iterable[Seen], world: World) -> list[End]:
    """Every bad end, each rank's once: the kernel's or the supervisor's word before the launcher's."""
    told = [end for one in seen if (end := _end(one, world)) is not None]
    told.sort(key=lambda end: (end.at, end.rank is None))
    by_rank: dict[int, End] = {}
    for end in told:
        if end.rank is not None:
            known = by_rank.get(end.rank)
            if known is None or (known.code, known.signal) == (None, None):
                by_rank[end.rank] = end
    pods_told = {end.pod for end in by_rank.values() if end.pod}
    nodes_told = {end.node for end in by_rank.values()}
    alone = [
        end
        for end in told
        if end.rank is None and not (end.pod in pods_told if end.pod else end.node in nodes_told)
    ]
    return sorted([*by_rank.values(), *alone], key=lambda end: end.at)


def _end(seen: Seen, world: World) -> End | None:
    if seen.kind in (Kind.PROCESS_EXITED, "pod_exited"):
        code, number = as_int(seen.data.get("exit_code")), as_int(seen.data.get("signal"))
        if code == 0 and not number:
            return None
        return _made(seen, world, code, number)
    if seen.kind == Kind.LOG_MATCH and seen.data.get("signature") in LAUNCHERS:
        return _launcher_said(seen, world)
    return None


def _launcher_said(seen: Seen, world: World) -> End | None:
    captured = captured_of(seen)
    code, number = as_int(captured.get("exitcode")), as_int(captured.get("signal"))
    number = _IN_WORDS.get(captured.get("how", ""), number)
    if not code and not number:
        return None
    rank, local = as_int(captured.get("rank")), as_int(captured.get("local_rank"))
    if rank is None and local is not None:
        rank = world.rank_at(seen.pod, seen.node, local)
    host = world.node_at(captured.get("host", ""))
    if rank is not None and host and rank not in world.ranks_on(host):
        # A task a node, each of which starts its ranks: the number is no rank, the host is right.
        return _made(replace(seen, node=host, pod=None, rank=None), world, code, number)
    return _made(seen, world, code, number, rank)


def _made(seen: Seen, world: World, code: int | None, number: int | None, rank: int | None = None) -> End:
    code, number = _told_by_shells(code, number or None)
    rank = rank if rank is not None else seen.rank
    rank = rank if rank in world.ranks else None
    pod = world.pods.get(seen.pod or "") or (world.pod_of_rank.get(rank) if rank is not None else None)
    pid = as_int(seen.data.get("pid") or captured_of(seen).get("pid"))
    name = pod.name if pod else seen.pod
    where = pod.node if pod else seen.node
    return End(seen.at, seen.source, where, name, rank, code, number, pid, **origin_of(seen))


def _told_by_shells(code: int | None, number: int | None) -> tuple[int | None, int | None]:
    """A negative code is a signal (Python's way), and so is one above 128 (a shell's and a container's)."""
    if number is None and code is not None:
        if code < 0:
            return None, -code
        if 128 < code <= 128 + 64:
            return None, code - 128
    return code, number


def exit_signs(found: list[End], lines: list[Sign], world: World) -> list[Sign]:
    """What each end is a sign of."""
    spoken = _by_writer(lines)
    forced = {sign.captured.get("pid") for sign in lines if sign.is_a("elastic.forced_kill")}
    first_kill = min((end.at for end in found if end.signal == signals.SIGKILL), default=None)
    signs = []
    for end in found:
        said = spoken.get(_writer(end.rank, end.pod, end.node), [])
        if end.rank is not None:  # lines of its pod that name no rank may be its own
            said = [*said, *spoken.get(_writer(None, end.pod, end.node), [])]
        else:  # and where nobody tells which rank it was, those of any there may be
            said = [sign for some in spoken.values() for sign in some if _may_be(sign, end, world)]
        if end.signal == signals.SIGKILL:
            late = first_kill is not None and end.at - first_kill > _CLEANUP_AFTER
            cleanup = late or str(end.pid) in forced or _ended_before(end, found)
            signs.append(_sign(end, "exit.killed", Cause.EXTERNAL_STOP, victim=cleanup))
        elif end.signal is not None:
            signs.append(_by_signal(end, end.signal, said))
        else:
            explained = any(sign.role is not Role.EVIDENCE for sign in said)
            signs.append(_sign(end, f"exit.code.{end.code}", Cause.UNKNOWN, victim=explained))
    return signs


def _may_be(sign: Sign, end: End, world: World) -> bool:
    return sign.node == end.node or (not sign.node and not world.ranks_on(end.node))


def _by_signal(end: End, number: int, said: list[Sign]) -> Sign:
    if number in STOPS:
        return _sign(end, f"exit.stopped.{number}", Cause.EXTERNAL_STOP, victim=True)
    if number in _CRASHES:
        return _sign(end, "exit.crashed", Cause.SEGFAULT, victim=False)
    if number == signals.SIGBUS:
        return _sign(end, "exit.bus_error", Cause.SHM_EXHAUSTED, victim=False, retryable=False)
    # SIGABRT: C++ gave up; what it said before says why.
    explained = any(sign.role is not Role.EVIDENCE for sign in said)
    return _sign(end, "exit.aborted", Cause.UNKNOWN, victim=explained)


def _ended_before(end: End, found: list[End]) -> bool:
    """Killed after another process of its pod had ended by itself: what was left is being cleared."""
    return any(
        other.pod == end.pod
        and other.node == end.node
        and other.signal != signals.SIGKILL
        and other.at < end.at
        for other in found
        if other.rank != end.rank and other.signal not in STOPS
    )


def _by_writer(lines: list[Sign]) -> Mapping[tuple[int | None, str | None, str], list[Sign]]:
    spoken: dict[tuple[int | None, str | None, str], list[Sign]] = {}
    for sign in lines:
        if not sign.is_a(*LAUNCHERS, "elastic.child_failed", "xid.", "memory.", "link."):
            spoken.setdefault(_writer(sign.rank, sign.pod, sign.node), []).append(sign)
    return spoken


def _writer(rank: int | None, pod: str | None, node: str) -> tuple[int | None, str | None, str]:
    return (rank, None, "") if rank is not None else (None, pod, node)


def _sign(end: End, name: str, cause: Cause, *, victim: bool, retryable: bool = True) -> Sign:
    return Sign(
        at=end.at,
        name=name,
        cause=cause,
        role=Role.SYMPTOM if victim else Role.CULPRIT,
        trigger=Trigger.AT_ONCE,
        source=end.source,
        text=end.words(),
        node=end.node,
        pod=end.pod,
        rank=end.rank,
        retryable=retryable,
        captured={"pid": str(end.pid)} if end.pid is not None else {},
        file=end.file,
        line_no=end.line_no,
    )
