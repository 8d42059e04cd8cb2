"""What probes and Prometheus are told."""

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import timedelta
from typing import Any

import anyio
import anyio.to_thread
import httpx
import pytest
from fastapi import FastAPI
from pydantic import SecretStr
from sqlalchemy import text

from master import checks
from master.checks import look
from master.controller import Controller
from master.health import Health
from master.model import Leader
from master.runtimes.local import LocalRuntime
from notifier import metrics
from notifier.api.deps import Services
from notifier.model import Delivery, Meta, Worker
from notifier.presence import Presence, living
from notifier.secretbox import SecretBox
from notifier.storage import Store
from notifier.watchdog import Watchdog
from tests.conftest import wait_for
from tests.console.conftest import BOTH_DATABASES
from tests.notifier.test_watchdog import listening

Told = Any  # the job of conftest.py
Page = Any
SignIn = Callable[..., Page]


def states(services: Services, controller: Controller | None = None) -> dict[str, tuple[bool, bool]]:
    return {check.name: (check.ok, check.needed) for check in look(services, controller)}


def with_redis(services: Services, url: str) -> Services:
    settings = services.settings.model_copy(update={"redis_url": SecretStr(url)})
    return replace(services, settings=settings)


@pytest.fixture
def worker(store: Store) -> Iterator[Presence]:
    """One that says that it lives."""
    presence = Presence(store, 8, every_s=0.02)
    presence.start()
    wait_for(lambda: spoken(store))
    yield presence
    presence.stop()


async def asked_while_all_threads_wait(app: FastAPI, page: str) -> httpx.Response:
    limiter = anyio.to_thread.current_default_thread_limiter()
    for _ in range(int(limiter.total_tokens)):
        await limiter.acquire_on_behalf_of(object())
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://console") as client:
        with anyio.fail_after(10):
            return await client.get(page)


def test_the_process_lives_although_all_its_threads_wait_for_the_database(stranger: Page) -> None:
    assert anyio.run(asked_while_all_threads_wait, stranger.app, "/healthz").text == "ok\n"


@BOTH_DATABASES
def test_it_is_ready_although_all_threads_and_connections_are_at_others_work(
    stranger: Page, store: Store
) -> None:
    with ExitStack() as stack:
        for _ in range(30):
            stack.enter_context(store.engine.connect())
        answer = anyio.run(asked_while_all_threads_wait, stranger.app, "/readyz")
    assert (answer.status_code, answer.json()["ready"]) == (200, True)


def test_whoever_asks_for_readiness_is_answered_in_time_while_a_look_hangs(
    stranger: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("master.health.PATIENCE_S", 0.05)
    let_go = threading.Event()
    stranger.app.state.health = Health(lambda: let_go.wait() and [])  # type: ignore[arg-type, return-value]
    try:
        answer = anyio.run(asked_while_all_threads_wait, stranger.app, "/readyz")
    finally:
        let_go.set()
    assert (answer.status_code, answer.json()["checks"][0]["detail"]) == (503, "does not answer in time")


def spoken(store: Store) -> Sequence[Worker]:
    with store.read() as session:
        return living(session, store.now(session))


NEEDED = ("database", "writes", "key", "controller")
WELL = {
    **dict.fromkeys(NEEDED, (True, True)),
    **dict.fromkeys(("leader", "workers", "doorbell", "disk"), (True, False)),
}


@BOTH_DATABASES
def test_all_is_well(services: Services, worker: Presence, valkey_url: str) -> None:
    assert states(services) == WELL
    assert states(with_redis(services, valkey_url)) == WELL


@BOTH_DATABASES
def test_a_worker_speaks_again_and_again_and_takes_its_leave(services: Services, worker: Presence) -> None:
    (first,) = spoken(services.store)
    wait_for(lambda: spoken(services.store)[0].seen_at > first.seen_at)
    (again,) = spoken(services.store)
    assert (again.id, again.started_at, again.pid) == (first.id, first.started_at, os.getpid())
    worker.stop()
    assert spoken(services.store) == []
    assert states(services) == WELL | {"workers": (False, False)}


@BOTH_DATABASES
def test_a_worker_that_was_killed_is_missed_by_the_databases_clock(
    services: Services, worker: Presence
) -> None:
    with services.store.read() as session:
        (row,) = living(session, services.store.now(session))
        assert living(session, row.seen_at + timedelta(seconds=44))
        assert not living(session, row.seen_at + timedelta(seconds=46))


def test_a_database_that_takes_nothing_is_not_ready(services: Services, worker: Presence) -> None:
    worker.stop()
    with services.store.write() as session:
        refuses = "create trigger full before update on meta begin select raise(fail, 'disk is full'); end"
        session.execute(text(refuses))
        session.merge(Meta(key="probe", value="before"))
    assert states(services)["writes"] == (False, True)


@BOTH_DATABASES
def test_a_key_that_is_another_databases_is_not_ready(services: Services) -> None:
    other = replace(services, box=SecretBox("the key of another database"))
    assert states(other)["key"] == (False, True)


@BOTH_DATABASES
def test_a_pool_that_nobody_leads_any_more_is_told_of(services: Services) -> None:
    with services.store.write() as session:
        session.add(Leader(pool="p", holder="x", until=services.store.now(session) - timedelta(minutes=1)))
    (check,) = [check for check in look(services, None) if check.name == "leader"]
    assert (check.ok, check.needed, check.detail) == (
        False, False, "nobody leads pool p: its jobs are not looked after"
    )  # fmt: skip


def test_a_controller_that_hangs_is_not_ready(services: Services, monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = LocalRuntime(services.settings.data_dir, 1)
    controller = Controller(services, runtime, server="http://127.0.0.1:1")
    assert states(services, controller)["controller"] == (True, True)
    held, let_go = threading.Event(), threading.Event()

    def hangs(_now: object) -> None:
        held.set()
        let_go.wait()

    controller.tick = hangs  # type: ignore[method-assign]
    try:
        controller.start()
        controller.wake()
        assert held.wait(20)
        assert states(services, controller)["controller"] == (True, True)
        monkeypatch.setattr(checks, "STUCK_S", 0.0)
        assert states(services, controller)["controller"] == (False, True)
    finally:
        let_go.set()
        controller.stop()
        runtime.shutdown()


def test_a_look_that_hangs_is_an_answer_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("master.health.PATIENCE_S", 0.05)
    began, let_go = threading.Event(), threading.Event()

    def hangs() -> list[checks.Check]:
        began.set()
        let_go.wait()
        return []

    health = Health(hangs)
    thread = threading.Thread(target=health.checks)
    thread.start()
    try:
        assert began.wait(20)
        (check,) = health.checks()
        assert (check.ok, check.needed) == (False, True)
    finally:
        let_go.set()
        thread.join()
    assert health.checks() == []


def test_looks_are_shared_for_a_moment(services: Services) -> None:
    looks = []
    health = Health(lambda: looks.append(1) or [])  # type: ignore[func-returns-value]
    for _ in range(5):
        health.checks()
    assert len(looks) == 1


def test_a_doorbell_that_is_away_is_shown_and_no_outage(services: Services) -> None:
    assert states(with_redis(services, "redis://127.0.0.1:1"))["doorbell"] == (False, False)


@BOTH_DATABASES
@pytest.mark.parametrize(("seconds", "ok"), [(5, True), (300, False)])
def test_workers_are_seen_by_what_they_leave_undone(
    services: Services, store: Store, told: Told, worker: Presence, seconds: int, ok: bool
) -> None:
    with store.write() as session:
        delivery = session.get_one(Delivery, told.delivery_id)
        delivery.state, delivery.next_attempt_at = "pending", store.now(session) - timedelta(seconds=seconds)
    assert states(services)["workers"] == (ok, False)


def test_a_database_of_another_revision_is_not_ready(
    services: Services, store: Store, stranger: Page
) -> None:
    with store.write() as session:
        session.execute(text("update alembic_version set version_num = '0000'"))
    answer = stranger.get("/readyz")
    assert (answer.status_code, answer.json()["ready"]) == (503, False)
    assert "faultcast migrate" in answer.json()["checks"][0]["detail"]


def test_tables_of_a_newer_release_will_do(services: Services) -> None:
    with services.store.write() as session:
        session.execute(text("update alembic_version set version_num = '9999'"))
    assert states(services)["database"] == (True, True)


def test_the_watchdog_is_called_while_a_worker_speaks(services: Services, worker: Presence) -> None:
    """By a real call, over all that is looked at."""
    health = Health(lambda: look(services, None))

    def faults() -> list[str]:
        return [one.name for one in health.checks() if not one.ok]

    withheld = metrics.WATCHDOG.labels("withheld")
    before = withheld._value.get()
    with listening() as outside:
        watchdog = Watchdog(outside.url, services.network, faults, every_s=0.02)
        watchdog.start()
        try:
            outside.await_calls(2)
            worker.stop()
            wait_for(lambda: withheld._value.get() > before)
            calls, before = outside.calls, withheld._value.get()
            wait_for(lambda: withheld._value.get() > before + 5)
            assert outside.calls == calls
        finally:
            watchdog.stop()
