"""Looks after pods: starts the pending, notes what became of the others, closes those that are over."""

from collections.abc import Sequence
from datetime import datetime, timedelta

import structlog
from sqlalchemy import delete
from sqlalchemy.orm import Session

from master import news
from master.casefile import Source
from master.evidence import Origin, keep_word
from master.hands import Hands
from master.lifecycle import POD_OVER, PodStatus
from master.model import Job, Pod, Run
from master.runs import is_over, pod_spec, ref
from master.runtimes.base import AgentAccess, Phase, PodState, RuntimeFailure
from notifier.auth import NewToken, Role, create_token
from notifier.faultpoints import hit
from notifier.model import Token

RECOVERY_GRACE = timedelta(seconds=5)  # a broken run has nothing to save
STOP_GRACE = timedelta(seconds=15)  # a stopped one may write a last checkpoint
STOPPED = "Stopped"
SIGNALLED = 128  # a shell's way to tell of a signal
WORDS = {"Deleted": "pod_deleted", "Evicted": "pod_evicted", "NodeLost": "node_lost"}  # else it vanished

log = structlog.get_logger()


def start_pending(hands: Hands, job: Job, pods: Sequence[Pod], now: datetime) -> bool:
    """Each pod once, its agent beside it; whether there was any to start."""
    pending = [pod for pod in pods if pod.status == PodStatus.PENDING]
    for pod in pending:
        kept = hands.runtime.start_pod(pod_spec(job, pod, hands.runtime.environment()))
        hit("pod_started")
        try:
            ensure_agent(hands, job, pod, now)
        except RuntimeFailure as error:  # training can do without; it is tried again beside the running pod
            log.warning("agent_not_started", job=job.id, pod=pod.name, why=str(error))
        hit("agent_started")
        with hands.write() as session:
            row = session.get_one(Pod, pod.id, with_for_update=True)
            row.handle = {**row.handle, **kept}
            row.status, row.started_at = PodStatus.STARTING, now
        log.info("pod_started", job=job.id, run=pod.run, pod=pod.name, node=pod.node)
    return bool(pending)


def ensure_agent(hands: Hands, job: Job, pod: Pod, now: datetime) -> bool:
    """A fresh token for each life of the agent; the one before is void. Whether one begins now."""

    def new_token() -> str:
        with hands.write() as session:
            session.execute(delete(Token).where(Token.pod_id == pod.id))
            new = NewToken(f"agent of {pod.name}", Role.AGENT, job.pool, job.queue, pod_id=pod.id)
            _, plaintext = create_token(session, new, now)
            session.get_one(Pod, pod.id, with_for_update=True).agent_started_at = now
        return plaintext

    return hands.runtime.ensure_agent(ref(pod), AgentAccess(hands.server, new_token))


def watch(hands: Hands, job: Job, pods: Sequence[Pod], now: datetime) -> dict[str, PodState]:
    """Ask the runtime after each pod and keep what is new. What it said, by pod id."""
    states = {pod.id: hands.runtime.poll(ref(pod)) for pod in pods}
    changed = [pod.id for pod in pods if status_of(states[pod.id]) != pod.status]
    if changed:
        with hands.write() as session:
            run = session.get_one(Run, (job.id, job.run), with_for_update=True)
            for pod_id in changed:
                row = session.get_one(Pod, pod_id, with_for_update=True)
                if PodStatus(row.status) in POD_OVER:
                    continue
                _note(row, states[pod_id], now)
                if PodStatus(row.status) in POD_OVER and not is_over(run):
                    _keep_end(session, row, states[pod_id], now)
    return states


def status_of(state: PodState) -> PodStatus:
    if state.phase is Phase.EXITED:
        return PodStatus.SUCCEEDED if state.exit_code == 0 else PodStatus.FAILED
    # A pod that was started and of which the runtime knows nothing is gone too.
    return PodStatus.RUNNING if state.phase is Phase.RUNNING else PodStatus.FAILED


def _note(row: Pod, state: PodState, now: datetime) -> None:
    row.status = status_of(state)
    if PodStatus(row.status) in POD_OVER:
        row.reason = state.reason or ("Lost" if state.phase is not Phase.EXITED else "")
        row.ended_at = state.ended_at or now
        row.exit_code = SIGNALLED + state.signal if state.signal else state.exit_code
        log.info("pod_ended", job=row.job_id, run=row.run, pod=row.name, status=row.status, reason=row.reason)


def _keep_end(session: Session, row: Pod, state: PodState, now: datetime) -> None:
    """The runtime's own word is evidence, and no pod can forge it."""
    origin = Origin(Source.RUNTIME, row.node, row.job_id, row.run, row.id)
    data: dict[str, object] = {}
    word = WORDS.get(row.reason, "pod_vanished")
    if row.reason == STOPPED:  # by nobody who looks after this run: `faultcast up` was ended
        word = "pod_stopped"
    elif state.phase is Phase.EXITED:
        word, data = "pod_exited", {"exit_code": state.exit_code, "signal": state.signal}
    keep_word(session, origin, word, row.ended_at or now, data=data, now=now)


def end(hands: Hands, pods: Sequence[Pod], grace: timedelta, now: datetime) -> bool:
    """End what is left of these pods and then their agents; whether no process of theirs is left."""
    all_clean = True
    for pod in pods:
        if pod.closed_at is not None:
            continue
        hands.runtime.stop_pod(ref(pod), grace)
        state = hands.runtime.poll(ref(pod))
        all_clean = all_clean and state.clean
        if state.clean and state.agent_alive:
            hands.runtime.stop_agent(ref(pod))
        if state.clean and (not state.agent_alive or PodStatus(pod.status) not in POD_OVER):
            _close(hands, pod, state, now)
    return all_clean


def _close(hands: Hands, pod: Pod, state: PodState, now: datetime) -> None:
    """Its last state; once its agent is gone too, its token is void."""
    with hands.write() as session:
        row = session.get_one(Pod, pod.id, with_for_update=True)
        if PodStatus(row.status) not in POD_OVER:
            _note(row, state, now)
        if not state.agent_alive:
            row.closed_at = now
            if row.agent_lost_at is not None:
                news.close_agent_lost(session, row, now)
            session.execute(delete(Token).where(Token.pod_id == row.id))
