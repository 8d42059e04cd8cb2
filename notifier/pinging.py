"""Whether a connection of the pool is still good, mostly without asking the database.

SQLAlchemy's own `pool_pre_ping` asks each time. A server that ends a connection, by a restart or an
administrator's word, says so: there is something to read where nothing was asked. Who says nothing and is
gone (a firewall that forgets) does so after minutes of silence; then it is asked.
"""

import select
import time
from typing import Any

from sqlalchemy import Engine, event
from sqlalchemy.exc import InvalidatePoolError

QUIET_S = 10.0  # nobody forgets a connection so soon
_AT = "left_at"


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
