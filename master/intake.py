"""Takes reports of agents: whose they are is said by the token, never by the body (RELIABILITY 2.7)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from agent.wire import URGENT, Kind
from master import nodesignals, steps
from master.casefile import Source
from master.diagnosis.signs import CUSTOM
from master.evidence import Origin, keep, keep_heartbeat
from master.faultargs import FaultTolerance
from master.jobspec import JobSpec
from master.model import AgentLife, Job, Node, Pod, Run
from master.nodeconditions import of_conditions, of_events
from master.reports import ReplyDocument, ReportBody, Saw, SawHeartbeat, SawLine, SawProgress
from master.runs import ranks
from notifier.auth import Principal
from notifier.problems import Problem

SKEW_FROM = timedelta(seconds=2)  # what is less may be the way here
SKEW_UP_TO = timedelta(days=365)  # a clock so wrong says nothing at all
OLDEST = timedelta(days=30)
LIVES_KEPT = 8
_NODES_KINDS = frozenset({Kind.AGENT_STARTED, Kind.HEARTBEAT, Kind.KERNEL_LINE, Kind.DROPPED})


@dataclass(frozen=True)
class Taken:
    """What came of a report. `is_urgent`: the controller should look at once."""

    reply: ReplyDocument
    is_urgent: bool = False


def take(session: Session, who: Principal, report: ReportBody, now: datetime) -> Taken:
    """Store a report, once.

    Raises:
        Problem: the token is no agent's, or the report speaks for others.
    """
    if who.pod_id is not None:
        return _from_pod(session, who.pod_id, report, now)
    if who.node is not None:
        return _from_node(session, who.node, report, now)
    raise Problem(403, detail="this token belongs to no pod and no node; agents get theirs from the master")


def _from_pod(session: Session, pod_id: str, report: ReportBody, now: datetime) -> Taken:
    pod = session.get(Pod, pod_id)
    job = session.get(Job, pod.job_id) if pod else None
    # Locked run first, then pod, as the controller does: two that wait for each other would be a deadlock.
    run = session.get(Run, (pod.job_id, pod.run), with_for_update=True) if pod else None
    if pod is None or job is None or run is None:
        raise Problem(403, detail="the pod of this token is gone")
    session.refresh(pod, with_for_update=True)
    _check_patterns(report.observations, job)
    seen = _of_pod(report.observations, JobSpec.of(job.spec), pod)
    is_new = _is_new(session, f"pod:{pod.id}", report, now)
    is_urgent = pod.agent_lost_at is not None
    if is_new:
        origin = Origin(Source.AGENT, pod.node, job.id, run.n, pod.id)
        is_urgent = _store(session, origin, run, _Times(report.sent_at, now).of(seen), now) or is_urgent
        if any(one.kind is Kind.STACKS for one in seen):
            pod.stacks_at = now
    pod.agent_seen_at = now
    return Taken(ReplyDocument(ack=report.seq, want=_want(job, run, pod)), is_urgent)


def _store(session: Session, origin: Origin, run: Run, seen: Sequence[Saw], now: datetime) -> bool:
    """Heartbeats and progress into their rows, evidence into its own; whether it is urgent."""
    made_steps = steps.makes_steps(run)
    for one in seen:
        if isinstance(one, SawProgress):
            steps.fold(run, one.data.step, one.at)
        elif isinstance(one, SawHeartbeat):
            _fold(run, one)
            keep_heartbeat(session, origin, one, now)
    keep(session, origin, [one for one in seen if one.kind not in {Kind.HEARTBEAT, Kind.PROGRESS}], now)
    return steps.makes_steps(run) != made_steps or any(one.kind in URGENT for one in seen)


def _fold(run: Run, beat: SawHeartbeat) -> None:
    for state in beat.data.ranks.values():
        if state.step is not None and state.step_at is not None:
            steps.fold(run, state.step, state.step_at)
    if beat.data.log_at is not None:
        run.last_log_at = max(run.last_log_at or beat.data.log_at, beat.data.log_at)


def _from_node(session: Session, name: str, report: ReportBody, now: datetime) -> Taken:
    node = session.get(Node, name, with_for_update=True)
    if node is None:
        raise Problem(403, detail="the node of this token is gone")
    for n, one in enumerate(report.observations):
        if one.kind not in _NODES_KINDS:
            raise _foreign(n, "kind", f"a node's agent knows nothing of {one.kind}: only a pod's own does")
        if one.rank is not None:  # its word is trusted, and it knows no ranks: one may be another node's
            raise _foreign(n, "rank", "a node's agent speaks of its node, and of no rank")
    node.agent_seen_at = now
    answer = ReplyDocument(ack=report.seq, want={})
    if not _is_new(session, f"node:{name}", report, now):
        return Taken(answer)
    lines = [one for one in report.observations if one.kind is Kind.KERNEL_LINE]
    times = _Times(report.sent_at, now)
    keep(session, Origin(Source.NODE, name), times.of(lines), now)
    _tell_conditions(session, node, report, times)
    kept = _tell_kubernetes(session, node, report, now)
    return Taken(answer, is_urgent=bool(lines) or kept.is_evidence)


def _tell_conditions(session: Session, node: Node, report: ReportBody, times: "_Times") -> None:
    """The newest word on what stands; with it, how far the node's clock is off (FAULTS 3.2)."""
    told = [one.data.conditions for one in report.observations if isinstance(one, SawHeartbeat)]
    news = [conditions for conditions in told if conditions is not None]
    if news:
        standing = [
            one.model_copy(update={"since": times.ours(one.since)}) for one in news[-1]
        ] + nodesignals.clock_conditions(report.sent_at - times.now)
        nodesignals.stand(session, node.pool, node.name, standing, times.now)


def _tell_kubernetes(session: Session, node: Node, report: ReportBody, now: datetime) -> nodesignals.Kept:
    """What the API server says of the node. Repeats are told by its times: they stay as they are."""
    told = [one.data.kubernetes for one in report.observations if isinstance(one, SawHeartbeat)]
    words = [one for one in told if one is not None]
    signals = of_events(node.pool, node.name, [event for one in words for event in one.events])
    news = [one.conditions for one in words if one.conditions is not None]
    if news:
        signals += of_conditions(node.pool, node.name, news[-1])
        signals += nodesignals.ended_conditions(session, node.pool, node.name, signals, now=now)
    return nodesignals.keep(session, signals, now)


def _foreign(n: int, name: str, message: str) -> Problem:
    return Problem(422, errors=[(f"observations.{n}.{name}", message)])


def _of_pod(seen: Iterable[Saw], spec: JobSpec, pod: Pod) -> list[Saw]:
    """Only what a pod may say: of its own ranks, nothing of the kernel.

    Where the number of ranks is a mere default, the ranks of a launcher that was started by hand are not
    known here: then a rank that cannot be this pod's is left out instead of refused.
    """
    own = frozenset(ranks(spec, pod))
    kept: list[Saw] = []
    for n, one in enumerate(seen):
        if one.kind is Kind.KERNEL_LINE:
            raise _foreign(n, "kind", "only a node's own agent may tell of the kernel")
        for name in ("conditions", "kubernetes") if isinstance(one, SawHeartbeat) else ():
            if getattr(one.data, name) is not None:
                raise _foreign(n, f"data.{name}", "only a node's own agent may tell of its node")
        if spec.replicas == 1 or _claimed(one) <= own:
            kept.append(one)
        elif spec.nproc_is_known:
            raise _foreign(n, "rank", f"this pod's ranks are {min(own)} to {max(own)}; it may name no other")
        else:
            kept.append(_without_foreign(one, own))
    return kept


def _check_patterns(seen: Iterable[Saw], job: Job) -> None:
    """A pod may not make up a fault keyword that its job never named."""
    patterns = FaultTolerance.of(job.fault_tolerance).custom_log_patterns
    for n, one in enumerate(seen):
        if not isinstance(one, SawLine) or one.data.signature != CUSTOM:
            continue
        if one.data.captured.get("pattern") not in patterns:
            raise _foreign(n, "data.captured.pattern", "this job has no such --custom-log-patterns")


def _claimed(one: Saw) -> set[int]:
    told = set(one.data.ranks) if isinstance(one, SawHeartbeat) else set()
    return told if one.rank is None else told | {one.rank}


def _without_foreign(one: Saw, own: frozenset[int]) -> Saw:
    kept: dict[str, Any] = {"rank": one.rank if one.rank in own else None}
    if isinstance(one, SawHeartbeat):
        beats = {rank: state for rank, state in one.data.ranks.items() if rank in own}
        kept["data"] = one.data.model_copy(update={"ranks": beats})
    return one.model_copy(update=kept)


def _is_new(session: Session, owner: str, report: ReportBody, now: datetime) -> bool:
    """Whether this report of that life was not taken before. Its owner's row is locked by the caller."""
    life = session.get(AgentLife, (owner, report.boot))
    if life is not None:
        is_new = report.seq > life.seq
        life.seq, life.seen_at = max(life.seq, report.seq), now
        return is_new
    session.add(AgentLife(owner=owner, boot=report.boot, seq=report.seq, seen_at=now))
    rows = select(AgentLife).where(AgentLife.owner == owner).order_by(AgentLife.seen_at.desc())
    for old in session.scalars(rows.offset(LIVES_KEPT)):
        session.delete(old)
    return True


@dataclass(frozen=True)
class _Times:
    """Brings times by the agent's clock to ours: less its skew, and nothing is seen before it happens."""

    sent_at: datetime
    now: datetime

    def of(self, seen: Iterable[Saw]) -> list[Saw]:
        return [self._corrected(one) for one in seen]

    def _corrected(self, one: Saw) -> Saw:
        changed: dict[str, Any] = {"at": self.ours(one.at)}
        if isinstance(one, SawHeartbeat):
            beats = {
                rank: state.model_copy(update={"step_at": self.ours(state.step_at)})
                for rank, state in one.data.ranks.items()
            }
            told = {"ranks": beats, "log_at": self.ours(one.data.log_at)}
            changed["data"] = one.data.model_copy(update=told)
        return one.model_copy(update=changed)

    def ours(self, moment: datetime | None) -> datetime | None:
        if moment is None:
            return None
        skew = self.sent_at - self.now
        ours = moment - skew if SKEW_FROM < abs(skew) < SKEW_UP_TO else moment
        return min(max(ours, self.now - OLDEST), self.now)


def _want(job: Job, run: Run, pod: Pod) -> dict[str, Any]:
    """What the pod's agent is asked to do (agent/wire.py: Reply)."""
    want: dict[str, Any] = {"patterns": list(FaultTolerance.of(job.fault_tolerance).custom_log_patterns)}
    asked = run.stacks_wanted_at
    if asked is not None and not run.end_reason and (pod.stacks_at is None or pod.stacks_at < asked):
        want["stacks"] = True
    return want
