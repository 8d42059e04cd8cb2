"""The order of judgement: root causes, then silent ranks, then what victims say, then the hang."""

import signal
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from agent.signatures import Role, Trigger
from master.casefile import CaseFile, Cause, Diagnosis, Want
from master.diagnosis.arbitration import CLOCKS_APART, MACHINE, PLATFORM, Root, root_of, with_others
from master.diagnosis.chorus import Hearsay, hearsay, recorded
from master.diagnosis.culprit import locate
from master.diagnosis.exits import LAUNCHERS, STOPS, End, ends, exit_signs
from master.diagnosis.hang import Hang, hang, told_hang
from master.diagnosis.meaning import from_hang, from_hearsay, from_root, from_silence
from master.diagnosis.platform import pod_signs
from master.diagnosis.progress import handled, has_rhythm, survived, usual_gap
from master.diagnosis.recorder import alone, standing
from master.diagnosis.signs import CUSTOM, Sign, read_lines
from master.diagnosis.silence import silence
from master.diagnosis.strangers import is_back, of_strangers
from master.diagnosis.world import World, as_int

# How long other evidence is waited for, from the first sign on.
_FOR_A_ROOT = timedelta(seconds=1)
_FOR_AN_UNCLEAR_ROOT = timedelta(seconds=2)
_FOR_SYMPTOMS = timedelta(seconds=3)
_FOR_THE_AGENT = timedelta(seconds=6)
_FOR_THE_CHORUS = timedelta(seconds=5)
_STUCK = timedelta(seconds=10)
_BESIDE = timedelta(seconds=60)
_NOTICE = timedelta(minutes=5)
_NOTHING, _A_MOMENT = timedelta(0), timedelta(seconds=1)


@dataclass(frozen=True)
class Scene:
    """All there is to judge."""

    case: CaseFile
    world: World
    signs: tuple[Sign, ...]
    ends: tuple[End, ...]
    now: datetime


def diagnose(case: CaseFile, now: datetime) -> Diagnosis | Want | None:
    """What went wrong; what is still wanted to tell; or None: nothing did, or it is too early to say."""
    world = World(case)
    if _ended_well(case):
        return None
    scene = _scene(case, world, now)
    alarming = [sign for sign in scene.signs if _counts(sign, scene)]
    if alarming and case.after_the_fact:
        scene = _by_one_clock(scene)
        alarming = [sign for sign in scene.signs if _counts(sign, scene)]
    counted = {id(sign) for sign in alarming}
    root = root_of([sign for sign in scene.signs if id(sign) in counted or sign.role is not Role.CULPRIT])
    if root is not None and alarming:
        aside = [sign for sign in scene.signs if id(sign) not in counted]
        root = with_others(root, aside, world.nodes)
        return _when_settled(scene, _root_ripens(root, alarming), _from_root(root, scene))
    if (gone := silence(case, list(scene.ends), world, now)) is not None:
        return from_silence(gone, scene.signs)
    if alarming and (heard := hearsay(scene.signs, world, standing(case))) is not None:
        answer = from_hearsay(heard, scene.signs, bool(scene.ends))
        return _when_settled(scene, _hearsay_ripens(heard, scene, alarming), answer)
    if case.after_the_fact and (record := alone(case)) is not None:  # live, stacks must say so too
        return from_hearsay(recorded(record, Cause.HANG, world, 0.6), scene.signs, bool(scene.ends))
    stuck = told_hang(case, world) if case.after_the_fact else hang(case, world, now)
    return from_hang(stuck, case) if isinstance(stuck, Hang) else stuck


def _ended_well(case: CaseFile) -> bool:
    return bool(case.pods) and all(pod.exit_code == 0 for pod in case.pods)


def _scene(case: CaseFile, world: World, now: datetime) -> Scene:
    lines = read_lines(case, world)
    found = ends(case.seen, world)
    signs = [*(sign for sign in lines if not sign.is_a(*LAUNCHERS)), *exit_signs(found, lines, world)]
    signs += pod_signs(case, world)
    signs = [_in_context(sign, signs) for sign in signs]
    return Scene(case, world, tuple(sorted(signs, key=lambda sign: sign.at)), tuple(found), now)


def _by_one_clock(scene: Scene) -> Scene:
    """Who felt an end before training's last step, and nothing after it, has a clock that is behind: what is
    of that node happened later by the clock of whoever tells the steps. So has a node that others missed
    after that step, and whose own errors all came before."""
    last = scene.case.last_step_at
    if last is None:
        return scene
    felt: dict[str, list[datetime]] = defaultdict(list)
    moments = [(end.node, end.at) for end in scene.ends]
    moments += [(sign.node, sign.at) for sign in scene.signs if sign.role is Role.SYMPTOM]
    peers = {sign.captured.get("peer", "") for sign in scene.signs if sign.at >= last}
    missed = {scene.world.node_at(peer) for peer in peers}
    moments += [
        (sign.node, sign.at) for sign in scene.signs if sign.role is Role.CULPRIT and sign.node in missed
    ]
    for node, at in moments:
        if abs(at - last) <= CLOCKS_APART:
            felt[node].append(at)
    behind = {node: last - min(times) for node, times in felt.items() if max(times) < last}
    signs = [replace(sign, at=sign.at + behind.get(sign.node, _NOTHING)) for sign in scene.signs]
    found = [replace(end, at=end.at + behind.get(end.node, _NOTHING)) for end in scene.ends]
    return replace(scene, signs=tuple(sorted(signs, key=lambda sign: sign.at)), ends=tuple(found))


def _in_context(sign: Sign, signs: Sequence[Sign]) -> Sign:
    """What other signs of its machine make of a sign."""
    here = [one for one in signs if one.node == sign.node and one is not sign]
    if sign.is_a("cuda.user") and "invalid device ordinal" in sign.text:
        # a device that the program asks for in vain on a machine that has fewer than it should
        if any(one.is_a("cuda.devices_missing") and _fewer(one) for one in here):
            return replace(sign, cause=Cause.CONTAINER_GPU_LOST, hardware=True, retryable=True, rank=None)
    elif sign.is_a("cuda.no_device", "cuda.container") and not sign.is_a("cuda.container_start"):
        # the container lost its way to devices that work: toolkit issue 48
        if any(one.is_a("cuda.container") for one in (sign, *here)):
            return replace(sign, hardware=False, rank=None)
    elif sign.is_a("exit.crashed", "crash.kernel_segfault") and _is_illegal(sign):
        # instructions that the processor lacks end more than one process
        others = {one.captured.get("pid") for one in here if _is_illegal(one)}
        if others - {sign.captured.get("pid"), None}:
            return replace(sign, cause=Cause.ENV_MISMATCH, retryable=False)
    return sign


def _is_illegal(sign: Sign) -> bool:
    if sign.is_a("elastic.signal_received"):
        return sign.captured.get("signal") == str(int(signal.SIGILL))
    return sign.is_a("exit.crashed", "crash.kernel") and (
        "SIGILL" in sign.text or "invalid opcode" in sign.text
    )


def _fewer(counted: Sign) -> bool:
    known = counted.captured
    seen = as_int(known.get("seen") or known.get("seen_then"))
    wanted = as_int(known.get("wanted") or known.get("wanted_first"))
    return seen is not None and wanted is not None and seen < wanted


def _counts(sign: Sign, scene: Scene) -> bool:
    """Whether a sign is reason enough, by itself, to call a fault now."""
    case = scene.case
    is_strange = of_strangers(sign, scene.signs, scene.ends, scene.world) or is_back(sign, scene.signs, case)
    if (
        sign.role is Role.EVIDENCE
        or sign.trigger is Trigger.NEVER
        or is_strange
        or _is_tear_down(sign, scene)
    ):
        return False
    if sign.is_a("exit.", "pod_", "node_lost") or sign.name == CUSTOM:
        return not _of_another_job(sign, scene)
    if sign.trigger is Trigger.AT_ONCE:
        return sign.trusted or not survived(case, sign.at)
    if not _ended_of_it(sign, scene) and handled(case, sign.at):
        return False
    if bool(scene.ends) or _stood_since(case, sign, scene.now):
        return True
    return case.after_the_fact and (sign.rank is not None or _others_suffer(sign, scene))


def _is_tear_down(sign: Sign, scene: Scene) -> bool:
    """What is felt once training has said that it is done, and nobody ended badly."""
    done = max((one.at for one in scene.signs if one.is_a("job.finished")), default=None)
    if done is None or sign.role is not Role.SYMPTOM or any(end.signal not in STOPS for end in scene.ends):
        return False
    went_on = scene.case.last_step_at is not None and scene.case.last_step_at > done + _A_MOMENT
    return not went_on and abs(sign.at - done) <= CLOCKS_APART


def _ended_of_it(sign: Sign, scene: Scene) -> bool:
    """Whoever wrote it ended badly. What the kernel tells of killed was somebody on that machine, about then:
    steps that were made later may be others', or those of a clock that is ahead."""
    if sign.rank is not None or not sign.trusted:
        return any(end.rank == sign.rank and end.rank is not None for end in scene.ends)
    killed = (end for end in scene.ends if end.signal == signal.SIGKILL and end.node == sign.node)
    return sign.is_a("memory.") and any(abs(end.at - sign.at) <= _BESIDE for end in killed)


def _of_another_job(sign: Sign, scene: Scene) -> bool:
    """Written-down words of a pod may be of anybody's: ours would not have made steps afterwards."""
    elsewhere = sign.is_a("pod_", "node_lost") and scene.case.after_the_fact and not scene.ends
    return elsewhere and survived(scene.case, sign.at) and not _was_a_notice(sign, scene)


def _was_a_notice(sign: Sign, scene: Scene) -> bool:
    """A machine that is to be taken back goes on for some minutes, and then others miss it."""
    if sign.captured.get("reason") != "notice":
        return False
    missed = (
        one for one in scene.signs if one.role is Role.SYMPTOM and timedelta(0) <= one.at - sign.at <= _NOTICE
    )
    return any(scene.world.node_at(one.captured.get("peer", "")) == sign.node for one in missed)


def _others_suffer(sign: Sign, scene: Scene) -> bool:
    """A machine's trouble is a fault of the run once somebody in it felt it."""
    felt = (one for one in scene.signs if one.role is not Role.EVIDENCE and one.name != sign.name)
    return not sign.trusted or any(not one.trusted for one in felt) or _told_of_silence(scene.case)


def _told_of_silence(case: CaseFile) -> bool:
    return any(seen.kind in ("heartbeat_missing", "no_progress") for seen in case.seen)


def _stood_since(case: CaseFile, sign: Sign, now: datetime) -> bool:
    """Training made steps before, none since, and by its rhythm should have."""
    if case.last_step_at is None or not has_rhythm(case):
        return False
    return now - max(sign.at, case.last_step_at) >= max(_STUCK, 4 * usual_gap(case))


def _when_settled(scene: Scene, ripe_at: datetime, answer: Diagnosis) -> Diagnosis | None:
    return answer if scene.case.after_the_fact or scene.now >= ripe_at else None


def _root_ripens(root: Root, alarming: Sequence[Sign]) -> datetime:
    """When a root cause may be told: whatever beats it would have been seen by then."""
    lead, first = root.lead, min(sign.at for sign in alarming)
    if lead.name == "pod_vanished":
        return lead.at + _FOR_SYMPTOMS
    if root.tier == PLATFORM:
        return first
    if root.tier == MACHINE or not lead.is_a("exit.code", "exit.aborted"):
        return first + _FOR_A_ROOT
    # Of a pod that ended, its agent has yet to tell which process did, and how.
    return lead.at + (_FOR_AN_UNCLEAR_ROOT if lead.rank is not None else _FOR_THE_AGENT)


def _hearsay_ripens(heard: Hearsay, scene: Scene, alarming: Sequence[Sign]) -> datetime:
    """Somebody who has not spoken yet may be the one: victims come first."""
    first = min(sign.at for sign in alarming)
    if heard.signs[0].is_a("c10d.watchdog_timeout", "c10d.work_counters"):
        return first + _FOR_THE_CHORUS
    spoke = {sign.rank for sign in scene.signs if sign.rank is not None}
    return first + (_FOR_SYMPTOMS if spoke >= scene.world.ranks else _FOR_THE_AGENT)


def _from_root(root: Root, scene: Scene) -> Diagnosis:
    culprit = locate(root, scene.signs, scene.ends, scene.world)
    return from_root(root, culprit, scene.signs, scene.ends, scene.case)
