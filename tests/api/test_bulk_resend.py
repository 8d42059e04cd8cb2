"""Many are sent again by one filter: what was told meanwhile is not, and each call says where to go on."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import httpx
import pytest

from notifier.api.deps import Services
from notifier.clock import rfc3339
from tests.api.logbook import NOW, Log, ids

As = Callable[..., httpx.Client]
FAILED: dict[str, Any] = {"filter": {"state": "failed"}}


@pytest.fixture
def log(services: Services) -> Log:
    log = Log(services.store)
    log.channel("chn_1")
    log.channel("chn_2")
    return log


def resent(client: httpx.Client, body: dict[str, Any], **headers: str) -> dict[str, Any]:
    answer = client.post("/deliveries/resend", json=body, headers=headers)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_it_counts_first_and_then_sends(admin: httpx.Client, log: Log) -> None:
    rows = [log.add(n, state="failed") for n in (1, 2, 3)]
    log.add(4, state="delivered")
    counted = resent(admin, {**FAILED, "dry_run": True})
    assert (counted["matched"], counted["would_send"], counted["sent"]) == (3, 3, 0)
    assert counted["deliveries"] == rows[::-1]
    assert len(ids(admin)) == 4
    sent = resent(admin, FAILED)
    assert (sent["sent"], sent["next_cursor"]) == (3, None)
    new = [admin.get(f"/deliveries/{one}").json() for one in sent["deliveries"]]
    assert [(one["state"], one["trigger"]) for one in new] == [("pending", "resend")] * 3
    assert resent(admin, FAILED)["skipped"] == {"under_way": 3}


LEFT_OUT: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "delivered later on the same channel": ("delivered_since", {}, {"state": "delivered"}),
    "told in a digest later": ("delivered_since", {}, {"state": "merged"}),
    "told by the fallback": (
        "delivered_since",
        {},
        {"state": "delivered", "channel_id": "chn_2", "trigger": "fallback"},
    ),
    "under way": ("under_way", {}, {"state": "retrying"}),
    "its channel is gone": ("channel", {"channel_id": "chn_0"}, {"alert_id": None}),
    "a digest": ("digest", {"is_digest": True}, {"alert_id": None}),
    "its content is gone": ("expunged", {"message": {}}, {"alert_id": None}),
}


@pytest.mark.parametrize(("reason", "columns", "other"), LEFT_OUT.values(), ids=LEFT_OUT)
def test_it_is_left_out_where(
    admin: httpx.Client, log: Log, reason: str, columns: dict[str, Any], other: dict[str, Any]
) -> None:
    log.add(1, **{"alert_id": "alr_1", "state": "failed", **columns})
    log.add(2, **{"alert_id": "alr_1", **other})
    found = resent(admin, {**FAILED, "dry_run": True})
    assert (found["would_send"], found["skipped"]) == (0, {reason: 1})


@pytest.mark.parametrize(
    "other",
    [
        {"state": "delivered", "channel_id": "chn_2"},
        {"state": "delivered", "status": "resolved"},
        {"state": "failed", "channel_id": "chn_2"},
    ],
    ids=["another channel was told", "its resolve was told", "another channel failed too"],
)
def test_it_is_sent_although(admin: httpx.Client, log: Log, other: dict[str, Any]) -> None:
    one = log.add(1, alert_id="alr_1", state="failed")
    log.add(2, alert_id="alr_1", **other)
    assert one in resent(admin, {**FAILED, "dry_run": True})["deliveries"]


@pytest.mark.parametrize(
    "state", ["pending", "retrying", "sending", "held", "suppressed", "delivered", "merged"]
)
def test_what_has_not_failed_is_left_out(admin: httpx.Client, log: Log, state: str) -> None:
    log.add(1, state=state)
    found = resent(admin, {"filter": {"q": "body"}, "dry_run": True})
    assert (found["matched"], found["would_send"], sum(found["skipped"].values())) == (1, 0, 1)


def test_of_two_that_tell_the_same_the_newer_one_is_sent(admin: httpx.Client, log: Log) -> None:
    _, newer = (log.add(n, alert_id="alr_1", state="failed") for n in (1, 2))
    found = resent(admin, {**FAILED, "dry_run": True})
    assert (found["deliveries"], found["skipped"]) == ([newer], {"repeated": 1})


def test_a_call_does_so_many_and_says_where_to_go_on(
    admin: httpx.Client, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("notifier.bulkresend.MOST", 2)
    rows = [log.add(n, state="failed") for n in range(5)]
    seen: list[str] = []
    body: dict[str, Any] = {**FAILED, "dry_run": True}
    while True:
        found = resent(admin, body)
        seen += found["deliveries"]
        if found["next_cursor"] is None:
            break
        body["cursor"] = found["next_cursor"]
    assert seen == rows[::-1]


def test_a_span_of_time_narrows_what_is_sent(admin: httpx.Client, log: Log) -> None:
    rows = [log.add(n, state="failed") for n in range(5)]
    since, until = (rfc3339(NOW + timedelta(seconds=n)) for n in (1, 3))
    found = resent(admin, {"filter": {"since": since, "until": until}, "dry_run": True})
    assert found["deliveries"] == [rows[2], rows[1]]


def test_the_same_key_sends_once(admin: httpx.Client, log: Log) -> None:
    log.add(1, state="failed")
    first = resent(admin, FAILED, **{"Idempotency-Key": "k1"})
    assert resent(admin, FAILED, **{"Idempotency-Key": "k1"}) == first
    assert len(ids(admin)) == 2


REFUSED = {
    "an empty filter": ({"filter": {}}, "filter"),
    "no filter": ({}, "filter"),
    "no word": ({"filter": {"q": ""}}, "filter"),
    "blanks for words": ({"filter": {"q": " \u3000"}}, "filter"),
    "a filter there is not": ({"filter": {"color": "red"}}, "filter.color"),
    "a state there is not": ({"filter": {"state": "gone"}}, "filter.state"),
    "a cursor of nobody": ({**FAILED, "cursor": "x"}, "cursor"),
}


@pytest.mark.parametrize(("body", "field"), REFUSED.values(), ids=REFUSED)
def test_it_is_refused_with(admin: httpx.Client, body: dict[str, Any], field: str) -> None:
    answer = admin.post("/deliveries/resend", json=body)
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"] == field


def test_an_empty_filter_may_be_meant(admin: httpx.Client, log: Log) -> None:
    log.add(1, state="failed")
    assert resent(admin, {"filter": {}, "all": True, "dry_run": True})["would_send"] == 1


def test_nobody_sends_what_lies_outside_his_scope(as_: As, log: Log) -> None:
    log.add(1, state="failed")
    assert resent(as_("operator", "other"), FAILED)["matched"] == 0
    assert as_("viewer").post("/deliveries/resend", json=FAILED).status_code == 403
