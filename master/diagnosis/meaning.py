"""Makes the answer: class, cause, confidence, sentences, evidence, fingerprint."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import timedelta

from agent.signatures import Role
from master.casefile import CaseFile, Cause, Culprit, Diagnosis, Evidence, FaultClass, Seen
from master.diagnosis.arbitration import MACHINE, PLATFORM, UNCLEAR, Root
from master.diagnosis.chorus import Hearsay
from master.diagnosis.exits import End
from master.diagnosis.hang import Hang
from master.diagnosis.signs import CUSTOM, Sign, origin_of
from master.diagnosis.silence import Silence
from master.diagnosis.what import fingerprint, what, what_of_hang, what_of_hearsay, what_of_silence
from master.diagnosis.words import STOPPED, VANISHED, sentences

_EVIDENCE, _SYMPTOMS, _CLIP = 6, 8, 500
_NEAR = timedelta(seconds=120)
_POD_CAUSES = (Cause.POD_DELETED, Cause.POD_EVICTED, Cause.PREEMPTED, Cause.NODE_DOWN)
_FREE = (Cause.POD_DELETED, Cause.POD_EVICTED, Cause.PREEMPTED)
# What a process did, seen by its end; all else is seen by a line, whether or not the process lives on.
_BY_THE_END = (Cause.USER_CODE_ERROR, Cause.SEGFAULT, Cause.HOST_OOM, Cause.EXTERNAL_STOP, Cause.UNKNOWN,
               Cause.NETWORK_TCP)  # fmt: skip


def from_root(
    root: Root, culprit: Culprit, signs: Sequence[Sign], ends: Sequence[End], case: CaseFile
) -> Diagnosis:
    """The answer to a root cause."""
    root, confidence = _reconsidered(root, signs, case)
    retryable = root.retryable
    reason, advice = sentences(root.cause, culprit, *what(root.lead), name=root.lead.name)
    told = [*root.signs, *_supporting(root, culprit, signs)]
    return Diagnosis(
        fault_class=_class(root.cause, bool(ends), root.lead.name),
        cause=root.cause,
        culprit=culprit,
        confidence=confidence,
        hardware=root.hardware,
        retryable=retryable,
        trusted=any(sign.hardware and sign.trusted and sign.node == culprit.node for sign in root.signs),
        free=(root.cause in _FREE or root.lead.name == STOPPED) and retryable,
        fingerprint=fingerprint(root.cause, root.lead),
        reason=reason,
        advice=advice,
        evidence=_evidence(told, _EVIDENCE),
        at=min(sign.at for sign in root.signs),
        symptoms=_symptoms(signs, told),
    )


def _class(cause: Cause, ended: bool, name: str = "") -> FaultClass:
    if cause in _POD_CAUSES or name == STOPPED:
        return FaultClass.POD_LOST
    if cause is Cause.HEARTBEAT_LOST:
        return FaultClass.HEARTBEAT_LOST
    if cause is Cause.HANG:
        return FaultClass.HANG
    return FaultClass.PROCESS_EXIT if ended and cause in _BY_THE_END else FaultClass.ERROR_LOG


def _reconsidered(root: Root, signs: Sequence[Sign], case: CaseFile) -> tuple[Root, float]:
    """Readings that need more than the line itself."""
    lead = root.lead
    if lead.name == "exit.killed" and case.after_the_fact and not _kernel_heard(lead.node, signs):
        # Nobody watched that kernel: an unexplained SIGKILL is most often the OOM killer's (ColossalAI 3677).
        return _as(root, Cause.HOST_OOM, retryable=False), 0.5
    if lead.is_a("python.path") and _one_node_of_many(root, case):
        return _as(root, Cause.STORAGE_ERROR, retryable=True), 0.5
    if lead.is_a("cuda.illegal_access"):  # the program's or the device's; only a repeat tells
        by_all = {sign.rank for sign in root.signs} >= {rank for pod in case.pods for rank in pod.ranks}
        return (
            (_as(root, root.cause, retryable=False), 0.8) if by_all and len(root.signs) > 1 else (root, 0.5)
        )
    if lead.is_a("nccl.ib_setup") and _refused_everywhere(root, case):
        return _as(root, Cause.NCCL_CONFIG, retryable=False), 0.8
    if lead.name == VANISHED:  # that it is gone is certain, why is not
        return root, 0.5
    certain = {PLATFORM: 0.95, MACHINE: 0.95 if lead.trusted else 0.85, UNCLEAR: 0.35}
    return root, certain.get(root.tier, 0.7 if lead.name == "exit.killed" else 0.9)


def _as(root: Root, cause: Cause, *, retryable: bool) -> Root:
    changed = {id(sign): replace(sign, cause=cause, retryable=retryable) for sign in root.signs}
    lead = changed.get(id(root.lead)) or replace(root.lead, cause=cause, retryable=retryable)
    return replace(root, lead=lead, signs=tuple(changed.values()))


def _kernel_heard(node: str, signs: Iterable[Sign]) -> bool:
    return any(sign.node == node and sign.source.value == "node" for sign in signs)


def _refused_everywhere(root: Root, case: CaseFile) -> bool:
    """An argument that no node's card takes is a setting (FAULTS 3.1, row 17)."""
    nodes = {sign.node for sign in root.signs if "Invalid argument" in sign.captured.get("error", "")}
    return len(nodes) > 1 and nodes >= {pod.node for pod in case.pods}


def _one_node_of_many(root: Root, case: CaseFile) -> bool:
    """Files that only one of several nodes cannot find: its mount's fault, not the program's."""
    nodes = {pod.node for pod in case.pods}
    return len(nodes) > 1 and len({sign.node for sign in root.signs}) == 1


def _supporting(root: Root, culprit: Culprit, signs: Iterable[Sign]) -> list[Sign]:
    """What else the culprit itself shows, near in time."""
    own = {id(sign) for sign in root.signs}
    near = (sign for sign in signs if id(sign) not in own and abs(sign.at - root.lead.at) <= _NEAR)
    return [sign for sign in near if _shown_by(sign, culprit)]


def _shown_by(sign: Sign, culprit: Culprit) -> bool:
    if sign.rank is not None:
        return sign.rank == culprit.rank
    return sign.role is not Role.EVIDENCE and sign.node == culprit.node and sign.trusted


def from_silence(gone: Silence, signs: Sequence[Sign]) -> Diagnosis:
    """The answer to a rank or node that went silent."""
    reason, advice = sentences(gone.cause, gone.culprit, *what_of_silence(gone))
    where = gone.culprit
    return Diagnosis(
        fault_class=gone.fault_class,
        cause=gone.cause,
        culprit=where,
        confidence=gone.confidence,
        hardware=gone.hardware,
        retryable=True,
        trusted=False,
        free=False,
        fingerprint=f"{gone.cause}/state.{gone.state or 'silent'}",
        reason=reason,
        advice=advice,
        evidence=(
            *_written(gone.told),
            *(
                Evidence(gone.at, "agent", _clip(text), where.rank, where.pod, where.node)
                for text in gone.texts
            ),
        ),
        at=gone.at,
        symptoms=_symptoms(signs, ()),
    )


def from_hearsay(heard: Hearsay, signs: Sequence[Sign], ended: bool) -> Diagnosis:
    """The answer where only victims spoke."""
    reason, advice = sentences(heard.cause, heard.culprit, *what_of_hearsay(heard))
    return Diagnosis(
        fault_class=_class(heard.cause, ended),
        cause=heard.cause,
        culprit=heard.culprit,
        confidence=heard.confidence,
        hardware=heard.hardware,
        retryable=heard.retryable,
        trusted=False,
        free=False,
        fingerprint=f"{heard.cause}/{heard.signs[0].name if heard.signs else 'recorder'}",
        reason=reason,
        advice=advice,
        evidence=(*_recorded(heard), *_evidence(heard.signs, _EVIDENCE)),
        at=min(one.at for one in heard.signs or (heard.record.told if heard.record else ())),
        symptoms=_symptoms(signs, heard.signs),
    )


def _recorded(heard: Hearsay) -> Iterable[Evidence]:
    """What the flight recorder says, by the first dump of those whom it names."""
    if heard.record is not None:
        one = heard.record.told[0]
        yield from _written([replace(one, data={**one.data, "text": heard.record.text})])


def from_hang(stuck: Hang, case: CaseFile) -> Diagnosis:
    """The answer to a hang."""
    reason, advice = sentences(Cause.HANG, stuck.culprit, *what_of_hang(stuck))
    where = stuck.culprit
    return Diagnosis(
        fault_class=FaultClass.HANG,
        cause=Cause.HANG,
        culprit=where,
        confidence=stuck.confidence,
        hardware=False,
        retryable=True,
        trusted=False,
        free=False,
        fingerprint=f"hang/{stuck.doing}",
        reason=reason,
        advice=advice,
        evidence=(
            *_written(stuck.told),
            *(
                Evidence(case.last_step_at or stuck.at, "agent", _clip(text))
                for text in stuck.texts[:_EVIDENCE]
            ),
        ),
        at=stuck.at,
        suspected_at=stuck.suspected_at,
    )


def _written(told: Iterable[Seen]) -> Iterable[Evidence]:
    """What somebody wrote down of a silent rank."""
    for seen in told:
        text = _clip(str(seen.data.get("text") or seen.kind.replace("_", " ")))
        yield Evidence(
            seen.at, "agent", text, seen.rank, seen.pod or None, seen.node or None, **origin_of(seen)
        )


def _evidence(signs: Iterable[Sign], limit: int) -> tuple[Evidence, ...]:
    """Distinct lines, the first of each form and writer."""
    chosen: dict[tuple[str, int | None, str], Sign] = {}
    for sign in signs:
        chosen.setdefault((re.sub(r"\d+", "#", sign.text), sign.rank, sign.node), sign)
    return tuple(
        Evidence(
            sign.at,
            _source(sign),
            _clip(sign.text),
            sign.rank,
            sign.pod,
            sign.node or None,
            sign.file,
            sign.line_no,
        )
        for sign in list(chosen.values())[:limit]
    )


def _symptoms(signs: Sequence[Sign], told: Iterable[Sign]) -> tuple[Evidence, ...]:
    names = {id(sign) for sign in told}
    felt = [sign for sign in signs if sign.role is not Role.EVIDENCE and id(sign) not in names]
    return _evidence(felt, _SYMPTOMS)


def _source(sign: Sign) -> str:
    if sign.is_a("exit."):
        return "exit"
    return "log" if sign.source.value == "agent" or sign.name == CUSTOM else sign.source.value


def _clip(text: str) -> str:
    return text if len(text) <= _CLIP else text[: _CLIP - 1] + "…"
