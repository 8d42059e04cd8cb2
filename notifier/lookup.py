"""The channels that names mean, read as plain rows: it is asked of every alert."""

from functools import lru_cache
from typing import Any, NamedTuple

from sqlalchemy import Select, bindparam, select
from sqlalchemy.orm import Session

from notifier.model import Channel


class KnownChannel(NamedTuple):
    """A channel as far as telling it of something needs it."""

    id: str
    queue: str
    name: str
    kind: str
    enabled: bool
    health: str
    language: str | None
    timezone: str | None
    shard: int


_CHANNELS = Channel.__table__.c
_FIELDS = [_CHANNELS[field] for field in KnownChannel._fields]


def lookup(session: Session, pool: str, queue: str, names: set[str]) -> dict[str, KnownChannel]:
    """The channels that these names mean in that queue: the queue's own first, then the pool's."""
    session.flush()  # what this transaction has made of them counts
    given = {str(n): name for n, name in enumerate(names)}
    rows = session.execute(_named(len(names)), {"pool": pool, "queue": queue, **given})
    return {row.name: KnownChannel._make(row) for row in rows}


@lru_cache(maxsize=64)
def _named(count: int) -> Select[*tuple[Any, ...]]:
    """Kept whole for each number of names: to fill a list in costs as much as to ask."""
    where = (
        _CHANNELS.pool == bindparam("pool"),
        _CHANNELS.queue.in_(("", bindparam("queue"))),
        _CHANNELS.name.in_([bindparam(str(n)) for n in range(count)]),
    )
    return select(*_FIELDS).where(*where).order_by(_CHANNELS.queue)


def known(row: Channel) -> KnownChannel:
    return KnownChannel._make(getattr(row, field) for field in KnownChannel._fields)
