"""What probes and Prometheus are told."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from pydantic import SecretStr
from sqlalchemy import text

from master.health import look
from notifier.api.deps import Services
from notifier.model import Delivery
from notifier.storage import Store
from tests.console.conftest import BOTH_DATABASES

Told = Any  # the job of conftest.py
Page = Any
SignIn = Callable[..., Page]


def states(services: Services) -> dict[str, tuple[bool, bool]]:
    return {check.name: (check.ok, check.needed) for check in look(services)}


def with_redis(services: Services, url: str) -> Services:
    settings = services.settings.model_copy(update={"redis_url": SecretStr(url)})
    return replace(services, settings=settings)


WELL = {"database": (True, True), "doorbell": (True, False), "workers": (True, False)}


@BOTH_DATABASES
def test_all_is_well(services: Services, valkey_url: str) -> None:
    assert states(services) == WELL
    assert states(with_redis(services, valkey_url)) == WELL


def test_a_doorbell_that_is_away_is_shown_and_no_outage(services: Services) -> None:
    assert states(with_redis(services, "redis://127.0.0.1:1")) == WELL | {"doorbell": (False, False)}


@BOTH_DATABASES
@pytest.mark.parametrize(("seconds", "ok"), [(5, True), (300, False)])
def test_workers_are_seen_by_what_they_leave_undone(
    services: Services, store: Store, told: Told, seconds: int, ok: bool
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


def test_figures_name_no_job_and_no_address(browser: SignIn, told: Told) -> None:
    shown = browser().get("/metrics").text
    assert "faultcast_open_deliveries" in shown
    assert "plain" not in shown
