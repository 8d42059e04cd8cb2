"""Who did not join, by PyTorch's flight recorder: it counts each group's collectives, rank by rank."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from agent.wire import Kind
from master.casefile import CaseFile, Seen
from master.diagnosis.progress import handled
from master.diagnosis.world import as_int

# Lengths that may differ from rank to rank in health.
_UNEVEN = ("all_to_all", "alltoall", "scatter", "gather", "all_gather", "allgather")

_STILL_S = 30.0


@dataclass(frozen=True)
class Place:
    """How far one rank is in one group. `calls`: operation and sizes of the first ones that it waits for."""

    enqueued: int
    completed: int
    calls: Mapping[int, tuple[str, str]]

    @property
    def waits(self) -> bool:
        return self.enqueued > self.completed


@dataclass(frozen=True)
class Missing:
    """`ranks` have not called what the others wait for, or called something else (`mismatch`; nobody is named
    where no call is most ranks'). `told`: the dumps of those ranks, or of all."""

    ranks: tuple[int, ...]
    mismatch: bool
    text: str
    told: tuple[Seen, ...] = ()


def of_case(seen: Sequence[Seen]) -> Missing | None:
    """What the newest dump of each rank says together."""
    newest = {
        one.rank: one
        for one in sorted(seen, key=lambda one: one.at)
        if one.kind == Kind.STACKS and one.rank is not None and one.data.get("flight")
    }
    found = missing({rank: one.data["flight"] for rank, one in newest.items()})
    if found is None:
        return None
    told = tuple(newest[rank] for rank in found.ranks or sorted(newest) if rank in newest)
    return replace(found, told=told)


def standing(case: CaseFile) -> Missing | None:
    """The same, unless training went on after the dumps."""
    found = of_case(case.seen)
    if found is None or handled(case, max(one.at for one in found.told)):
        return None
    return found


def alone(case: CaseFile) -> Missing | None:
    """The same where nothing else tells of a standstill: dumps of a job that runs differ by the moments at
    which they were written, soon after the last call."""
    found = standing(case)
    lengths = [one.data["still_s"] for one in case.seen if isinstance(one.data.get("still_s"), float)]
    return found if found is not None and min(lengths, default=_STILL_S) >= _STILL_S else None


def missing(by_rank: Mapping[int, Sequence[Mapping[str, Any]]]) -> Missing | None:
    """Who is missed in a group and waits in no other. (agent/flight.py: groups)

    One rank that lags in a group may do so because another one does not come to it in another group: then
    that one is missed. Numbers of ranks that nobody's dump tells are not guessed.
    """
    table: dict[str, dict[int, Place]] = {}
    members: dict[str, set[int]] = {}
    sets = _sets(by_rank)
    for rank, groups in by_rank.items():
        for group in groups:
            if (place := _place(group)) is not None:
                among = _among(rank, group, sets)
                name = f"{group.get('group')} {sorted(among)}"
                table.setdefault(name, {})[rank] = place
                members.setdefault(name, set()).update(among)
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


def _sets(by_rank: Mapping[int, Sequence[Mapping[str, Any]]]) -> dict[str, set[frozenset[int]]]:
    """By their names the sets of ranks that groups have: each pipeline stage may have a group `0`."""
    sets: dict[str, set[frozenset[int]]] = {}
    for groups in by_rank.values():
        for group in groups:
            if told := _members(group):
                sets.setdefault(str(group.get("group")), set()).add(told)
    return sets


def _among(rank: int, group: Mapping[str, Any], sets: Mapping[str, set[frozenset[int]]]) -> frozenset[int]:
    """A group's ranks, by others' word where its own dump does not tell them: torch forgets those of the
    first group when it makes another one."""
    if told := _members(group):
        return told
    possible = [ranks for ranks in sets.get(str(group.get("group")), ()) if rank in ranks]
    return possible[0] if len(possible) == 1 else frozenset()


def _members(group: Mapping[str, Any]) -> frozenset[int]:
    told = group.get("ranks")
    if not isinstance(told, (list, tuple)):
        return frozenset()
    return frozenset(rank for one in told if (rank := as_int(one)) is not None)


def _place(group: Mapping[str, Any]) -> Place | None:
    enqueued, completed = as_int(group.get("enqueued")), as_int(group.get("completed")) or 0
    told = group.get("calls")
    calls = {
        number: _call(one)
        for one in (told if isinstance(told, (list, tuple)) else ())
        if isinstance(one, Mapping) and (number := as_int(one.get("number"))) is not None
    }
    return None if enqueued is None else Place(enqueued, completed, calls)


def _call(told: Mapping[str, Any]) -> tuple[str, str]:
    op = str(told.get("op", ""))
    is_uneven = op.rpartition(":")[2].removeprefix("_").startswith(_UNEVEN)
    return op, "" if is_uneven else str(told.get("sizes", ""))


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
    called = next((place.calls[number][0] for place in places.values() if number in place.calls), "")
    ranks = ", ".join(map(str, behind[:8]))
    group = name.partition(" ")[0]
    text = f"flight recorder: group {group}: rank {ranks} called {last} collectives, the others wait"
    return Missing(
        behind, False, f"{text} in number {number} ({called})" if called else f"{text} in number {number}"
    )


def _mismatch(name: str, places: Mapping[int, Place]) -> Missing | None:
    """All came to the first collective that nobody has completed, with different calls."""
    number = max(place.completed for place in places.values()) + 1
    told = {rank: place.calls[number] for rank, place in places.items() if number in place.calls}
    calls = Counter(call for call in told.values() if call[0]).most_common()
    if len(told) < max(2, len(places)) or len(calls) != 2:
        return None
    (usual, many), (other, few) = calls
    odd = tuple(sorted(rank for rank, call in told.items() if call == other)) if many > few else ()
    who = f"rank {', '.join(map(str, odd[:8]))}" if odd else "some ranks"
    text = f"flight recorder: group {name.partition(' ')[0]}: {who} called {_words(other, usual)}"
    return Missing(odd, True, f"{text}, the others {_words(usual, other)}")


def _words(call: tuple[str, str], beside: tuple[str, str]) -> str:
    """A call, with its sizes where only these differ."""
    return call[0] if call[0] != beside[0] else f"{call[0]} of {call[1]}"
