"""What pod and node agents share: outbox and sender, waking and ending, the master's replies."""

import contextlib
import os
import select
import signal
import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from agent.clock import stamp
from agent.journal import note
from agent.outbox import Outbox, Waiting
from agent.sender import Client, Sender
from agent.settings import Settings
from agent.spool import Spool
from agent.state import Memory, lock
from agent.wire import URGENT, VERSION, Kind, Observation, Reply

LINGER_S = 24 * 3600.0
_FLUSH_WITHIN_S = 2.0


class Every:
    """A beat: `due` is true once per interval."""

    def __init__(self, interval_s: float) -> None:
        self.interval_s = interval_s
        self._next = 0.0

    def due(self, now: float) -> bool:
        if now < self._next:
            return False
        self._next = now + self.interval_s
        return True

    def left(self, now: float) -> float:
        return max(0.0, self._next - now)

    def soon(self) -> None:
        """Be due at once."""
        self._next = 0.0


class Heartbeat(Every):
    """Slower while the master is away, for what is kept on disk is bounded; at once when it is back."""

    def __init__(self, interval_s: float, away_s: float) -> None:
        super().__init__(interval_s)
        self._away_s = away_s
        self._was_away = False

    def beats(self, now: float, *, away: bool) -> bool:
        if self._was_away and not away:
            self.soon()
        self._was_away = away
        if not self.due(now):
            return False
        if away:
            self._next = now + self._away_s
        return True


@dataclass(frozen=True)
class Heard:
    """A reply, and the report it answers."""

    reply: Reply
    boot: str
    seq: int


class Core:
    """The watching thread's side of the agent. Its parts are closed by `finish`."""

    def __init__(self, settings: Settings) -> None:
        self.stopping = False
        self._directory = settings.directory
        self._lock = lock(settings.directory / "agent.lock")
        self.memory = Memory(settings.directory / "agent-state.json")
        self.outbox = Outbox(Spool(settings.directory / "spool"))
        self.sender = Sender(self.outbox, Client(settings.server, settings.token), self._hear)
        self._node_agent = settings.node is not None
        self._wakeup = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._poll = select.poll()
        self._poll.register(self._wakeup, select.POLLIN)
        self._polled: frozenset[int] = frozenset()
        self._heard: deque[Heard] = deque()
        self._inbox: deque[list[Observation]] = deque()
        self._pending: list[Observation] = []
        self._dropped_reports = 0

    def start(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # the terminal of whoever started us may go
        data: dict[str, Any] = {"version": str(VERSION), "pid": os.getpid(), "node_agent": self._node_agent}
        self.put([Observation(Kind.AGENT_STARTED, stamp(), None, data)], at_once=True)
        self.sender.start()
        note("agent_started", boot=self.outbox.boot)

    def put(self, observations: Iterable[Observation], *, at_once: bool = False) -> int | None:
        """Keep observations for the next report; urgent ones (or `at_once`) go now, with all before them."""
        self._pending += observations
        if self._pending and (at_once or any(one.kind in URGENT for one in self._pending)):
            return self.flush()
        return None

    def flush(self) -> int:
        """Make a report of what is pending; its number."""
        pending, self._pending = self._pending, []
        return self.outbox.put(pending, to_disk=self.sender.away)

    def post(self, observations: list[Observation]) -> None:
        """From another thread: observations to be put by the watching one."""
        self._inbox.append(observations)
        self.wake()

    def posted(self) -> list[Observation]:
        found: list[Observation] = []
        while self._inbox:
            found += self._inbox.popleft()
        return found

    def heard(self) -> list[Heard]:
        """Replies since the last call."""
        found: list[Heard] = []
        while self._heard:
            found.append(self._heard.popleft())
        return found

    def wait(self, timeout_s: float, fds: Iterable[int] = ()) -> frozenset[int]:
        """Until a descriptor is readable, somebody wakes us, or the time is over."""
        wanted = frozenset(fds)
        for fd in self._polled - wanted:
            self._poll.unregister(fd)
        for fd in wanted - self._polled:
            self._poll.register(fd, select.POLLIN)
        self._polled = wanted
        ready = frozenset(fd for fd, _ in self._poll.poll(max(0.0, timeout_s) * 1000))
        if self._wakeup in ready:
            with contextlib.suppress(BlockingIOError):
                os.eventfd_read(self._wakeup)
        return ready - {self._wakeup}

    def wake(self) -> None:
        with contextlib.suppress(BlockingIOError, OSError):
            os.eventfd_write(self._wakeup, 1)

    def dropped(self, left_out: dict[str, int]) -> list[Observation]:
        """What had to be left out, as observations."""
        told = left_out | self.outbox.take_dropped()
        refused, self._dropped_reports = self.sender.dropped - self._dropped_reports, self.sender.dropped
        if refused:
            told["refused_reports"] = refused
        at = stamp()
        return [
            Observation(Kind.DROPPED, at, None, {"what": what, "count": count})
            for what, count in told.items()
        ]

    def finish(self, *, linger: bool) -> None:
        """Send the rest and end. `linger`: what is watched is over, so nobody will send it later."""
        if self._pending:
            self.flush()
        until = time.monotonic() + LINGER_S
        while linger and not self.stopping and not self.sender.refused and time.monotonic() < until:
            if self.outbox.peek() is None or not self._directory.is_dir():
                break
            self.wait(0.5)
        self.sender.finish(_FLUSH_WITHIN_S)
        os.close(self._lock)

    def _hear(self, reply: Reply, waiting: Waiting) -> None:
        self._heard.append(Heard(reply, waiting.boot, waiting.seq))
        self.wake()

    def _stop(self, _number: int, _frame: object) -> None:
        self.stopping = True
        self.wake()
