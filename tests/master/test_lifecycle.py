"""Which state of a job may follow which."""

from datetime import UTC, datetime

import pytest

from master.lifecycle import FINAL, FOLLOWS, IllegalMove, JobStatus, is_final, move
from master.model import Job

NOW = datetime(2026, 11, 29, tzinfo=UTC)


def job(status: JobStatus) -> Job:
    return Job(id="job_x", status=status, reason="before")


def test_every_state_has_its_followers() -> None:
    assert set(FOLLOWS) == set(JobStatus)


@pytest.mark.parametrize("status", sorted(FINAL))
def test_nothing_follows_the_end(status: JobStatus) -> None:
    for other in JobStatus:
        with pytest.raises(IllegalMove, match="job_x"):
            move(job(status), other, NOW)
    assert is_final(job(status))


@pytest.mark.parametrize("status", sorted(set(JobStatus) - FINAL))
def test_every_job_can_be_stopped_and_comes_to_an_end(status: JobStatus) -> None:
    found = job(status)
    if status is not JobStatus.STOPPING:
        move(found, JobStatus.STOPPING, NOW, "stopped by admin")
    move(found, JobStatus.STOPPED, NOW, "stopped by admin")
    assert (found.status, found.reason, found.finished_at) == ("Stopped", "stopped by admin", NOW)


def test_only_an_end_has_its_time() -> None:
    found = job(JobStatus.RUNNING)
    move(found, JobStatus.RESTARTING, NOW, "a rank was killed")
    assert (found.status, found.reason, found.finished_at) == ("Restarting", "a rank was killed", None)
