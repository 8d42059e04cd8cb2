"""The console over a real database, with a job that has seen faults."""

import re
import warnings
from collections.abc import Callable, Iterator
from datetime import timedelta
from ipaddress import ip_network
from pathlib import Path
from typing import Any, TypeVar

import pytest
from fastapi import FastAPI

from channels.transport import Network
from master.app import create_app
from master.controller import Controller
from master.faultargs import FaultTolerance
from master.model import FaultEventRow, Job, Node, NodeSignal, Pod, Pool, Queue, Run
from master.runtimes.local import LocalRuntime
from notifier.api.deps import Services
from notifier.auth import NewToken, Role, create_token
from notifier.clock import utcnow
from notifier.doorbell import Bell
from notifier.ids import new_id
from notifier.model import Alert, Attempt, Channel, Delivery, Oncall, Silence
from notifier.secretbox import open_box
from notifier.settings import Settings
from notifier.storage import Base, Store

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it would rather have httpx2; httpx is what we ship
    from fastapi.testclient import TestClient

LOOPBACK = (ip_network("127.0.0.0/8"),)
EMPTY: dict[str, Any] = {"JSON": [], "BOOLEAN": False, "FLOAT": 0.0, "BIGINT": 0, "INTEGER": 0}

Row = TypeVar("Row", bound=Base)
SignIn = Callable[..., "Browser"]


class Browser(TestClient):
    """A browser that follows no redirect by itself and sends forms as our pages hold them."""

    def __init__(self, app: FastAPI, token: str) -> None:
        super().__init__(
            app, base_url="http://console", follow_redirects=False, raise_server_exceptions=False
        )
        self.token = token
        self.headers["accept-language"] = "en"

    def sign_in(self) -> "Browser":
        answer = self.post("/login", data={"token": self.token})
        assert answer.status_code == 303
        return self

    def csrf(self, page: str = "/") -> str:
        found = re.search(r'name="csrf" value="([0-9a-f]{64})"', self.get(page).text)
        assert found
        return found[1]


BOTH_DATABASES = pytest.mark.parametrize("engine_name", ["sqlite", "postgres"], indirect=True)


@pytest.fixture
def engine_name(request: pytest.FixtureRequest) -> str:
    """SQLite, unless a test asks for both: most pages' tests are about words, not about statements."""
    return str(getattr(request, "param", "sqlite"))


@pytest.fixture
def services(tmp_path: Path, store: Store, database_url: str) -> Iterator[Services]:
    settings = Settings(
        _env_file=None,
        data_dir=tmp_path,
        database_url=database_url,
        secret_key="a-secret-key-of-tests",
        allow_targets=LOOPBACK,
    )
    bell = Bell(None)
    yield Services(store, settings, open_box(settings, store), bell, Network(allow=LOOPBACK))
    bell.close()


@pytest.fixture
def app(services: Services, tmp_path: Path) -> FastAPI:
    """With a controller that is not started: nothing changes but what the console does."""
    runtime = LocalRuntime(tmp_path, 3)
    return create_app(services, Controller(services, runtime, server="http://127.0.0.1:1"))


@pytest.fixture
def browser(app: FastAPI, store: Store) -> Iterator[SignIn]:
    """`browser("viewer", "pool/queue")` is signed in with a token of that role and scope."""
    opened: list[Browser] = []

    def sign_in(role: str = "admin", scope: str | None = None) -> Browser:
        pool, _, queue = (scope or "").partition("/")
        with store.write() as session:
            new = NewToken(f"{role}-token", Role(role), pool or None, queue or None)
            _, token = create_token(session, new, utcnow())
        opened.append(Browser(app, token))
        return opened[-1].sign_in()

    yield sign_in
    for each in opened:
        each.close()


@pytest.fixture
def stranger(app: FastAPI) -> Iterator[Browser]:
    """A browser that is not signed in."""
    with Browser(app, "") as browser:
        yield browser


def row(table: type[Row], **given: Any) -> Row:
    """A row whose columns that do not matter here are empty."""
    values = dict(given)
    for column in table.__table__.columns:
        if (
            column.name not in given
            and column.default is None
            and not column.nullable
            and not column.primary_key
        ):
            kind = str(column.type).upper()
            values[column.name] = utcnow() if column.name.endswith("_at") else EMPTY.get(kind, "")
    return table(**values)


class Told:
    """What a job of the tests is called and what is written about it; hostile where a test says so."""

    def __init__(self, store: Store, words: str = "plain") -> None:
        self.now = utcnow()
        self.words = words
        self.job_id, self.event_id = new_id("job", self.now), new_id("evt", self.now)
        self.delivery_id, self.channel_id = new_id("dlv", self.now), new_id("chn", self.now)
        self.alert_id = new_id("alr", self.now)
        self.decision = {"action": "restart_job", "budget_left": 9, "why": {"en": words, "zh": words}}
        with store.write() as session:
            session.add_all([row(Pool, id="default"), row(Queue, pool="default", name="default")])
            session.add_all([self._job(), *self._runs(), self._pod(), self._event(), self._channel()])
            session.add(self._alert())
            session.add(row(Node, name="node-1", pool="default", status="isolated", reason=words))
            session.add(self._signal())
            session.add_all([self._delivery(), self._silence(), self._list()])
            session.flush()
            session.add(self._attempt())

    def _signal(self) -> NodeSignal:
        return row(
            NodeSignal, id=new_id("sig", self.now), pool="default", node="node-1", source="alertmanager",
            key="k", name=f"GPUXidError {self.words}", status="firing", severity="error", text=self.words,
        )  # fmt: skip

    def _job(self) -> Job:
        return row(
            Job, id=self.job_id, pool="default", queue="default", name=f"job {self.words}", status="Running",
            run=1, spec={"envs": {}, "labels": {}}, fault_tolerance=FaultTolerance(enabled=True).document(),
            warnings=[self.words],
            reason=self.words, restarts_used=1, created_at=self.now - timedelta(minutes=10),
        )  # fmt: skip

    def _runs(self) -> list[Run]:
        start = self.now - timedelta(minutes=10)
        steps = {"first_step_at": start, "first_step": 0, "last_step_at": start + timedelta(minutes=4)}
        again = start + timedelta(minutes=5)
        return [
            row(Run, job_id=self.job_id, n=0, started_at=start, ended_at=again, last_step=400, **steps),
            row(Run, job_id=self.job_id, n=1, started_at=again, first_step_at=again, first_step=380,
                last_step=700, last_step_at=self.now, rhythm=[0.5, 0.5]),
        ]  # fmt: skip

    def _pod(self) -> Pod:
        return row(
            Pod, id=new_id("pod", self.now), job_id=self.job_id, run=1, index=0, name=f"pod {self.words}",
            node="node-1", status="Running", handle={}, reason=self.words,
        )  # fmt: skip

    def _event(self) -> FaultEventRow:
        at = self.now - timedelta(minutes=6)
        return row(
            FaultEventRow, id=self.event_id, job_id=self.job_id, pool="default", queue="default", run=0,
            time=at, fault_class="process_exit", cause="segfault",
            culprit={"rank": 3, "pod": self.words, "node": "node-1"},
            reason={"en": f"rank 3 died {self.words}", "zh": f"rank 3 退出 {self.words}"},
            advice={"en": self.words, "zh": self.words}, confidence=0.9,
            evidence=[{"rank": 3, "node": "node-1", "source": "agent", "text": f"log line {self.words}"}],
            decision=self.decision,
            detected_at=at + timedelta(seconds=1), decided_at=at + timedelta(seconds=2),
            recovered_at=at + timedelta(minutes=2), downtime_s=120.0, steps_lost=20,
        )  # fmt: skip

    def _channel(self) -> Channel:
        return row(
            Channel, id=self.channel_id, pool="default", name="oncall", kind="dingtalk", config={}, shard=1,
            health="ok", health_why=self.words,
        )  # fmt: skip

    def _alert(self) -> Alert:
        return row(
            Alert, id=self.alert_id, pool="default", source=self.words, item="jobFT", items=["jobFT"],
            severity="warning", status="firing", title=f"rank 3 died {self.words}", labels={}, context={},
            job_id=self.job_id, job_name=f"job {self.words}", event_id=self.event_id, why=self.words,
            created_at=self.now,
        )  # fmt: skip

    def _delivery(self) -> Delivery:
        return row(
            Delivery, id=self.delivery_id, alert_id=self.alert_id, event_id=self.event_id, job_id=self.job_id,
            job_name=f"job {self.words}", pool="default", channel_id=self.channel_id, channel="oncall",
            kind="dingtalk", item="jobFT", items=["jobFT"], severity="warning", language="zh",
            timezone="UTC", state="failed", why=self.words, order_key="x", shard=1,
            attempt_count=1, created_at=self.now, error_code="310000",
            error_message=self.words, message={"title": self.words, "text": self.words, "format": "markdown"},
            recipients=[{"to": self.words, "outcome": "refused", "code": "550"}],
        )  # fmt: skip

    def _silence(self) -> Silence:
        return row(
            Silence, id=new_id("slc", self.now), pool="default", comment=self.words, created_by=self.words,
            ends_at=self.now + timedelta(hours=1),
            matchers=[{"name": "item", "op": "=", "value": self.words}],
        )  # fmt: skip

    def _list(self) -> Oncall:
        people = [{"name": self.words, "channels": ["oncall"]}]
        spec = {"turn": "daily", "handover": "09:00", "weekday": None, "timezone": None, "overrides": []}
        spec |= {"start": "2026-11-30", "people": people}
        return row(Oncall, id=new_id("onc", self.now), pool="default", name="night", spec=spec, version=1)

    def _attempt(self) -> Attempt:
        return row(
            Attempt, delivery_id=self.delivery_id, channel_id=self.channel_id, n=1, part=1, parts=1,
            trigger="alert", started_at=self.now, finished_at=self.now + timedelta(seconds=0.4),
            outcome="channel_broken", http_status=200, provider_code="310000", provider_message=self.words,
            request=self.words, response=self.words,
        )  # fmt: skip


@pytest.fixture
def tell(store: Store) -> Callable[[str], Told]:
    """`tell("words")` writes a job with all that belongs to it, `words` wherever a person could put them."""
    return lambda words: Told(store, words)


@pytest.fixture
def told(store: Store) -> Told:
    return Told(store)
