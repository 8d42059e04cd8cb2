"""What is found does not depend on how much of the log the index has read, on either database."""

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from datetime import timedelta
from typing import Any

import httpx
import pytest
from sqlalchemy import delete, select

from notifier import indexing, indexwriting, meeting, searching
from notifier.api.deps import Services
from notifier.auth import Principal, Role
from notifier.clock import utcnow
from notifier.deliveries import Filters, rows_of
from notifier.ids import new_id
from notifier.model import Delivery, Receipt
from notifier.pages import Ask
from notifier.searchmodel import SearchBits, SearchBlock, SearchSlot, SearchWatch
from tests.api.logbook import CHANNELS, NOW, Log, ids, wanted

As = Callable[..., httpx.Client]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks so small that a test fills several."""
    monkeypatch.setattr(indexwriting, "FULL", 7)
    monkeypatch.setattr(indexwriting, "OLD", 7)
    monkeypatch.setattr(meeting, "FIRST", 1)
    monkeypatch.setattr(meeting, "GROWS", 2)
    monkeypatch.setattr(meeting, "LEAPS", 3)


@pytest.fixture
def log(services: Services) -> Log:
    return Log(services.store)


ASKED: dict[str, tuple[dict[str, Any], Callable[[int], bool]]] = {
    "a word": ({"q": "nccl"}, lambda n: n % 4 == 0),
    "words": ({"q": "RANK timeout"}, lambda n: n % 4 == 0),
    "a number": ({"q": "body 17"}, lambda n: n == 17),
    "Chinese": ({"q": "磁盘"}, lambda n: n % 4 == 1),
    "a word nobody said": ({"q": "nowhere"}, lambda _: False),
    "a word and a channel": ({"q": "loss", "channel": "运维群"}, lambda n: n % 4 == 2 and n % 3 == 2),
    "a word and a state": ({"q": "body", "state": "failed"}, lambda n: n % 4 == 0),
    "two filters": ({"channel": "mail", "state": "failed"}, lambda n: n % 3 == 1 and n % 4 == 0),
    "three filters": (
        {"channel": "ding", "item": "jobFT", "kind": "wecom"},
        lambda n: n % 3 == 0 and n % 5 == 0,
    ),
    "filters without a hit": ({"channel": "ding", "state": "held"}, lambda _: False),
}


@pytest.mark.parametrize("read", ["nothing", "the old", "all", "all in small lots"])
def test_the_answer_is_the_same_however_much_is_indexed(admin: httpx.Client, log: Log, read: str) -> None:
    old = [log.add(n) for n in range(30)]
    if read != "nothing":
        log.index()
    rows = old + [log.add(n) for n in range(30, 45)]
    if read.startswith("all"):
        log.index(batch=4 if "small" in read else None)
        assert log.count(SearchSlot) == len(rows)
    for params, fits in ASKED.values():
        assert ids(admin, **params) == wanted(rows, fits), params
        assert ids(admin, limit=2, **params) == wanted(rows, fits), params


def test_a_span_of_time_narrows_what_is_found(admin: httpx.Client, log: Log) -> None:
    rows = [log.add(n) for n in range(40)]
    log.index()
    since, until = NOW + timedelta(seconds=9), NOW + timedelta(seconds=33)
    asked = {"q": "body", "channel": "mail", "since": since.isoformat(), "until": until.isoformat()}
    assert ids(admin, **asked, limit=3) == wanted(rows, lambda n: 9 <= n < 33 and n % 3 == 1)


@pytest.mark.parametrize(
    ("scope", "fits"),
    [("other", lambda n: n % 2 == 0), ("default/q", lambda n: n % 2 == 1 and n % 3 != 0)],
    ids=["a pool", "a queue"],
)
def test_nobody_finds_what_lies_outside_his_scope(
    as_: As, log: Log, scope: str, fits: Callable[[int], bool]
) -> None:
    rows = [log.add(n) for n in range(25)]
    log.index()
    viewer = as_("viewer", scope)
    assert ids(viewer, q="body", limit=3) == wanted(rows, fits)
    assert ids(viewer, state="failed") == wanted(rows, lambda n: fits(n) and n % 4 == 0)


def test_what_was_committed_late_is_found_in_its_place(admin: httpx.Client, log: Log) -> None:
    at = utcnow() - timedelta(seconds=8)
    rows = [log.add(n, at + timedelta(milliseconds=n * 10)) for n in range(0, 60, 2)]
    log.index()
    late = [log.add(n, at + timedelta(milliseconds=n * 10)) for n in range(1, 60, 6)]
    log.index()
    assert log.count(SearchSlot) == len(rows) + len(late)
    everything = sorted(rows + late, reverse=True)
    assert ids(admin, q="body", limit=4) == everything
    assert ids(admin, q="body", kind="wecom", limit=1) == everything


def test_a_block_is_looked_through_once_more_when_it_is_old(
    admin: httpx.Client, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A transaction that took minutes."""
    log.index()
    first = [log.add(n) for n in range(20)]
    monkeypatch.setattr(indexing, "LATEST", timedelta(days=1))
    log.index()
    late = log.add(3, NOW + timedelta(seconds=3.5))
    monkeypatch.setattr(indexing, "LATEST", timedelta(minutes=10))
    for _ in range(log.count(SearchBlock)):
        log.index(rounds=1)
    assert ids(admin, q="body", limit=4) == sorted([*first, late], reverse=True)
    with log.store.read() as session:
        checked = session.scalars(select(SearchBlock.is_checked).order_by(SearchBlock.block)).all()
    assert all(checked[:-1])


def test_a_word_of_the_outcome_is_found_as_soon_as_there_is_one(admin: httpx.Client, log: Log) -> None:
    rows = [log.add(n, state="sending") for n in range(10)]
    log.index()
    assert log.count(SearchWatch) == len(rows)
    log.change(rows[4], state="failed", error_message="keywords not in content", attempt_count=1)
    log.attempt(rows[4], "errcode zweiundvierzig")
    for _ in ("before the index has read it", "after"):
        assert ids(admin, q="keywords zweiundvierzig") == [rows[4]]
        assert ids(admin, state="failed", channel=CHANNELS[1]) == [rows[4]]
        assert rows[4] not in ids(admin, state="sending", channel=CHANNELS[1])
        log.index()
    assert log.count(SearchWatch) == len(rows) - 1


def test_what_the_index_reads_while_somebody_asks_is_found(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [log.add(n, state="sending") for n in range(8)]
    log.index()
    log.change(rows[7], state="failed", attempt_count=1)
    looked: list[meeting.Lot] = []

    def and_then_the_index_goes_on(*asked: Any) -> Iterator[meeting.Lot]:
        for lot in meeting.lots(*asked):
            looked.append(lot)
            log.index()
            yield lot

    monkeypatch.setattr(meeting, "FIRST", 8)  # all at once
    monkeypatch.setattr(searching, "lots", and_then_the_index_goes_on)
    who, filters = Principal("tok_1", "n", Role.VIEWER), Filters(state="failed", channel=CHANNELS[1])
    with log.store.look() as session:
        assert [row.id for row in rows_of(session, who, filters, Ask(5, None)).rows] == [rows[7]]
    assert looked
    assert log.count(SearchWatch) == len(rows) - 1


def test_what_awaits_a_receipt_is_watched_until_it_is_there(log: Log) -> None:
    one = log.add(0, state="accepted")
    with log.store.write() as session:
        session.add(Receipt(delivery_id=one, channel_id="chn_1", sent=[], due_at=NOW))
    log.index()
    assert log.count(SearchWatch) == 1
    with log.store.write() as session:
        session.execute(delete(Receipt))
    log.index()
    assert log.count(SearchWatch) == 0


def test_an_identifier_finds_what_it_names(admin: httpx.Client, log: Log) -> None:
    digest = log.add(0, is_digest=True, alert_id=None)
    member = log.add(1, merged_into=digest, state="merged", job_id=new_id("job", NOW), job_name="llm")
    other = log.add(2)
    log.index()
    with log.store.read() as session:
        row = session.get_one(Delivery, member)
    assert ids(admin, q=digest.upper()) == [member, digest]
    assert ids(admin, q=f"{row.alert_id}") == ids(admin, alert=row.alert_id) == [member, digest]
    assert ids(admin, state="failed", alert=row.alert_id) == [digest]
    assert ids(admin, q="磁盘", alert=row.alert_id) == [member]
    assert ids(admin, q=f"{row.job_id} llm") == [member]
    assert ids(admin, q=f"{row.job_id} mistral") == []
    assert ids(admin, q=other, state="failed") == []


HOSTILE = [
    "'", '"', "\\", "* OR NEAR(", "a AND NOT b", "%", "_", ";--", "\N{COMBINING ACUTE ACCENT}", "😀", "a\0b",
    "\u202e", "ﷺ" * 100, "x" * 200, " ", "", "<script>", "İ", "{}", "$1", ":a",
]  # fmt: skip


def test_nothing_anybody_looks_for_is_an_error_of_ours(admin: httpx.Client, log: Log) -> None:
    for n in range(10):
        log.add(n)
    log.index()
    for q in (*HOSTILE, "x" * 10_000):
        for params in ({"q": q}, {"q": q, "state": "failed"}):
            answer = admin.get("/deliveries", params=params)
            assert answer.status_code in {200, 422}, (q, answer.text)
            if answer.status_code == 422:
                assert answer.json()["errors"][0]["field"] == "q"


def test_a_question_without_a_word_is_refused_with_the_mend(admin: httpx.Client) -> None:
    answer = admin.get("/deliveries", params={"q": "%%"})
    assert answer.status_code == 422
    assert answer.json()["errors"] == [
        {"field": "q", "message": "give at least one word of letters or digits"}
    ]


def test_one_request_looks_at_so_many_and_says_where_to_go_on(
    admin: httpx.Client, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Words that stand in every text, never side by side."""
    rows = [log.add(n, why="alpha beta") for n in range(30)]
    hit = log.add(1, NOW - timedelta(minutes=1), why="alpha-beta")
    log.index()
    monkeypatch.setattr("notifier.searching.MANY", 8)
    monkeypatch.setattr("notifier.searching.READ", 10)
    first = admin.get("/deliveries", params={"q": "alpha-beta", "limit": 1}).json()
    assert first["items"] == []
    assert first["next_cursor"]
    assert ids(admin, q="alpha-beta", limit=1) == [hit]
    assert hit not in rows


def test_two_that_read_at_once_do_not_write_twice(log: Log) -> None:
    log.index()
    for n in range(10):
        log.add(n)
    with log.store.read() as session:
        seen = indexing.look(session, 100, utcnow())
    assert indexing.advance(log.store, nullcontext()) == 10
    with log.store.write() as session:
        indexwriting.write(session, seen, utcnow())
    assert log.count(SearchSlot) == 10
    assert log.count(SearchBits) > 10
