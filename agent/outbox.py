"""Observations become numbered reports and wait here, in memory or on disk, until the master has them."""

import contextlib
import json
import os
import secrets
import threading
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from agent.spool import HEARTBEAT, ORDINARY, URGENT, Spool
from agent.wire import MAX_OBSERVATIONS, VERSION, Kind, Observation
from agent.wire import URGENT as URGENT_KINDS

_MAX_BYTES = 512 << 10  # of one report; the master takes 1 MiB
_MAX_WAITING = 64  # reports in memory before they go to disk
_MAX_HELD = 4 << 20  # bytes in memory when the disk takes nothing


@dataclass(frozen=True)
class Waiting:
    """One report on its way: its class, its number, its JSON without `sent_at`."""

    kind: bytes
    boot: str
    seq: int
    body: bytes


class Outbox:
    """Filled by the watching thread, emptied by the sending one. What is on disk is always the older."""

    def __init__(self, spool: Spool) -> None:
        self.boot = secrets.token_hex(8)
        self.seq = 0
        self._spool = spool
        self._memory: deque[Waiting] = deque()
        self._dropped = 0
        self._urgent_waits = False
        self._changed = threading.Condition()

    def put(self, observations: Sequence[Observation], *, to_disk: bool) -> int:
        """Make reports of them and keep them; answers the last report's number. Urgent ones are on disk
        before this returns (if the disk takes them), so that killing the agent loses none."""
        with self._changed:
            for batch in _batches(observations):
                self.seq += 1
                waiting = Waiting(_kind_of(batch), self.boot, self.seq, _encode(self.boot, self.seq, batch))
                self._memory.append(waiting)
                self._urgent_waits = self._urgent_waits or waiting.kind == URGENT
                if to_disk or waiting.kind == URGENT or len(self._memory) > _MAX_WAITING:
                    self._flush()
            self._changed.notify_all()
            return self.seq

    def peek(self) -> Waiting | None:
        """The oldest report; it stays until `done`."""
        with self._changed:
            self._urgent_waits = False
            while (body := self._spool.peek()) is not None:
                if (numbers := _numbers(body)) is not None:
                    return Waiting(ORDINARY, *numbers, body)
                self._spool.done()  # no report of ours; the disk holds what others wrote there
            return self._memory[0] if self._memory else None

    def done(self, waiting: Waiting) -> None:
        """The master has it, or will never take it."""
        with self._changed:
            if self._memory and self._memory[0] is waiting:
                self._memory.popleft()
                return
            body = self._spool.peek()  # it may have been moved to disk, or given up, while it was under way
            if body is not None and _numbers(body) == (waiting.boot, waiting.seq):
                self._spool.done()

    def to_disk(self) -> None:
        """The master is away: keep what waits where the agent's death does not lose it."""
        with self._changed:
            self._flush()
            fd = self._spool.unsynced()
        if fd is not None:
            with contextlib.suppress(OSError):
                os.fsync(fd)  # outside the lock: watching must not wait for a slow disk
            os.close(fd)

    def wait(self, timeout_s: float, *, urgent_only: bool = False) -> None:
        """Until a report comes (or an urgent one), or the time is over."""
        with self._changed:
            if not self._urgent_waits and (urgent_only or not self._memory):
                self._changed.wait_for(
                    lambda: self._urgent_waits or (not urgent_only and bool(self._memory)), timeout_s
                )

    def wake(self) -> None:
        """Let `wait` return now."""
        with self._changed:
            self._urgent_waits = True
            self._changed.notify_all()

    def take_dropped(self) -> dict[str, int]:
        """What had to be given up since the last call, by what it was."""
        with self._changed:
            dropped = self._spool.take_dropped()
            if self._dropped:
                dropped["reports"] = dropped.get("reports", 0) + self._dropped
                self._dropped = 0
            return dropped

    def _flush(self) -> None:
        """Memory to disk, in order; what the disk does not take stays, within bounds."""
        try:
            while self._memory:
                self._spool.append(self._memory[0].kind, self._memory[0].body)
                self._memory.popleft()
        except OSError:
            self._bound_memory()

    def _bound_memory(self) -> None:
        held = sum(len(waiting.body) for waiting in self._memory)
        for expendable in (HEARTBEAT, ORDINARY, URGENT):
            for waiting in [one for one in self._memory if one.kind == expendable]:
                if held <= _MAX_HELD:
                    return
                self._memory.remove(waiting)
                held -= len(waiting.body)
                self._dropped += 1


def _batches(observations: Sequence[Observation]) -> Iterable[Sequence[Observation]]:
    """Runs of observations that fit one report each, in order."""
    batch: list[Observation] = []
    size = 0
    for observation in observations:
        weight = len(json.dumps(observation.data))
        if batch and (len(batch) >= MAX_OBSERVATIONS or size + weight > _MAX_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(observation)
        size += weight
    if batch:
        yield batch


def _kind_of(batch: Sequence[Observation]) -> bytes:
    kinds = {observation.kind for observation in batch}
    if kinds & URGENT_KINDS:
        return URGENT
    return HEARTBEAT if kinds == {Kind.HEARTBEAT} else ORDINARY


def _encode(boot: str, seq: int, batch: Sequence[Observation]) -> bytes:
    told = [{"kind": one.kind.value, "at": one.at, "rank": one.rank, "data": one.data} for one in batch]
    document = {"boot": boot, "seq": seq, "version": VERSION, "observations": told}
    return json.dumps(document, separators=(",", ":"), allow_nan=False).encode("ascii")


def _numbers(body: bytes) -> tuple[str, int] | None:
    """Of which life, and the how manieth: a report's head is ours, so it need not be parsed whole."""
    try:
        head = json.loads(body[: body.index(b',"version"')] + b"}")
        return str(head["boot"]), int(head["seq"])
    except (ValueError, KeyError, TypeError):
        return None
