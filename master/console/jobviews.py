"""What the pages about jobs show, read from the database in a few statements each."""

import statistics
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from master.console.timeline import Life, Mark, Moments, Phase, RunFacts, life, phases
from master.model import FaultEventRow, Job, Pod, Run
from master.timeline import timeline
from notifier.auth import Principal
from notifier.model import Delivery
from notifier.outbox import UNASKED
from notifier.pages import Ask, page

MAX_EVENTS = 100
RHYTHM_SAMPLES = 5


@dataclass(frozen=True)
class JobLine:
    """A job in the list."""

    job: Job
    step: int | None
    faults: int


@dataclass(frozen=True)
class EventView:
    """One fault event with what came of it."""

    row: FaultEventRow
    phases: tuple[Phase, ...]
    told: Sequence[Delivery]
    reason: str
    advice: str
    why: str


@dataclass(frozen=True)
class Figures:
    """The numbers at the head of a job's page."""

    effective_share: float | None
    lost_s: float | None
    step: int | None
    step_s: float | None
    median_recovery_s: float | None


@dataclass(frozen=True)
class JobView:
    job: Job
    figures: Figures
    life: Life | None
    events: Sequence[EventView]
    pods: Sequence[Pod]


def list_jobs(
    session: Session, principal: Principal, ask: Ask, status: str | None
) -> tuple[list[JobLine], str | None]:
    rows = select(Job).where(principal.only(Job.pool, Job.queue), Job.delete_requested.is_(False))
    if status:
        rows = rows.where(Job.status == status)
    found = page(session, rows, Job.id, ask)
    ids = [job.id for job in found.rows]
    runs = session.execute(
        select(Run.job_id, func.max(Run.last_step)).where(Run.job_id.in_(ids)).group_by(Run.job_id)
    )
    faults = session.execute(
        select(FaultEventRow.job_id, func.count())
        .where(FaultEventRow.job_id.in_(ids))
        .group_by(FaultEventRow.job_id)
    )
    steps: dict[str, int | None] = {row[0]: row[1] for row in runs}
    counts: dict[str, int] = {row[0]: row[1] for row in faults}
    return [JobLine(job, steps.get(job.id), counts.get(job.id, 0)) for job in found.rows], found.next_cursor


def find_job(session: Session, principal: Principal, job_id: str) -> Job | None:
    """None also for a job outside the visitor's scope."""
    job = session.get(Job, job_id)
    if job is None or job.delete_requested or not principal.covers(job.pool, job.queue):
        return None
    return job


def view_job(session: Session, job: Job, language: str, now: datetime) -> JobView:
    runs = session.scalars(select(Run).where(Run.job_id == job.id).order_by(Run.n)).all()
    pods = session.scalars(
        select(Pod).where(Pod.job_id == job.id, Pod.run == job.run).order_by(Pod.index)
    ).all()
    events = session.scalars(
        select(FaultEventRow)
        .where(FaultEventRow.job_id == job.id)
        .order_by(FaultEventRow.id.desc())
        .limit(MAX_EVENTS)
    ).all()
    return JobView(
        job=job,
        figures=_figures(runs, events, timeline(session, job, language, now)["effective_ratio"]),
        life=life([_facts(run) for run in runs], [_mark(event) for event in events], job.finished_at or now),
        events=event_views(session, events, runs, language),
        pods=pods,
    )


def event_views(
    session: Session, events: Sequence[FaultEventRow], runs: Sequence[Run], language: str
) -> list[EventView]:
    by_run = {(run.job_id, run.n): run for run in runs}
    told: dict[str, list[Delivery]] = defaultdict(list)
    ids = [event.id for event in events]
    rows = select(Delivery).where(Delivery.event_id.in_(ids), Delivery.trigger != UNASKED)
    for delivery in session.scalars(rows.order_by(Delivery.id)):
        told[delivery.event_id or ""].append(delivery)
    return [_event_view(event, by_run, told[event.id], language) for event in events]


def list_events(
    session: Session, principal: Principal, ask: Ask
) -> tuple[list[tuple[FaultEventRow, Job | None]], str | None]:
    rows = select(FaultEventRow).where(principal.only(FaultEventRow.pool, FaultEventRow.queue))
    found = page(session, rows, FaultEventRow.id, ask)
    ids = {event.job_id for event in found.rows}
    jobs = {job.id: job for job in session.scalars(select(Job).where(Job.id.in_(ids)))}
    return [(event, jobs.get(event.job_id)) for event in found.rows], found.next_cursor


def said(words: dict[str, Any], language: str) -> str:
    """A sentence that is kept in both languages."""
    return str(words.get(language) or words.get("en") or "")


def _event_view(
    event: FaultEventRow, by_run: dict[tuple[str, int], Run], told: Sequence[Delivery], language: str
) -> EventView:
    ended = by_run.get((event.job_id, event.run))
    following = by_run.get((event.job_id, event.run + 1))
    moments = Moments(
        fault=event.time,
        detected=event.detected_at,
        decided=event.decided_at,
        stopped=ended.ended_at if ended and following else None,
        started=following.started_at if following else None,
        training=event.recovered_at,
    )
    why = event.decision.get("why") or {}
    return EventView(
        row=event,
        phases=phases(moments),
        told=told,
        reason=said(event.reason, language),
        advice=said(event.advice, language),
        why=said(why, language) if isinstance(why, dict) else str(why),
    )


def _figures(runs: Sequence[Run], events: Sequence[FaultEventRow], effective: float | None) -> Figures:
    recoveries = [event.downtime_s for event in events if event.downtime_s is not None]
    gaps = [float(gap) for run in runs for gap in run.rhythm[-RHYTHM_SAMPLES:]]
    return Figures(
        effective_share=effective,
        lost_s=sum(recoveries) if recoveries or not events else None,
        step=max((run.last_step for run in runs if run.last_step is not None), default=None),
        step_s=statistics.median(gaps) if gaps else None,
        median_recovery_s=statistics.median(recoveries) if recoveries else None,
    )


def _facts(run: Run) -> RunFacts:
    return RunFacts(
        n=run.n,
        started_at=run.started_at,
        first_step_at=run.first_step_at,
        ended_at=run.ended_at,
        first_step=run.first_step,
        last_step=run.last_step,
        last_step_at=run.last_step_at,
    )


def _mark(event: FaultEventRow) -> Mark:
    culprit = event.culprit
    rank = culprit.get("rank")
    where = (culprit.get("node") or "") if rank is None else f"rank {rank}"
    serious = event.hardware or event.decision.get("action") == "fail_job"
    return Mark(event.id, event.time, f"{event.cause}{', ' if where else ''}{where}", serious)
