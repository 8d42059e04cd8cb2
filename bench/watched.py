"""A simulated job under the real rules: what its sidecar would tell of it, second by second."""

import random
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from agent.wire import Kind
from bench.bumpy import Act, Job, Phase
from master import steps
from master.casefile import CaseFile, Diagnosis, PodView, RankView, Seen, Source, Want
from master.cases import TICKS_A_SECOND, bytes_moved, cpu_used
from master.diagnosis import diagnose
from master.evidence import HEARTBEAT_WINDOW, STACKS_KEPT
from master.faultargs import FaultTolerance
from master.model import Run

START = datetime(2026, 11, 29, 3, 0, tzinfo=UTC)
SETTINGS = FaultTolerance(enabled=True, enable_hang_detection=True, adaptive_hang_detection=True).hang
CALM_S = 3.0  # no rule speaks of a job that made news so lately
ASK_AGAIN_S = 2.0  # as master/judgement.py does


@dataclass
class Called:
    """What was said of a job, when, and in which phase."""

    found: Diagnosis
    at: float
    phase: str


@dataclass
class Watched:
    """A job and what is known of it; `now` in seconds after its start."""

    job: Job
    now: float = 0.0
    run: Run = field(default_factory=lambda: Run(rhythm=[], started_at=START))
    stacks: dict[int, list[Seen]] = field(default_factory=dict)
    last_log: float | None = None
    step: int = 0
    step_due: float | None = None
    asked: float = -60.0
    arriving: float | None = None
    looked: int = 0
    look_due: float = 0.0
    suspected_s: int = 0
    left: frozenset[int] = frozenset()
    lines: list[Seen] = field(default_factory=list)
    doing: dict[int, tuple[Act, float, float]] = field(default_factory=dict)  # since when, bytes moved before

    def at(self, seconds: float) -> datetime:
        return START + timedelta(seconds=seconds)

    def pod(self, rank: int) -> str:
        return f"pod-{rank // self.job.per_pod}"

    def node(self, rank: int) -> str:
        return f"node-{rank // self.job.per_pod}"

    def live(self, phase: Phase, until: float) -> Called | None:
        """Live through a phase; what was called in it, if anything was."""
        self._turn_to(phase.acts)
        if phase.name == "train":
            self.step_due = self.now + self._next(phase)
        while self.now < until:
            self.now += 1.0
            self._tell(phase)
            if self.now >= self.look_due and (found := self._look(phase.acts)) is not None:
                return Called(found, self.now, phase.name)
        return None

    def _next(self, phase: Phase) -> float:
        rng = self.job.rng
        slow = rng.uniform(3, 10) if rng.random() < 0.002 else 1.0
        return self.job.step * rng.lognormvariate(0, self.job.spread) * slow * phase.pace

    def _tell(self, phase: Phase) -> None:
        """The steps and lines of the last second, as the next heartbeat tells them."""
        if phase.name == "train":
            told: float | None = None
            while self.step_due is not None and self.step_due <= self.now:
                together = max(1, int(0.5 / self.job.step))  # quick steps are drawn some at once
                if (self.step + together) // self.job.every > self.step // self.job.every:
                    told, told_step = self.step_due, self.step + together
                self.step += together
                self.step_due += self._next(phase) * together
            if told is not None and self.job.told_by in ("log", "file"):
                steps.fold(self.run, told_step, self.at(told))
            if told is not None and self.job.told_by in ("log", "lines"):
                self.last_log = told
        every = min((act.logs_every for act in phase.acts if act.logs_every), default=None)
        if every and self.now % every < 1 and self.job.told_by != "nothing":
            self.last_log = self.now

    def _turn_to(self, acts: tuple[Act, ...]) -> None:
        for rank, act in enumerate(acts):
            if self.doing.get(rank, (None,))[0] is not act:
                self.doing[rank] = (act, self.now, self._bytes(rank, act))

    def _bytes(self, rank: int, act: Act) -> int:
        before, since, moved = self.doing.get(rank, (act, self.now, 0))
        return int(moved + before.io / 3 * (self.now - since))

    def _look(self, acts: tuple[Act, ...]) -> Diagnosis | None:
        if self.run.last_step_at is not None and self.now - self._news() < CALM_S:
            return None
        if self.arriving is not None and self.now >= self.arriving:
            self._collect(acts)
        quiet = self.now - (self._news() if self.run.last_step_at else 0.0)
        self.look_due = self.now + min(12.0, 1.0 + quiet // 30)  # the master looks each second: for speed
        verdict = diagnose(self._case(acts), self.at(self.now))
        if isinstance(verdict, Diagnosis):
            return verdict
        if isinstance(verdict, Want):
            self.suspected_s += 1
            if self.arriving is None and self.now - self.asked >= ASK_AGAIN_S:
                self.asked, self.arriving = self.now, self.now + self.job.rng.choice((1, 1, 2))
        return None

    def _news(self) -> float:
        assert self.run.last_step_at is not None
        return (self.run.last_step_at - START).total_seconds()

    def _collect(self, acts: tuple[Act, ...]) -> None:
        self.arriving, self.looked = None, self.looked + 1
        # ranks go in step: mostly all are seen at the same part of it
        chance = random.Random(self.job.rng.random())  # noqa: S311
        alike = chance.getstate()
        for rank, act in enumerate(acts):
            if rank in self.left:
                continue
            if self.job.rng.random() < 0.7:
                chance.setstate(alike)
            data: dict[str, object] = {
                "pid": 100 + rank,
                "frames": list(act.stack(chance)),
                "error": None,
                "gil": act.gil,
                "io_bytes": self._bytes(rank, act),
                "state": act.state,
                "switches": int(self.now) if act.wakes else 0,
            }
            if not self.job.readable:
                data |= {"frames": [], "error": "permission denied"}
            one = Seen(
                self.at(self.now), Kind.STACKS, Source.AGENT, self.node(rank), self.pod(rank), rank, data
            )
            self.stacks[rank] = [*self.stacks.get(rank, []), one][-STACKS_KEPT:]

    def _case(self, acts: tuple[Act, ...]) -> CaseFile:
        pods = range(self.job.world // self.job.per_pod)
        size = self.job.per_pod
        gone = {rank // size for rank in self.left}
        since = self.run.last_step_at or START  # what is older plays no part in diagnosis
        return CaseFile(
            job_id="job",
            run=0,
            started_at=START,
            pods=tuple(
                PodView(
                    f"pod-{n}",
                    n,
                    f"node-{n}",
                    tuple(range(n * size, (n + 1) * size)),
                    n not in gone,
                    0 if n in gone else None,
                    self.at(self.now),
                )
                for n in pods
            ),
            ranks=tuple(self._view(rank, act) for rank, act in enumerate(acts)),
            seen=(*(one for kept in self.stacks.values() for one in kept if one.at >= since), *self.lines),
            hang=SETTINGS,
            first_step_at=self.run.first_step_at,
            last_step=self.run.last_step,
            last_step_at=self.run.last_step_at,
            last_log_at=None if self.last_log is None else self.at(self.last_log),
            rhythm=tuple(self.run.rhythm),
        )

    def _still(self, rank: int, act: Act) -> timedelta:
        return timedelta(seconds=0 if act.cpu else self.now - self.doing[rank][1])

    def _view(self, rank: int, act: Act) -> RankView:
        state = "gone" if rank in self.left else act.state
        # threads that tell figures or look after sockets use a tick now and then, of a process not stopped
        odd = 1 if self.job.chatty and act.state not in "TDt" and self.job.rng.random() < 0.2 else 0
        ticks = 3 * TICKS_A_SECOND if act.cpu else odd
        cpu = cpu_used({"cpu_ticks": 0}, {"cpu_ticks": ticks}, HEARTBEAT_WINDOW)
        moved = bytes_moved({"io_bytes": 0}, {"io_bytes": act.io})
        return RankView(
            rank,
            self.pod(rank),
            self.node(rank),
            state,
            self.run.last_step,
            self.run.last_step_at,
            cpu and state != "gone",
            moved and state != "gone",
            still=self._still(rank, act),
        )
