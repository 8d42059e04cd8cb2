"""From the case file of a run to what is done about it: the shell around diagnose() and decide()."""

from datetime import datetime, timedelta

import structlog

from master import cases, pools
from master.casefile import Action, CaseFile, Want
from master.decision import decide
from master.diagnosis import diagnose
from master.faultargs import FaultTolerance
from master.hands import Hands
from master.incidents import Finding, record
from master.lifecycle import POD_OVER, JobStatus, PodStatus, move
from master.model import FaultEventRow, Job, Run
from master.runs import pods_of
from notifier.faultpoints import hit

ASK_AGAIN = timedelta(seconds=2)  # once all have answered
GIVE_UP_WAITING = timedelta(seconds=15)  # py-spy's own limit is 5 s a process
SUSPECT = "something is wrong; the evidence is being weighed"

log = structlog.get_logger()


def judge(hands: Hands, job: Job, run: Run, case: CaseFile, now: datetime) -> FaultEventRow | None:
    """The fault event, if one was decided now."""
    verdict = diagnose(case, now)
    if verdict is None or isinstance(verdict, Want):
        doubt = verdict.why if verdict is not None else ""
        _note_suspicion(hands, job, doubt or (SUSPECT if _is_broken(case) else ""), now)
        if verdict is not None and verdict.stacks:
            _ask_for_stacks(hands, run, now)
        return None
    with hands.store.read() as session:
        past = cases.history(session, job, run)
        told = cases.is_told(session, job, run, verdict)
        pool = pools.view(session, job.pool)
    decision = decide(verdict, FaultTolerance.of(job.fault_tolerance).policy, past, pool, now)
    if decision.action is Action.NONE and told:
        # A fault that the job lives with is told once, not with each of its lines.
        hands.passed_over[job.id, run.n] = now
        return None
    hit("decided")
    event = record(hands, Finding(job.id, run.n, verdict, decision), now)
    hit("recorded")
    if event is not None:
        log.info("fault", job=job.id, run=run.n, fault_class=event.fault_class, cause=event.cause,
                 culprit=event.culprit, action=event.decision["action"], incident=event.id)  # fmt: skip
    return event


def _is_broken(case: CaseFile) -> bool:
    return any(not pod.alive and pod.exit_code != 0 for pod in case.pods)


def _note_suspicion(hands: Hands, job: Job, why: str, now: datetime) -> None:
    """`Abnormal` while something is looked into, and back when it was nothing. `Restarting` says enough."""
    status = JobStatus(job.status)
    if status is JobStatus.RESTARTING or (status is JobStatus.ABNORMAL) == bool(why):
        return
    with hands.write() as session:
        row = session.get_one(Job, job.id, with_for_update=True)
        if row.status != status:
            return
        calm = JobStatus.RUNNING if row.started_at is not None else JobStatus.STARTING
        move(row, JobStatus.ABNORMAL if why else calm, now, why)


def _ask_for_stacks(hands: Hands, run: Run, now: datetime) -> None:
    asked = run.stacks_wanted_at
    if asked is not None:
        with hands.store.read() as session:
            pods = pods_of(session, run.job_id, run.n)
        live = [pod for pod in pods if PodStatus(pod.status) not in POD_OVER]
        answered = all(pod.stacks_at is not None and pod.stacks_at >= asked for pod in live)
        if now - asked < (ASK_AGAIN if answered else GIVE_UP_WAITING):
            return
    with hands.write() as session:
        session.get_one(Run, (run.job_id, run.n), with_for_update=True).stacks_wanted_at = now
