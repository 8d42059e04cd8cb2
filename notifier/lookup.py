"""The channels that names mean, read as plain rows: it is asked of every alert."""

from typing import NamedTuple

from sqlalchemy import bindparam, select
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
_NAMED = (
    select(*(_CHANNELS[field] for field in KnownChannel._fields))
    .where(
        _CHANNELS.pool == bindparam("pool"),
        _CHANNELS.queue.in_(bindparam("queues", expanding=True)),
        _CHANNELS.name.in_(bindparam("names", expanding=True)),
    )
    .order_by(_CHANNELS.queue)
)


def lookup(session: Session, pool: str, queue: str, names: set[str]) -> dict[str, KnownChannel]:
    """The channels that these names mean in that queue: the queue's own first, then the pool's."""
    session.flush()  # what this transaction has made of them counts
    rows = session.execute(_NAMED, {"pool": pool, "queues": {"", queue}, "names": names})
    return {row.name: KnownChannel._make(row) for row in rows}


def known(row: Channel) -> KnownChannel:
    return KnownChannel._make(getattr(row, field) for field in KnownChannel._fields)
