"""kill -9 of the master between any two steps of a recovery: a new one goes on, nothing is lost."""

import json
import multiprocessing
import os
import signal
import sys
from collections.abc import Iterator
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import pytest
from sqlalchemy import func, select

from master import jobs
from master.createjob import CreateJob
from master.lifecycle import JobStatus
from master.model import FaultEventRow, Job, Pod, Recovery, Run
from master.pools import bootstrap
from master.runs import pods_of
from master.runtimes.supervisor import processes
from notifier.clock import utcnow
from notifier.faultpoints import RECOVERY_POINTS
from notifier.model import Alert
from notifier.storage import Store, make_engine
from tests.master.masters import Town, services_of, until
from tests.master.world import ADMIN

# Two pods train by themselves: a line a step, the step kept beside, until a file says that it is enough.
TRAIN = """
import os, pathlib, sys, time
rank, run = os.environ["RANK"], os.environ["FAULTCAST_RUN"]
kept = pathlib.Path(f"step-{rank}")
step = int(kept.read_text()) if kept.exists() else 0
with open(f"starts-{rank}", "a") as starts:
    starts.write(run + " ")
while not pathlib.Path("enough").exists():
    step += 1
    print(f"step {step} | loss 0.1", flush=True)
    draft = pathlib.Path(f"draft-{rank}")
    draft.write_text(str(step))
    draft.replace(kept)
    time.sleep(0.05)
"""


class Story:
    """One job that lives through every death of its master."""

    def __init__(self, town: Town, store: Store) -> None:
        self.town, self.store = town, store
        self.runtime = town.runtime()
        self.job_id = ""

    def submit(self) -> None:
        folder = self.town.data_dir / "train.py"
        folder.write_text(TRAIN)
        body = CreateJob.model_validate(
            {
                "name": "train",
                "command": f"exec {sys.executable} -u {folder}",
                "jobSpec": {"replicas": 2},
                "faultTolerance": True,
                "faultToleranceArgs": "--max-restarts=-1",
            }
        )
        with self.store.write() as session:
            bootstrap(session, self.runtime.nodes())
            judged = jobs.judged(session, ADMIN, body, "local")
            self.job_id = jobs.create(session, judged, utcnow()).id

    def job(self) -> Job:
        with self.store.read() as session:
            return session.get_one(Job, self.job_id)

    def run(self) -> Run | None:
        with self.store.read() as session:
            return session.get(Run, (self.job_id, session.get_one(Job, self.job_id).run))

    def pods(self) -> list[Pod]:
        with self.store.read() as session:
            return pods_of(session, self.job_id, session.get_one(Job, self.job_id).run)

    def events(self) -> list[FaultEventRow]:
        with self.store.read() as session:
            rows = select(FaultEventRow).where(FaultEventRow.job_id == self.job_id)
            return list(session.scalars(rows.order_by(FaultEventRow.id)))

    def alerts(self) -> list[Alert]:
        with self.store.read() as session:
            return list(session.scalars(select(Alert).order_by(Alert.id)))

    def stages(self) -> set[str]:
        with self.store.read() as session:
            return set(session.scalars(select(Recovery.stage)))

    def folder(self, index: int) -> Path:
        return self.town.data_dir / f"jobs/{self.job_id}/run-{self.job().run}/pod-{index}"

    def starts(self, index: int) -> list[int]:
        path = self.town.data_dir / f"jobs/{self.job_id}/work/starts-{index}"
        return [int(word) for word in path.read_text().split()] if path.exists() else []

    def trains(self) -> bool:
        """In calm: running, and beyond what any earlier run reached."""
        run = self.run()
        if run is None or self.job().status != JobStatus.RUNNING or run.last_step is None:
            return False
        with self.store.read() as session:
            best = session.scalar(select(func.max(Run.last_step)).where(Run.n < run.n)) or 0
        return run.last_step > best + 5

    def break_rank(self, index: int) -> None:
        os.kill(json.loads((self.folder(index) / "pod.json").read_text())["main_pid"], signal.SIGKILL)

    def strays(self) -> list[int]:
        """Processes of this job's pods that belong to no pod of the present run."""
        now = {pod.id for pod in self.pods()}
        found = []
        for one in processes():
            try:
                environ = Path(f"/proc/{one.pid}/environ").read_bytes().split(b"\0")
            except OSError:
                continue
            marks = [word[17:].decode() for word in environ if word.startswith(b"FAULTCAST_POD_ID=")]
            is_ours = f"FAULTCAST_JOB_ID={self.job_id}".encode() in environ
            if is_ours and one.state not in "ZX" and marks and marks[0] not in now:
                found.append(one.pid)
        return found


def died(master: ForkServerProcess) -> bool:
    return master.exitcode == -signal.SIGKILL


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory, sqlite_template: Path) -> Iterator[Story]:
    folder = tmp_path_factory.mktemp("town")
    (folder / "faultcast.db").write_bytes(sqlite_template.read_bytes())
    town = Town(folder, f"sqlite:///{folder}/faultcast.db")
    services_of(town.settings)  # the first look at a database keeps the key's check
    with town.serving() as served:
        engine = make_engine(town.database_url)
        story = Story(served, Store(engine))
        story.submit()
        yield story
        for master in multiprocessing.active_children():  # of a test that failed
            master.kill()
            master.join()
        story.runtime.shutdown()
        engine.dispose()


def test_before_anything_breaks(story: Story) -> None:
    """Also the first run's beginning is gone on with by the next master."""
    for point in ("run_begun:1", "pod_started:1", "agent_started:2"):
        master = story.town.master(point)
        until(lambda master=master: died(master), f"the master's death at {point}")
    master = story.town.master()
    until(story.trains, "training")
    master.kill()
    master.join()
    assert [story.starts(0), story.starts(1)] == [[0], [0]]


@pytest.mark.parametrize("point", RECOVERY_POINTS)
def test_killed_at(story: Story, point: str) -> None:
    before, run = len(story.events()), story.job().run
    master = story.town.master(f"{point}:1")
    until(story.trains, "training")
    story.break_rank(1)
    until(lambda: died(master), f"the master's death at {point}")
    master = story.town.master()
    until(lambda: story.trains() and story.job().run == run + 1, f"training again after {point}")
    until(lambda: story.strays() == [], "the end of the former run's processes")
    master.kill()
    master.join()
    [event] = story.events()[before:]
    assert (event.run, event.culprit["rank"], event.decision["action"]) == (run, 1, "restart_job")
    assert event.recovered_at is not None
    told = [alert for alert in story.alerts() if alert.event_id == event.id]
    assert [(alert.item, alert.status) for alert in told] == [("jobFT", "resolved")]
    assert story.stages() == {"done"}
    assert [story.starts(index)[-1] for index in (0, 1)] == [run + 1] * 2
    assert [story.starts(index).count(run + 1) for index in (0, 1)] == [1, 1]


def test_killed_again_and_again(story: Story) -> None:
    """At moments that nobody chose."""
    before, run = len(story.events()), story.job().run
    master = story.town.master()
    until(story.trains, "training")
    story.break_rank(0)
    for life_s in (0.05, 0.2, 0.35, 0.5, 0.65, 0.8, 0.95, 1.1):
        master.join(life_s)
        master.kill()
        master.join()
        master = story.town.master()
    until(lambda: story.trains() and story.job().run == run + 1, "training again")
    master.kill()
    master.join()
    assert len(story.events()) == before + 1
    assert [story.starts(index).count(run + 1) for index in (0, 1)] == [1, 1]


def test_at_last_it_succeeds_and_nothing_is_left(story: Story) -> None:
    master = story.town.master()
    (story.town.data_dir / f"jobs/{story.job_id}/work/enough").touch()
    until(lambda: story.job().status == JobStatus.SUCCEEDED, "success")
    until(lambda: all(pod.closed_at for pod in story.pods()), "the agents' end")
    master.kill()
    master.join()
    assert story.strays() == []
    assert sum(alert.item == "jobSucceed" for alert in story.alerts()) == 1
    assert sum(alert.item == "jobRunning" for alert in story.alerts()) == 1
