"""No rank makes progress: from suspicion by silence to a verdict by stacks, CPU and I/O.

RECOVERY.md tells a hang from a long phase: what moves (a stack, bytes) is alive; what stands still is judged
the sooner the surer it is (master/diagnosis/patience.py).
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from master.casefile import CaseFile, Culprit, Seen, Want
from master.diagnosis import patience, recorder
from master.diagnosis.culprit import of_ranks
from master.diagnosis.progress import longest_gap, usual_gap
from master.diagnosis.stacks import Pose, Sample, crowd, odd_ones, poses, samples_of
from master.diagnosis.world import World

_FLOOR = timedelta(seconds=5)
_YOUNG = timedelta(seconds=60)  # where one gap is known; half as long where two are, a third where three …
_RARE = timedelta(seconds=60)  # so much longer at most is waited before a look, for the sake of rare pauses
_TWICE = 2
_APART = timedelta(seconds=1.5)  # between two samples that are to show whether a stack moves
_LATELY = timedelta(seconds=5)
_NO_STACKS = timedelta(seconds=15)  # beyond the deadline, then CPU and I/O alone must do


@dataclass(frozen=True)
class Suspicion:
    """`kind`: rhythm | log | stack. `since`: when anything was last heard of that kind."""

    kind: str
    since: datetime
    deadline: timedelta


@dataclass(frozen=True)
class Hang:
    """A hang that is certain enough to act on."""

    culprit: Culprit
    at: datetime
    kind: str
    quiet: timedelta
    doing: str  # spinning | blocked | outside | everyone | device | left | unseen
    texts: tuple[str, ...]
    confidence: float
    told: tuple[Seen, ...] = ()  # after the fact: who wrote it down
    suspected_at: datetime | None = None  # when it was time to look


def hang(case: CaseFile, world: World, now: datetime) -> Hang | Want | None:
    """A hang, what is still wanted to tell, or nothing."""
    case, over = _without_the_dead(case)
    doubt = suspicion(case, now)
    if doubt is None or not _anyone_there(case):
        return None
    samples = {rank: kept for rank, kept in samples_of(case, doubt.since).items() if rank not in over}
    stood = poses(samples)
    # What moves is looked at again, but nothing is wrong with it.
    why = "" if any(pose.moving for pose in stood) else f"no progress for {_seconds(now - doubt.since)} s"
    overdue = _overdue(case, samples, stood, doubt, now)
    if timedelta(0) <= overdue < _NO_STACKS:
        return Want(True, why)
    found = _verdict(case, stood, doubt, world, now)
    # What was seen a while ago may have gone on since: nobody is judged without a last look.
    if found is not None and (overdue >= _NO_STACKS or not _is_stale(samples, now)):
        return found
    return Want(found is not None or overdue >= _NO_STACKS, why)


def told_hang(case: CaseFile, world: World) -> Hang | None:
    """After the fact: somebody wrote down that steps stopped, and perhaps each rank's stack."""
    told = [seen for seen in case.seen if seen.kind == "no_progress"]
    if not told or (case.last_step_at is not None and case.last_step_at > told[-1].at):
        return None
    stood = poses(samples_of(case, case.started_at))
    odd = odd_ones(stood, len(stood))
    named = {seen.rank for seen in told if seen.rank is not None}
    culprit = of_ranks(odd or named, world)
    texts = _words(stood, odd)
    certain = culprit != Culprit()
    return Hang(
        culprit, told[0].at, "rhythm", timedelta(0), "told", texts, 0.8 if certain else 0.5, tuple(told[:3])
    )


def suspicion(case: CaseFile, now: datetime) -> Suspicion | None:
    """Which of the deadlines has passed, the job's own rhythm first."""
    settings = case.hang
    if not settings.enabled:
        return None
    step_at = case.last_step_at or case.started_at
    if settings.adaptive and case.first_step_at is not None and case.rhythm:
        limit = adaptive_deadline(case)
        if now - step_at >= limit:
            return Suspicion("rhythm", step_at, limit)
    if now - case.started_at < settings.startup_toleration:
        return None
    log_at = max(case.last_log_at or case.started_at, case.started_at)
    heard = max(log_at, step_at)
    if now - heard >= settings.log_timeout:
        return Suspicion("log", heard, settings.log_timeout)
    if now - step_at >= settings.stack_timeout:
        return Suspicion("stack", step_at, settings.stack_timeout)
    return None


def adaptive_deadline(case: CaseFile) -> timedelta:
    """A pause that this job's rhythm seldom comes near: reason enough to look, not yet to judge."""
    rare = min(1.5 * longest_gap(case), _RARE)
    unknown = _YOUNG / len(case.rhythm) if case.rhythm else _YOUNG
    return min(max(_FLOOR, unknown, 4 * usual_gap(case), rare), case.hang.log_timeout)


def _anyone_there(case: CaseFile) -> bool:
    return any(view.state != "gone" for view in case.ranks)


def _without_the_dead(case: CaseFile) -> tuple[CaseFile, set[int]]:
    """Whoever is over shows nothing any more: its last heartbeat and its last stack were of another time."""
    over = {view.rank for view in case.ranks if view.state == "gone"}
    over |= {rank for pod in case.pods if not pod.alive for rank in pod.ranks}
    views = (
        replace(view, state="gone", cpu_moved=False, io_moved=False) if view.rank in over else view
        for view in case.ranks
    )
    return replace(case, ranks=tuple(views)), over


def _overdue(
    case: CaseFile, samples: dict[int, list[Sample]], stood: list[Pose], doubt: Suspicion, now: datetime
) -> timedelta:
    """For how long the next look has been due; below zero: it is not. Agents that do not answer are asked on,
    but not waited for."""
    since_doubt = now - doubt.since - doubt.deadline
    expected = [view.rank for view in case.ranks if view.state not in ("gone", "Z", "X")]
    newest = [samples[rank][-1].at for rank in expected if rank in samples]
    if not newest or (len(newest) < len(expected) and since_doubt <= _NO_STACKS):
        return since_doubt
    few = any(len(samples[rank]) < _TWICE for rank in expected if rank in samples)
    pause = _APART if few else max(_APART, _calm(stood, doubt, now))
    return now - min(newest) - pause


def _calm(stood: list[Pose], doubt: Suspicion, now: datetime) -> timedelta:
    """How long until the next look: the longer it lasts the longer, longer still where stacks move."""
    quiet = now - doubt.since
    alive = any(pose.moving for pose in stood)
    # the looks that are kept (master/evidence.py: STACKS_KEPT) must reach back over most of the pause
    return max(min(doubt.deadline / 3, quiet / 10), quiet / 20, doubt.deadline / 3 if alive else _APART)


def _is_stale(samples: dict[int, list[Sample]], now: datetime) -> bool:
    return bool(samples) and now - max(kept[-1].at for kept in samples.values()) > _LATELY


def _verdict(case: CaseFile, stood: list[Pose], doubt: Suspicion, world: World, now: datetime) -> Hang | None:
    quiet = now - doubt.since
    if not stood:
        return _unseen(case, doubt, quiet)
    runs = {view.rank for view in case.ranks if view.cpu_moved}
    waiting = crowd(stood, len(world.ranks), runs)
    scene = patience.Scene(case, stood, waiting, doubt.kind, quiet, _left(case, stood, world))
    needed = patience.needed(scene)
    if needed is None or any(pose.samples < _TWICE for pose in stood):
        return None
    if quiet < needed.quiet or any(pose.still < needed.still for pose in patience.decisive(scene)):
        return None
    left = sorted(scene.left) if not scene.busy else []
    record = recorder.of_case([seen for seen in case.seen if seen.at >= doubt.since])
    named = list(record.ranks) if record else []
    odd = left or named or odd_ones(stood, len(world.ranks), runs)
    culprit = of_ranks(odd, world) if odd else Culprit()
    confidence = 0.85 if culprit != Culprit() else 0.65
    words = (
        *((record.text,) if record else ()),
        *(f"rank {rank} has ended well" for rank in left[:3]),
        *_words(stood, odd),
    )
    doing = "left" if left else needed.doing
    suspected_at = doubt.since + doubt.deadline
    return Hang(culprit, doubt.since, doubt.kind, quiet, doing, words, confidence, suspected_at=suspected_at)


def _left(case: CaseFile, stood: list[Pose], world: World) -> frozenset[int]:
    """Ranks that ended well, or silently. (Who ended otherwise is told by how it ended.)"""
    ended = {rank for pod in case.pods if pod.exit_code == 0 for rank in pod.ranks}
    ended |= {view.rank for view in case.ranks if view.state == "gone"}
    return frozenset(ended & world.ranks - {pose.rank for pose in stood})


def _unseen(case: CaseFile, doubt: Suspicion, quiet: timedelta) -> Hang | None:
    """No stack can be read: a job in which nothing moves is called late, one that burns CPU later still."""
    if any(view.io_moved for view in case.ranks) or doubt.kind == "stack" or patience.debugged(case):
        return None
    burns = any(view.cpu_moved for view in case.ranks)
    needed = patience.unseen(case, burns=burns)
    if needed is None or quiet < max(needed, doubt.deadline + _NO_STACKS):
        return None
    text = f"no step, no I/O, {'CPU time but ' if burns else 'no CPU time; '}no stack could be read"
    return Hang(
        Culprit(), doubt.since, doubt.kind, quiet, "unseen", (text,), 0.5,
        suspected_at=doubt.since + doubt.deadline,
    )  # fmt: skip


def _words(stood: list[Pose], odd: list[int]) -> tuple[str, ...]:
    """Two differing stacks say more than all of them."""
    shown = [pose for pose in stood if pose.rank in odd][:2] or stood[:1]
    others = [pose for pose in stood if pose not in shown][:1]
    return tuple(
        f"rank {pose.rank} stands still in " + " <- ".join(pose.frames[:4]) for pose in [*shown, *others]
    )


def _seconds(length: timedelta) -> int:
    return round(length.total_seconds())
