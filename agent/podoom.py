"""The sidecar's word on its pod's memory: a kill that the kernel counted, beside a rank that was killed."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from agent.clock import stamp, utcnow
from agent.oom import Groups, Growth, folder_of, holds_only
from agent.wire import Kind, Observation

_SIGKILL = 9
_BEFORE = timedelta(seconds=0.5)  # between two clocks' readings of one moment
_DIES_WITHIN = timedelta(seconds=5)  # a process gives back what it holds before it is over
_SHARED_WITHIN = timedelta(seconds=2)  # the same where others share the group: sooner it is one's own


@dataclass(frozen=True)
class _Grown:
    """A count that grew after `since` and was read at `at`."""

    since: datetime
    at: datetime
    growth: Growth

    def explains(self, end: datetime, within: timedelta) -> bool:
        return self.since - _BEFORE <= end <= self.at + within


@dataclass
class PodMemory:
    """Call `watch` now and then with the pod's processes, `look` each second and when an exit is told.

    A pod in a control group of its own is told of at once. Where others share the group (the local runtime),
    a count alone may be theirs: it is told only beside a rank of this pod that ended by SIGKILL then.
    """

    _groups: Groups = field(default_factory=Groups)
    _pids: dict[int, str] = field(default_factory=dict)
    _grown: list[_Grown] = field(default_factory=list)
    _killed: list[tuple[datetime, int]] = field(default_factory=list)
    _looked: datetime = field(default_factory=utcnow)

    def watch(self, pids: Iterable[int]) -> None:
        """Find the control groups of these processes (the supervisor's, the ranks')."""
        wanted = list(pids)
        for pid in wanted:
            if pid not in self._pids and (found := folder_of(pid)) is not None:
                self._pids[pid] = found[0]
                self._groups.watch(*found)
        self._pids = {pid: path for pid, path in self._pids.items() if pid in wanted}

    def look(self, exits: Iterable[Observation], members: Iterable[int]) -> list[Observation]:
        """What is to be told before `exits`. `members`: all processes of the pod."""
        now, since = utcnow(), self._looked
        self._looked = now
        self._killed += [
            (datetime.fromisoformat(one.at), one.rank)
            for one in exits
            if one.rank is not None and _killed(one)
        ]
        self._killed = [one for one in self._killed if now - one[0] <= 2 * _DIES_WITHIN]
        self._grown += [_Grown(since, now, growth) for growth in self._groups.look()]
        told: list[Observation] = []
        waiting: list[_Grown] = []
        for one in self._grown:
            own = holds_only(one.growth.memory.folder, members)
            ranks = self._ranks(one, _DIES_WITHIN if own else _SHARED_WITHIN)
            if own or ranks:
                told.append(_observed(one.growth, ranks.pop() if len(ranks) == 1 else None))
            elif now - one.at <= _DIES_WITHIN:
                waiting.append(one)
        self._grown = waiting
        return told

    def _ranks(self, grown: _Grown, within: timedelta) -> set[int]:
        return {rank for end, rank in self._killed if grown.explains(end, within)}


def _killed(one: Observation) -> bool:
    return one.kind is Kind.PROCESS_EXITED and one.data.get("signal") == _SIGKILL


def _observed(growth: Growth, rank: int | None) -> Observation:
    finding = growth.finding()
    data: dict[str, Any] = {
        "signature": finding.signature,
        "captured": dict(finding.captured),
        "line": finding.line,
        "file": "memory.events",
        "line_no": None,
        "context": [],
    }
    return Observation(Kind.LOG_MATCH, stamp(), rank, data)
