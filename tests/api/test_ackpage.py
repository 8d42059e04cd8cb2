"""The link in a message: opening it does nothing; its form takes the alert on, once; no other link does."""

import html
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from sqlalchemy import update

from notifier.acklinks import LIFE, token_of
from notifier.api.ackpage import MAX_FORM
from notifier.api.deps import Services
from notifier.model import Alert, Delivery
from notifier.storage import Store
from notifier.tasks import _view
from tests.api.test_alerts import accepted, channel

As = Callable[..., httpx.Client]
ONE_ENGINE = pytest.mark.parametrize("engine_name", ["sqlite"], indirect=True)
TAKE = {"take": "yes"}


@dataclass(frozen=True)
class Link:
    alert_id: str
    delivery_id: str
    path: str


@pytest.fixture
def reader(app: FastAPI) -> Iterator[TestClient]:
    """Whoever got the message: no token, no cookie."""
    with TestClient(app, base_url="http://test", raise_server_exceptions=False) as client:
        yield client


def link(services: Services, alert: dict[str, Any]) -> Link:
    with services.store.read() as session:
        row = session.get_one(Delivery, alert["deliveries"][0])
        view = _view(row, session.get_one(Alert, alert["id"]))
        token = token_of(view, row.channel_id, services.box)
    assert token is not None
    return Link(alert["id"], row.id, f"/ack/{token}")


@pytest.fixture
def sent(admin: httpx.Client, services: Services) -> Link:
    """The link of an alert that is told on a channel."""
    channel(admin, "ding", language="en")
    return link(services, accepted(admin, channels=["ding"], dedup_key="k", title="disk <b>full</b>"))


def acked(client: httpx.Client, alert_id: str) -> tuple[str | None, str | None]:
    document = client.get(f"/alerts/{alert_id}").json()
    return document["acked_by"], document["acked_at"]


def edit(store: Store, delivery_id: str, **values: Any) -> None:
    with store.write() as session:
        session.execute(update(Delivery).where(Delivery.id == delivery_id).values(**values))


def test_opening_it_only_shows(reader: TestClient, admin: httpx.Client, sent: Link) -> None:
    page = reader.get(sent.path)
    assert page.status_code == 200
    assert "disk &lt;b&gt;full&lt;/b&gt;" in page.text
    assert re.search(r'<form method="post">.*<button name="take" value="yes">', page.text, re.DOTALL)
    assert acked(admin, sent.alert_id) == (None, None)


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "PUT", "DELETE"])
def test_a_scanner_that_opens_it_and_all_that_is_on_the_page_acknowledges_nothing(
    reader: TestClient, admin: httpx.Client, sent: Link, method: str
) -> None:
    answer = reader.request(method, sent.path)
    assert answer.status_code < 500
    page = reader.get(sent.path).text
    for address in {*re.findall(r'(?:href|src|action)="([^"]+)"', page), f"{sent.path}?take=yes"}:
        reader.request(method, html.unescape(address))
    assert acked(admin, sent.alert_id) == (None, None)


def test_a_post_without_the_pages_button_acknowledges_nothing(
    reader: TestClient, admin: httpx.Client, sent: Link
) -> None:
    for form in ({}, {"name": "scanner"}, {"take": ""}, {"take": "no"}):
        assert reader.post(sent.path, data=form).status_code < 500
    assert acked(admin, sent.alert_id) == (None, None)


def test_its_form_takes_the_alert_on_once(reader: TestClient, admin: httpx.Client, sent: Link) -> None:
    first = reader.post(sent.path, data={**TAKE, "name": " Zhang\nSan "})
    by, when = acked(admin, sent.alert_id)
    again = reader.post(sent.path, data={**TAKE, "name": "Li Si"})
    assert (first.status_code, by) == (200, "link: ding (Zhang San)")
    assert "link: ding (Zhang San) took it on at" in again.text
    assert "<form" not in first.text + again.text + reader.get(sent.path).text
    assert acked(admin, sent.alert_id) == (by, when)


def test_of_many_at_once_one_takes_it_on(reader: TestClient, admin: httpx.Client, sent: Link) -> None:
    with ThreadPoolExecutor(6) as pool:
        pages = list(
            pool.map(lambda n: reader.post(sent.path, data={**TAKE, "name": f"n{n}"}).text, range(6))
        )
    by, _ = acked(admin, sent.alert_id)
    assert by is not None
    assert all(by in page for page in pages)


def test_what_is_over_is_not_taken_on(reader: TestClient, admin: httpx.Client, sent: Link) -> None:
    accepted(admin, dedup_key="k", status="resolved")
    page = reader.post(sent.path, data=TAKE)
    assert ("It is over since" in page.text, "<form" in page.text) == (True, False)
    assert acked(admin, sent.alert_id) == (None, None)


def test_a_name_is_only_a_name(reader: TestClient, admin: httpx.Client, sent: Link) -> None:
    reader.post(sent.path, data={**TAKE, "name": "<script>alert(1)</script>\x00\u202e" + "长" * 300})
    by, _ = acked(admin, sent.alert_id)
    assert by is not None
    assert len(by) < 90
    assert "<script>" not in reader.get(sent.path).text


WRONG: dict[str, Callable[[str], str]] = {
    "another signature": lambda path: path[:-1] + ("a" if path[-1] != "a" else "b"),
    "cut off": lambda path: path[:-1],
    "one more": lambda path: path + "a",
    "another case": str.upper,
    "no signature": lambda path: path.partition(".")[0],
    "another delivery": lambda path: path.replace("/ack/dlv_0", "/ack/dlv_1"),
    "nothing": lambda _: "/ack/x",
    "a NUL": lambda path: path + "%00",
    "not ASCII": lambda path: path[:-1] + "%E9%95%BF",
    "half a character": lambda path: path[:-1] + "%ff",
    "very long": lambda path: path + "a" * 5000,
}


@ONE_ENGINE
@pytest.mark.parametrize("change", WRONG.values(), ids=WRONG)
def test_a_forged_link_opens_nothing(
    reader: TestClient, admin: httpx.Client, sent: Link, change: Callable[[str], str]
) -> None:
    path = change(sent.path)
    answers = [reader.get(path), reader.post(path, data=TAKE)]
    assert [answer.status_code for answer in answers] == [404, 404]
    assert acked(admin, sent.alert_id) == (None, None)


def test_a_link_is_for_its_own_alert_and_channel(
    reader: TestClient, admin: httpx.Client, services: Services, sent: Link
) -> None:
    other = link(services, accepted(admin, channels=["ding"], title="another"))
    mixed = f"/ack/{other.delivery_id}.{sent.path.partition('.')[2]}"
    assert reader.post(mixed, data=TAKE).status_code == 404
    edit(services.store, sent.delivery_id, channel_id="chn_another")
    assert reader.post(sent.path, data=TAKE).status_code == 404
    edit(services.store, other.delivery_id, alert_id=sent.alert_id)
    assert reader.post(other.path, data=TAKE).status_code == 404
    assert acked(admin, sent.alert_id) == (None, None)


def test_it_is_good_for_a_week(
    reader: TestClient, admin: httpx.Client, services: Services, sent: Link
) -> None:
    with services.store.read() as session:
        now = services.store.now(session)
    edit(services.store, sent.delivery_id, created_at=now - LIFE + timedelta(minutes=5))
    assert reader.get(sent.path).status_code == 200
    edit(services.store, sent.delivery_id, created_at=now - LIFE)
    assert reader.post(sent.path, data=TAKE).status_code == 404


@ONE_ENGINE
@pytest.mark.parametrize(
    ("content", "status"),
    [
        pytest.param(b"take=yes&name=" + b"x" * MAX_FORM, 413, id="too large"),
        pytest.param(b"\xff\xfe=\xff", 400, id="no text"),
        pytest.param(b"&".join(b"a=1" for _ in range(50)), 400, id="too many fields"),
    ],
)
def test_a_form_that_is_none_of_ours_is_refused(
    reader: TestClient, admin: httpx.Client, sent: Link, content: bytes, status: int
) -> None:
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    assert reader.post(sent.path, content=content, headers=headers).status_code == status
    assert reader.post(sent.path, content=iter([b"take=yes"]), headers=headers).status_code == 413
    assert acked(admin, sent.alert_id) == (None, None)


@ONE_ENGINE
def test_the_page_runs_nothing_loads_nothing_and_is_found_by_nobody(reader: TestClient, sent: Link) -> None:
    for page in (reader.get(sent.path), reader.get("/ack/x"), reader.post(sent.path, data=TAKE)):
        policy = page.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script-src" not in policy
        assert "unsafe" not in policy
        assert page.headers["referrer-policy"] == "no-referrer"
        assert "noindex" in page.headers["x-robots-tag"]
        assert page.headers["cache-control"] == "no-store"
        assert not re.search(r"<script|\son\w+=|href=|src=", page.text)


@ONE_ENGINE
def test_it_speaks_the_channels_language(reader: TestClient, admin: httpx.Client, services: Services) -> None:
    channel(admin, "zh", language="zh")
    path = link(services, accepted(admin, channels=["zh"])).path
    assert "我来处理" in reader.get(path).text
    assert "认领" in reader.post(path, data=TAKE).text


@ONE_ENGINE
@pytest.mark.parametrize("body", [{"severity": "warning"}, {"severity": "info"}], ids=["warning", "info"])
def test_what_is_not_serious_has_no_link(
    admin: httpx.Client, services: Services, body: dict[str, Any]
) -> None:
    channel(admin, "ding")
    with pytest.raises(AssertionError):
        link(services, accepted(admin, channels=["ding"], **body))
