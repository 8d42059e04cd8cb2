"""Tells the story of a run in words and makes a case file of it. Times are seconds after its start."""

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from agent.signatures import Scanner
from agent.wire import Kind
from master.casefile import CaseFile, Diagnosis, HangSettings, PodView, RankView, Seen, Source, Want
from master.diagnosis import diagnose

START = datetime(2026, 11, 29, 3, 0, tzinfo=UTC)
GLOO = (
    "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:553] "
    "Connection closed by peer [127.0.0.1]:24791. This is typically caused by a remote worker crashing."
)
TRACEBACK = [
    "Traceback (most recent call last):",
    '  File "/work/train.py", line 41, in <module>',
    "    main()",
]
ALL_REDUCE = (
    "all_reduce (torch/distributed/distributed_c10d.py:2501)",
    "train_step (train.py:52)",
    "main (train.py:30)",
)


def xid(code: int, text: str) -> str:
    return f"[  812.345678] NVRM: Xid (PCI:0000:9b:00): {code}, pid='<unknown>', name=<unknown>, {text}"


OFF_BUS = xid(79, "GPU has fallen off the bus.")
HANG = HangSettings(
    enabled=True,
    log_timeout=timedelta(minutes=7),
    startup_toleration=timedelta(minutes=15),
    stack_timeout=timedelta(minutes=3),
    adaptive=True,
)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


@dataclass
class Story:
    """A run of `pods` pods with `per_pod` ranks each, a pod a node: pod-0 on node-a, pod-1 on node-b …"""

    pods: int = 2
    per_pod: int = 1
    hang: HangSettings = HANG
    seen: list[Seen] = field(default_factory=list)
    views: dict[int, RankView] = field(default_factory=dict)
    gone: dict[int, int | None] = field(default_factory=dict)
    rhythm: tuple[float, ...] = ()
    first_step_at: datetime | None = None
    last_step_at: datetime | None = None
    last_step: int | None = None
    last_log_at: datetime | None = None

    def __post_init__(self) -> None:
        for rank in range(self.pods * self.per_pod):
            self.views[rank] = RankView(
                rank, self.pod(rank), self.node(rank), "S", None, None, cpu_moved=True, io_moved=True
            )

    def pod(self, rank: int) -> str:
        return f"pod-{rank // self.per_pod}"

    def node(self, rank: int) -> str:
        return f"node-{'abcdefgh'[rank // self.per_pod]}"

    def steps(self, until: float, gap: float = 0.05, pauses: tuple[float, ...] = ()) -> "Story":
        """Training made steps, the last one `until` seconds after the start."""
        self.rhythm = (*(gap for _ in range(60)), *pauses)[-64:]
        self.first_step_at, self.last_step_at, self.last_log_at = at(1), at(until), at(until)
        self.last_step = int(until / gap)
        for rank, view in self.views.items():
            self.views[rank] = replace(view, step=self.last_step, step_at=at(until))
        return self

    def exited(
        self,
        rank: int,
        when: float,
        *,
        code: int | None = None,
        signal: int | None = None,
        said: tuple[str, ...] = (),
    ) -> "Story":
        data = {"pid": 1000 + rank, "exit_code": code, "signal": signal, "last_lines": list(said)}
        return self._saw(when, Kind.PROCESS_EXITED, Source.AGENT, rank, data)

    def pod_exited(self, index: int, when: float, code: int) -> "Story":
        self.gone[index] = code
        data = {"exit_code": code, "signal": None}
        return self._saw(when, "pod_exited", Source.RUNTIME, None, data, pod=index)

    def pod_word(self, index: int, when: float, kind: str, **data: Any) -> "Story":
        self.gone[index] = None
        return self._saw(when, kind, Source.RUNTIME, None, data, pod=index)

    def logged(self, rank: int, when: float, line: str, *, custom: tuple[str, ...] = ()) -> "Story":
        """A line as the agent reports it: only what its scanner finds."""
        match = Scanner(custom).scan(line)
        self.last_log_at = at(when)
        if match is None:
            return self
        data = {"signature": match.signature, "captured": match.captured, "line": line}
        return self._saw(when, Kind.LOG_MATCH, Source.AGENT, rank, data)

    def kernel(self, node: str, when: float, line: str) -> "Story":
        match = Scanner().scan(line, "kernel")
        assert match is not None, f"no signature for {line!r}"
        data = {"signature": match.signature, "captured": match.captured, "line": line}
        self.seen.append(Seen(at(when), Kind.KERNEL_LINE, Source.NODE, node, None, None, data))
        return self

    def state(self, rank: int, state: str, *, cpu: bool = False, io: bool = False) -> "Story":
        self.views[rank] = replace(self.views[rank], state=state, cpu_moved=cpu, io_moved=io)
        return self

    def idle(self) -> "Story":
        """No rank uses CPU or moves bytes."""
        for rank in self.views:
            self.state(rank, "S")
        return self

    def stacks(self, when: float, **by_rank: tuple[str, ...] | str) -> "Story":
        """`rank0=(frame, …)`; a text instead of frames is why there are none."""
        for name, frames in by_rank.items():
            rank = int(name.removeprefix("rank"))
            error = frames if isinstance(frames, str) else None
            data = {"pid": 1000 + rank, "frames": [] if error else list(frames), "error": error}
            self._saw(when, Kind.STACKS, Source.AGENT, rank, data)
        return self

    def case(self) -> CaseFile:
        pods = tuple(
            PodView(
                name=f"pod-{index}",
                index=index,
                node=f"node-{'abcdefgh'[index]}",
                ranks=tuple(range(index * self.per_pod, (index + 1) * self.per_pod)),
                alive=index not in self.gone,
                exit_code=self.gone.get(index),
                agent_seen_at=at(0),
            )
            for index in range(self.pods)
        )
        return CaseFile(
            job_id="job-1",
            run=0,
            started_at=START,
            pods=pods,
            ranks=tuple(self.views.values()),
            seen=tuple(self.seen),
            hang=self.hang,
            first_step_at=self.first_step_at,
            last_step=self.last_step,
            last_step_at=self.last_step_at,
            last_log_at=self.last_log_at,
            rhythm=self.rhythm,
            nodes_by_address={
                "10.0.0.1": "node-a",
                "10.0.0.2": "node-b",
                "10.0.0.3": "node-c",
                "10.0.0.4": "node-d",
            },
        )

    def judged(self, when: float) -> Diagnosis | Want | None:
        return diagnose(self.case(), at(when))

    def fault(self, when: float) -> Diagnosis:
        found = self.judged(when)
        assert isinstance(found, Diagnosis), found
        return found

    def _saw(
        self,
        when: float,
        kind: str,
        source: Source,
        rank: int | None,
        data: dict[str, Any],
        *,
        pod: int | None = None,
    ) -> "Story":
        index = pod if pod is not None else (rank or 0) // self.per_pod
        self.seen.append(
            Seen(at(when), kind, source, f"node-{'abcdefgh'[index]}", f"pod-{index}", rank, data)
        )
        return self


def steady(pods: int = 2) -> Story:
    """Steps of 50 ms until second 30."""
    return Story(pods=pods).steps(until=30)


def launcher_failed(exitcode: int, pid: int) -> str:
    """What torchrun says of a worker that failed."""
    return (
        "E1129 15:58:18.88 24635 torch/distributed/elastic/multiprocessing/api.py:1002] "
        f"failed (exitcode: {exitcode}) local_rank: 0 (pid: {pid}) of binary: /usr/bin/python3"
    )


def killed_rank() -> Story:
    """Rank 1 is killed; rank 0 feels it by gloo, raises and exits with 1; both launchers give up."""
    return (
        steady()
        .exited(1, 30.1, signal=9)
        .logged(0, 30.3, f"[rank0]: {GLOO}")
        .exited(0, 30.6, code=1, said=(*TRACEBACK, f"[rank0]: {GLOO}"))
        .logged(1, 30.7, launcher_failed(-9, pid=1001))
        .logged(0, 30.9, launcher_failed(1, pid=1000))
        .pod_exited(1, 31.2, 1)
        .pod_exited(0, 31.4, 1)
    )


def user_error_on(rank: int, text: str, when: float = 30.1, story: Story | None = None) -> Story:
    """A rank raises, prints its traceback and exits with 1."""
    line = f"[rank{rank}]: {text}"
    story = story or steady()
    return story.logged(rank, when, line).exited(rank, when + 0.2, code=1, said=(*TRACEBACK, line))
