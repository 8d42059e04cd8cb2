"""Which share of a job's time was training that counted."""

from datetime import timedelta

import pytest

from master.model import FaultEventRow, Job, Run
from master.timeline import timeline
from tests.master.world import START, World


def at(seconds: float) -> object:
    return START + timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("steps_lost", "training_s"),
    [(0, 90.0), (50, 65.0), (500, 40.0)],
    ids=["nothing lost", "half of a run lost", "more lost than made"],
)
def test_effective_ratio(world: World, steps_lost: int, training_s: float) -> None:
    with world.services.store.write() as session:
        job = Job(
            id="job_x",
            pool="default",
            queue="default",
            name="x",
            spec={},
            fault_tolerance={},
            warnings=[],
            status="Succeeded",
            created_at=at(0),
            started_at=at(10),
            finished_at=at(200),
        )
        session.add(job)
        session.add(
            Run(
                job_id="job_x",
                n=0,
                started_at=at(1),
                first_step_at=at(10),
                last_step_at=at(60),
                first_step=0,
                last_step=100,
                rhythm=[],
            )
        )
        session.add(
            Run(
                job_id="job_x",
                n=1,
                started_at=at(70),
                first_step_at=at(80),
                last_step_at=at(120),
                first_step=100,
                last_step=180,
                rhythm=[],
            )
        )
        session.add(
            FaultEventRow(
                id="evt_x",
                job_id="job_x",
                pool="default",
                queue="default",
                run=0,
                time=at(60),
                reason={"en": "r"},
                fault_class="process_exit",
                cause="unknown",
                advice={"en": "a"},
                culprit={},
                confidence=0.5,
                hardware=False,
                retryable=True,
                fingerprint="f",
                evidence=[],
                decision={"why": {"en": "w"}},
                detected_at=at(61),
                decided_at=at(62),
                recovered_at=at(80),
                steps_lost=steps_lost,
            )
        )
        session.flush()
        document = timeline(session, job, "en", at(500))
    assert document["wall_s"] == 200
    assert document["training_s"] == training_s
    assert document["effective_ratio"] == training_s / 200
    assert [run["n"] for run in document["runs"]] == [0, 1]
    assert document["faults"][0]["reason"] == "r"
