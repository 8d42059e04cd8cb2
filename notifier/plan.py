"""Of one channel's unsent deliveries: what is sent now, what is told together, what waits until when. Pure.

Order: per order key by id. A key with a delivery on its way waits for it; several unsent ones of a key are
told in one message.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

RELEASED = "it waited for the channel to be mended"


@dataclass(frozen=True)
class Candidate:
    """An open delivery, as far as planning goes.

    Attributes:
        keys: the order keys it tells of: its own, or those of all members of a digest.
        due_at: when it is tried next.
        released: it was held while the channel was broken; all such are told in one digest.
    """

    id: str
    keys: frozenset[str]
    severity: str
    due_at: datetime
    expires_at: datetime
    is_digest: bool = False
    is_in_flight: bool = False
    is_tried: bool = False
    released: bool = False


@dataclass(frozen=True)
class Merge:
    """Rows told in one message: by the digest `into`, or by a new one when that is None."""

    into: str | None
    members: tuple[str, ...]


@dataclass(frozen=True)
class Plan:
    """What is to be done; ids that appear nowhere stay as they are."""

    sends: tuple[str, ...] = ()
    merges: tuple[Merge, ...] = ()
    waits: Mapping[str, datetime] = field(default_factory=dict)
    expired: tuple[str, ...] = ()


@dataclass(frozen=True)
class Group:
    """What is told in one message, in order of id, a digest first."""

    rows: tuple[Candidate, ...]

    @property
    def head(self) -> Candidate:
        return self.rows[0]

    @property
    def is_critical(self) -> bool:
        return any(row.severity == "critical" for row in self.rows)

    def is_due(self, now: datetime) -> bool:
        """Whoever was tried is told again when his next try has come, and newcomers with him; only what is
        critical and new does not wait for that."""
        if not self.head.is_tried:
            return any(row.due_at <= now for row in self.rows)
        fresh = (row for row in self.rows if row.severity == "critical" and not row.is_tried)
        return self.head.due_at <= now or any(row.due_at <= now for row in fresh)


def plan(candidates: Sequence[Candidate], turns: Sequence[datetime], room: int, now: datetime) -> Plan:
    """`turns` are the moments at which the channel's next sends may leave (empty: at any time), at least
    one for each candidate; `room` is how many of them the caller can take on now."""
    alive = [row for row in candidates if row.is_in_flight or row.expires_at > now]
    ready, waits = [], {}
    for group in groups(alive):
        if group.is_due(now):
            ready.append(group)
        else:
            waits.update(_until(group.rows, group.head.due_at, now))
    ready.sort(key=lambda group: (not group.is_critical, group.head.id))
    chosen: list[Group] = []
    for n, group in enumerate(ready):
        if turns and turns[n] > now:
            waits.update(_until(group.rows, turns[n], now))
        elif len(chosen) < room:
            chosen.append(group)
    return Plan(
        sends=tuple(group.head.id for group in chosen if len(group.rows) == 1),
        merges=tuple(_merge(group) for group in chosen if len(group.rows) > 1),
        waits=waits,
        expired=tuple(row.id for row in candidates if not row.is_in_flight and row.expires_at <= now),
    )


def groups(candidates: Iterable[Candidate]) -> list[Group]:
    """Unsent rows by what has to be told together; without those that wait for one on its way."""
    rows = sorted(candidates, key=lambda row: (not row.is_digest, row.id))
    busy = {key for row in rows if row.is_in_flight for key in row.keys}
    found: dict[str, list[Candidate]] = {}
    for row in rows:
        if row.is_in_flight:
            continue
        names = {f"key:{key}" for key in row.keys} | ({"released"} if row.released else set())
        whole = [row]
        for group in {id(found[name]): found[name] for name in names if name in found}.values():
            whole = group + whole
        for member in whole:
            names |= {f"key:{key}" for key in member.keys}
        if any(member.released for member in whole):
            names.add("released")
        found.update(dict.fromkeys(names, whole))
    unique = {id(group): group for group in found.values()}.values()
    return [
        Group(tuple(sorted(group, key=lambda row: (not row.is_digest, row.id))))
        for group in unique
        if not any(key in busy for row in group for key in row.keys)
    ]


def _merge(group: Group) -> Merge:
    into = group.head.id if group.head.is_digest else None
    return Merge(into, tuple(row.id for row in group.rows if row.id != into))


def _until(rows: Iterable[Candidate], moment: datetime, now: datetime) -> dict[str, datetime]:
    return {row.id: min(moment, row.expires_at) for row in rows if row.due_at <= now}
