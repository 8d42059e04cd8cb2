"""What the console does, and for whom: forms of our own pages, roles that may act."""

from collections.abc import Callable
from typing import Any

import pytest

from master.model import Job, Node
from notifier.model import Alert
from notifier.storage import Store

Page = Any  # a browser of conftest.py
SignIn = Callable[..., Page]
Told = Any  # the job of conftest.py


def kept(store: Store, table: type[Any], key: str) -> Any:
    with store.read() as session:
        return session.get(table, key)


@pytest.mark.parametrize("role", ["admin", "operator"])
def test_a_job_is_stopped_by_those_who_may(browser: SignIn, store: Store, told: Told, role: str) -> None:
    visitor = browser(role)
    page = f"/jobs/{told.job_id}"
    answer = visitor.post(f"{page}/stop", data={"csrf": visitor.csrf(page), "next": page})
    assert (answer.status_code, answer.headers["location"]) == (303, page)
    assert kept(store, Job, told.job_id).stop_requested


def test_a_viewer_sees_no_button_and_may_not_act(browser: SignIn, store: Store, told: Told) -> None:
    visitor = browser("viewer")
    page = f"/jobs/{told.job_id}"
    assert "/stop" not in visitor.get(page).text
    assert visitor.post(f"{page}/stop", data={"csrf": visitor.csrf()}).status_code == 403
    assert not kept(store, Job, told.job_id).stop_requested


@pytest.mark.parametrize(
    ("csrf", "headers"),
    [
        pytest.param(None, {}, id="no form token"),
        pytest.param("0" * 64, {}, id="another form token"),
        pytest.param("令牌", {}, id="no form token of ours at all"),
        pytest.param("right", {"origin": "https://evil.example"}, id="from another site"),
        pytest.param("right", {"origin": "null"}, id="from nowhere"),
        pytest.param("right", {"sec-fetch-site": "cross-site"}, id="the browser says so"),
    ],
)
def test_a_form_of_another_site_does_nothing(
    browser: SignIn, store: Store, told: Told, csrf: str | None, headers: dict[str, str]
) -> None:
    visitor = browser()
    data = {} if csrf is None else {"csrf": visitor.csrf() if csrf == "right" else csrf}
    answer = visitor.post(f"/jobs/{told.job_id}/stop", data=data, headers=headers)
    assert answer.status_code == 403
    assert not kept(store, Job, told.job_id).stop_requested


def test_the_form_token_of_another_session_does_nothing(browser: SignIn, store: Store, told: Told) -> None:
    stolen = browser().csrf()
    assert browser().post(f"/jobs/{told.job_id}/stop", data={"csrf": stolen}).status_code == 403
    assert not kept(store, Job, told.job_id).stop_requested


def test_another_sites_login_form_signs_nobody_in(stranger: Page) -> None:
    answer = stranger.post("/login", data={"token": "x"}, headers={"origin": "https://evil.example"})
    assert answer.status_code == 403


def test_a_node_is_restored_and_isolated(browser: SignIn, store: Store, told: Told) -> None:
    visitor = browser()
    csrf = visitor.csrf("/nodes")
    assert visitor.post("/nodes/node-1/restore", data={"csrf": csrf}).status_code == 303
    assert kept(store, Node, "node-1").status == "ready"
    assert visitor.post("/nodes/node-1/isolate", data={"csrf": csrf}).status_code == 303
    assert kept(store, Node, "node-1").status == "isolated"


@pytest.mark.parametrize("page", ["/alerts", "/deliveries/{}"], ids=["its list", "a delivery"])
def test_an_alert_is_taken_on_once(browser: SignIn, store: Store, told: Told, page: str) -> None:
    visitor = browser("operator")
    here = page.format(told.delivery_id)
    form = {"csrf": visitor.csrf(here), "next": here, "comment": " <b>looking</b> "}
    answer = visitor.post(f"/alerts/{told.alert_id}/ack", data=form)
    assert (answer.status_code, answer.headers["location"]) == (303, here)
    other = browser()
    other.post(f"/alerts/{told.alert_id}/ack", data={"csrf": other.csrf(), "comment": "me too"})
    alert = kept(store, Alert, told.alert_id)
    assert (alert.acked_by, alert.ack_comment) == ("operator-token", "<b>looking</b>")
    shown = visitor.get(here).text
    assert ("operator-token" in shown, "&lt;b&gt;looking" in shown, "/ack" in shown) == (True, True, False)


def test_a_viewer_or_a_strange_form_takes_nothing_on(browser: SignIn, store: Store, told: Told) -> None:
    viewer, operator = browser("viewer"), browser("operator")
    assert "/ack" not in viewer.get("/alerts").text
    for visitor, csrf in ((viewer, viewer.csrf()), (operator, "0" * 64)):
        assert visitor.post(f"/alerts/{told.alert_id}/ack", data={"csrf": csrf}).status_code == 403
    assert operator.get(f"/alerts/{told.alert_id}/ack").status_code in {404, 405}
    assert kept(store, Alert, told.alert_id).acked_at is None


def test_what_is_over_is_shown_only_with_the_rest(browser: SignIn, store: Store, told: Told) -> None:
    with store.write() as session:
        session.get_one(Alert, told.alert_id).status = "resolved"
    visitor = browser()
    assert "rank 3 died" not in visitor.get("/alerts").text
    assert "rank 3 died" in visitor.get("/alerts?show=all").text


def test_resending_leads_to_the_new_delivery(browser: SignIn, told: Told) -> None:
    visitor = browser()
    csrf = visitor.csrf(f"/deliveries/{told.delivery_id}")
    answer = visitor.post(f"/deliveries/{told.delivery_id}/resend", data={"csrf": csrf})
    assert answer.status_code == 303
    assert answer.headers["location"].startswith("/deliveries/dlv_")
    assert visitor.get(answer.headers["location"]).status_code == 200


@pytest.mark.parametrize(
    "path",
    [
        "/jobs/job_none/stop",
        "/nodes/none/isolate",
        "/deliveries/none/resend",
        "/alerts/none/ack",
        "/channels/none/test",
    ],
)
def test_what_is_not_there_gets_a_page_that_says_so(browser: SignIn, path: str) -> None:
    visitor = browser()
    answer = visitor.post(path, data={"csrf": visitor.csrf()})
    assert answer.status_code == 404
    assert answer.headers["content-type"].startswith("text/html")


def test_a_redirect_stays_here(browser: SignIn, told: Told) -> None:
    visitor = browser()
    data = {"csrf": visitor.csrf(), "next": "//evil.example/"}
    assert visitor.post("/nodes/node-1/restore", data=data).headers["location"] == "/"
