"""A job's life for the API: runs, faults, recoveries, and the share of time in which training counted."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from master.documents import event_document
from master.model import FaultEventRow, Job, Recovery, Run
from notifier.clock import rfc3339

MAX_EVENTS = 500


def timeline(session: Session, job: Job, language: str, now: datetime) -> dict[str, Any]:
    """`effective_ratio`: time in steps that were not lost again, over all time since the job was created."""
    runs = list(session.scalars(select(Run).where(Run.job_id == job.id).order_by(Run.n)))
    rows = select(FaultEventRow).where(FaultEventRow.job_id == job.id).order_by(FaultEventRow.id)
    events = list(session.scalars(rows.limit(MAX_EVENTS)))
    carried_out = select(Recovery).where(Recovery.job_id == job.id).order_by(Recovery.event_id)
    end = job.finished_at or now
    wall = (end - job.created_at).total_seconds()
    training = sum(_trained_s(run, events) for run in runs)
    return {
        "job_id": job.id,
        "status": job.status,
        "created_at": rfc3339(job.created_at),
        "finished_at": _shown(job.finished_at),
        "wall_s": round(wall, 3),
        "training_s": round(training, 3),
        "effective_ratio": round(min(1.0, training / wall), 4) if wall > 0 else None,
        "runs": [_run_document(run) for run in runs],
        "faults": [event_document(event, language) for event in events],
        "recoveries": [
            {
                "event_id": one.event_id, "run": one.run, "stage": one.stage,
                "not_before": rfc3339(one.not_before), "updated_at": rfc3339(one.updated_at),
            }
            for one in session.scalars(carried_out)
        ],
    }  # fmt: skip


def _trained_s(run: Run, events: Sequence[FaultEventRow]) -> float:
    """Seconds from the first to the last step, less those of steps that had to be made again."""
    if (
        run.first_step_at is None
        or run.last_step_at is None
        or run.first_step is None
        or run.last_step is None
    ):
        return 0.0
    span = (run.last_step_at - run.first_step_at).total_seconds()
    made = run.last_step - run.first_step
    lost = sum(event.steps_lost or 0 for event in events if event.run == run.n)
    return span * max(0.0, 1 - lost / made) if made > 0 else 0.0


def _run_document(run: Run) -> dict[str, Any]:
    return {
        "n": run.n, "started_at": rfc3339(run.started_at), "first_step_at": _shown(run.first_step_at),
        "first_step": run.first_step, "last_step": run.last_step, "last_step_at": _shown(run.last_step_at),
        "ended_at": _shown(run.ended_at), "end_reason": run.end_reason,
    }  # fmt: skip


def _shown(moment: datetime | None) -> str | None:
    return rfc3339(moment) if moment else None
