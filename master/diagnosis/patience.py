"""How long what stands still may stand before it is a hang.

Two signs that do not depend on each other make a hang: the stacks, and CPU and bytes. Where only one is to be
had (the host of a GPU spins while it waits, healthy or not) time must make up for the other. Phases known to
last (evaluation, checkpoints, compilation, a start) have the patience of several time-outs. The figures are
those that call no healthy job hung in a thousand hours of bench/healthy.py.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from master.casefile import CaseFile, RankView
from master.diagnosis.progress import longest_gap, usual_gap
from master.diagnosis.stacks import Doing, Phase, Pose

_SPINNING = timedelta(seconds=18)  # one busy line that never moves, while others wait
_BLOCKED = timedelta(seconds=30)  # no CPU, no I/O, in code of its own: a lock, a sleep
_TOGETHER = timedelta(seconds=20)  # all in a collective, with CPU: NCCL spins
_OUTSIDE = timedelta(minutes=3)  # data, storage, a service: slow ones answer in the end
_STALLED = timedelta(minutes=5)  # a checkpoint of which no byte is written
_DARK = timedelta(minutes=2)  # without a stack
_ALONE = timedelta(minutes=2)  # a job of one rank, or the last one that is left
_STILL = timedelta(seconds=6)  # over which a busy rank's samples must agree
_AFTER_LIFE = 4  # times as long where a stack moved, or bytes, since the suspicion
_LONG = 10  # time-outs
_MANY = 10  # looks at each rank
_ROUNDS = 5
_RARE = timedelta(minutes=2)  # what rare pauses of the past may add where all signs agree


@dataclass(frozen=True)
class Scene:
    """`waiting`: ranks that wait for others; `kind`: of the suspicion."""

    case: CaseFile
    stood: Sequence[Pose]
    waiting: frozenset[int]
    kind: str
    quiet: timedelta
    left: frozenset[int] = frozenset()  # ranks that ended well

    @property
    def busy(self) -> list[Pose]:
        return [pose for pose in self.stood if pose.rank not in self.waiting]

    def flat(self, poses: Sequence[Pose]) -> bool:
        """Whether these ranks use neither CPU nor bytes."""
        views = {view.rank: view for view in self.case.ranks}
        return all(
            not (views[pose.rank].cpu_moved or views[pose.rank].io_moved)
            for pose in poses
            if pose.rank in views
        )


@dataclass(frozen=True)
class Needed:
    """`quiet`: since the last news; `still`: for how long the decisive stacks have not moved."""

    doing: str
    quiet: timedelta
    still: timedelta


def long(case: CaseFile) -> timedelta:
    return max(_LONG * case.hang.log_timeout, 3 * longest_gap(case))


def debugged(case: CaseFile) -> bool:
    """A person holds a rank. (`T`, a process that was stopped and is not traced, is told elsewhere.)"""
    return any(view.state == "t" for view in case.ranks)


def unseen(case: CaseFile, *, burns: bool) -> timedelta | None:
    """Without a stack. `burns`: CPU is used; where none is, the silence of all must itself have lasted."""
    if burns:
        return None if _is_mute(case) else long(case)
    rested = all(view.still is None or view.still >= _DARK for view in case.ranks if view.state != "gone")
    return max(_DARK, 1.5 * longest_gap(case)) if rested else None


def decisive(scene: Scene) -> Sequence[Pose]:
    """Whose standing still decides: those who do not wait, else all; where logs flow, always all."""
    return scene.stood if scene.kind == "stack" or not scene.busy else scene.busy


def needed(scene: Scene) -> Needed | None:
    """What it takes to call this scene a hang; None: nothing can be said as long as it looks so."""
    if debugged(scene.case) or any(view.io_moved for view in scene.case.ranks) or _compiles(scene):
        return _at_last(scene, "blocked")
    if any(pose.moving for pose in scene.stood):
        return _of_the_restless(scene)
    if scene.left and not scene.busy and not _lasting(scene):
        return Needed("left", _TOGETHER, _least(scene, _TOGETHER if len(scene.stood) > 1 else _ALONE))
    if _for_devices(scene):
        return _of_devices(scene)
    return _of_the_odd(scene) if scene.busy else _of_everyone(scene)


def _lasting(scene: Scene) -> bool:
    """Whether all this may be a phase of its own; in a collective there is none that lasts."""
    return any(pose.phase is not Phase.TRAINING and not pose.together for pose in scene.stood)


def _compiles(scene: Scene) -> bool:
    return any(pose.doing is Doing.COMPILING for pose in scene.stood)


def _at_last(scene: Scene, doing: str) -> Needed | None:
    """What shows life has long patience, and for ever where nothing but time speaks for a hang."""
    return (
        None
        if scene.kind == "stack" or _is_mute(scene.case)
        else Needed(doing, long(scene.case), timedelta(0))
    )


def _is_mute(case: CaseFile) -> bool:
    """A job that tells neither steps nor, since it started, lines: its silence says nothing."""
    lately = (
        case.last_log_at is not None and case.last_log_at - case.started_at > case.hang.startup_toleration
    )
    return case.last_step_at is None and not lately


def _of_the_restless(scene: Scene) -> Needed | None:
    """What moves is alive; what goes round between few places, without CPU or bytes, tries in vain."""
    round_and_round = scene.busy and all(pose.rounds >= _ROUNDS for pose in scene.busy)
    told = scene.kind != "stack" and not _is_mute(scene.case)
    if round_and_round and told and scene.waiting and scene.flat(scene.busy):
        return Needed("blocked", 2 * scene.case.hang.log_timeout, timedelta(0))
    return _at_last(scene, "spinning")


def _for_devices(scene: Scene) -> bool:
    """Whether what is seen may be hosts that wait for GPUs at work: at lines of their own, with CPU."""
    if scene.busy and scene.waiting:
        return False
    views = {view.rank: view for view in scene.case.ranks}
    if not all(pose.doing is Doing.OWN and _runs(views, pose) and not pose.holds for pose in scene.busy):
        return False
    return not all(pose.together for pose in scene.stood) and not scene.flat(scene.stood)


def _of_devices(scene: Scene) -> Needed | None:
    """CPU time is no sign here, and a loop over batches is seen at one line nearly always. But somewhere in
    each round its main thread waits for something else than the device and goes on."""
    timeout = scene.case.hang.log_timeout
    if all(pose.looks >= _MANY and not pose.woken for pose in scene.stood):
        return Needed("device", timeout, _least(scene, timeout))
    return _at_last(scene, "device")


def _of_everyone(scene: Scene) -> Needed:
    """All wait for each other."""
    if scene.flat(scene.stood):
        return Needed("everyone", timedelta(0), _least(scene, timedelta(0)))
    return Needed("everyone", _TOGETHER, _least(scene, _TOGETHER))


def _of_the_odd(scene: Scene) -> Needed:
    """What the odd ranks are at, and how long that may last in a healthy job."""
    doing, base = _base(scene)
    rare = max(base, 2 * usual_gap(scene.case), min(3 * longest_gap(scene.case), _RARE))
    if any(pose.moved for pose in scene.busy):
        return Needed(doing, rare, _least(scene, _AFTER_LIFE * base))
    return Needed(doing, rare, _least(scene, min(base / 3, _STILL) if scene.kind == "rhythm" else base))


def _base(scene: Scene) -> tuple[str, timedelta]:
    views = {view.rank: view for view in scene.case.ranks}
    phases = {pose.phase for pose in scene.busy}
    runs = all(_runs(views, pose) for pose in scene.busy)
    outside = any(pose.doing is Doing.OUTSIDE for pose in scene.busy)
    doing = "outside" if outside else "spinning" if runs else "blocked"
    if phases & {Phase.SAVING, Phase.STARTING}:
        return doing, min(_STALLED, long(scene.case))
    if Phase.EVALUATING in phases:
        return doing, long(scene.case) if runs else _OUTSIDE
    alone = timedelta(0) if scene.waiting else _ALONE  # nobody who waits for it is a second sign
    return doing, _OUTSIDE if outside else max(alone, _SPINNING) if runs else _BLOCKED


def _least(scene: Scene, still: timedelta) -> timedelta:
    """Where lines flow, stacks alone must show it, for as long as the job's settings say."""
    return max(still, 0.9 * scene.case.hang.stack_timeout) if scene.kind == "stack" else still


def _runs(views: dict[int, RankView], pose: Pose) -> bool:
    """On a CPU now and before; a blocked process also gains a tick now and then, by its helper threads."""
    view = views.get(pose.rank)
    return view is not None and view.state == "R" and view.cpu_moved
