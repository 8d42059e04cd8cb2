"""The sidecar of one pod: watches its training processes and logs, and tells the master what it sees.

It only ever reads: no signal, no ptrace stop, no file of training's is written.
"""

import time
from typing import Any

from agent import proc
from agent.clock import stamp
from agent.core import Core, Every, Heartbeat
from agent.departures import Departures
from agent.follow import Position
from agent.framing import RankMap
from agent.journal import note
from agent.logprobe import LogProbe
from agent.podfile import PodFile, PodFileError, parse
from agent.podoom import PodMemory
from agent.progress import Progress
from agent.ranks import Worker
from agent.settings import Settings
from agent.signatures import Scanner, Sieve
from agent.state import dicts
from agent.wants import Wants
from agent.wire import Kind, Observation
from agent.workers import Workers

_TICK_S, _QUIET_TICK_S = 0.1, 0.25  # between looks at the logs: while they grow, else
_QUIET_AFTER_S = 3.0
_SAVE_S = 5.0  # what matters is saved when it happens; this only spares the next life some reading
_LOG_BUDGET_S = 0.02  # of each tick: a flood takes at most a fifth of one core
_LAST_BUDGET_S = 0.2  # when a process has ended, its last words are among what is not yet read
_EAGER_S, _CALM_S = 0.2, 1.0  # between looks for processes: while some are missing or just ended, else
_EAGER_FOR_S = 60.0
_BEAT_S, _HEAVY_BEAT_S, _AWAY_BEAT_S = 1.0, 2.0, 10.0
_HEAVY_S = 0.01  # a heartbeat that takes so long to weigh is made half as often
_OVER_AFTER_S = 0.5


class PodAgent:
    """One life of the sidecar."""

    def __init__(self, settings: Settings) -> None:
        self._directory = settings.directory
        self._podfile = settings.directory / "pod.json"
        self._core = Core(settings)
        self._memory = self._core.memory.load()
        self._ranks = RankMap()
        self._progress = Progress()
        self._logs = LogProbe(Scanner(()), self._ranks, self._progress, Sieve())
        self._departures = Departures(self._directory / "exits.jsonl", self._ranks, self._logs)
        saved = tuple(str(one) for one in self._memory.get("patterns") or ())
        self._wants = Wants(self._core, self._logs, saved, time.monotonic())
        self._workers: Workers | None = None
        self._pod: PodFile | None = None
        self._podfile_marks: tuple[int, int] | None = None
        self._gone_at: float | None = None
        self._oom = PodMemory()
        self._beat, self._scan = Heartbeat(_BEAT_S, _AWAY_BEAT_S), Every(_EAGER_S)
        self._slow = Every(1.0)
        self._over = False
        self._memory_due = Every(1.0)
        self._file, self._save = Every(0.2), Every(_SAVE_S)

    def run(self) -> int:
        """Watch until the pod is over or we are told to end."""
        self._core.start()
        while not self._core.stopping and not self._over:
            self._tick(*self._wait())
        self._last_words()
        self._core.finish(linger=self._over)
        note("agent_ended", why="the pod is over" if self._over else "told to end")
        return 0

    def _wait(self) -> tuple[float, frozenset[int]]:
        """Until something is due or a worker ends; the time then, and who ended."""
        now = time.monotonic()
        if self._workers is None:
            self._core.wait(_TICK_S)
            return time.monotonic(), frozenset()
        fds, due = self._workers.descriptors(), self._workers.due(now)
        tick = _QUIET_TICK_S if now - self._logs.grew_at > _QUIET_AFTER_S else _TICK_S
        readable = self._core.wait(min(tick, self._scan.left(now), tick if due is None else due - now), fds)
        return time.monotonic(), frozenset(fds[fd] for fd in readable)

    def _tick(self, now: float, ended: frozenset[int]) -> None:
        if self._workers is None or self._slow.due(now):
            self._read_podfile()
            self._over = self._is_over(now)
        for heard in self._core.heard():
            self._wants.obey(heard, self._workers)
        self._wants.answer()
        if self._workers is not None:
            self._workers.look(now, ended)
            if self._scan.due(now):
                self._look_for_processes(self._workers, now)
        if self._wants.may_read(now):
            self._tell_lines(now)
        if self._workers is not None:
            self._tell_exits(self._workers, now)
        self._tell_progress(now)
        if self._beat.beats(now, away=self._core.sender.away):
            self._heartbeat()
        if self._save.due(now):
            self._remember()

    def _read_podfile(self) -> None:
        """Learn of the pod once the runtime has described it, and of what changes."""
        try:
            facts = self._podfile.stat()
            marks = (facts.st_ino, facts.st_mtime_ns)
            if marks == self._podfile_marks:
                return
            self._podfile_marks = marks
            pod = parse(self._podfile.read_text(encoding="utf-8", errors="replace"), self._directory)
            self._adopt(pod, since=facts.st_mtime)
        except PodFileError as error:
            note("pod_description_refused", why=str(error))
        except OSError:
            return  # not there yet

    def _adopt(self, pod: PodFile, since: float) -> None:
        self._pod = pod
        self._ranks.pod_rank, self._ranks.nproc = pod.shape.rank, pod.shape.nproc
        self._progress.path = pod.progress
        if pod.patterns and not self._wants.patterns:
            self._wants.use(pod.patterns)
        saved = self._memory.get("logs")
        for path in pod.logs:
            entries = dicts(saved.get(str(path))) if isinstance(saved, dict) else []
            places = [place for entry in entries if (place := Position.parse(entry))]
            self._logs.follow(path, self._ranks.of_path(str(path)), places, since=since)
        known = (
            self._departures.remember(self._workers) if self._workers else dicts(self._memory.get("workers"))
        )
        if self._workers is not None:
            self._workers.close()
        self._workers = Workers(pod.shape, self._ranks, changed_at=time.monotonic())
        self._departures.resume(self._workers, known)
        self._scan.soon()

    def _look_for_processes(self, workers: Workers, now: float) -> None:
        had = set(workers.known.values())
        self._core.put(workers.scan(now))
        self._oom.watch([workers.pod.supervisor, *(worker.pid for worker in workers.live())])
        for worker in set(workers.live()) - had:
            self._progress.restart(worker.rank)
            self._follow_output(worker)
        if had != set(workers.known.values()):
            self._remember()
        missing = len(workers.live()) < workers.pod.nproc
        self._scan.interval_s = _EAGER_S if missing and now - workers.changed_at < _EAGER_FOR_S else _CALM_S

    def _follow_output(self, worker: Worker) -> None:
        """A rank's output may go to a file of its own: torchelastic's redirects, `> train.log`."""
        for fd in (1, 2):
            path = proc.open_file(worker.pid, fd)
            if path is not None and not self._logs.follows(path):
                rank = self._ranks.of_path(str(path))
                # a file that is not made anew for this run may still hold the faults of an earlier one
                self._logs.follow(path, worker.rank if rank is None else rank, at_end=rank is None)

    def _tell_lines(self, now: float) -> None:
        a_worker_ended = self._workers is not None and self._workers.due(now) is not None
        found = self._logs.tick(_LAST_BUDGET_S if a_worker_ended else _LOG_BUDGET_S, now)
        if found:
            self._core.put(found)
            self._remember()  # after the report is on disk: a new life then neither misses nor repeats it

    def _tell_exits(self, workers: Workers, now: float) -> None:
        all_read = self._wants.may_read(now) and not self._logs.behind
        found = self._departures.tick(workers, now, all_read=all_read)
        if found or self._memory_due.due(now):
            self._core.put([*self._oom.look(found, workers.members()), *found])
        if found:
            self._scan.soon()
            self._remember()

    def _tell_progress(self, now: float) -> None:
        if self._file.due(now):
            self._progress.poll_file(self._ranks.only(), now)
        if self._progress.first:
            self._core.put(self._progress.take(), at_once=True)

    def _heartbeat(self) -> None:
        began = time.perf_counter()
        data = {"ranks": self._weigh(), "log_at": self._logs.log_at()}
        told = [*self._progress.take(), Observation(Kind.HEARTBEAT, stamp(), None, data)]
        self._core.put([*told, *self._core.dropped(self._logs.take_dropped())], at_once=True)
        self._beat.interval_s = _HEAVY_BEAT_S if time.perf_counter() - began > _HEAVY_S else _BEAT_S

    def _weigh(self) -> dict[str, dict[str, Any]]:
        ranks: dict[str, dict[str, Any]] = {}
        if self._workers is not None:
            for worker in self._workers.waiting():
                if (weighed := self._workers.weigh(worker)) is not None:
                    step, step_at = self._progress.of(worker.rank)
                    ranks[str(worker.rank)] = weighed | {"step": step, "step_at": step_at}
        return ranks

    def _is_over(self, now: float) -> bool:
        """The supervisor is gone, every exit is told and every line read."""
        if self._pod is None or self._workers is None:
            return not self._directory.is_dir()
        found = proc.stat(self._pod.shape.supervisor)
        gone = found is None or found.state in "ZX" or (self._pod.start or found.start) != found.start
        if not gone or self._workers.waiting() or self._logs.behind:
            self._gone_at = None
            return False
        self._gone_at = self._gone_at or now
        return now - self._gone_at > _OVER_AFTER_S

    def _last_words(self) -> None:
        """Read and tell what there is, and note how far we came."""
        now = time.monotonic()
        self._tell_lines(now)
        if self._workers is not None:
            self._workers.look(now, frozenset())
            found = self._departures.tick(self._workers, now, all_read=True)
            self._core.put([*self._oom.look(found, self._workers.members()), *found])
        self._core.put(self._progress.take())
        self._remember()

    def _remember(self) -> None:
        if self._workers is not None:
            self._core.memory.save(
                {
                    "workers": self._departures.remember(self._workers),
                    "logs": self._logs.positions(),
                    "patterns": list(self._wants.patterns),
                }
            )
