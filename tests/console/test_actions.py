"""What the console does, and for whom: forms of our own pages, roles that may act."""

from collections.abc import Callable
from typing import Any

import pytest

from master.model import Job, Node
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


def test_resending_leads_to_the_new_delivery(browser: SignIn, told: Told) -> None:
    visitor = browser()
    csrf = visitor.csrf(f"/deliveries/{told.delivery_id}")
    answer = visitor.post(f"/deliveries/{told.delivery_id}/resend", data={"csrf": csrf})
    assert answer.status_code == 303
    assert answer.headers["location"].startswith("/deliveries/dlv_")
    assert visitor.get(answer.headers["location"]).status_code == 200


@pytest.mark.parametrize(
    "path", ["/jobs/job_none/stop", "/nodes/none/isolate", "/deliveries/none/resend", "/channels/none/test"]
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
