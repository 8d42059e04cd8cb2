"""A connection that the database has ended is not handed out; one that is good is not asked about."""

import socket
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sqlalchemy import Engine, make_url, text

from notifier import pinging
from notifier.storage import Store, make_engine


@pytest.fixture
def asked(store: Store, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Engine, list[Any]]]:
    """An engine with two connections in its pool, and what is asked about whether they are good."""
    if not store.is_postgres:
        pytest.skip("SQLite has no connection that could be lost")
    engine = make_engine(store.engine.url.render_as_string(hide_password=False))
    seen: list[Any] = []
    dialect: Any = engine.dialect
    ping: Callable[[Any], bool] = dialect.do_ping
    monkeypatch.setattr(dialect, "do_ping", lambda one: (seen.append(one), ping(one))[1])
    with engine.connect() as one, engine.connect() as other:
        assert one.scalar(text("select 1")) == other.scalar(text("select 1"))
    yield engine, seen
    engine.dispose()


def end_all(store: Store, engine: Engine) -> None:
    """As a restart or an administrator does it; it has happened when this returns."""
    pids = []
    with engine.connect() as one, engine.connect() as other:
        pids = [here.scalar(text("select pg_backend_pid()")) for here in (one, other)]
    with store.engine.connect() as connection:
        for pid in pids:
            assert connection.scalar(text("select pg_terminate_backend(:pid, 5000)"), {"pid": pid})


def test_what_was_used_a_moment_ago_is_not_asked_about(asked: tuple[Engine, list[Any]]) -> None:
    engine, seen = asked
    for _ in range(5):
        with engine.connect() as connection:
            connection.scalar(text("select 1"))
    assert seen == []


def test_what_the_database_has_ended_is_not_handed_out(store: Store, asked: tuple[Engine, list[Any]]) -> None:
    engine, seen = asked
    end_all(store, engine)
    with engine.connect() as one, engine.connect() as other:
        assert one.scalar(text("select 1")) == other.scalar(text("select 1"))
    assert len(seen) == 1  # then all of the pool are made anew


def test_what_was_long_silent_is_asked_about(
    asked: tuple[Engine, list[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, seen = asked
    monkeypatch.setattr(pinging, "QUIET_S", -1.0)
    with engine.connect() as connection:
        assert connection.scalar(text("select 1")) == 1
    assert len(seen) == 1


def test_reads_apart_begin_no_transaction(store: Store) -> None:
    with store.look() as session:
        session.execute(text("select 1"))
        if store.is_postgres:
            assert session.scalar(text("select now() = statement_timestamp()"))
    with store.read() as session:
        assert session.scalar(text("select 1")) == 1


def options(store: Store, **query: str) -> dict[str, int]:
    """What the kernel knows of a connection over TCP."""
    local = make_url(store.engine.url)
    port = str(local.query["port"])
    url = local.set(host="127.0.0.1", port=int(port), query=query)
    engine = make_engine(url.render_as_string(hide_password=False))
    with engine.connect() as connection:
        driver: Any = connection.connection.dbapi_connection
        with socket.fromfd(driver.fileno(), socket.AF_INET, socket.SOCK_STREAM) as way:
            level = socket.IPPROTO_TCP
            found = {
                "alive": way.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE),
                "sent": way.getsockopt(level, socket.TCP_USER_TIMEOUT),
                "idle": way.getsockopt(level, socket.TCP_KEEPIDLE),
                "every": way.getsockopt(level, socket.TCP_KEEPINTVL),
                "times": way.getsockopt(level, socket.TCP_KEEPCNT),
            }
    engine.dispose()
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="these are Linux's names")
@pytest.mark.parametrize("engine_name", ["postgres"], indirect=True)
def test_who_is_silently_gone_is_given_up_in_seconds(store: Store) -> None:
    assert options(store) == {"alive": 1, "sent": 10_000, "idle": 5, "every": 5, "times": 2}
    assert options(store, tcp_user_timeout="60000", keepalives_idle="7") == {
        "alive": 1, "sent": 60_000, "idle": 7, "every": 5, "times": 2,
    }  # fmt: skip
