"""The delivery log in the console: how long each step took, export, sending many again after a look."""

import re
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import select

from notifier.model import Attempt, Delivery
from notifier.storage import Store
from tests.console.conftest import Browser, SignIn, Told


@pytest.fixture
def failed(store: Store, told: Told) -> Told:
    change(store, told, state="failed", why="the robot said no")
    return told


def change(store: Store, told: Told, **values: Any) -> None:
    with store.write() as session:
        row = session.get_one(Delivery, told.delivery_id)
        for name, value in values.items():
            setattr(row, name, value)


def confirm(visitor: Browser, query: str) -> Any:
    """Presses the button of the page that asks."""
    page = visitor.get(f"/deliveries/resend?{query}").text
    filters = re.search(r'name="filters" value="([^"]*)"', page)
    csrf = re.search(r'name="csrf" value="([0-9a-f]{64})"', page)
    assert filters, page
    assert csrf
    data = {"filters": filters[1].replace("&amp;", "&"), "csrf": csrf[1]}
    return visitor.post("/deliveries/resend", data=data)


def test_each_step_says_how_long_it_took(browser: SignIn, store: Store, told: Told) -> None:
    with store.write() as session:
        attempt = session.scalars(select(Attempt)).one()
        row = session.get_one(Delivery, told.delivery_id)
        attempt.claimed_at = row.created_at + timedelta(seconds=2.5)
        attempt.started_at = attempt.claimed_at + timedelta(seconds=0.25)
        attempt.finished_at = attempt.started_at + timedelta(seconds=7)
    page = browser().get(f"/deliveries/{told.delivery_id}").text
    for words in ("claimed</b>+2.5 s", "sent</b>+250 ms", "answered</b>+7.0 s"):
        assert words in page


def test_the_list_is_exported_as_it_is_filtered(browser: SignIn, told: Told) -> None:
    visitor = browser("viewer")
    page = visitor.get("/deliveries?item=jobFT").text
    link = re.search(r'href="(/deliveries/export\?[^"]*)"', page)
    assert link
    answer = visitor.get(link[1].replace("&amp;", "&"))
    assert answer.headers["content-type"].startswith("text/csv")
    assert told.delivery_id in answer.text
    assert told.delivery_id not in visitor.get("/deliveries/export?state=held").text


def test_many_are_sent_again_after_a_look(browser: SignIn, store: Store, failed: Told) -> None:
    visitor = browser()
    assert "/deliveries/resend?state=failed" in visitor.get("/deliveries?state=failed").text
    page = visitor.get("/deliveries/resend?state=failed&last=24h").text
    assert "<b>1</b> deliveries would be sent again" in page
    assert confirm(visitor, "state=failed&last=24h").status_code == 303
    with store.read() as session:
        new = session.scalars(select(Delivery).where(Delivery.trigger == "resend")).all()
    assert [row.alert_id for row in new] == [session.get_one(Delivery, failed.delivery_id).alert_id]
    again = visitor.get("/deliveries/resend?state=failed").text
    assert "<b>0</b> deliveries would be sent again" in again
    assert "1 under_way" in again


def test_without_a_filter_there_is_no_button(browser: SignIn, failed: Told) -> None:
    visitor = browser()
    assert failed.delivery_id in visitor.get("/deliveries").text
    unfiltered = visitor.get("/deliveries/resend").text
    assert 'action="/deliveries/resend"' not in unfiltered
    assert "Filter the deliveries first" in unfiltered
    csrf = visitor.csrf(f"/deliveries/{failed.delivery_id}")
    assert visitor.post("/deliveries/resend", data={"filters": "", "csrf": csrf}).status_code == 422
    assert visitor.post("/deliveries/resend", data={"filters": "x=1", "csrf": csrf}).status_code == 422


def test_a_viewer_sends_nothing(browser: SignIn, store: Store, failed: Told) -> None:
    viewer = browser("viewer")
    assert 'action="/deliveries/resend"' not in viewer.get("/deliveries/resend?state=failed").text
    assert viewer.post("/deliveries/resend", data={"filters": "state=failed"}).status_code == 403
    assert failed.delivery_id
    with store.read() as session:
        assert session.scalars(select(Delivery).where(Delivery.trigger == "resend")).all() == []


def test_a_search_for_signs_says_what_to_give(browser: SignIn, told: Told) -> None:
    answer = browser().get("/deliveries?q=%25")
    assert (answer.status_code, "give at least one word" in answer.text) == (422, True)
    assert told.delivery_id
