"""Which faults one set of logs holds: the root cause, and what is no consequence of it."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta

from master.bundleread import Bundle, read_seen
from master.casefile import CaseFile, Diagnosis, Want
from master.diagnosis import diagnose

MOST = 5
_LONG_AFTER = timedelta(days=1)
_AGAIN = 3  # so many steps after a fault: training was started again
_A_MOMENT = timedelta(seconds=1)  # a step that was under way may still end


def faults_of(bundle: Bundle) -> list[Diagnosis]:
    """The root cause first. After it only machines that broke by their own kernel's word, and what went wrong
    once training went on again: all else follows from the first."""
    found: list[Diagnosis] = []
    for fault in _in_turn(bundle):
        if all(_is_another(fault, known) for known in found):
            found.append(fault)
        if len(found) >= MOST:
            break
    return found


def _in_turn(bundle: Bundle) -> Iterator[Diagnosis]:
    rest: Bundle | None = bundle
    for _ in range(MOST):
        first = _diagnosed(rest.case, rest) if rest is not None else None
        if rest is None or first is None:
            return
        since = _again_since(rest, first)
        if since is not None:  # what came later is none of its evidence
            earlier = tuple(one for one in rest.case.seen if one.at < since)
            before = _diagnosed(replace(rest.case, seen=earlier), rest)
            first = before if before is not None and before.cause is first.cause else first
        yield first
        yield from _beside(rest, first)
        rest = _part_from(rest, since) if since is not None else None


def _diagnosed(case: CaseFile, bundle: Bundle) -> Diagnosis | None:
    found = diagnose(case, bundle.ended_at + _LONG_AFTER)
    return None if isinstance(found, Want) else found


def _is_another(fault: Diagnosis, known: Diagnosis) -> bool:
    return (fault.cause, fault.culprit, fault.at) != (known.cause, known.culprit, known.at)


def _beside(bundle: Bundle, first: Diagnosis) -> Iterator[Diagnosis]:
    """Other machines that broke at the same time."""
    known = {first.culprit.node}
    for _ in range(MOST):
        if not all(known):
            return
        seen = tuple(one for one in bundle.case.seen if one.node not in known)
        other = _diagnosed(replace(bundle.case, seen=seen), bundle)
        if other is None or not (other.hardware and other.trusted) or other.culprit.node in known:
            return
        known.add(other.culprit.node)
        yield other


def _again_since(bundle: Bundle, first: Diagnosis) -> datetime | None:
    """When training was started again after a fault; None where it was not."""
    later = [mark for mark in bundle.marks if mark[0] > first.at + _A_MOMENT]
    steps = {step if step is not None else at for at, step in later}
    return later[0][0] if len(steps) >= _AGAIN else None


def _part_from(bundle: Bundle, since: datetime) -> Bundle:
    seen = [one for one in bundle.case.seen if one.at >= since]
    marks = [mark for mark in bundle.marks if mark[0] >= since]
    nodes = [(pod.node, "", pod.ranks) for pod in bundle.case.pods]
    span = (since, bundle.ended_at)
    return read_seen(seen, marks, nodes, span, addresses=bundle.case.nodes_by_address)
