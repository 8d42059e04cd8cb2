"""The agent of one node: tells of its kernel's fault lines, its GPUs, links and disks, of what Kubernetes
says of it, and that it lives.

What it says is bound to its node by its token, and no pod can say it (FAULTS 3.2, DESIGN.md 7).
"""

import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agent.clock import stamp, utcnow
from agent.core import Core, Every, Heartbeat
from agent.findings import Finding, Standing
from agent.follow import Position
from agent.gpuwatch import GpuWatch
from agent.journal import note
from agent.kernel import KernelProbe, parse_since
from agent.kubewatch import KubeWatch
from agent.logprobe import Quota
from agent.machine import MachineWatch
from agent.settings import DEFAULT_KERNEL_LOG, Settings, SettingsError
from agent.signatures import Scanner
from agent.state import dicts
from agent.wire import Kind, Observation

_TICK_S = 0.2
_FIRST_LOOK_S = 60.0  # one that takes longer hangs, and holds up no word on the rest
_BEAT_S, _AWAY_BEAT_S = 2.0, 20.0


class NodeAgent:
    """One life of a node's agent."""

    def __init__(self, settings: Settings) -> None:
        self._directory = settings.directory
        self._core = Core(settings)
        memory = self._core.memory.load()
        places = [place for entry in dicts(memory.get("kernel_log")) if (place := Position.parse(entry))]
        since = parse_since(memory.get("seen_until")) or utcnow()
        path = settings.kernel_log or Path(DEFAULT_KERNEL_LOG)
        try:
            self._probe = KernelProbe(path, Scanner(()), since, places)
        except OSError as error:
            raise SettingsError(
                f"FAULTCAST_KERNEL_LOG: {path} cannot be read ({error.strerror}): "
                "name a file, or let the agent read the kernel's log"
            ) from None
        self._beat, self._save = Heartbeat(_BEAT_S, _AWAY_BEAT_S), Every(5.0)
        paths = (settings.directory, *settings.watch_paths)
        self._watches: list[GpuWatch | MachineWatch] = (
            []
            if settings.virtual
            else [GpuWatch(self._post), MachineWatch(self._post, paths, known=memory.get("machine"))]
        )
        self._kube = (
            KubeWatch(settings.cluster, settings.node)
            if settings.cluster and settings.node and not settings.virtual
            else None
        )
        self._standing = Standing()
        self._found: deque[Finding] = deque()
        self._quota = Quota()
        self._began = time.monotonic()

    def run(self) -> int:
        """Watch until told to end, or until the directory is taken away."""
        self._core.start()
        threads = [*self._watches, *([self._kube] if self._kube else [])]
        for one in threads:
            one.start()
        while not self._core.stopping and self._directory.is_dir():
            self._core.wait(_TICK_S)
            self._tick(time.monotonic())
        self._tick(time.monotonic())
        self._remember()
        for one in threads:
            one.close()
        self._core.put(self._findings(time.monotonic()))
        self._core.finish(linger=False)
        note("agent_ended", why="told to end" if self._core.stopping else "its directory is gone")
        return 0

    def _tick(self, now: float) -> None:
        found = self._probe.tick(now)
        if found:
            self._core.put(found)
            self._remember()
        for watch in self._watches:
            watch.tick(now)
        self._core.put(self._findings(now))
        self._core.heard()
        if self._beat.beats(now, away=self._core.sender.away):
            beat = Observation(Kind.HEARTBEAT, stamp(), None, self._state(now))
            self._core.put([beat, *self._core.dropped(self._take_dropped())], at_once=True)
        if self._save.due(now):
            self._remember()

    def _state(self, now: float) -> dict[str, Any]:
        """The heartbeat's data; conditions only where there is news of them.

        Before the first look nothing is told: what an earlier life said still stands then.
        """
        beat: dict[str, Any] = {"ranks": {}, "log_at": None}
        if news := self._kube_news(now):
            beat["kubernetes"] = news
        if now - self._began < _FIRST_LOOK_S and not all(watch.looked for watch in self._watches):
            return beat
        told = self._standing.tell([one for watch in self._watches for one in watch.conditions()], now)
        return beat if told is None else beat | {"conditions": told}

    def _kube_news(self, now: float) -> dict[str, list[dict[str, str]]]:
        """What Kubernetes says anew; of a warning that comes again and again a sample, as of findings."""
        news = self._kube.news(now) if self._kube else {}
        if "events" in news:
            news["events"] = [one for one in news["events"] if self._quota.admits(_finding(one), None, now)]
        return news

    def _post(self, found: Sequence[Finding]) -> None:
        """From the watches' threads."""
        self._found.extend(found)
        self._core.wake()

    def _findings(self, now: float) -> list[Observation]:
        """What the watches found; of what is found again and again a sample, as of the kernel's lines."""
        told: list[Observation] = []
        while self._found:
            one = self._found.popleft()
            if self._quota.admits(one, None, now):
                told.append(one.observed())
        return told

    def _take_dropped(self) -> dict[str, int]:
        found, self._quota.dropped = self._quota.dropped, {}
        return self._probe.take_dropped() | {f"finding:{name}": count for name, count in found.items()}

    def _remember(self) -> None:
        places = self._probe.positions()
        known = {name: told for watch in self._watches for name, told in watch.remember().items()}
        seen_until = utcnow().timestamp()
        self._core.memory.save({"kernel_log": places, "seen_until": seen_until, "machine": known})


def _finding(event: dict[str, str]) -> Finding:
    """As which a warning is counted."""
    return Finding(f"{event['component']}/{event['reason']}", "", {"message": event["message"]})
