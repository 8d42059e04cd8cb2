"""The node's agent's word on the memory of the training pods it can see."""

import os
from dataclasses import dataclass, field

from agent import proc
from agent.findings import Finding
from agent.oom import Groups, folder_of

_MARK = "FAULTCAST_JOB_ID"  # what every pod finds in its environment


@dataclass
class NodeMemory:
    """Control groups that hold a job's processes. The agent's own group is left out: what is killed there may
    be anybody's (the local runtime, where pods have no group of their own)."""

    _groups: Groups = field(default_factory=Groups)
    _seen: dict[int, str] = field(default_factory=dict)  # pid → group's path, or "" where it is none of ours
    # seen once: a container's first process gets its program, and environment, late
    _young: frozenset[int] = frozenset()
    _jobs: dict[str, str] = field(default_factory=dict)  # group's path → job

    def scan(self) -> None:
        """Look for new processes of jobs; each environment is read once or twice."""
        pids = {int(name) for name in os.listdir("/proc") if name.isdigit()}  # noqa: PTH208  names only
        own = folder_of(os.getpid())
        fresh = pids - self._seen.keys()
        for pid in fresh:
            path = self._path(pid, own[0] if own is not None else "")
            if path or pid in self._young:
                self._seen[pid] = path
        self._young = frozenset(fresh)
        self._seen = {pid: path for pid, path in self._seen.items() if pid in pids}
        live = set(self._seen.values())
        self._jobs = {path: job for path, job in self._jobs.items() if path in live}
        self._groups.keep(self._jobs)

    def look(self) -> list[Finding]:
        """Groups in which a process was killed since the last look; the job is the pod's own word."""
        return [
            grown.finding(faultcast_job=self._jobs.get(grown.memory.path, ""))
            for grown in self._groups.look()
        ]

    def _path(self, pid: int, own: str) -> str:
        job = proc.environ(pid, (_MARK,)).get(_MARK, "")
        found = folder_of(pid) if job else None
        if found is None or found[0] == own:
            return ""
        self._jobs[found[0]] = job
        self._groups.watch(*found)
        return found[0]
