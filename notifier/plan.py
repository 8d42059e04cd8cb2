"""Of one channel's unsent deliveries: what is sent now, what is told together, what waits until when. Pure.

Order: per order key by id. A key with a delivery on its way waits for it; several unsent ones of a key are
told in one message. What would wait too long for a turn of its own is told with others in one digest.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from notifier.pace import Lane, Pace

RELEASED = "it waited for the channel to be mended"
EVERYTHING = (1_000_000,)  # the capacity of a message without a limit

# Whoever would wait longer for a turn of his own is told in a digest; what is critical is told soonest.
PATIENCE = {Lane.SINGLE: timedelta(seconds=30), Lane.CRITICAL: timedelta(seconds=5)}
# A digest waits so long for others after the first, and not every few of them get a digest.
COLLECT = {Lane.DIGEST: timedelta(seconds=5), Lane.CRITICAL_DIGEST: timedelta(seconds=2)}
APART, FURTHEST = timedelta(seconds=8), timedelta(seconds=30)
FEW = 5  # places
SOONER = timedelta(seconds=1)  # a turn that moves by less stays what it was
HOPELESS = timedelta(minutes=10)  # who can be told only later by name is told by the fallback


@dataclass(frozen=True)
class Candidate:
    """An open delivery, as far as planning goes.

    Attributes:
        keys: the order keys it tells of: its own, or those of all members of a digest.
        due_at: when it is tried next.
        size: how many alerts it tells.
        sends: how many messages it takes, as far as that is known, when it is told alone.
        calls: how many of them only call people; a digest has as many.
        is_waiting: it waits for a turn until then, and for nothing else.
        released: it was held back, and may be told by now; all such are told in one digest.
    """

    id: str
    keys: frozenset[str]
    severity: str
    due_at: datetime
    expires_at: datetime
    created_at: datetime
    size: int = 1
    sends: int = 1
    calls: int = 0
    is_digest: bool = False
    is_in_flight: bool = False
    is_tried: bool = False
    is_waiting: bool = False
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

    @property
    def size(self) -> int:
        return sum(row.size for row in self.rows)

    @property
    def calls(self) -> int:
        return max(row.calls for row in self.rows)

    @property
    def since(self) -> datetime:
        return min(row.created_at for row in self.rows)

    @property
    def may_join(self) -> bool:
        """Whether it may be told with others; what was tried is told again as it was."""
        return not self.head.is_digest and not self.head.is_tried

    @property
    def lane(self) -> Lane:
        if len({key for row in self.rows for key in row.keys}) > 1:
            return Lane.CRITICAL_DIGEST if self.is_critical else Lane.DIGEST
        return Lane.CRITICAL if self.is_critical else Lane.SINGLE

    def is_due(self, now: datetime) -> bool:
        """Whoever was tried is told again when his next try has come, and newcomers with him; only what is
        critical and new does not wait for that. Who waits for a turn is looked at every time."""
        if not self.head.is_tried:
            return any(row.due_at <= now or row.is_waiting for row in self.rows)
        fresh = (row for row in self.rows if row.severity == "critical" and not row.is_tried)
        return self.head.due_at <= now or any(row.due_at <= now for row in fresh)


def plan(
    candidates: Sequence[Candidate],
    pace: Pace,
    room: int,
    now: datetime,
    capacity: Sequence[int] = EVERYTHING,
) -> Plan:
    """`pace` is the channel's, and is written on; `room`: how many sends the caller can take on now;
    `capacity`: how many alerts a message of one part, of two… can name."""
    desk = _Desk(pace, room, now, capacity)
    alive = [row for row in candidates if row.is_in_flight or row.expires_at > now]
    ready: list[Group] = []
    for group in groups(alive):
        if group.is_due(now):
            ready += _pieces(group, capacity[-1])
        else:
            desk.wait(group, group.head.due_at)
    ready.sort(key=lambda group: group.head.id)
    desk.seat([group for group in ready if group.is_critical], Lane.CRITICAL, Lane.CRITICAL_DIGEST)
    desk.seat([group for group in ready if not group.is_critical], Lane.SINGLE, Lane.DIGEST)
    return Plan(
        sends=tuple(group.head.id for group in desk.chosen if len(group.rows) == 1),
        merges=tuple(_merge(group) for group in desk.chosen if len(group.rows) > 1),
        waits=desk.waits,
        expired=tuple(row.id for row in candidates if not row.is_in_flight and row.expires_at <= now),
    )


@dataclass
class _Desk:
    """Gives out the turns there are."""

    pace: Pace
    room: int
    now: datetime
    capacity: Sequence[int]
    chosen: list[Group] = field(default_factory=list)
    waits: dict[str, datetime] = field(default_factory=dict)

    def seat(self, ready: Sequence[Group], alone: Lane, together: Lane) -> None:
        late = [group for group in ready if not self._has_turn(group, alone)]
        if len(late) == 1:
            self._lonely(late[0], alone, together)
        else:
            self._together(late, together)

    def wait(self, group: Group, moment: datetime) -> None:
        for row in group.rows:
            until = min(moment, row.expires_at)
            if row.due_at <= self.now or (row.is_waiting and until < row.due_at - SOONER):
                self.waits[row.id] = until

    def _has_turn(self, group: Group, alone: Lane) -> bool:
        """Gives it a turn, now or soon; answers no where it has to be told with others."""
        turn = self._turn(group.lane, self._sends(group))
        # Who comes late for another reason takes a turn that is free.
        has_to_wait = turn > self.now or any(row.is_waiting for row in group.rows)
        is_late = has_to_wait and max(turn, self.now) > group.since + PATIENCE[alone]
        if is_late and self.pace.is_limited and group.may_join:
            return False
        self._give(group, turn, group.lane, self._sends(group))
        return True

    def _lonely(self, group: Group, alone: Lane, together: Lane) -> None:
        """There is nobody to be told with: it waits for company as long as it may."""
        sends = self._sends(group)
        soonest = max(group.since + PATIENCE[alone], self._turn(together, sends))
        self._give(group, min(self._turn(alone, sends), soonest), group.lane, sends)

    def _together(self, late: Sequence[Group], lane: Lane) -> None:
        while late:
            calls = max(group.calls for group in late)
            parts = self._parts(late, lane, calls)
            batch = _first(late, self.capacity[parts - 1])
            turn = max(late[0].since + COLLECT[lane], self._turn(lane, parts + calls))
            if len(batch) == len(late):
                turn = max(turn, self._spaced(lane, 1 + calls))
            if turn > self.now:
                for group in late:
                    self.wait(group, turn)
                return
            self._give(Group(tuple(row for group in batch for row in group.rows)), turn, lane, parts + calls)
            late = late[len(batch) :]

    def _spaced(self, lane: Lane, sends: int) -> datetime:
        """When the next digest that is not full may leave: few places are spread over the time until there
        are more, with a lean towards soon. It takes so many at least."""
        last = self.pace.last(lane)
        if last is None:
            return self.now
        free = next(n for n in range(FEW + 1) if n == FEW or self._turn(lane, (n + 1) * sends) > self.now)
        until_more = self._turn(lane, (free + 1) * sends) - last
        return last + (min(max(APART, until_more / (free + 2)), FURTHEST) if free < FEW else APART)

    def _parts(self, late: Sequence[Group], lane: Lane, calls: int) -> int:
        """How many parts the next digest gets: no more than it needs, and than it can have soon."""
        needed = self._needed(sum(group.size for group in late))
        soon = max(self.now, self._turn(lane, 1 + calls)) + COLLECT[lane]
        return next(n for n in range(needed, 0, -1) if n == 1 or self._turn(lane, n + calls) <= soon)

    def _needed(self, size: int) -> int:
        """How many parts a digest of so many alerts has."""
        return next((n for n, most in enumerate(self.capacity, 1) if most >= size), len(self.capacity))

    def _sends(self, group: Group) -> int:
        head = group.head
        if len(group.rows) == 1 and not head.is_digest:
            return head.sends
        return max(head.sends, self._needed(group.size) + group.calls)

    def _turn(self, lane: Lane, parts: int = 1) -> datetime:
        turn = self.pace.turn(lane, parts)
        is_hopeless = self.pace.is_by_name and turn > self.pace.start + HOPELESS
        return self.pace.start if is_hopeless else turn

    def _give(self, group: Group, turn: datetime, lane: Lane, parts: int = 1) -> None:
        if turn > self.now:
            self.wait(group, turn)
            self.pace.take(lane, turn, parts)
        elif len(self.chosen) < self.room:
            self.chosen.append(group)
            self.pace.take(lane, self.now, parts)
        else:  # it stays due
            self.waits.update(
                {row.id: self.now for row in group.rows if row.is_waiting and row.due_at > self.now}
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


def _pieces(group: Group, most: int) -> list[Group]:
    """What was released together, in as many digests as can name all of it."""
    if group.size <= most or not any(row.released for row in group.rows):
        return [group]
    apart = groups(replace(row, released=False) for row in group.rows)
    apart.sort(key=lambda one: one.head.id)
    found = []
    while apart:
        batch = _first(apart, most)
        rows = sorted((row for one in batch for row in one.rows), key=lambda row: (not row.is_digest, row.id))
        found.append(Group(tuple(rows)))
        apart = apart[len(batch) :]
    return found


def _first(late: Sequence[Group], most: int) -> Sequence[Group]:
    """As many as one digest can name, and one at least."""
    size = 0
    for n, group in enumerate(late):
        size += group.size
        if n and size > most:
            return late[:n]
    return late


def _merge(group: Group) -> Merge:
    into = group.head.id if group.head.is_digest else None
    return Merge(into, tuple(row.id for row in group.rows if row.id != into))
