"""Ranks that stopped answering while their agent speaks: stopped, dead or stuck in the kernel."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from agent.wire import Kind
from master.casefile import CaseFile, Cause, Culprit, FaultClass, RankView, Seen
from master.diagnosis.culprit import of_node, of_ranks
from master.diagnosis.exits import End
from master.diagnosis.progress import has_rhythm, longest_gap, usual_gap
from master.diagnosis.world import World

_IN_KERNEL_ONLY = frozenset("D")
_STOPPED = frozenset("TZX")
_DEAD = frozenset("ZX")  # its end is on its way to us
_NEVER_YET = timedelta(seconds=10)  # a process that is stopped before its first step
_AT_LEAST = timedelta(seconds=3)
_KERNEL = timedelta(
    seconds=120
)  # where Linux's own khungtaskd begins to warn; storage stalls shorter than that
_GONE = timedelta(seconds=10)  # the agent takes up to two seconds to learn how a process ended


@dataclass(frozen=True)
class Silence:
    """Who went silent and how that shows."""

    fault_class: FaultClass
    cause: Cause
    culprit: Culprit
    at: datetime
    state: str
    texts: tuple[str, ...]
    confidence: float
    hardware: bool = False
    told: tuple[Seen, ...] = ()  # after the fact: who wrote it down


def silence(case: CaseFile, ends: list[End], world: World, now: datetime) -> Silence | None:
    """The silent rank or node, or None."""
    if case.after_the_fact:
        return _told(case, world)
    ended = {end.rank for end in ends} | {seen.rank for seen in case.seen if seen.kind == Kind.PROCESS_EXITED}
    live = [view for view in case.ranks if view.rank not in ended and not _left_well(view, world)]
    for states, wait, cause in (
        (_STOPPED - _DEAD, _stop_wait(case), Cause.HEARTBEAT_LOST),
        (_DEAD, max(_NEVER_YET, _stop_wait(case)), Cause.HEARTBEAT_LOST),
        (frozenset({"gone"}), _GONE, Cause.UNKNOWN),
        (_IN_KERNEL_ONLY, _kernel_wait(case), Cause.HEARTBEAT_LOST),
    ):
        silent = [view for view in live if view.state in states and _stood(view, case, now) >= wait]
        silent = [view for view in silent if not (view.cpu_moved or view.io_moved)]
        if states == _IN_KERNEL_ONLY:  # a look falls easily into one of a healthy process's many short waits
            silent = [view for view in silent if view.still is None or view.still >= _KERNEL]
        if silent:
            return _silent(silent, case, cause, world)
    return None


def _left_well(view: RankView, world: World) -> bool:
    pod = world.pods.get(view.pod)
    return pod is not None and pod.exit_code == 0


def _stop_wait(case: CaseFile) -> timedelta:
    if case.last_step_at is None:
        return _NEVER_YET
    return max(_AT_LEAST, 2 * usual_gap(case))


def _kernel_wait(case: CaseFile) -> timedelta:
    """State D is where healthy processes wait for disks: only long standing counts."""
    return max(_KERNEL, 2 * longest_gap(case)) if has_rhythm(case) else 2 * _KERNEL


def _stood(view: RankView, case: CaseFile, now: datetime) -> timedelta:
    """For how long this rank, and with it the job, has made no step."""
    moments = [at for at in (view.step_at, case.last_step_at) if at is not None]
    return now - max(moments, default=case.started_at)


def _silent(silent: list[RankView], case: CaseFile, cause: Cause, world: World) -> Silence:
    every = len(silent) == len(world.ranks) and len(silent) > 1
    culprit = Culprit() if every else of_ranks((view.rank for view in silent), world)
    state = silent[0].state
    moments = [at for view in silent for at in (view.step_at, case.last_step_at) if at is not None]
    texts = tuple(
        f"rank {view.rank}: process state {view.state}, no CPU, no I/O, step {view.step}"
        for view in silent[:5]
    )
    exited = cause is Cause.UNKNOWN
    return Silence(
        FaultClass.PROCESS_EXIT if exited else FaultClass.HEARTBEAT_LOST,
        cause,
        culprit,
        max(moments, default=case.started_at),
        state,
        texts,
        0.6 if exited else 0.9,
    )


def _told(case: CaseFile, world: World) -> Silence | None:
    """After the fact: what was written down of heartbeats that did not come."""
    missing = [seen for seen in case.seen if _is_silent(seen) and not _came_back(seen, case)]
    if not missing:
        return None
    ranks = {seen.rank for seen in missing if seen.rank is not None}
    nodes = {seen.node for seen in missing}
    ready = {seen.node for seen in case.seen if seen.kind == "node_ready" and seen.at >= missing[0].at}
    whole = (
        not nodes & ready
        and len(nodes) == 1
        and len(world.nodes) > 1
        and ranks >= set(world.ranks_on(next(iter(nodes))))
    )
    told = tuple(missing[:5])
    if whole and len(ranks) > 1:
        where = of_node(nodes.pop(), world)
        return Silence(
            FaultClass.POD_LOST, Cause.NODE_DOWN, where, missing[0].at, "", (), 0.6, hardware=True, told=told
        )
    culprit = of_ranks(ranks, world) if ranks else of_node(missing[0].node, world)
    state = next((str(seen.data["state"]) for seen in missing if seen.data.get("state")), "")
    confidence = 0.85 if state in _STOPPED else 0.7
    return Silence(
        FaultClass.HEARTBEAT_LOST,
        Cause.HEARTBEAT_LOST,
        culprit,
        missing[0].at,
        state,
        (),
        confidence,
        told=told,
    )


def _is_silent(seen: Seen) -> bool:
    if seen.kind == "no_progress":
        return seen.rank is not None and seen.data.get("state") in ("D", *_STOPPED)
    return seen.kind == "heartbeat_missing"


def _came_back(seen: Seen, case: CaseFile) -> bool:
    """Training went on afterwards, or the rank's next heartbeat came."""
    if case.last_step_at is not None and case.last_step_at > seen.at + timedelta(seconds=1):
        return True
    return any(
        later.kind == "heartbeat_ok"
        and later.rank == seen.rank
        and later.node == seen.node
        and later.at > seen.at
        for later in case.seen
    )
