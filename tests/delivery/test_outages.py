"""What Faultcast stands on is away for a while: Redis, the database, a provider."""

import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest
from sqlalchemy import make_url, select, update

from channels.standin import Scripted
from notifier.clock import utcnow
from notifier.model import Attempt, Delivery, MeterUse
from notifier.valkey import Embedded
from tests.delivery.breaking import (
    Door,
    Producer,
    asleep,
    balance,
    cut_connections,
    cut_off,
    free_port,
    hurry,
)
from tests.delivery.conftest import until

if TYPE_CHECKING:
    from tests.conftest import Postgres
    from tests.delivery.conftest import House, Processes

pytestmark = pytest.mark.timeout(150)
on_sqlite = pytest.mark.parametrize("engine_name", ["sqlite"], indirect=True)
on_postgres = pytest.mark.parametrize("engine_name", ["postgres"], indirect=True)
SOON_S = 5.0
MINUTE_LIMIT = 20  # of WeCom's robot


@pytest.mark.parametrize("way", ["gone", "silent"])
@on_sqlite
def test_without_redis_the_api_accepts_as_quickly_and_all_is_told(
    way: str, house: "House", processes: "Processes"
) -> None:
    house.channel()
    port = free_port()
    folder = tempfile.TemporaryDirectory(prefix="fc-vk-")
    with folder as name, Embedded(Path(name)) as valkey:
        assert valkey.pid is not None
        if way == "gone":
            valkey.stop()
        with asleep(valkey.pid) if way == "silent" else _as_it_is(), house.worker(valkey.url):
            processes.server(port, FAULTCAST_REDIS_URL=valkey.url)
            producer = Producer.of(house, f"http://127.0.0.1:{port}")
            told = [one for n in range(30) for one in producer.publish(f"alert {n}", "ops")]
            house.told(*told, timeout_s=SOON_S)
    assert producer.refused == {}
    assert max(producer.latencies) < SOON_S
    assert sorted(producer.latencies)[len(producer.latencies) // 2] < 0.5
    assert balance(house, told) == 0


@contextmanager
def _as_it_is() -> Iterator[None]:
    yield


@contextmanager
def read_only(postgres: "Postgres", database: str) -> Iterator[None]:
    """As after a failover to a replica: it answers, and takes nothing."""
    postgres.run(f"alter database {database} set default_transaction_read_only = on")
    cut_connections(postgres, database)
    yield
    postgres.run(f"alter database {database} reset default_transaction_read_only")
    cut_connections(postgres, database)


OUTAGES = {"away": cut_off, "read only": read_only}


@pytest.mark.parametrize("outage", OUTAGES.values(), ids=OUTAGES)
@on_postgres
def test_without_a_database_the_api_says_so_and_all_go_on_by_themselves(
    outage: "Callable[[Postgres, str], AbstractContextManager[None]]",
    house: "House",
    processes: "Processes",
    postgres: "Postgres",
    database_url: str,
) -> None:
    house.channel()
    port, database = free_port(), str(make_url(database_url).database)
    server, worker = processes.server(port), processes.worker()
    producer = Producer.of(house, f"http://127.0.0.1:{port}")
    told = producer.publish("before", "ops")
    with producer.publishing("during", channels=["ops"]), outage(postgres, database):
        until(lambda: producer.refused[503] > 5 or producer.accepted.get("during"))
        headers = {"Authorization": f"Bearer {producer.token}"}
        answer = httpx.get(f"http://127.0.0.1:{port}/api/v1/deliveries", headers=headers)
        if outage is cut_off:
            assert (answer.status_code, answer.headers["Retry-After"]) == (503, "5")
            assert answer.json()["status"] == 503
    assert set(producer.refused) <= {503}
    told += producer.accepted["during"] + producer.publish("after", "ops")
    hurry(house, told)
    assert balance(house, told) == 0
    assert (processes.term(server), processes.term(worker)) == (0, 0)


def refuses(house: "House", door: Door) -> None:
    door.shut()


def cuts_off(house: "House", door: Door) -> None:
    door.cuts = True


def fails(house: "House", door: Door) -> None:
    house.providers.script("wecom", *[Scripted(status=500)] * 200)


def has_no_time(house: "House", door: Door) -> None:
    house.providers.script("wecom", *[Scripted(status=200, body={"errcode": -1, "errmsg": "busy"})] * 200)


FORMS = {"refused": refuses, "cut off": cuts_off, "500": fails, "200 with an error": has_no_time}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@on_sqlite
def test_a_provider_that_is_back_after_an_hour_is_not_run_over(
    form: "Callable[[House, Door], None]", house: "House"
) -> None:
    """Its limit is kept, and everybody is told."""
    robot = house.providers.robot("wecom")
    with Door(house.providers.url) as door:
        channel = house.channel(
            "robot", "wecom", webhook_url=robot.url.replace(house.providers.url, door.url)
        )
        form(house, door)
        titles = [f"broke-{n:02}" for n in range(2 * MINUTE_LIMIT)]
        told = [house.alert(channel, title=title)[0] for title in titles]
        with house.working():
            until(lambda: sum(row.attempt_count > 0 for row in house.rows()) >= MINUTE_LIMIT / 2)
        an_hour_passes(house)
        house.providers.clear()
        house.providers.robot("wecom", robot.token)  # it counts from nothing again
        door.cuts = False
        door.shut()
        door.open()
        with house.working():
            until(lambda: set(house.states(told)) <= {"delivered", "merged"}, 30)
    accepted = house.providers.messages(accepted=True)
    assert house.providers.messages(accepted=False) == [], "it was sent more than it takes"
    assert len(accepted) <= MINUTE_LIMIT
    named = Counter(title for one in accepted for title in titles if title in f"{one.title} {one.text}")
    assert set(named) == set(titles)


def an_hour_passes(house: "House") -> None:
    hour = timedelta(hours=1)
    with house.store.write() as session:
        for table, column in ((Attempt, "started_at"), (MeterUse, "started_at"), (Delivery, "created_at")):
            for row in session.scalars(select(table)):
                setattr(row, column, getattr(row, column) - hour)
        waiting = (Delivery.state.in_(("pending", "retrying")), Delivery.next_attempt_at.is_not(None))
        session.execute(update(Delivery).where(*waiting).values(next_attempt_at=utcnow()))
