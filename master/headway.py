"""What is good news of a run: it runs, it makes steps again after a fault, it succeeded."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from master import news, steps
from master.casefile import Action
from master.cases import STANDS_STILL
from master.decision import Budget, budget_after_progress
from master.faultargs import FaultTolerance
from master.hands import Hands
from master.lifecycle import JobStatus, PodStatus, is_final, move
from master.model import FaultEventRow, Job, Pod, Run
from master.runs import is_over
from notifier.faultpoints import hit

STEADY = timedelta(seconds=10)  # a run of a job that tells no steps lives so long before it counts as well
RESTARTS = (Action.RESTART_JOB, Action.REPLACE_PODS)


@dataclass(frozen=True)
class Look:
    """What the rows of a job say of its present run."""

    job: Job
    run: Run
    pods: Sequence[Pod]
    open_events: Sequence[FaultEventRow]  # of earlier runs, not recovered from yet
    best_step: int | None  # of all earlier runs
    stood_still: Sequence[FaultEventRow] = ()  # of this run, only told of, and training goes on again

    @property
    def all_run(self) -> bool:
        return all(pod.status == PodStatus.RUNNING for pod in self.pods)

    @property
    def any_failed(self) -> bool:
        return any(pod.status == PodStatus.FAILED for pod in self.pods)

    @property
    def all_succeeded(self) -> bool:
        return all(pod.status == PodStatus.SUCCEEDED for pod in self.pods)

    def is_running(self) -> bool:
        """Now: a step that a run made before it broke is no news of its running."""
        has_begun = self.run.first_step_at is not None or self.all_run or self.all_succeeded
        return has_begun and not self.any_failed

    def is_training(self, now: datetime) -> bool:
        """Whether training goes on: by steps, or without any by living on."""
        if steps.makes_steps(self.run):
            return True
        lived = self.all_run and self._all_since(now)
        return self.all_succeeded or (lived and self.best_step is None)

    def _all_since(self, now: datetime) -> bool:
        return all(pod.started_at is not None and now - pod.started_at >= STEADY for pod in self.pods)


def read(session: Session, job: Job, run: Run, pods: Sequence[Pod]) -> Look:
    events = select(FaultEventRow).where(
        FaultEventRow.job_id == job.id, FaultEventRow.run < run.n, FaultEventRow.recovered_at.is_(None)
    )
    best = select(func.max(Run.last_step)).where(Run.job_id == job.id, Run.n < run.n)
    still_open = [event for event in session.scalars(events) if event.decision["action"] in RESTARTS]
    return Look(job, run, pods, still_open, session.scalar(best), _stood_still(session, job, run))


def _stood_still(session: Session, job: Job, run: Run) -> list[FaultEventRow]:
    """What was told of a standstill that nobody acted upon, and is over: a step was made since."""
    if run.last_step_at is None or FaultTolerance.of(job.fault_tolerance).enabled:
        return []
    events = select(FaultEventRow).where(
        FaultEventRow.job_id == job.id, FaultEventRow.run == run.n, FaultEventRow.recovered_at.is_(None),
        FaultEventRow.fault_class.in_(STANDS_STILL), FaultEventRow.decided_at < run.last_step_at,
    )  # fmt: skip
    return [event for event in session.scalars(events) if event.decision["action"] == Action.NONE]


def note(hands: Hands, look: Look, now: datetime) -> bool:
    """Write down and tell what is new; whether anything was."""
    news_of = _news(look, now)
    if not any(news_of.values()):
        return False
    with hands.write() as session:
        job = session.get_one(Job, look.job.id, with_for_update=True)
        run = session.get_one(Run, (job.id, look.run.n), with_for_update=True)
        if is_final(job) or job.stop_requested or job.run != run.n or is_over(run):
            return True
        if news_of["recovered"]:
            _recover(session, job, run, look, now)
        if news_of["goes_on"]:
            _go_on(session, job, run, look, now)
        if news_of["running"]:
            _start(session, job, run, now)
        if news_of["budget"]:
            _, after = _budget(look, now)
            job.restarts_used, job.unconditional_used = after.restarts_used, after.unconditional_used
        if news_of["succeeded"]:
            run.end_reason, run.ended_at = "succeeded", now
            move(job, JobStatus.SUCCEEDED, now)
            news.close_all(session, job.id, news.SUCCEEDED, now)
            news.tell_state(session, job, "jobSucceed", now)
    if news_of["recovered"]:
        hit("recovered")
    return True


def _news(look: Look, now: datetime) -> Mapping[str, bool]:
    job = look.job
    status = JobStatus(job.status)
    recovered = bool(look.open_events) and look.is_training(now)
    used, after = _budget(look, now)
    waits = status in {JobStatus.STARTING, JobStatus.RESTARTING, JobStatus.ABNORMAL}
    goes = look.is_running() and (recovered or not look.open_events)
    return {
        "recovered": recovered,
        "goes_on": bool(look.stood_still),
        "running": goes and (job.started_at is None or (waits and status != JobStatus.ABNORMAL)),
        "budget": used != after,
        "succeeded": look.all_succeeded,
    }


def _start(session: Session, job: Job, run: Run, now: datetime) -> None:
    if JobStatus(job.status) is not JobStatus.RUNNING:
        move(job, JobStatus.RUNNING, now)
    if job.started_at is None:
        job.started_at = run.first_step_at or now
        news.tell_state(session, job, "jobRunning", now)


def _recover(session: Session, job: Job, run: Run, look: Look, now: datetime) -> None:
    """The incident is over: by the first new step, by which downtime and lost steps are counted."""
    at = run.first_step_at if steps.makes_steps(run) and run.first_step_at else now
    if JobStatus(job.status) is not JobStatus.RUNNING and not look.any_failed:
        move(job, JobStatus.RUNNING, now)
    for known in look.open_events:
        event = session.get_one(FaultEventRow, known.id, with_for_update=True)
        event.recovered_at = at
        event.downtime_s = round(max(0.0, (at - event.time).total_seconds()), 3)
        broken = session.get_one(Run, (job.id, event.run))  # its agents' last words came after the event
        if broken.last_step is not None and run.first_step is not None:
            event.steps_lost = max(0, broken.last_step - run.first_step + 1)
        news.tell_recovered(session, job, event, now)


def _go_on(session: Session, job: Job, run: Run, look: Look, now: datetime) -> None:
    """A job that is only watched makes steps again by itself."""
    at = run.last_step_at or now
    for known in look.stood_still:
        event = session.get_one(FaultEventRow, known.id, with_for_update=True)
        event.recovered_at = at
        event.downtime_s = round(max(0.0, (at - event.time).total_seconds()), 3)
        news.tell_recovered(session, job, event, now)
    job.reason = ""


def _budget(look: Look, now: datetime) -> tuple[Budget, Budget]:
    """What the job has used, and what is left of that once this run's merits count."""
    used = Budget(look.job.restarts_used, look.job.unconditional_used)
    after = budget_after_progress(
        used,
        FaultTolerance.of(look.job.fault_tolerance).policy,
        step=look.run.last_step,
        best_before=look.best_step,
        run_age=now - look.run.started_at,
    )
    return used, after
