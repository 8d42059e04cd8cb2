"""A master, its agents and its runtime, at a time that the test moves on."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import select

from master import intake, jobs, pools
from master.controller import Controller
from master.createjob import CreateJob
from master.endings import request_stop
from master.model import FaultEventRow, Job, Pod, Recovery, Run
from master.reports import ReportBody
from master.runs import pods_of
from notifier.alertconfigs import put_alert_config
from notifier.api.deps import Services
from notifier.auth import Principal, Role, authenticate
from notifier.clock import rfc3339
from notifier.ids import new_id
from notifier.model import Alert, Channel, Delivery
from notifier.rules import AlertConfigModel
from tests.master.virtual import VirtualRuntime

START = datetime(2026, 11, 29, 3, 0, 0, tzinfo=UTC)
ADMIN = Principal("tok_admin", "admin", Role.ADMIN)
FT = {"faultTolerance": True}
TICKS = 40
both = pytest.mark.parametrize("engine_name", ["sqlite", "postgres"])


@dataclass
class World:
    """A master at a time that the test moves on, with one channel `ding` that hears of everything."""

    services: Services
    runtime: VirtualRuntime
    now: datetime = START
    seqs: dict[str, int] = field(default_factory=dict)
    frozen_at: str = ""
    controller: Controller = field(init=False)

    def __post_init__(self) -> None:
        self.new_master()
        self.controller.tick(self.now)
        with self.services.store.write() as session:
            pools.bootstrap(session, self.runtime.nodes())
            session.add(
                Channel(
                    id=new_id("chn", START), pool="default", name="ding", kind="dingtalk", config={},
                    secrets="", shard=1, created_at=START, updated_at=START,
                )
            )  # fmt: skip
            rules = AlertConfigModel.model_validate({"rules": [{"channels": ["ding"]}]})
            put_alert_config(session, ("pool", "default"), rules, START)

    def new_master(self, server: str = "http://127.0.0.1:1") -> None:
        """Another process takes over: only the database and the pods are as before."""
        self.controller = Controller(self.services, self.runtime, server=server)

    def submit(self, **given: Any) -> str:
        """A job of that body, running; its id."""
        body = CreateJob.model_validate({"name": "train", "command": "python train.py", **given})
        with self.services.store.write() as session:
            judged = jobs.judged(session, ADMIN, body, "local")
            job_id = jobs.create(session, judged, self.now).id
        self.settle()
        return job_id

    def settle(self, seconds: float = 0.1) -> None:
        """Time goes on, and the master looks until nothing changes any more."""
        self.now += timedelta(seconds=seconds)
        for _ in range(TICKS):
            self.controller._woken.clear()
            self.controller.tick(self.now)
            if not self.controller._woken.is_set():
                return
        raise AssertionError("the master never comes to rest")

    def wait(self, seconds: float) -> None:
        """Let it pass in half-seconds, the agents speaking all the while."""
        for _ in range(round(seconds * 2)):
            self.settle(0.5)

    def stop(self, job_id: str) -> None:
        with self.services.store.write() as session:
            request_stop(session, session.get_one(Job, job_id), self.now, "stopped by the test")

    def job(self, job_id: str) -> Job:
        with self.services.store.read() as session:
            return session.get_one(Job, job_id)

    def run(self, job_id: str, n: int | None = None) -> Run:
        with self.services.store.read() as session:
            return session.get_one(Run, (job_id, session.get_one(Job, job_id).run if n is None else n))

    def pods(self, job_id: str, n: int | None = None) -> list[Pod]:
        with self.services.store.read() as session:
            return pods_of(session, job_id, session.get_one(Job, job_id).run if n is None else n)

    def events(self, job_id: str) -> list[FaultEventRow]:
        with self.services.store.read() as session:
            rows = select(FaultEventRow).where(FaultEventRow.job_id == job_id).order_by(FaultEventRow.id)
            return list(session.scalars(rows))

    def stages(self, job_id: str) -> list[str]:
        with self.services.store.read() as session:
            rows = select(Recovery.stage).where(Recovery.job_id == job_id).order_by(Recovery.event_id)
            return list(session.scalars(rows))

    def alerts(self) -> list[Alert]:
        with self.services.store.read() as session:
            return list(session.scalars(select(Alert).order_by(Alert.id)))

    def told(self) -> list[tuple[str, str]]:
        """Item and status of every delivery, in order."""
        with self.services.store.read() as session:
            rows = session.scalars(select(Delivery).order_by(Delivery.id))
            return [(row.item, row.status) for row in rows]

    def agent(self, pod: Pod) -> Principal:
        access = self.runtime.pods[pod.id].agent
        assert access is not None, "the pod has no agent"
        with self.services.store.read() as session:
            found = authenticate(session, access.token, self.now)
        assert found is not None, "its token is void"
        return found

    def node_agent(self, node: str) -> Principal:
        with self.services.store.read() as session:
            found = authenticate(session, self.runtime.node_agents[node].token, self.now)
        assert found is not None, "its token is void"
        return found

    def report(
        self, who: Principal, *observations: dict[str, Any], boot: str = "b1", sent_after_s: float = 0.0
    ) -> dict[str, Any]:
        """An agent speaks, by a clock that may be ahead; what it is answered."""
        key = f"{who.token_id}:{boot}"
        self.seqs[key] = self.seqs.get(key, 0) + 1
        told = [{"at": rfc3339(self.now), **one} for one in observations]
        body = {"boot": boot, "seq": self.seqs[key], "observations": told}
        body["sent_at"] = rfc3339(self.now + timedelta(seconds=sent_after_s))
        with self.services.store.write() as session:
            taken = intake.take(session, who, ReportBody.model_validate(body), self.now)
        return taken.reply.model_dump()

    def beat(self, job_id: str, step: int | None = None, **states: dict[str, Any]) -> None:
        """Every pod's agent tells of its healthy rank (or what `states` says of `rank<n>`)."""
        for pod in self.pods(job_id):
            if self.runtime.pods[pod.id].agent is None:
                continue
            state = {
                "pid": 100 + pod.index, "state": "S", "cpu_ticks": int(self.now.timestamp() * 100),
                "io_bytes": int(self.now.timestamp()), "step": step,
                "step_at": rfc3339(self.now) if step is not None else None,
            }  # fmt: skip
            state |= states.get(f"rank{pod.index}", {})
            data = {"ranks": {str(pod.index): state}, "log_at": rfc3339(self.now)}
            self.report(self.agent(pod), {"kind": "heartbeat", "data": data})

    def train(self, job_id: str, first: int, last: int, seconds: float = 0.5) -> None:
        """Steps are made, with a look of the master after each."""
        for step in range(first, last + 1):
            self.beat(job_id, step)
            self.settle(seconds)
