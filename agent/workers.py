"""The pod's training processes: found, watched until they end, weighed for the heartbeat."""

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from agent import proc
from agent.clock import rfc3339, stamp, utcnow
from agent.exits import Exit, Watched
from agent.framing import RankMap
from agent.ranks import Member, PodShape, Worker, assign, is_python
from agent.redact import command_line
from agent.wire import FEW_CPU, Kind, Observation

_TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")
_YOUNG_S = 10.0  # a process may still replace its program (exec) and with it its environment
_STATES = {"I": "S", "P": "S", "W": "S", "x": "X"}  # t stays t: a debugger holds it, which is no fault
_LOG_GRACE_S = 0.05  # last words may still be on their way through a pipe
_MAX_KNOWN = 4096
_WORD_GRACE_S = 2.0  # for the supervisor or torchelastic to say how a process ended


@dataclass
class _Watch:
    """One worker under watch. `ended_at`: by the clock that only grows, once it is over; `missed`: it was
    over before we watched, so that we do not know when."""

    worker: Worker
    watched: Watched
    ended_at: float | None = None
    ended: str = ""
    missed: bool = False


@dataclass(frozen=True)
class _Told:
    """What does not change of a process, and when it was read."""

    comm: str
    member: Member

    @classmethod
    def read(cls, one: proc.Proc, age_s: float) -> "_Told":
        told = proc.environ(one.pid, ("RANK", "LOCAL_RANK"))
        rank, local = _rank(told, "RANK"), _rank(told, "LOCAL_RANK")
        return cls(one.comm, Member(one.pid, one.ppid, one.start, proc.argv(one.pid), rank, local, age_s))

    def holds(self, one: proc.Proc) -> bool:
        """Whether it need not be read again: it was grown up, and is the same program's child still."""
        member = self.member
        same = (self.comm, member.start, member.ppid) == (one.comm, one.start, one.ppid)
        return same and member.age_s > _YOUNG_S


@dataclass
class Workers:
    """Call `scan` now and then, `look` when a descriptor of `descriptors` is readable or time passes."""

    pod: PodShape
    ranks: RankMap
    known: dict[int, Worker] = field(default_factory=dict)  # pid → worker, of this and earlier lives
    changed_at: float = 0.0
    _table: proc.Table = field(default_factory=proc.Table)
    _watches: dict[int, _Watch] = field(default_factory=dict)
    _told: dict[int, _Told] = field(default_factory=dict)
    _members: Mapping[int, proc.Proc] = field(default_factory=dict)
    _python_seen: bool = False
    _below: dict[int, list[int]] = field(default_factory=dict)
    _stood: dict[int, tuple[object, float, int]] = field(default_factory=dict)  # marks, since when, ticks

    def resume(self, workers: list[Worker]) -> None:
        """Watch on what an earlier life of the agent watched; what has ended since is told."""
        self._python_seen = bool(self.known)
        for worker in workers:
            self._begin(worker)

    def scan(self, now: float) -> list[Observation]:
        """Look for training processes; tells of the new ones."""
        roots = {self.pod.supervisor, *self._watches}
        if self.pod.main_pid:
            roots.add(self.pod.main_pid)
        self._members = self._table.scan(frozenset(roots), os.getpid())
        self._below = {}
        for one in self._members.values():
            self._below.setdefault(one.ppid, []).append(one.pid)
        found = assign(self._described(), self.pod, python_only=self._python_seen)
        started = []
        for worker in found.values():
            if worker.pid in self._watches and self._watches[worker.pid].worker == worker:
                continue
            self._replace(worker)
            self.changed_at = now
            argv = self._told[worker.pid].member.argv
            self._python_seen = self._python_seen or is_python(argv)
            data = {"pid": worker.pid, "cmd": command_line(argv)}
            started.append(Observation(Kind.PROCESS_STARTED, stamp(), worker.rank, data))
        self._map_pids()
        return started

    def descriptors(self) -> dict[int, int]:
        """Descriptors that become readable when a worker ends, to its pid."""
        return {
            watch.watched.fd: pid
            for pid, watch in self._watches.items()
            if watch.watched.fd is not None and watch.ended_at is None
        }

    def look(self, now: float, readable: frozenset[int]) -> None:
        """Note which workers are over: those told by their descriptor, or without one by /proc."""
        for pid, watch in self._watches.items():
            if watch.ended_at is not None:
                continue
            if pid in readable or (watch.watched.fd is None and watch.watched.ended()):
                watch.ended_at, watch.ended = now, rfc3339(utcnow())
                self.changed_at = now

    def due(self, now: float) -> float | None:
        """When the next exit is ripe to be told; None when none waits."""
        times = [watch.ended_at for watch in self._watches.values() if watch.ended_at is not None]
        return max(now + _LOG_GRACE_S / 5, min(times) + _LOG_GRACE_S) if times else None

    def exits(
        self, now: float, told: Mapping[int, Exit], last_lines: Callable[[int], list[str]], *, all_read: bool
    ) -> list[Observation]:
        """Tell of workers that are over: at once where it is known how and the logs are read, else after a
        short wait."""
        found = []
        for pid, watch in list(self._watches.items()):
            if watch.ended_at is None or now - watch.ended_at < _LOG_GRACE_S:
                continue
            how = watch.watched.exit()
            how = how if how.known else told.get(pid, how)
            if not (how.known and all_read) and now - watch.ended_at < _WORD_GRACE_S:
                continue
            supervisors = told.get(pid, how).at if watch.missed else None
            found.append(exited(watch.worker, how, supervisors or watch.ended, last_lines(watch.worker.rank)))
            watch.watched.close()
            del self._watches[pid]
        return found

    def live(self) -> list[Worker]:
        return [watch.worker for watch in self._watches.values() if watch.ended_at is None]

    def waiting(self) -> list[Worker]:
        """All under watch: live, or over and not yet told of."""
        return [watch.worker for watch in self._watches.values()]

    def members(self) -> list[int]:
        """All processes of the pod at the last scan."""
        return list(self._members)

    def children(self, pid: int) -> list[int]:
        """All processes below one."""
        found: list[int] = []
        waiting = list(self._below.get(pid, ()))
        while waiting:
            child = waiting.pop()
            found.append(child)
            waiting += self._below.get(child, ())
        return found

    def weigh(self, worker: Worker) -> dict[str, Any] | None:
        """The rank's state and what it and all below it have used so far; None if it is gone."""
        own = proc.stat(worker.pid)
        if own is None or own.start != worker.start:
            return None
        below = self.children(worker.pid)
        switches = proc.voluntary_switches(worker.pid)
        family = [own, *(found for pid in below if (found := proc.stat(pid)))]
        return {
            "pid": worker.pid,
            "state": _STATES.get(own.state, own.state),
            "cpu_ticks": sum(one.ticks for one in family),
            "io_bytes": sum(proc.io_bytes(one.pid) for one in family),
            "voluntary_switches": switches,
            "still_s": self._still_s(own, switches),
            "children": len(family) - 1,
        }

    def _still_s(self, own: proc.Proc, switches: int) -> float:
        """For how long a process has been in one state, not woken and without CPU but for the odd tick of its
        helper threads."""
        now, marks = time.monotonic(), (own.start, own.state, switches)
        before, since, ticks = self._stood.get(own.pid, (None, now, own.ticks))
        if before != marks or own.ticks - ticks > FEW_CPU * _TICKS_A_SECOND * (now - since):
            since, ticks = now, own.ticks
        live = {worker.pid for worker in self.waiting()}
        kept = {pid: stood for pid, stood in self._stood.items() if pid in live}
        self._stood = kept | {own.pid: (marks, since, ticks)}
        return round(now - since, 1)

    def close(self) -> None:
        for watch in self._watches.values():
            watch.watched.close()

    def _described(self) -> list[Member]:
        """Members with what their environment and command line say; read again while they are young."""
        uptime = time.clock_gettime(time.CLOCK_BOOTTIME)
        fresh: dict[int, _Told] = {}
        for pid, one in self._members.items():
            if one.state in "ZX":
                continue
            old = self._told.get(pid)
            if old is None or not old.holds(one):
                old = _Told.read(one, uptime - one.start / _TICKS_A_SECOND)
            fresh[pid] = old
        self._told = fresh
        return [told.member for told in fresh.values()]

    def _replace(self, worker: Worker) -> None:
        """A rank has another process now. One that is dying is watched to its end, one that lives is not
        the rank any more."""
        for pid, watch in list(self._watches.items()):
            if watch.worker.rank == worker.rank and watch.ended_at is None and watch.watched.alive():
                watch.watched.close()
                del self._watches[pid]
        self._begin(worker)

    def _begin(self, worker: Worker) -> None:
        self._watches[worker.pid] = watch = _Watch(worker, Watched(worker.pid, worker.start))
        self.known[worker.pid] = worker
        while len(self.known) > _MAX_KNOWN:
            del self.known[next(iter(self.known))]
        self.ranks.workers[worker.rank] = worker
        if watch.watched.ended():
            watch.ended_at, watch.ended, watch.missed = time.monotonic(), stamp(), True

    def _map_pids(self) -> None:
        pids = {pid: worker.rank for pid, worker in self.known.items()}
        for worker in self.live():
            pids |= dict.fromkeys(self.children(worker.pid), worker.rank)
        self.ranks.pids = pids


def exited(worker: Worker, how: Exit, at: str, last_lines: list[str]) -> Observation:
    data = {"pid": worker.pid, "exit_code": how.code, "signal": how.signal, "last_lines": last_lines}
    return Observation(Kind.PROCESS_EXITED, at, worker.rank, data)


def _rank(told: Mapping[str, str], name: str) -> int | None:
    text = told.get(name, "")
    return int(text) if text.isdecimal() and len(text) <= 7 else None
