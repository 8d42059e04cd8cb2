"""The connection to PostgreSQL is lost while it commits: whoever asked hears that it may be kept or not."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import httpx
import pytest
from fastapi import FastAPI
from sqlalchemy import func, select

from notifier.api.deps import Services
from notifier.model import Alert, Channel, Silence
from notifier.storage import Store, make_engine
from tests.losing import Losing, losing

pytestmark = pytest.mark.parametrize("engine_name", ["postgres"], indirect=True)
As = Callable[..., httpx.Client]
CHANNEL = {
    "name": "ding", "kind": "wecom",
    "config": {"webhook_url": "http://127.0.0.1:9/cgi-bin/webhook/send?key=k"},
}  # fmt: skip
ALERT = {"title": "disk full", "channels": ["ding"]}
KEY = {"Idempotency-Key": "k1"}


@pytest.fixture
def way(database_url: str, app: FastAPI, services: Services, admin: httpx.Client) -> Iterator[Losing]:
    assert admin.post("/channels", json=CHANNEL).status_code == 201
    with losing(database_url) as found:
        engine = make_engine(found.url)
        app.state.services = replace(services, store=Store(engine))
        yield found
        app.state.services.writer.close()
        engine.dispose()


def kept(store: Store, table: type) -> int:
    with store.read() as session:
        return session.scalar(select(func.count()).select_from(table)) or 0


@pytest.mark.parametrize("is_kept", [True, False])
def test_an_alert_without_a_key_is_never_kept_twice(
    way: Losing, admin: httpx.Client, store: Store, is_kept: bool
) -> None:
    way.lose(is_kept)
    answer = admin.post("/alerts", json=ALERT)
    assert (answer.status_code, kept(store, Alert)) == (503, is_kept)
    assert "Idempotency-Key" in answer.json()["detail"]
    assert "may be kept or not" in answer.json()["detail"]
    assert "Retry-After" not in answer.headers  # nobody is to send it again by himself


@pytest.mark.parametrize("is_kept", [True, False])
@pytest.mark.parametrize("known", [{"headers": KEY}, {"json": {**ALERT, "dedup_key": "k"}}])
def test_an_alert_that_is_known_again_is_kept_and_answered(
    way: Losing, admin: httpx.Client, store: Store, is_kept: bool, known: dict[str, object]
) -> None:
    way.lose(is_kept)
    answer = admin.post("/alerts", **{"json": ALERT, **known})  # type: ignore[arg-type]
    assert (answer.status_code, kept(store, Alert), way.lost) == (202, 1, 1)


def test_with_the_key_it_is_done_once_after_a_503_too(way: Losing, admin: httpx.Client, store: Store) -> None:
    silence = {"match": {"item": "custom"}, "duration_s": 60}
    way.lose(True)
    answer = admin.post("/silences", json=silence, headers=KEY)
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "5")
    assert admin.post("/silences", json=silence, headers=KEY).status_code == 201
    assert kept(store, Silence) == 1


def test_what_may_be_asked_for_twice_says_so(way: Losing, admin: httpx.Client, store: Store) -> None:
    way.lose(True)
    answer = admin.delete("/channels/ding")
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "5")
    assert "send it again" in answer.json()["detail"]
    assert kept(store, Channel) == 0
