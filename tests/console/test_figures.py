"""What Prometheus is shown, and whom of."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from notifier import metrics
from notifier.auth import NewToken, Role, create_token
from notifier.clock import utcnow
from notifier.model import Delivery
from notifier.storage import Store

Told = Any  # the job of conftest.py
Page = Any
SignIn = Callable[..., Page]


def test_figures_name_no_job_and_no_address(browser: SignIn, told: Told) -> None:
    shown = browser().get("/metrics").text
    assert "faultcast_open_deliveries" in shown
    assert "plain" not in shown


@pytest.mark.parametrize(
    ("role", "scope", "names"),
    [("viewer", None, True), ("admin", "default", False), ("publisher", None, False), (None, None, False)],
)
def test_channels_are_named_to_whoever_may_see_all_of_them(
    stranger: Page, store: Store, role: str | None, scope: str | None, names: bool
) -> None:
    metrics.count_settled(Delivery(kind="webhook", pool="default", queue="", channel="named"), "delivered")
    headers = {}
    if role is not None:
        with store.write() as session:
            _, token = create_token(session, NewToken("t", Role(role), scope), utcnow())
        headers["authorization"] = f"Bearer {token}"
    shown = stranger.get("/metrics", headers=headers).text
    assert ('channel="default/named"' in shown) is names
    assert 'faultcast_deliveries_total{kind="webhook",state="delivered"}' in shown


def test_figures_for_a_void_token_are_refused_instead_of_left_out(stranger: Page, store: Store) -> None:
    with store.write() as session:
        soon = NewToken("over", Role.VIEWER, expires_at=utcnow() - timedelta(seconds=1))
        _, over = create_token(session, soon, utcnow())
    for bearer in (over, "fct_unknown", ""):
        answer = stranger.get("/metrics", headers={"authorization": f"Bearer {bearer}"})
        assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
        assert "send a valid token" in answer.json()["detail"]


@pytest.mark.parametrize(
    "path", ["/healthz", "/readyz", "/metrics", "/openapi.json", "/", "/login", "/nowhere"]
)
def test_whoever_asks_for_the_head_alone_gets_what_get_would_answer(stranger: Page, path: str) -> None:
    whole, head = stranger.get(path), stranger.head(path)
    assert (head.status_code, head.content) == (whole.status_code, b"")
    assert head.headers.get("content-type") == whole.headers.get("content-type")


def test_channels_with_figures_of_their_own_are_not_without_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "_known", set())
    monkeypatch.setattr(metrics, "MAX_CHANNELS", 2)
    for n in range(4):
        row = Delivery(kind="webhook", pool="cap", queue="q", channel=f"c{n}")
        metrics.count_settled(row, "delivered")
    counted = {
        sample.labels["channel"]
        for family in metrics.CHANNEL_DELIVERIES.collect()
        for sample in family.samples
    }
    assert {"cap/q/c0", "cap/q/c1", metrics.OTHERS} <= counted
    assert not {"cap/q/c2", "cap/q/c3"} & counted
