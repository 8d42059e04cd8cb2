"""Silences and on-call lists in the console: shown to all, made and ended by those who may."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import select, update

from notifier.model import Channel, Oncall, Silence
from notifier.storage import Store

Page = Any  # a browser of conftest.py
SignIn = Callable[..., Page]
Told = Any  # the job of conftest.py
ROWS = {"name": ["item", "team", ""], "op": ["=", "=~", "="], "value": ["jobFT", "vision|speech", ""]}


def silences(store: Store) -> list[Silence]:
    with store.read() as session:
        return list(session.scalars(select(Silence).order_by(Silence.id)))


def a_list(store: Store, name: str) -> Oncall:
    with store.read() as session:
        return session.scalars(select(Oncall).where(Oncall.name == name)).one()


def send(visitor: Page, path: str, **data: Any) -> Any:
    return visitor.post(path, data={"csrf": visitor.csrf("/silences"), **data})


def test_a_silence_is_made_and_ended(browser: SignIn, store: Store, told: Told) -> None:
    visitor = browser("operator")
    answer = send(visitor, "/silences", **ROWS, span="4h", comment="upgrade")
    assert (answer.status_code, answer.headers["location"]) == (303, "/silences")
    row = silences(store)[-1]
    assert [(one["name"], one["op"], one["value"]) for one in row.matchers] == [
        ("item", "=", "jobFT"), ("team", "=~", "vision|speech"),
    ]  # fmt: skip
    assert ((row.ends_at - row.starts_at).total_seconds(), row.created_by) == (4 * 3600, "operator-token")
    assert "vision|speech" in visitor.get("/silences").text
    assert send(visitor, f"/silences/{row.id}/end").status_code == 303
    assert silences(store)[-1].ends_at < row.ends_at


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({**ROWS, "value": ["(", "(", ""]}, "no valid RE2 pattern"),
        ({"name": ["", ""], "op": ["=", "="], "value": ["", ""]}, "say which alerts"),
        ({**ROWS, "span": "9y"}, "give one of 1h"),
    ],
)
def test_what_is_wrong_is_said(
    browser: SignIn, store: Store, told: Told, data: dict[str, Any], words: str
) -> None:
    answer = send(browser(), "/silences", **data)
    assert answer.status_code == 422
    assert words in answer.text
    assert len(silences(store)) == 1


def test_a_list_is_made_and_deleted(browser: SignIn, store: Store, told: Told) -> None:
    visitor = browser()
    people = "oncall, li=oncall"
    data = {"name": "day", "people": people, "start": "2026-11-30", "turn": "daily", "handover": "18:00"}
    assert send(visitor, "/oncall", **data).status_code == 303
    assert "day" in visitor.get("/oncall").text
    assert send(visitor, "/oncall", **data).status_code == 409
    assert send(visitor, "/oncall", **data | {"name": "x", "people": "nobody"}).status_code == 422
    assert send(visitor, "/oncall/day/delete", scope="default").status_code == 303
    assert send(visitor, "/oncall/day/delete", scope="default").status_code == 404


def test_a_list_has_its_own_clock(browser: SignIn, store: Store, told: Told) -> None:
    """Its times are read and shown by it, whatever the server's is."""
    visitor = browser()
    data = {
        "name": "york",
        "people": "oncall",
        "start": "2026-11-30",
        "weekday": "fri",
        "timezone": "America/New_York",
    }
    assert send(visitor, "/oncall", **data).status_code == 303
    assert send(visitor, "/oncall", **data | {"name": "x", "timezone": "Mars/Olympus"}).status_code == 422
    assert send(visitor, "/oncall", **data | {"name": "day", "turn": "daily"}).status_code == 303
    span = {"since": "2026-12-24T09:00", "until": "2026-12-24T17:00", "scope": "default"}
    assert send(visitor, "/oncall/york/override", person="oncall", **span).status_code == 303
    spec = a_list(store, "york").spec
    assert (spec["weekday"], a_list(store, "day").spec["weekday"]) == ("fri", None)
    assert [spec["overrides"][0][end] for end in ("from", "until")] == [
        "2026-12-24T14:00:00.000Z", "2026-12-24T22:00:00.000Z",
    ]  # fmt: skip
    text = visitor.get("/oncall").text
    assert "Friday 09:00 America/New_York" in text
    assert "2026-12-24 09:00:00 -05:00 – 2026-12-24 17:00:00 -05:00: oncall" in text


def test_somebody_stands_in_by_the_operators_clock(browser: SignIn, store: Store, told: Told) -> None:
    visitor = browser()
    span = {"since": "2026-12-24T09:00", "until": "2026-12-25T09:00", "scope": "default"}
    assert send(visitor, "/oncall/night/override", person="plain", **span).status_code == 303
    (one,) = a_list(store, "night").spec["overrides"]
    assert datetime.fromisoformat(one["from"]) == datetime(2026, 12, 24, 1, tzinfo=UTC)  # Shanghai
    assert one["person"] == "plain"
    assert "2026-12-24" in visitor.get("/oncall").text
    assert send(visitor, "/oncall/night/override", person="nobody", **span).status_code == 422
    assert send(visitor, "/oncall/night/override", person="plain", **span | {"until": "x"}).status_code == 422


def test_a_channel_that_a_list_names_and_that_was_deleted_is_shown(
    browser: SignIn, store: Store, told: Told
) -> None:
    visitor = browser()
    assert "no such channel" not in visitor.get("/oncall").text
    with store.write() as session:
        session.execute(update(Channel).values(name="another"))
    assert "oncall: no such channel" in visitor.get("/oncall").text


@pytest.mark.parametrize("path", ["/silences", "/oncall/night/delete", "/oncall/night/override"])
def test_a_viewer_sees_no_form_and_may_not_act(browser: SignIn, store: Store, told: Told, path: str) -> None:
    visitor = browser("viewer")
    span = {"person": "plain", "since": "2026-12-24T09:00", "until": "2026-12-25T09:00"}
    for page in ("/silences", "/oncall"):
        assert f'action="{page}' not in visitor.get(page).text
    csrf = visitor.csrf("/")
    assert visitor.post(path, data={"csrf": csrf, **ROWS, **span}).status_code == 403
    assert len(silences(store)) == 1


def test_a_form_of_another_site_does_nothing(browser: SignIn, store: Store, told: Told) -> None:
    assert browser().post("/silences", data=ROWS).status_code == 403
    assert len(silences(store)) == 1
