"""Who did not join, by PyTorch's flight recorder: it counts each group's collectives, rank by rank."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agent.wire import Kind
from master.casefile import Seen
from master.diagnosis.world import as_int


@dataclass(frozen=True)
class Place:
    """How far one rank is in one group."""

    enqueued: int
    completed: int
    call: tuple[str, str]

    @property
    def waits(self) -> bool:
        return self.enqueued > self.completed


@dataclass(frozen=True)
class Missing:
    """`ranks` have not called what the others wait for, or called something else (`mismatch`)."""

    ranks: tuple[int, ...]
    mismatch: bool
    text: str


def of_case(seen: Sequence[Seen]) -> Missing | None:
    """What the newest dump of each rank says together."""
    newest = {
        one.rank: one.data["flight"]
        for one in sorted(seen, key=lambda one: one.at)
        if one.kind == Kind.STACKS and one.rank is not None and one.data.get("flight")
    }
    return missing(newest)


def missing(by_rank: Mapping[int, Sequence[Mapping[str, Any]]]) -> Missing | None:
    """Who is missed in a group and waits in no other. (agent/flight.py: groups)

    One rank that lags in a group may do so because another one does not come to it in another group: then
    that one is missed. Numbers of ranks that nobody's dump tells are not guessed.
    """
    table: dict[str, dict[int, Place]] = {}
    members: dict[str, set[int]] = {}
    for rank, groups in by_rank.items():
        for group in groups:
            if (place := _place(group)) is not None:
                name = _name(group)
                table.setdefault(name, {})[rank] = place
                members.setdefault(name, set()).update(_members(group))
    missed = {
        name: found for name, places in table.items() if (found := _behind(name, places, members[name]))
    }
    if missed:
        waits = {rank for name, places in table.items() for rank, place in places.items()
                 if place.waits and rank not in missed.get(name, Missing((), False, "")).ranks}  # fmt: skip
        first = [one for one in missed.values() if not set(one.ranks) & waits]
        return first[0] if len({one.ranks for one in first}) == 1 else None
    other = [found for name, places in table.items() if (found := _mismatch(name, places))]
    return other[0] if len(other) == 1 else None


def _name(group: Mapping[str, Any]) -> str:
    """Groups of several sets of ranks may be called alike: `0` on each pipeline stage."""
    return f"{group.get('group')} {sorted(_members(group))}" if _members(group) else str(group.get("group"))


def _members(group: Mapping[str, Any]) -> set[int]:
    told = group.get("ranks")
    return (
        {rank for one in told if (rank := as_int(one)) is not None}
        if isinstance(told, (list, tuple))
        else set()
    )


def _place(group: Mapping[str, Any]) -> Place | None:
    enqueued, completed = as_int(group.get("enqueued")), as_int(group.get("completed")) or 0
    call = (str(group.get("op", "")), str(group.get("sizes", "")))
    return None if enqueued is None else Place(enqueued, completed, call)


def _behind(name: str, places: Mapping[int, Place], members: set[int]) -> Missing | None:
    """Ranks that have not called the first collective that nobody has completed.

    Hosts run ahead of their devices, each as far as it comes, so the last numbers may differ in health; but
    what one rank has completed all have called.
    """
    if len(places) < 2 or (members and not set(places) >= members):
        return None
    number = max(place.completed for place in places.values()) + 1
    behind = tuple(sorted(rank for rank, place in places.items() if place.enqueued < number))
    if not behind or 2 * len(behind) > len(places):
        return None
    last = max(places[rank].enqueued for rank in behind)
    called = next((place.call[0] for place in places.values() if place.enqueued == number), "")
    ranks = ", ".join(map(str, behind[:8]))
    group = name.partition(" ")[0]
    text = f"flight recorder: group {group}: rank {ranks} called {last} collectives, the others wait"
    return Missing(
        behind, False, f"{text} in number {number} ({called})" if called else f"{text} in number {number}"
    )


def _mismatch(name: str, places: Mapping[int, Place]) -> Missing | None:
    """All came to one number, with different calls."""
    if len(places) < 3 or len({place.enqueued for place in places.values()}) != 1:
        return None
    calls = Counter(place.call for place in places.values() if place.waits and place.call[0]).most_common()
    if len(calls) != 2 or calls[0][1] <= calls[1][1]:
        return None
    odd = tuple(sorted(rank for rank, place in places.items() if place.call == calls[1][0]))
    ranks = ", ".join(map(str, odd[:8]))
    usual, other = calls[0][0][0], calls[1][0][0]
    text = f"flight recorder: group {name.partition(' ')[0]}: rank {ranks} called {other}, the others {usual}"
    return Missing(odd, True, text)
