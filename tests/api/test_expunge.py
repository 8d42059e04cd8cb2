"""What was said can be removed; that it was said, when and to whom, stays."""

from collections.abc import Callable
from typing import Any

import httpx
import pytest
from sqlalchemy import select

from notifier.api.deps import Services
from notifier.model import Alert, Attempt, Delivery, Receipt
from notifier.searchmodel import SearchBits
from tests.api.logbook import NOW, Log, ids

As = Callable[..., httpx.Client]
SECRET = "geheim"
MESSAGE = {"title": f"title {SECRET}", "text": f"text {SECRET}", "format": "text"}


@pytest.fixture
def log(services: Services) -> Log:
    return Log(services.store)


@pytest.fixture
def told(log: Log) -> str:
    """A delivery that says the secret everywhere."""
    return _told(log, 0)


def _told(log: Log, n: int, **columns: Any) -> str:
    values = {
        "state": "failed", "message": MESSAGE, "error_code": "42", "error_message": f"no {SECRET}",
        "why": f"refused: {SECRET}", "attempt_count": 1,
        "recipients": [{"to": "a@b.c", "outcome": "refused", "code": "550"}],
    }  # fmt: skip
    one = log.add(n, **{**values, **columns})
    log.attempt(one, f"said {SECRET}")
    with log.store.write() as session:
        attempt = session.scalars(select(Attempt).where(Attempt.delivery_id == one)).one()
        attempt.request, attempt.response = f"Q {SECRET}", f"R {SECRET}"
        alert = session.get_one(Alert, session.get_one(Delivery, one).alert_id or "")
        alert.body, alert.dedup_key, alert.ack_comment = (
            f"{name} {SECRET}" for name in ("body", "key", "ack")
        )
    return one


def expunged(client: httpx.Client, one: str) -> dict[str, Any]:
    answer = client.delete(f"/deliveries/{one}/content")
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_the_content_goes_and_the_facts_stay(admin: httpx.Client, log: Log, told: str) -> None:
    before = admin.get(f"/deliveries/{told}").json()
    after = expunged(admin, told)
    assert SECRET not in admin.get(f"/deliveries/{told}").text
    assert after["message"] is None
    for name in ("id", "state", "created_at", "channel", "attempt_count", "recipients", "steps"):
        assert after[name] == before[name]
    assert (after["error"]["code"], after["attempts"][0]["provider_code"]) == ("42", "42")
    with log.store.read() as session:
        alert = session.get_one(Alert, after["alert_id"])
    assert (alert.title, alert.body) == ("", "")
    assert SECRET not in admin.get(f"/alerts/{alert.id}").text


def test_its_words_are_forgotten(admin: httpx.Client, log: Log, told: str) -> None:
    other = log.add(1, why="harmless")
    log.index()
    assert ids(admin, q=SECRET) == [told]
    expunged(admin, told)
    assert ids(admin, q=SECRET) == []
    with log.store.read() as session:
        assert session.scalars(select(SearchBits.term).where(SearchBits.term == SECRET.encode())).all() == []
    assert ids(admin, q="harmless") == [other]
    assert ids(admin, state="failed", kind="wecom") == [told]


def test_an_alert_keeps_its_words_while_others_tell_them(admin: httpx.Client, log: Log, told: str) -> None:
    with log.store.read() as session:
        alert_id = session.get_one(Delivery, told).alert_id
    other = log.add(1, alert_id=alert_id)
    expunged(admin, told)
    assert ids(admin, q=SECRET) == [other]
    expunged(admin, other)
    with log.store.read() as session:
        assert session.get_one(Alert, alert_id or "").body == ""


@pytest.mark.parametrize("state", ["pending", "sending", "retrying", "held"])
def test_what_is_still_to_be_told_keeps_it(admin: httpx.Client, log: Log, state: str) -> None:
    one = log.add(1, state=state)
    assert admin.delete(f"/deliveries/{one}/content").status_code == 409


def test_what_awaits_a_receipt_keeps_it(admin: httpx.Client, log: Log) -> None:
    one = log.add(1, state="accepted")
    with log.store.write() as session:
        session.add(Receipt(delivery_id=one, channel_id="chn_1", sent=[], due_at=NOW))
    assert admin.delete(f"/deliveries/{one}/content").status_code == 409


def test_it_is_not_sent_again(admin: httpx.Client, log: Log, told: str) -> None:
    log.channel()
    expunged(admin, told)
    answer = admin.post(f"/deliveries/{told}/resend")
    assert (answer.status_code, "removed" in answer.json()["detail"]) == (409, True)


def test_twice_is_as_once(admin: httpx.Client, told: str) -> None:
    assert expunged(admin, told) == expunged(admin, told)


def test_only_whoever_may_does_it(as_: As, told: str) -> None:
    assert as_("viewer").delete(f"/deliveries/{told}/content").status_code == 403
    assert as_("operator", "default").delete(f"/deliveries/{told}/content").status_code == 404
    assert as_("operator", "other").delete(f"/deliveries/{told}/content").status_code == 200
