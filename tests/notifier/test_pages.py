"""Keyset pages: every row once, newest first, whatever is added meanwhile; a foreign cursor is refused."""

from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import select

from notifier.ids import first_id, new_id
from notifier.model import Token
from notifier.pages import Ask, page
from notifier.problems import Problem
from notifier.storage import Store

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)


def add_tokens(store: Store, count: int) -> list[str]:
    ids = [new_id("tok", NOW) for _ in range(count)]
    with store.write() as session:
        session.add_all(Token(id=one, name="n", role="viewer", sha256=one, created_at=NOW) for one in ids)
    return ids


def walk(store: Store, limit: int) -> list[list[str]]:
    pages: list[list[str]] = []
    cursor = None
    while True:
        with store.read() as session:
            found = page(session, select(Token), Token.id, Ask(limit, cursor))
        pages.append([row.id for row in found.rows])
        cursor = found.next_cursor
        if cursor is None:
            return pages


@pytest.mark.parametrize(
    ("count", "limit", "sizes"), [(0, 3, [0]), (3, 3, [3]), (4, 3, [3, 1]), (7, 2, [2, 2, 2, 1])]
)
def test_pages_hold_every_row_once_newest_first(
    store: Store, count: int, limit: int, sizes: list[int]
) -> None:
    ids = add_tokens(store, count)
    pages = walk(store, limit)
    assert [len(each) for each in pages] == sizes
    assert [one for each in pages for one in each] == sorted(ids, reverse=True)


def test_rows_added_meanwhile_shift_nothing(store: Store) -> None:
    old = add_tokens(store, 4)
    with store.read() as session:
        first = page(session, select(Token), Token.id, Ask(2))
    add_tokens(store, 3)
    with store.read() as session:
        second = page(session, select(Token), Token.id, Ask(2, first.next_cursor))
    assert [row.id for row in [*first.rows, *second.rows]] == sorted(old, reverse=True)


@pytest.mark.parametrize(
    "cursor", ["", "x", "!!!!", "dG9rXzE", "' or 1=1", "é", "a" * 99, "AAAA", "=", "\ud800"]
)
def test_a_cursor_of_another_kind_is_refused_by_name(store: Store, cursor: str) -> None:
    with store.read() as session, pytest.raises(Problem) as caught:
        page(session, select(Token), Token.id, Ask(2, cursor))
    assert caught.value.status == 422
    assert caught.value.errors[0][0] == "cursor"


def test_first_id_bounds_the_ids_of_its_moment() -> None:
    assert first_id("dlv", NOW) <= new_id("dlv", NOW) < first_id("dlv", NOW + timedelta(days=3650))
    assert first_id("dlv", datetime(1970, 1, 1, tzinfo=UTC)) == "dlv_" + "0" * 26
