"""A channel without limits, all of whose due deliveries stand by themselves, is planned at a glance.

That is the usual case of a long queue, for which `plan` would look at every pair of rows.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, cast

from sqlalchemy import Table, bindparam, or_, select
from sqlalchemy.orm import Session

from notifier.candidates import QUIET_WHY
from notifier.model import Channel, Delivery
from notifier.plan import RELEASED
from notifier.settle import OPEN
from notifier.waiting import WAITS

MANY = 500  # open deliveries of a claim's channels: each channel is asked for by itself
AHEAD = 50  # rows that are looked at beyond those there is room for
OF_PLANNING = (WAITS, RELEASED, QUIET_WHY)  # they wait for a turn, or are told with others

_D = cast(Table, Delivery.__table__).c
_MINE = (OPEN, _D.shard == bindparam("shard"), _D.channel_id == bindparam("channel"))
_SENDING = select(_D.order_key, _D.next_attempt_at, _D.is_digest).where(*_MINE, _D.state == "sending")
_ORDER = (_D.is_digest.is_(False), _D.severity != "critical", _D.id)
_UNSENT = (
    select(_D.id, _D.order_key, _D.next_attempt_at, _D.expires_at, _D.is_digest, _D.why)
    .where(*_MINE, _D.state != "sending", _D.merged_into.is_(None))
    .order_by(*_ORDER)
    .limit(bindparam("most"))
)
_ALL = (
    select(
        *(_D.id, _D.channel_id, _D.state, _D.order_key),
        *(_D.next_attempt_at, _D.expires_at, _D.is_digest, _D.why),
    )
    .where(
        OPEN,
        _D.shard.in_(bindparam("shards", expanding=True)),
        _D.channel_id.in_(bindparam("channels", expanding=True)),
        or_(_D.state == "sending", _D.merged_into.is_(None)),
    )
    .order_by(*_ORDER)
    .limit(bindparam("most"))
)


def glance(session: Session, channels: Sequence[Channel]) -> Mapping[str, Sequence[Any]] | None:
    """The open deliveries of these channels, in order, by one question; None: they are too many."""
    which = {"shards": sorted({one.shard for one in channels}), "channels": [one.id for one in channels]}
    rows = session.execute(_ALL, {**which, "most": MANY}).all()
    if len(rows) == MANY:
        return None
    found: dict[str, list[Any]] = {one.id: [] for one in channels}
    for row in rows:
        found[row.channel_id].append(row)
    return found


def singles(
    session: Session, channel: Channel, room: int, now: datetime, known: Sequence[Any] | None = None
) -> Sequence[str] | None:
    """What is sent now, in order; None: it has to be planned in full. `known`: its open deliveries."""
    which, most = {"shard": channel.shard, "channel": channel.id}, room + AHEAD
    if known is None:
        sending = session.execute(_SENDING, which).all()
        rows = session.execute(_UNSENT, {**which, "most": most}).all()
    else:
        sending = [row for row in known if row.state == "sending"]
        rows = [row for row in known if row.state != "sending"]
        most = MANY
    if any(row.is_digest or row.next_attempt_at <= now for row in sending):
        return None
    chosen = chosen_of(rows, {row.order_key for row in sending}, now)
    if chosen is None or (len(rows) == most and len(chosen) < room):
        return None
    return chosen[:room]


def chosen_of(rows: Iterable[Any], busy: Collection[str], now: datetime) -> Sequence[str] | None:
    """Those that are due and whose key is not on its way; None where two belong together. Pure."""
    due: list[str] = []
    seen: set[str] = set()
    for row in rows:
        if row.is_digest or row.expires_at <= now or row.why.startswith(OF_PLANNING):
            return None
        if row.order_key in busy:
            continue
        if row.order_key in seen:
            return None
        seen.add(row.order_key)
        if (row.next_attempt_at or now) <= now:
            due.append(row.id)
    return due
