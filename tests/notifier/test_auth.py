"""Tokens: known by their hash alone, until they expire; a scope covers its pool or queue and no more."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import select

from notifier.auth import NewToken, Principal, Role, authenticate, bootstrap_admin, create_token
from notifier.model import Token
from notifier.storage import Store

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)


def scoped(pool: str | None, queue: str | None = None) -> Principal:
    return Principal("tok_1", "t", Role.OPERATOR, pool, queue)


COVERS = {
    "no scope covers all": (scoped(None), "p", "q", True),
    "a pool covers itself": (scoped("p"), "p", "", True),
    "a pool covers its queues": (scoped("p"), "p", "q", True),
    "a pool covers no other": (scoped("p"), "x", "q", False),
    "a queue covers itself": (scoped("p", "q"), "p", "q", True),
    "a queue does not cover its pool": (scoped("p", "q"), "p", "", False),
    "a queue covers no sister": (scoped("p", "q"), "p", "r", False),
    "a queue of the same name elsewhere": (scoped("p", "q"), "x", "q", False),
}


@pytest.mark.parametrize(("principal", "pool", "queue", "covered"), COVERS.values(), ids=COVERS)
def test_scope(principal: Principal, pool: str, queue: str, covered: bool) -> None:
    assert principal.covers(pool, queue) is covered


def test_a_token_speaks_for_its_row_and_is_kept_as_a_hash(store: Store) -> None:
    with store.write() as session:
        new = NewToken("ci", Role.PUBLISHER, pool="p", queue="q")
        row, plaintext = create_token(session, new, NOW)
    with store.read() as session:
        principal = authenticate(session, plaintext, NOW)
        kept = session.scalars(select(Token)).one()
    assert principal == Principal(row.id, "ci", Role.PUBLISHER, "p", "q")
    assert plaintext.startswith("fct_")
    assert plaintext.removeprefix("fct_") not in str(vars(kept))


@pytest.mark.parametrize("bearer", ["", "fct_", "fct_wrong", "admin", "fct_\ud800", "fct_" + "x" * 10_000])
def test_nobody_else_speaks(store: Store, bearer: str) -> None:
    with store.write() as session:
        create_token(session, NewToken("a", Role.ADMIN), NOW)
        assert authenticate(session, bearer, NOW) is None


def test_a_token_ends_when_it_expires(store: Store) -> None:
    with store.write() as session:
        _, plaintext = create_token(
            session, NewToken("a", Role.ADMIN, expires_at=NOW + timedelta(hours=1)), NOW
        )
        assert authenticate(session, plaintext, NOW + timedelta(minutes=59)) is not None
        assert authenticate(session, plaintext, NOW + timedelta(hours=1)) is None


def test_the_first_start_writes_an_admin_token_and_the_next_keeps_it(store: Store, tmp_path: Path) -> None:
    path = bootstrap_admin(store, tmp_path / "data", NOW)
    first = path.read_text()
    assert path.stat().st_mode & 0o777 == 0o600
    assert bootstrap_admin(store, tmp_path / "data", NOW).read_text() == first
    with store.read() as session:
        principal = authenticate(session, first.strip(), NOW)
    assert principal is not None
    assert principal.role is Role.ADMIN


def test_an_admin_token_that_no_longer_works_is_replaced(store: Store, tmp_path: Path) -> None:
    (tmp_path / "admin.token").write_text("fct_of_another_database\n")
    path = bootstrap_admin(store, tmp_path, NOW)
    with store.read() as session:
        assert authenticate(session, path.read_text().strip(), NOW) is not None
