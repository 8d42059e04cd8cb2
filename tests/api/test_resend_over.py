"""An alert that is over is sent again as what it is now; one that burns still has its end told there too."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from datetime import timedelta
from typing import Any

import httpx
import pytest
from sqlalchemy import select

from notifier.api.deps import Services
from notifier.clock import utcnow
from notifier.ends import close, resolve
from notifier.model import Alert, Delivery
from tests.api.logbook import Log
from tests.api.test_bulk_resend import resent

As = Callable[..., httpx.Client]
Change = dict[str, Any]
BULK: dict[str, Any] = {"filter": {"state": "failed"}}


@pytest.fixture
def log(services: Services) -> Log:
    log = Log(services.store)
    log.channel("chn_1")
    log.channel("chn_2")
    return log


def broke(log: Log, n: int = 1, alert: Change | None = None, **columns: Any) -> str:
    """An alert that nobody could be told of: a delivery of it that has failed."""
    one = log.add(n, **{"state": "failed", **columns})
    with log.store.write() as session:
        row = session.get_one(Alert, session.get_one(Delivery, one).alert_id or "")
        for name, value in {"status": "firing", "dedup_key": f"k{n}", **(alert or {})}.items():
            setattr(row, name, value)
    return one


def alert_of(log: Log, one: str) -> Alert:
    with log.store.read() as session:
        return session.get_one(Alert, session.get_one(Delivery, one).alert_id or "")


def ends(log: Log, one: str) -> None:
    with log.store.write() as session:
        resolve(session, alert_id=alert_of(log, one).id, now=utcnow(), title="well again")


def is_told_of(log: Log, one: str) -> list[tuple[str, str, str]]:
    """Channel, status and trigger of all that was written about its alert."""
    with log.store.read() as session:
        rows = select(Delivery).where(Delivery.alert_id == alert_of(log, one).id).order_by(Delivery.id)
        return [(row.channel_id, row.status, row.trigger) for row in session.scalars(rows)]


def again(client: httpx.Client, one: str) -> dict[str, Any]:
    answer = client.post(f"/deliveries/{one}/resend")
    assert answer.status_code == 202, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_an_alert_that_is_over_is_told_as_resolved(admin: httpx.Client, log: Log) -> None:
    one = broke(log)
    ends(log, one)
    new = again(admin, one)
    assert (new["status"], new["item"], new["severity"]) == ("resolved", "custom", "error")
    assert "the alert is over" in new["why"]


@pytest.mark.parametrize("state", ["merged", "delivered", "expired", "suppressed"])
def test_so_it_is_whatever_became_of_the_first(admin: httpx.Client, log: Log, state: str) -> None:
    one = broke(
        log, alert={"status": "resolved"}, state=state, merged_into="dlv_0" if state == "merged" else None
    )
    assert again(admin, one)["status"] == "resolved"


def test_the_item_that_resolved_it_tells_the_end(admin: httpx.Client, log: Log) -> None:
    one = broke(
        log, alert={"item": "jobHang", "items": ["jobHang", "jobFT"]}, item="jobHang", items=["jobFT"]
    )
    ends(log, one)
    new = again(admin, one)
    assert (new["item"], new["items"], new["severity"]) == ("jobRecovered", [], "info")


def test_no_recovery_is_told_of_what_is_only_over(admin: httpx.Client, log: Log) -> None:
    one = broke(log, alert={"item": "jobHang", "items": ["jobHang"]}, item="jobHang")
    with log.store.write() as session:
        close(session, session.get_one(Alert, alert_of(log, one).id), utcnow())
    new = again(admin, one)
    assert (new["item"], new["status"]) == ("jobHang", "resolved")


def test_nor_of_what_ended_otherwise(admin: httpx.Client, log: Log) -> None:
    one = broke(log, alert={"item": "jobHang", "items": ["jobHang"]}, item="jobHang")
    with log.store.write() as session:
        resolve(session, alert_id=alert_of(log, one).id, now=utcnow(), ended={"zh": "删", "en": "deleted"})
    assert again(admin, one)["item"] == "jobHang"


def test_one_that_was_not_repeated_in_time_is_over(admin: httpx.Client, log: Log) -> None:
    past = utcnow() - timedelta(minutes=1)
    one = broke(log, alert={"expires_at": past})
    counted = resent(admin, {**BULK, "dry_run": True})
    assert (counted["would_send"], counted["over"], alert_of(log, one).status) == (1, 1, "firing")
    assert again(admin, one)["status"] == "resolved"
    assert (alert_of(log, one).status, alert_of(log, one).resolved_at) == ("resolved", past)
    ends(log, one)  # by whoever knows: it was told there
    assert [status for _, status, _ in is_told_of(log, one)] == ["firing", "resolved"]


def test_what_nobody_could_repeat_or_end_is_told_as_it_was(admin: httpx.Client, log: Log) -> None:
    one = broke(log, alert={"dedup_key": None, "expires_at": utcnow() - timedelta(minutes=1)})
    assert again(admin, one)["status"] == "firing"


def test_the_end_of_one_that_burns_still_follows(admin: httpx.Client, log: Log) -> None:
    one = broke(log)
    assert again(admin, one)["status"] == "firing"
    ends(log, one)
    assert is_told_of(log, one) == [
        ("chn_1", "firing", "alert"), ("chn_1", "firing", "resend"), ("chn_1", "resolved", "resolve"),
    ]  # fmt: skip


def test_who_sends_it_while_it_ends_waits_for_the_end(admin: httpx.Client, log: Log) -> None:
    one = broke(log)
    with ThreadPoolExecutor(1) as other:
        with log.store.write() as session:
            resolve(session, alert_id=alert_of(log, one).id, now=utcnow())
            asked = other.submit(again, admin, one)
            wait([asked], timeout=0.5)  # without the wait it would have been sent by then
        assert asked.result()["status"] == "resolved"


def test_it_is_refused_where_the_end_is_on_its_way(admin: httpx.Client, log: Log) -> None:
    one = broke(log, state="delivered")
    ends(log, one)
    answer = admin.post(f"/deliveries/{one}/resend")
    assert (answer.status_code, "on its way to mail" in answer.json()["detail"]) == (409, True)


def test_of_many_it_is_said_how_many_are_over(admin: httpx.Client, log: Log) -> None:
    burning, over = broke(log, 1), broke(log, 2)
    ends(log, over)
    counted = resent(admin, {**BULK, "dry_run": True})
    assert (counted["would_send"], counted["over"]) == (2, 1)
    sent = resent(admin, BULK)
    told = [admin.get(f"/deliveries/{one}").json()["status"] for one in sent["deliveries"]]
    assert (sent["over"], told) == (1, ["resolved", "firing"])
    assert is_told_of(log, burning)[-1] == ("chn_1", "firing", "resend")


OF_MANY: dict[str, tuple[Change, Change, dict[str, int]]] = {
    "its end was told there": ({}, {"status": "resolved", "state": "delivered"}, {"delivered_since": 1}),
    "its end is on its way": ({}, {"status": "resolved", "state": "retrying"}, {"under_way": 1}),
    "its end failed as well": ({}, {"status": "resolved", "state": "failed"}, {"repeated": 1}),
}


@pytest.mark.parametrize(("columns", "other", "skipped"), OF_MANY.values(), ids=OF_MANY)
def test_nobody_hears_the_end_twice(
    admin: httpx.Client, log: Log, columns: Change, other: Change, skipped: dict[str, int]
) -> None:
    one = broke(log, 1, {"status": "resolved"}, **columns)
    log.add(2, alert_id=alert_of(log, one).id, **other)
    assert resent(admin, {**BULK, "dry_run": True})["skipped"] == skipped
