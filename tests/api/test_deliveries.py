"""The delivery log: every field of the contract, every filter, pages without gaps, resend by a person."""

import itertools
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import httpx
import pytest

from notifier.api.deps import Services
from notifier.clock import rfc3339, utcnow
from notifier.ids import new_id
from notifier.model import Alert, Attempt, Channel, Delivery
from tests.api.logbook import id_of

As = Callable[..., httpx.Client]
NOW = utcnow().replace(microsecond=0) - timedelta(minutes=5)
FIELDS = {
    "id",
    "alert_id",
    "event_id",
    "job_id",
    "job_name",
    "channel",
    "kind",
    "item",
    "items",
    "severity",
    "state",
    "attempt_count",
    "created_at",
    "first_attempt_at",
    "delivered_at",
    "latency_s",
    "next_attempt_at",
    "error",
    "recipients",
    "provider_message_id",
    "merged_into",
    "digest_of",
    "why",
}
ATTEMPT_FIELDS = {
    "n",
    "part",
    "trigger",
    "started_at",
    "finished_at",
    "latency_s",
    "outcome",
    "http_status",
    "provider_code",
    "provider_message",
    "possible_duplicate",
    "recipients",
    "request",
    "response",
}


@pytest.fixture
def channel(services: Services) -> Channel:
    row = Channel(
        id=new_id("chn", NOW),
        pool="default",
        name="ding",
        kind="wecom",
        config={},
        secrets="",
        shard=3,
        health="ok",
        created_at=NOW,
        updated_at=NOW,
    )
    with services.store.write() as session:
        session.add(row)
    return row


@pytest.fixture
def add(services: Services, channel: Channel) -> Callable[..., str]:
    """`add(state="failed")` puts a delivery with these columns into the log, `minutes` after NOW."""

    number = itertools.count()

    def delivery(minutes: float = 0, **columns: Any) -> str:
        now = NOW + timedelta(minutes=minutes)
        row = Delivery(
            **{
                "id": id_of("dlv", now, next(number)),
                "pool": "default",
                "queue": "",
                "channel_id": channel.id,
                "channel": channel.name,
                "kind": channel.kind,
                "item": "jobFT",
                "items": [],
                "severity": "warning",
                "language": "",
                "timezone": "",
                "fallback": [],
                "state": "delivered",
                "order_key": "k",
                "shard": channel.shard,
                "created_at": now,
                "expires_at": now + timedelta(days=1),
                "mends": [],
                "recipients": [],
                **columns,
            }
        )
        with services.store.write() as session:
            session.add(row)
        return row.id

    return delivery


Add = Callable[..., str]


def ids(client: httpx.Client, **params: Any) -> list[str]:
    answer = client.get("/deliveries", params=params)
    assert answer.status_code == 200, answer.text
    return [item["id"] for item in answer.json()["items"]]


def test_a_delivery_has_every_field_of_the_contract(
    admin: httpx.Client, add: Add, services: Services
) -> None:
    one = add(
        alert_id="alr_1",
        event_id="evt_1",
        job_id="job_1",
        job_name="llm",
        items=["jobHang"],
        attempt_count=1,
        first_attempt_at=NOW,
        delivered_at=NOW + timedelta(seconds=1.5),
        provider_message_id="m-1",
        fallback=["x"],
        recipients=[{"to": "a@b.c", "outcome": "delivered", "code": "250"}],
        message={"title": "T", "text": "X", "format": "markdown"},
    )
    with services.store.write() as session:
        attempt = Attempt(
            delivery_id=one,
            channel_id="chn_1",
            n=1,
            part=1,
            parts=1,
            trigger="alert",
            lease_token="t",
            started_at=NOW,
            finished_at=NOW + timedelta(seconds=1.25),
            outcome="delivered",
            http_status=200,
            provider_code="0",
            provider_message="ok",
            possible_duplicate=True,
            recipients=[],
            request="Q",
            response="R",
        )
        session.add(attempt)
    (listed,) = admin.get("/deliveries").json()["items"]
    full = admin.get(f"/deliveries/{one}").json()
    assert not FIELDS - set(listed)
    assert {name: full[name] for name in listed} == listed
    assert (listed["latency_s"], listed["created_at"]) == (1.5, rfc3339(NOW))
    assert (listed["error"], listed["digest_of"], listed["merged_into"]) == (None, None, None)
    assert full["message"] == {"title": "T", "text": "X", "format": "markdown"}
    assert listed["title"] == "T"
    assert not ATTEMPT_FIELDS - set(full["attempts"][0])
    assert (full["attempts"][0]["latency_s"], full["attempts"][0]["possible_duplicate"]) == (1.25, True)


def test_an_error_says_whether_it_is_final(admin: httpx.Client, add: Add) -> None:
    add(state="failed", error_code="93000", error_message="invalid webhook", error_permanent=True, why="w")
    (item,) = admin.get("/deliveries").json()["items"]
    assert item["error"] == {"code": "93000", "message": "invalid webhook", "permanent": True}
    assert item["why"] == "w"


def test_a_digest_names_its_members_and_they_name_it(admin: httpx.Client, add: Add) -> None:
    digest = add(is_digest=True)
    members = [add(state="merged", merged_into=digest) for _ in range(3)]
    lonely = add(1)
    listed = {item["id"]: item for item in admin.get("/deliveries").json()["items"]}
    assert listed[digest]["digest_of"] == members
    assert {listed[member]["merged_into"] for member in members} == {digest}
    assert listed[lonely]["digest_of"] is None


def test_a_digest_is_of_each_event_and_alert_that_it_tells(as_: As, admin: httpx.Client, add: Add) -> None:
    digest = add(is_digest=True, alert_id=None)
    one, other = (
        add(state="merged", merged_into=digest, alert_id=f"alr_{n}", event_id=f"evt_{n}") for n in "12"
    )
    assert ids(admin, alert="alr_1") == ids(admin, event="evt_1") == [one, digest]
    assert ids(admin, alert="alr_2", state="merged") == [other]
    assert ids(as_("viewer", "elsewhere"), alert="alr_1") == []


FILTERS = {
    "job": ({"job": "job_1"}, {"job_id": "job_1"}),
    "event": ({"event": "evt_1"}, {"event_id": "evt_1"}),
    "alert": ({"alert": "alr_1"}, {"alert_id": "alr_1"}),
    "channel": ({"channel": "mail"}, {"channel": "mail"}),
    "kind": ({"kind": "email"}, {"kind": "email"}),
    "item": ({"item": "jobHang"}, {"item": "jobHang"}),
    "state": ({"state": "held"}, {"state": "held"}),
    "words of the job's name": ({"q": "LLAMA"}, {"job_name": "pre-llama-3"}),
    "words of the error": ({"q": "webhook"}, {"error_message": "invalid webhook"}),
    "words of the reason": ({"q": "deleted"}, {"why": "the channel was deleted"}),
    "per cent is a word": ({"q": "98 %"}, {"why": "98 % full"}),
}


@pytest.mark.parametrize(("params", "columns"), FILTERS.values(), ids=FILTERS)
def test_a_filter_finds_its_own(
    admin: httpx.Client, add: Add, params: dict[str, str], columns: dict[str, str]
) -> None:
    add(why="98 x full")
    wanted = add(**columns)
    assert ids(admin, **params) == [wanted]


def test_words_are_found_in_the_alert_and_the_providers_answer(
    admin: httpx.Client, add: Add, services: Services
) -> None:
    told, answered = add(alert_id="alr_1"), add()
    add()
    with services.store.write() as session:
        alert = Alert(
            id="alr_1",
            pool="default",
            source="s",
            item="custom",
            items=[],
            severity="info",
            status="firing",
            title="磁盘满",
            body="sda",
            labels={},
            context={},
            created_at=NOW,
            last_at=NOW,
        )
        attempt = Attempt(
            delivery_id=answered,
            channel_id="c",
            n=1,
            part=1,
            parts=1,
            trigger="alert",
            lease_token="t",
            started_at=NOW,
            recipients=[],
            provider_message="keywords not in content",
        )
        session.add_all([alert, attempt])
    assert (ids(admin, q="磁盘"), ids(admin, q="KEYWORDS"), ids(admin, q="nowhere")) == (
        [told],
        [answered],
        [],
    )


def test_a_span_of_time_is_half_open(admin: httpx.Client, add: Add) -> None:
    rows = [add(minutes) for minutes in (0, 1, 2)]
    since, until = (
        NOW + timedelta(minutes=1),
        (NOW + timedelta(minutes=2)).astimezone(ZoneInfo("Asia/Shanghai")),
    )
    assert ids(admin, since=since.isoformat()) == [rows[2], rows[1]]
    assert ids(admin, until=until.isoformat()) == [rows[1], rows[0]]
    assert ids(admin, since=since.isoformat(), until=until.isoformat()) == [rows[1]]


def test_pages_hold_every_row_once(admin: httpx.Client, add: Add) -> None:
    rows = [add(state="failed" if n % 2 else "delivered") for n in range(9)]
    found: list[str] = []
    params: dict[str, Any] = {"state": "delivered", "limit": 2}
    while True:
        answer = admin.get("/deliveries", params=params).json()
        found += [item["id"] for item in answer["items"]]
        if answer["next_cursor"] is None:
            break
        params["cursor"] = answer["next_cursor"]
    assert found == rows[::-2]


ENDED = ["delivered", "accepted", "unknown", "failed", "expired", "suppressed", "merged"]


@pytest.mark.parametrize("state", ENDED)
def test_what_has_ended_is_told_anew_by_a_delivery_of_its_own(
    admin: httpx.Client, add: Add, state: str
) -> None:
    old = add(
        alert_id="alr_1", state=state, items=["jobHang"], merged_into="dlv_1" if state == "merged" else None
    )
    answer = admin.post(f"/deliveries/{old}/resend")
    assert answer.status_code == 202, answer.text
    new = answer.json()
    assert (new["state"], new["trigger"], new["alert_id"], new["items"]) == (
        "pending",
        "resend",
        "alr_1",
        ["jobHang"],
    )
    assert new["id"] != old
    assert old in new["why"]
    assert admin.get(f"/deliveries/{old}").json()["state"] == state


@pytest.mark.parametrize("state", ["pending", "retrying"])
def test_what_waits_is_tried_at_once(admin: httpx.Client, add: Add, state: str) -> None:
    later = datetime(2999, 1, 1, tzinfo=UTC)
    one = add(state=state, next_attempt_at=later, expires_at=later)
    answer = admin.post(f"/deliveries/{one}/resend").json()
    assert (answer["id"], answer["state"]) == (one, state)
    assert answer["next_attempt_at"] < "2999"


REFUSED = {
    "it is being sent": ({"state": "sending"}, {}),
    "it is held": ({"state": "held"}, {}),
    "its digest is on its way": ({"state": "pending", "merged_into": "dlv_1"}, {}),
    "it is a digest": ({"state": "delivered", "is_digest": True}, {}),
    "the channel is broken": ({"state": "failed"}, {"health": "broken"}),
    "the channel is disabled": ({"state": "failed"}, {"enabled": False}),
    "the channel is gone": ({"state": "failed", "channel_id": "chn_0"}, {}),
}


@pytest.mark.parametrize(("columns", "channel_is"), REFUSED.values(), ids=REFUSED)
def test_it_is_not_sent_again_where(
    admin: httpx.Client,
    add: Add,
    services: Services,
    channel: Channel,
    columns: dict[str, Any],
    channel_is: dict[str, Any],
) -> None:
    one = add(**columns)
    with services.store.write() as session:
        row = session.get_one(Channel, channel.id)
        for name, value in channel_is.items():
            setattr(row, name, value)
    answer = admin.post(f"/deliveries/{one}/resend")
    assert (answer.status_code, len(ids(admin))) == (409, 1)
    assert answer.json()["detail"]


@pytest.mark.parametrize("engine_name", ["sqlite"], indirect=True)  # PostgreSQL plans by what a table holds
def test_no_plain_filter_sorts_or_reads_the_whole_log(services: Services) -> None:
    queries = {
        "all": "1",
        "channel": "channel = 'x'",
        "state": "state = 'failed'",
        "job": "job_id = 'x'",
        "kind": "kind = 'x'",
        "item": "item = 'x'",
        "scope": "pool = 'x' and queue = 'y'",
    }
    explain = "explain query plan select * from deliveries where {} and id < 'x' order by id desc limit 51"
    with services.store.engine.connect() as connection:
        plans = {
            name: str(connection.exec_driver_sql(explain.format(where)).all())
            for name, where in queries.items()
        }
    assert not [name for name, plan in plans.items() if "TEMP B-TREE" in plan or "USING INDEX" not in plan]


def test_a_cursor_is_of_one_list(admin: httpx.Client, add: Add) -> None:
    for _ in range(2):
        add()
    ours = admin.get("/deliveries?limit=1").json()["next_cursor"]
    assert admin.get("/deliveries", params={"cursor": ours}).status_code == 200
    for path in ("/alerts", "/channels", "/tokens"):
        answer = admin.get(path, params={"cursor": ours})
        assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, "cursor")
