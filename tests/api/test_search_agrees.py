"""Whatever is asked, the index finds what a look at every row finds, page by page, on either database."""

import random
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import select

from notifier import bitmaps, indexing, indexwriting, meeting, searching, searchtexts, stretches
from notifier.auth import Principal, Role
from notifier.clock import utcnow
from notifier.deliveries import Filters, rows_of
from notifier.deliverydocuments import as_json, documents
from notifier.model import Delivery
from notifier.pages import Ask
from notifier.storage import Store
from notifier.words import answers, question
from tests.api.logbook import CHANNELS, Log

QUESTIONS = (
    None,
    None,
    "body",
    "nccl",
    "RANK timeout",
    "磁盘",
    "loss body",
    "gpu",
    "nowhere",
    "7",
    "nccl loss",
    "late",
)
SCOPES = ((None, None), (None, None), ("other", None), ("default", "q"), ("nobody", "q"))
ASKED = 150


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several blocks and lots, and bitmaps of both kinds in them."""
    monkeypatch.setattr(indexwriting, "FULL", 9)
    monkeypatch.setattr(indexwriting, "OLD", 9)
    monkeypatch.setattr(meeting, "FIRST", 1)
    monkeypatch.setattr(meeting, "TOGETHER", 12)
    monkeypatch.setattr(meeting, "GROWS", 2)
    monkeypatch.setattr(meeting, "LEAPS", 3)
    monkeypatch.setattr(bitmaps, "MANY", 4)
    monkeypatch.setattr(searching, "FEW", 1)
    monkeypatch.setattr(searching, "MANY", 4)
    monkeypatch.setattr(stretches, "SHIFT", 1)
    monkeypatch.setattr(stretches, "FEWEST", 1)  # both of two blocks


@pytest.fixture(params=[1000, 4, None], ids=["joined as lists", "joined as bits", "apart"])
def log(store: Store, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Log:
    """Old rows and new ones, late ones, changed ones, and some that the index has not read yet; those of
    which nothing changes any more joined or not."""
    log = Log(store)
    then = utcnow() - timedelta(hours=2)
    for n in range(40):
        log.add(n, then + timedelta(seconds=n))
    states = ["sending"] * 3 + ["delivered"] * 9
    old = [log.add(n, then + timedelta(hours=1), state=state) for n, state in enumerate(states)]
    log.index()
    then += timedelta(minutes=100)
    monkeypatch.setattr(indexing, "LATEST", timedelta(days=1))
    for n in range(0, 120, 2):
        log.add(n, then + timedelta(seconds=n))
    log.index()
    monkeypatch.setattr(indexing, "LATEST", timedelta(minutes=10))
    for n in range(1, 100, 10):
        log.add(n, then + timedelta(seconds=n), why="late")
    log.check()
    if request.param is not None:
        monkeypatch.setattr(stretches, "MANY", request.param)
        assert log.join() > 50
    at = utcnow() - timedelta(seconds=11)
    there = [log.add(n, at + timedelta(milliseconds=100 * n), state="sending") for n in range(0, 70, 2)]
    log.index()
    for n in range(3, 70, 6):
        log.add(n, at + timedelta(milliseconds=100 * n), why="late")
    log.index()
    for n, one in enumerate([*old[:3], *there[::2]]):
        log.change(one, state="failed" if n % 3 else "delivered", attempt_count=1)
        log.attempt(one, "late")
        if n == 9:
            log.index()
    for n in range(70, 78):
        log.add(n, at + timedelta(milliseconds=100 * n))
    return log


def _fits(row: Delivery, text: str, filters: Filters, who: Principal) -> bool:
    """Read off the row, without any index."""
    wanted = {"channel": filters.channel, "kind": filters.kind, "item": filters.item, "state": filters.state}
    return (
        all(value is None or getattr(row, name) == value for name, value in wanted.items())
        and who.covers(row.pool, row.queue)
        and (filters.since is None or row.created_at >= filters.since)
        and (filters.until is None or row.created_at < filters.until)
        and (filters.q is None or answers(text, question(filters.q)))
    )


def _filters(chance: random.Random, moments: Sequence[Any]) -> Filters:
    def perhaps(*values: Any) -> Any:
        return chance.choice((None, *values))

    return Filters(
        channel=perhaps(*CHANNELS), kind=perhaps("wecom", "email"), item=perhaps("custom", "jobFT"),
        state=perhaps("failed", "delivered", "sending", "held"), q=chance.choice(QUESTIONS),
        since=chance.choice(moments) if chance.random() < 0.2 else None,
        until=chance.choice(moments) if chance.random() < 0.3 else None,
    )  # fmt: skip


def agree(store: Store, chance: random.Random, asked: int) -> int:
    """Asks so many questions; of how many there was something to find."""
    with store.read() as session:
        rows = session.scalars(select(Delivery).order_by(Delivery.id.desc())).all()
        texts = searchtexts.texts(session, rows)
        moments = [row.created_at for row in rows]
        found_some = 0
        for _ in range(asked):
            filters, (pool, queue) = _filters(chance, moments), chance.choice(SCOPES)
            who = Principal("tok_1", "n", Role.VIEWER, pool, queue)
            wanted = [row.id for row in rows if _fits(row, texts[row.id], filters, who)]
            found, cursor, limit = [], None, chance.choice((1, 3, 10, 500))
            while True:
                page = rows_of(session, who, filters, Ask(limit, cursor))
                found += [row.id for row in page.rows]
                cursor = page.next_cursor
                if cursor is None:
                    break
            assert found == wanted, (filters, who, limit)
            found_some += bool(wanted)
    return found_some


def test_the_index_and_a_look_at_every_row_agree(log: Log) -> None:
    assert agree(log.store, random.Random(7), ASKED) > ASKED / 4  # noqa: S311  no secret


def test_a_page_says_what_its_documents_say(log: Log) -> None:
    digest = log.add(80, is_digest=True, alert_id=None)
    log.add(81, merged_into=digest, state="merged", message={"title": 'a "title"\n\x7f✓', "text": "t"})
    log.add(82, error_code="42", error_message="e", error_permanent=True, pool="p", queue="")
    people = [{"to": "a", "outcome": "delivered", "code": None}]
    log.add(83, recipients=[*people, {**people[0], "code": "250", "message_id": "m"}], message={})
    log.add(84, delivered_at=utcnow(), attempt_count=1)
    with log.store.read() as session:
        rows = rows_of(session, Principal("tok_1", "n", Role.ADMIN), Filters(), Ask(500)).rows
        assert as_json(session, rows) == [one.model_dump_json() for one in documents(session, rows)]
