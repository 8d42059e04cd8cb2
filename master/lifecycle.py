"""The states of a job and of a pod (CONTRACT 3), and which may follow which. Everything that changes a
job's state goes through `move`."""

from datetime import datetime
from enum import StrEnum

from master.model import Job


class JobStatus(StrEnum):
    CREATED = "Created"
    STARTING = "Starting"
    RUNNING = "Running"
    ABNORMAL = "Abnormal"
    RESTARTING = "Restarting"
    STOPPING = "Stopping"
    STOPPED = "Stopped"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


class PodStatus(StrEnum):
    PENDING = "Pending"
    STARTING = "Starting"
    RUNNING = "Running"
    FAILED = "Failed"
    SUCCEEDED = "Succeeded"
    UNKNOWN = "Unknown"


_S = JobStatus
FINAL = frozenset({_S.STOPPED, _S.SUCCEEDED, _S.FAILED})
_ACTIVE = frozenset({_S.RUNNING, _S.ABNORMAL, _S.RESTARTING, _S.STOPPING, _S.SUCCEEDED, _S.FAILED})
FOLLOWS: dict[JobStatus, frozenset[JobStatus]] = {
    _S.CREATED: frozenset({_S.STARTING, _S.STOPPING, _S.STOPPED, _S.FAILED}),
    _S.STARTING: _ACTIVE,
    _S.RUNNING: _ACTIVE - {_S.RUNNING},
    _S.ABNORMAL: (_ACTIVE - {_S.ABNORMAL}) | {_S.STARTING},
    _S.RESTARTING: _ACTIVE,
    _S.STOPPING: frozenset({_S.STOPPED}),
    **dict.fromkeys(FINAL, frozenset()),
}
POD_OVER = frozenset({PodStatus.FAILED, PodStatus.SUCCEEDED})


class IllegalMove(RuntimeError):  # noqa: N818  the name says it
    """A job cannot go from that state to this one: a bug of ours, never the user's."""


def move(job: Job, status: JobStatus, now: datetime, reason: str = "") -> None:
    """Change the state; times follow."""
    was = JobStatus(job.status)
    if status not in FOLLOWS[was]:
        raise IllegalMove(f"job {job.id}: {was} → {status}")
    job.status, job.reason = status, reason
    if status in FINAL:
        job.finished_at = now


def is_final(job: Job) -> bool:
    return JobStatus(job.status) in FINAL
