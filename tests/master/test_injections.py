"""`POST /jobs/{id}/injections`: who may break a job on purpose, and what they are told."""

from sqlalchemy import select

from master.model import Pod
from tests.master.test_api import NOBODY, As, TestClient, admin, as_
from tests.master.world import World, both

__all__ = ["admin", "as_"]
ASK = {"fault": "rank_killed"}


def at(job_id: str) -> str:
    return f"/jobs/{job_id}/injections"


def placed(world: World, job_id: str) -> None:
    """As the local runtime keeps it: each pod has a folder."""
    with world.services.store.write() as session:
        for pod in session.scalars(select(Pod).where(Pod.job_id == job_id)):
            pod.handle = {**pod.handle, "folder": f"/data/jobs/{job_id}/run-0/pod-{pod.index}"}


@both
def test_an_operator_is_told_where_the_training_processes_are(world: World, as_: As) -> None:
    job_id = world.submit(jobSpec={"replicas": 2})
    placed(world, job_id)
    world.beat(job_id)
    answer = as_("operator").post(at(job_id), json=ASK)
    assert answer.status_code == 200, answer.text
    told = answer.json()
    assert (told["job_id"], told["run"], told["place"]) == (job_id, 0, world.runtime.place)
    assert [(pod["name"], pod["index"], list(pod["ranks"])) for pod in told["pods"]] == [
        ("train-0", 0, ["0"]),
        ("train-1", 1, ["1"]),
    ]
    assert all(isinstance(pid, int) for pod in told["pods"] for pid in pod["ranks"].values())
    assert told["pods"][1]["folder"].endswith("/run-0/pod-1")


def test_a_pod_whose_agent_has_not_spoken_has_no_ranks_yet(world: World, admin: TestClient) -> None:
    job_id = world.submit()
    placed(world, job_id)
    assert [pod["ranks"] for pod in admin.post(at(job_id), json=ASK).json()["pods"]] == [{}]


def test_whoever_may_only_read_or_publish_is_refused(world: World, as_: As) -> None:
    job_id = world.submit()
    placed(world, job_id)
    for role in ("viewer", "publisher", "ingest"):
        assert as_(role).post(at(job_id), json=ASK).status_code == 403


def test_a_job_that_is_not_ours_is_none(world: World, as_: As, admin: TestClient) -> None:
    job_id = world.submit()
    assert admin.post(at(NOBODY), json=ASK).status_code == 404
    assert as_("operator", "other").post(at(job_id), json=ASK).status_code == 404


def test_what_does_not_run_here_is_refused_with_the_reason(world: World, admin: TestClient) -> None:
    job_id = world.submit()
    placed(world, job_id)
    world.runtime.lies_at = "there"
    assert "another data dir" in admin.post(at(job_id), json=ASK).json()["detail"]
    world.runtime.lies_at = "here"
    world.stop(job_id)
    world.settle()
    answer = admin.post(at(job_id), json=ASK)
    assert answer.status_code == 409
    assert "no pod runs that a fault could strike" in answer.json()["detail"]


def test_a_fault_has_a_name(world: World, admin: TestClient) -> None:
    for body in ({}, {"fault": ""}, {"fault": "a b"}, {"fault": 7}, {"fault": "x", "more": 1}):
        assert admin.post(at(NOBODY), json=body).status_code == 422
