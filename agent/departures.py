"""Tells of training processes that have ended, from all who may know how."""

from pathlib import Path
from typing import Any

from agent.clock import stamp
from agent.core import Every
from agent.exits import Exit, supervised
from agent.follow import CHUNK, Follower
from agent.framing import RankMap
from agent.logprobe import LogProbe
from agent.ranks import Worker
from agent.wire import Observation
from agent.workers import Workers, exited

_REMEMBERED = 256


class Departures:
    """The supervisor's `exits.jsonl` and torchelastic's lines beside the kernel's word; each pid once."""

    def __init__(self, exits: Path, ranks: RankMap, logs: LogProbe) -> None:
        self._exits = Follower(exits)
        self._ranks = ranks
        self._logs = logs
        self._look = Every(1.0)
        self._told: dict[int, Exit] = {}
        self._reported: set[int] = set()

    def resume(self, workers: Workers, entries: list[dict[str, Any]]) -> None:
        """Go on where an earlier life of the agent stood."""
        known = [(worker, entry.get("told") is True) for entry in entries if (worker := _worker(entry))]
        self._reported |= {worker.pid for worker, told in known if told}
        workers.known |= {worker.pid: worker for worker, _ in known}
        workers.resume([worker for worker, told in known if not told])

    def remember(self, workers: Workers) -> list[dict[str, Any]]:
        known = list(workers.known.values())[-_REMEMBERED:]
        return [vars(one) | {"told": one.pid in self._reported} for one in known]

    def tick(self, workers: Workers, now: float, *, all_read: bool) -> list[Observation]:
        """Exits not yet told. `all_read`: the logs are read to their ends."""
        if workers.due(now) is not None or self._look.due(now):
            self._hear(now)
        found = workers.exits(now, self._told, self._logs.last_lines, all_read=all_read)
        for worker in self._unseen(workers) if all_read else ():
            workers.known[worker.pid] = worker
            how, last_lines = self._told[worker.pid], self._logs.last_lines(worker.rank)
            found.append(exited(worker, how, how.at or stamp(), last_lines))
        self._reported |= {int(one.data["pid"]) for one in found}
        return found

    def _hear(self, now: float) -> None:
        for line in self._exits.poll(CHUNK, now):
            if (entry := supervised(line.text)) is not None:
                self._told[entry[0]] = entry[1]

    def _unseen(self, workers: Workers) -> list[Worker]:
        """Workers that lived too short for us to find: torchelastic or the supervisor speaks of them."""
        unseen: list[Worker] = []
        for failure in self._logs.take_failures():
            self._told.setdefault(failure.pid, failure.exit)
            rank = self._ranks.of_local(failure.local_rank)
            if failure.pid not in workers.known and rank is not None:
                unseen.append(Worker(rank, failure.local_rank, failure.pid, 0))
        main = workers.pod.main_pid
        if main is not None and main in self._told and not workers.known and workers.pod.nproc == 1:
            unseen.append(Worker(workers.pod.rank, 0, main, 0))
        return [worker for worker in unseen if worker.pid not in self._reported]


def _worker(entry: dict[str, Any]) -> Worker | None:
    numbers = [entry.get(name) for name in ("rank", "local_rank", "pid", "start")]
    rank, local, pid, start = (one if isinstance(one, int) else -1 for one in numbers)
    return Worker(rank, local, pid, start) if min(rank, local, pid, start) >= 0 else None
