"""Whom a name means: a channel, or whoever has the turn of an on-call list; the queue's before the pool's."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from notifier.lookup import KnownChannel, lookup
from notifier.model import Oncall
from notifier.oncall import readable, turn
from notifier.storage import zone_of


@dataclass(frozen=True)
class Reach:
    """Whom a name reaches at a moment. `via`: how, in words; `missing`: channels that are not there."""

    channels: tuple[KnownChannel, ...]
    via: str = ""
    missing: tuple[str, ...] = ()


def reach(session: Session, scope: tuple[str, str], names: Iterable[str], now: datetime) -> dict[str, Reach]:
    """What these names mean in that pool and queue; one that means nothing is left out."""
    wanted = set(names)
    if not wanted:
        return {}
    channels = lookup(session, *scope, wanted)
    found = {name: Reach((row,)) for name, row in channels.items()}
    for row in _lists(session, scope, wanted, channels).values():
        found[row.name] = _on_duty(session, row, now)
    return found


def known(session: Session, scope: tuple[str, str], names: Iterable[str]) -> frozenset[str]:
    """Which of these names mean a channel or a list there."""
    wanted = set(names)
    channels = lookup(session, *scope, wanted) if wanted else {}
    return frozenset({*channels, *_lists(session, scope, wanted, channels)})


def noted(why: str, via: str) -> str:
    """Both; `why` stays in front, where it is read again (quiet hours, turns)."""
    return "; ".join(words for words in (why, via) if words)


def _lists(
    session: Session, scope: tuple[str, str], names: set[str], channels: Mapping[str, KnownChannel]
) -> dict[str, Oncall]:
    """Lists of these names that no channel stands before: within one scope a name is one or the other."""
    pool, queue = scope
    open_ = {name for name in names if name not in channels or channels[name].queue != queue}
    if not open_:
        return {}
    rows = select(Oncall).where(Oncall.pool == pool, Oncall.queue.in_({"", queue}), Oncall.name.in_(open_))
    found = {row.name: row for row in session.scalars(rows.order_by(Oncall.queue))}
    return {name: row for name, row in found.items() if name not in channels or row.queue}


def _on_duty(session: Session, row: Oncall, now: datetime) -> Reach:
    spec = readable(row.spec)
    if spec is None:
        return Reach((), f"the on-call list {row.name} cannot be read: save it anew")
    duty = turn(spec, now, zone_of(session))
    found = lookup(session, row.pool, row.queue, set(duty.channels))
    there = tuple(found[name] for name in dict.fromkeys(duty.channels) if name in found)
    missing = tuple(name for name in duty.channels if name not in found)
    return Reach(there, f"on call: {duty.person} (list {row.name})", missing)
