"""Whose line is it: the prefixes by which launchers and libraries mark a rank's output (FAULTS.md 3.0)."""

import re
from dataclasses import dataclass, field

from agent.ranks import Worker

# `[rank3]:` is global (torch's excepthook and c10d log); `[default3]:` local (torchelastic's tee);
# `[3]:` either; `[1,3]<stderr>:` global (mpirun --tag-output); Ray names a pid, sometimes a rank
_PREFIX = re.compile(
    r"\s{0,8}(?:"
    r"\[rank ?(?P<rank>\d{1,7})\]:? ?"
    r"|\[default(?P<local>\d{1,7})\]:? ?"
    r"|\[(?P<either>\d{1,7})\]: ?"
    r"|\[\d{1,4},(?P<mpi>\d{1,7})\]<\w{1,8}>: ?"
    r"|\(\w{1,64} (?:rank=(?P<rayrank>\d{1,7}),? ?)?pid=(?P<pid>\d{1,9})[^)]{0,80}\) ?"
    r")"
)
_NCCL = re.compile(r"(?:\[[\d :.-]{10,40}\] )?[\w.-]{1,255}:(?P<pid>\d{1,9}):\d{1,9} \[\S{1,4}\] ")
_C10D = re.compile(
    r"\[[IWEF]\d{0,6}[ \d]*[^\]]{0,80}\.cpp:\d+\] (?:\[[^\]]{0,120}\] )?"
    r"\[?[^\]]{0,80}\bRank (?P<rank>\d{1,7})\]"
)
_REDIRECTED = re.compile(r"/attempt_\d+/(?P<local>\d+)/std(?:out|err)\.log$")
_NAMED = re.compile(r"rank[_-]?(?P<rank>\d{1,7})(?!\d)")


@dataclass(frozen=True)
class Framed:
    """A line without its prefix. At most one of the hints is set."""

    body: str
    rank: int | None = None
    local: int | None = None
    either: int | None = None
    pid: int | None = None


def frame(line: str) -> Framed:
    """Strip a known prefix and say what it told."""
    match = _PREFIX.match(line)
    if match is None:
        return _unprefixed(line)
    parts = {name: int(text) for name, text in match.groupdict().items() if text is not None}
    rank = parts.get("rank", parts.get("mpi", parts.get("rayrank")))
    body = line[match.end() :]
    if rank is not None:
        return Framed(body, rank=rank)
    return Framed(body, local=parts.get("local"), either=parts.get("either"), pid=parts.get("pid"))


def _unprefixed(line: str) -> Framed:
    if "NCCL" in line and (match := _NCCL.match(line)):
        return Framed(line, pid=int(match["pid"]))
    if ".cpp:" in line and (match := _C10D.match(line)):
        return Framed(line, rank=int(match["rank"]))
    return Framed(line)


@dataclass
class RankMap:
    """What is known of the pod's ranks; kept up to date by the process probe."""

    pod_rank: int | None = None
    nproc: int = 1
    workers: dict[int, Worker] = field(default_factory=dict)
    pids: dict[int, int] = field(default_factory=dict)  # of workers and of all below them, to ranks

    def only(self) -> int | None:
        """The pod's rank, where there is but one."""
        if len(self.workers) == 1 and self.nproc == 1:
            return next(iter(self.workers))
        return self.pod_rank if self.nproc == 1 else None

    def of_local(self, local: int) -> int | None:
        for worker in self.workers.values():
            if worker.local_rank == local:
                return worker.rank
        if self.pod_rank is None or local >= self.nproc:
            return None
        return self.pod_rank * self.nproc + local

    def resolve(self, framed: Framed) -> int | None:
        """The rank a line belongs to by its prefix, None where that does not tell."""
        if framed.rank is not None:
            return framed.rank if self._is_ours(framed.rank) else None
        if framed.pid is not None:
            return self.pids.get(framed.pid)
        if framed.local is not None:
            return self.of_local(framed.local)
        if framed.either is not None:
            return framed.either if framed.either in self.workers else self.of_local(framed.either)
        return None

    def of_path(self, path: str) -> int | None:
        """A rank's own log file: torchelastic's redirects, or `rank<N>` in the name."""
        if match := _REDIRECTED.search(path):
            return self.of_local(int(match["local"]))
        match = _NAMED.search(path.rpartition("/")[2])
        return int(match["rank"]) if match and self._is_ours(int(match["rank"])) else None

    def _is_ours(self, rank: int) -> bool:
        """A log may name any rank, also another pod's; only the pod's own can have written it."""
        if rank in self.workers or self.pod_rank is None:
            return True
        first = self.pod_rank * self.nproc
        return first <= rank < first + self.nproc
