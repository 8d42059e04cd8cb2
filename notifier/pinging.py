"""Whether a connection of the pool is still good, mostly without asking the database.

SQLAlchemy's own `pool_pre_ping` asks each time. A server that ends a connection, by a restart or an
administrator's word, says so: there is something to read where nothing was asked. Who says nothing and is
gone (a firewall that forgets) does so after minutes of silence; then it is asked. Who says nothing at all (a
machine or a way to it that is no more) is given up by the kernel in seconds: by itself it would wait for a
quarter of an hour, and for an answer to what has arrived two hours.
"""

import select
import time
from collections.abc import Collection
from typing import Any

from sqlalchemy import Engine, event
from sqlalchemy.exc import InvalidatePoolError

QUIET_S = 10.0  # nobody forgets a connection so soon
_AT = "left_at"
_PATIENCE = {  # libpq's words, https://www.postgresql.org/docs/current/libpq-connect.html
    "connect_timeout": 10,  # seconds
    "tcp_user_timeout": 10_000,  # milliseconds for what was sent to arrive
    "keepalives_idle": 5,  # seconds of silence after which the other side is asked whether it is there
    "keepalives_interval": 5,
    "keepalives_count": 2,
}


def patience(given: Collection[str]) -> dict[str, int]:
    """How long a connection waits for who does not answer, but what the URL's own query says of it."""
    return {name: value for name, value in _PATIENCE.items() if name not in given}


def look_after(engine: Engine) -> None:
    """Of this engine's pool, each connection that is handed out."""

    def leave(_connection: Any, record: Any) -> None:
        record.info[_AT] = time.monotonic()

    def look(connection: Any, record: Any, _proxy: Any) -> None:
        if time.monotonic() - record.info[_AT] > QUIET_S or _has_news(connection.fileno()):
            _ask(engine, connection)

    event.listen(engine, "connect", leave)
    event.listen(engine, "checkin", leave)
    event.listen(engine, "checkout", look)


def _has_news(descriptor: int) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(0))


def _ask(engine: Engine, connection: Any) -> None:
    dialect: Any = engine.dialect
    try:
        dialect.do_ping(connection)
    except dialect.loaded_dbapi.Error as error:
        if dialect.is_disconnect(error, connection, None):
            raise InvalidatePoolError from error  # the pool makes new ones
        raise
