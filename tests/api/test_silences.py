"""Silences over the API: made, listed by status, ended; what is wrong with one is named."""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from sqlalchemy import text

from notifier.acknowledging import nothing_follows
from notifier.model import Alert
from notifier.silences import hush_of
from notifier.storage import Store
from tests.conftest import wait_for

As = Callable[..., httpx.Client]
ONE_ENGINE = pytest.mark.parametrize("engine_name", ["sqlite"], indirect=True)  # refused by no database
HOUR = {"match": {"item": "custom"}, "duration_s": 3600}


def made(client: httpx.Client, **body: Any) -> dict[str, Any]:
    answer = client.post("/silences", json={**HOUR, **body})
    assert answer.status_code == 201, answer.text
    document: dict[str, Any] = answer.json()
    return document


def channel(client: httpx.Client, name: str) -> None:
    config = {"webhook_url": f"http://127.0.0.1:9/cgi-bin/webhook/send?key={name}"}
    assert client.post("/channels", json={"name": name, "kind": "wecom", "config": config}).status_code == 201


def test_what_was_made_is_answered_and_listed(as_: As) -> None:
    admin = as_("admin", "pool-1/q1")
    matchers = [
        {"name": "team", "op": "!~", "value": "vision|speech"},
        {"name": "severity", "value": "error"},
    ]
    silence = made(admin, matchers=matchers, comment=" upgrade ", scope="pool-1/q1")
    assert silence["matchers"] == [
        {"name": "team", "op": "!~", "value": "vision|speech"},
        {"name": "severity", "op": "=", "value": "error"},
        {"name": "item", "op": "=", "value": "custom"},
    ]
    kept = (silence["scope"], silence["comment"], silence["created_by"], silence["status"])
    assert kept == ("pool-1/q1", "upgrade", "admin-token", "active")
    assert admin.get(f"/silences/{silence['id']}").json() == silence
    assert admin.get("/silences").json()["items"] == [silence]


def test_a_silenced_alert_says_so_and_is_in_the_log(admin: httpx.Client) -> None:
    channel(admin, "ding")
    silence = made(admin)
    answer = admin.post("/alerts", json={"title": "disk full", "channels": ["ding"]}).json()
    (row,) = admin.get("/deliveries", params={"state": "suppressed"}).json()["items"]
    assert answer["deliveries"] == []
    assert silence["id"] in answer["why"]
    assert (row["alert_id"], row["why"]) == (answer["id"], answer["why"])
    assert admin.get(f"/alerts/{answer['id']}").json()["deliveries"] == [row["id"]]


def test_one_that_is_ended_stays_listed_begun_or_not(admin: httpx.Client) -> None:
    running, coming = made(admin), made(admin, starts_at="2099-01-01T00:00:00Z")
    assert coming["status"] == "pending"
    for one in (running, coming, running, coming):
        found = admin.delete(f"/silences/{one['id']}")
        assert found.status_code == 204, found.text
    left = admin.get("/silences").json()["items"]
    assert [(one["id"], one["status"]) for one in left] == [
        (coming["id"], "expired"), (running["id"], "expired"),
    ]  # fmt: skip
    assert left[0]["starts_at"] == coming["starts_at"]


def test_of_a_keyed_post_the_second_is_a_replay(admin: httpx.Client) -> None:
    first, again = (
        admin.post("/silences", json=HOUR, headers={"Idempotency-Key": "k"}).json() for _ in range(2)
    )
    assert first == again
    assert len(admin.get("/silences").json()["items"]) == 1


WRONG: Mapping[str, tuple[dict[str, Any], str, str]] = {
    "nothing matched": ({"match": {}}, "matchers", "is missing"),
    "no end": ({"duration_s": None}, "ends_at", "one of them"),
    "two ends": ({"ends_at": "2099-01-01T00:00:00Z"}, "ends_at", "one of them"),
    "an end in the past": ({"duration_s": None, "ends_at": "2020-01-01T00:00:00Z"}, "ends_at", "after now"),
    "years": ({"duration_s": None, "ends_at": "2099-01-01T00:00:00Z"}, "ends_at", "366 days"),
    "a pattern that is none": (
        {"matchers": [{"name": "a", "op": "=~", "value": "("}]}, "matchers.0.value", "no valid RE2 pattern",
    ),
    "no such operator": ({"matchers": [{"name": "a", "op": "==", "value": "b"}]}, "matchers.0.op", "'=~'"),
    "no value": ({"matchers": [{"name": "a"}]}, "matchers.0.value", "missing"),
    "all but one": (
        {"match": {}, "matchers": [{"name": "a", "op": "!=", "value": "b"}]}, "matchers", "nearly",
    ),
    "a field too many": ({"matcher": []}, "matcher", "no such field"),
    "a person of one's choice": ({"created_by": "boss"}, "created_by", "no such field"),
    "too many": ({"match": {f"l{n}": "x" for n in range(15)}, "matchers": [{"name": "a", "value": "b"}] * 15},
                 "matchers", "at most 20"),
    "a scope that is none": ({"scope": "a/b/c"}, "scope", "pool/queue"),
    "a label without a name": ({"match": {"": "x"}}, "match", "must not be empty"),
    "a bare number as time": ({"starts_at": 1}, "starts_at", "2026-11-29T08:00:00Z"),
}  # fmt: skip


@ONE_ENGINE
@pytest.mark.parametrize(("body", "field", "words"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_named(admin: httpx.Client, body: dict[str, Any], field: str, words: str) -> None:
    answer = admin.post("/silences", json={**HOUR, **body})
    assert answer.status_code == 422, answer.text
    (fault,) = answer.json()["errors"]
    assert fault["field"] == field
    assert words in fault["message"]


@pytest.mark.parametrize("engine_name", ["postgres"], indirect=True)
def test_a_silence_ends_although_others_wait_for_it_and_it_for_them(
    admin: httpx.Client, store: Store
) -> None:
    """What shares a transaction may take a follow-up of one alert, and then the silence for another."""
    channel(admin, "ding")
    silence = made(admin)
    alert = admin.post("/alerts", json={"title": "disk full", "channels": ["ding"]}).json()["id"]
    with ThreadPoolExecutor(1) as pool, store.write() as session:
        now = store.now(session)
        session.execute(text("set local deadlock_timeout = '60s'"))  # the other one is to be ended for it
        nothing_follows(session, alert)
        asked = pool.submit(admin.delete, f"/silences/{silence['id']}")
        wait_for(lambda: waiting(store) == 1)
        hush_of(session, session.get_one(Alert, alert), now)
    assert asked.result(30).status_code == 204
    assert admin.get(f"/silences/{silence['id']}").json()["status"] == "expired"


def waiting(store: Store) -> int:
    """How many wait for somebody's lock."""
    with store.read() as session:
        waits = "select count(*) from pg_stat_activity where wait_event_type = 'Lock'"
        return int(session.execute(text(f"{waits} and datname = current_database()")).scalar_one())
