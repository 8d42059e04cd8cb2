"""No rank makes progress: from suspicion by silence to a verdict by stacks, CPU and I/O.

RECOVERY.md tells a hang from a long phase: what moves (a stack, bytes) is alive; what stands still is judged
the sooner the surer it is. A pause of 20 s in `sleep` or of 15 s in one busy line is still healthy.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from master.casefile import CaseFile, Culprit, RankView, Seen, Want
from master.diagnosis.culprit import of_ranks
from master.diagnosis.progress import has_rhythm, longest_gap, usual_gap
from master.diagnosis.stacks import Doing, Pose, Sample, odd_ones, poses, samples_of
from master.diagnosis.world import World

_FLOOR = timedelta(seconds=5)
_TWICE = 2
_APART = timedelta(seconds=1.5)  # between two samples that are to show whether a stack moves
_SPINNING = timedelta(seconds=18)  # one busy line that never moves
_BLOCKED = timedelta(seconds=30)  # no CPU, no I/O, in code of its own: a lock, a sleep
_OUTSIDE = timedelta(seconds=60)  # data, storage, a service
_STILL = timedelta(seconds=6)  # over which a busy rank's samples must agree
_NO_STACKS = timedelta(seconds=15)  # beyond the deadline, then CPU and I/O alone must do
_PATIENCE = 4  # time-outs that a long phase which shows life is given


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
    doing: str  # spinning | blocked | outside | everyone | unseen
    texts: tuple[str, ...]
    confidence: float
    told: tuple[Seen, ...] = ()  # after the fact: who wrote it down


def hang(case: CaseFile, world: World, now: datetime) -> Hang | Want | None:
    """A hang, what is still wanted to tell, or nothing."""
    doubt = suspicion(case, now)
    if doubt is None or not _anyone_there(case):
        return None
    samples = samples_of(case, doubt.since)
    if _fresh_wanted(case, samples, doubt, now):
        return Want(True, f"no progress for {_seconds(now - doubt.since)} s")
    return _verdict(case, samples, doubt, world, now)


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
    if settings.adaptive and case.first_step_at is not None and has_rhythm(case):
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
    """A pause that this job's own rhythm has never come near."""
    limit = max(_FLOOR, 4 * usual_gap(case), 1.5 * longest_gap(case))
    return min(limit, case.hang.log_timeout)


def _anyone_there(case: CaseFile) -> bool:
    return any(view.state != "gone" for view in case.ranks)


def _fresh_wanted(case: CaseFile, samples: dict[int, list[Sample]], doubt: Suspicion, now: datetime) -> bool:
    """Whether stacks should be asked for: too few so far, or the newest are old by now."""
    if now - doubt.since > doubt.deadline + _NO_STACKS and not samples:
        return _ask_again(now, doubt)
    expected = [view.rank for view in case.ranks if view.state not in ("gone", "Z", "X")]
    newest = [samples[rank][-1].at for rank in expected if rank in samples]
    if len(newest) < len(expected):
        return now - doubt.since <= doubt.deadline + _NO_STACKS
    few = any(len(samples[rank]) < _TWICE for rank in expected)
    pause = _APART if few else max(_APART, doubt.deadline / 3)
    return pause <= now - min(newest, default=now) < pause + _NO_STACKS  # an agent may never answer


def _ask_again(now: datetime, doubt: Suspicion) -> bool:
    """Now and then, though nothing came so far."""
    over = (now - doubt.since - doubt.deadline).total_seconds()
    return over % 60 < 1


def _verdict(
    case: CaseFile, samples: dict[int, list[Sample]], doubt: Suspicion, world: World, now: datetime
) -> Hang | None:
    quiet = now - doubt.since
    stood = poses(samples)
    if not stood:
        return _unseen(case, doubt, quiet)
    busy = [pose for pose in stood if pose.doing is not Doing.WAITING]
    doing, needed = _needed(busy, case)
    if _alive(case, stood, doubt, quiet) or _too_early(stood, doubt, quiet, needed, case):
        return None
    odd = odd_ones(stood, len(world.ranks))
    culprit = of_ranks(odd, world) if odd else Culprit()
    confidence = 0.85 if culprit != Culprit() else 0.65
    return Hang(culprit, doubt.since, doubt.kind, quiet, doing, _words(stood, odd), confidence)


def _too_early(
    stood: list[Pose], doubt: Suspicion, quiet: timedelta, needed: timedelta, case: CaseFile
) -> bool:
    """What is seen could still be a healthy pause."""
    if any(pose.samples < _TWICE for pose in stood):
        return True
    if doubt.kind == "rhythm" and quiet < min(needed, case.hang.log_timeout):
        return True
    if doubt.kind == "stack" and min(pose.still for pose in stood) < 0.9 * case.hang.stack_timeout:
        return True
    still = min(needed / 3, _STILL)
    return any(pose.still < still for pose in stood if pose.doing is not Doing.WAITING)


def _alive(case: CaseFile, stood: list[Pose], doubt: Suspicion, quiet: timedelta) -> bool:
    """A stack that moves, bytes that flow, a compiler at work: a long phase. It gets several time-outs."""
    patience = _PATIENCE * case.hang.log_timeout
    if any(pose.moving for pose in stood):
        return doubt.kind != "log" or quiet < patience
    if any(pose.doing is Doing.COMPILING for pose in stood):
        return quiet < patience
    io_moves = any(view.io_moved for view in case.ranks)
    return io_moves and doubt.kind != "stack" and quiet < patience


def _needed(busy: list[Pose], case: CaseFile) -> tuple[str, timedelta]:
    """What the odd ranks are at, and how long that may last in a healthy job."""
    if not busy:
        return "everyone", timedelta(0)
    views: dict[int, RankView] = {view.rank: view for view in case.ranks}
    if any(pose.doing is Doing.OUTSIDE for pose in busy):
        return "outside", max(_OUTSIDE, 3 * longest_gap(case))
    if all(pose.rank in views and _runs(views[pose.rank]) for pose in busy):
        return "spinning", max(_SPINNING, 3 * longest_gap(case))
    return "blocked", max(_BLOCKED, 3 * longest_gap(case))


def _runs(view: RankView) -> bool:
    """On a CPU now and before; a blocked process also gains a tick now and then, by its helper threads."""
    return view.state == "R" and view.cpu_moved


def _unseen(case: CaseFile, doubt: Suspicion, quiet: timedelta) -> Hang | None:
    """No stack can be read: a job in which nothing moves is called late, one that burns CPU later still."""
    if any(view.io_moved for view in case.ranks) or doubt.kind == "stack":
        return None
    burns = any(view.cpu_moved for view in case.ranks)
    if quiet < max(case.hang.log_timeout if burns else _BLOCKED, doubt.deadline + _NO_STACKS):
        return None
    text = f"no step, no I/O, {'CPU time but ' if burns else 'no CPU time; '}no stack could be read"
    return Hang(Culprit(), doubt.since, doubt.kind, quiet, "unseen", (text,), 0.5)


def _words(stood: list[Pose], odd: list[int]) -> tuple[str, ...]:
    """Two differing stacks say more than all of them."""
    shown = [pose for pose in stood if pose.rank in odd][:2] or stood[:1]
    others = [pose for pose in stood if pose not in shown][:1]
    return tuple(
        f"rank {pose.rank} stands still in " + " <- ".join(pose.frames[:4]) for pose in [*shown, *others]
    )


def _seconds(length: timedelta) -> int:
    return round(length.total_seconds())
