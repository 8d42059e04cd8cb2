"""The pod's logs, line by line: whose line it is, what it means, how far training is."""

import contextlib
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from agent.clock import from_timestamp, rfc3339, stamp
from agent.context import Context
from agent.exits import Failure, torchelastic_failure
from agent.follow import CHUNK, Follower, Position
from agent.framing import Framed, RankMap, frame
from agent.lines import Line
from agent.progress import Progress
from agent.steps import find
from agent.wire import Kind, Observation

_MAX_FILES = 64
_MAX_LAST = 90  # lines
_PER_MINUTE_ALIKE = 3
_PER_MINUTE = 20


class Found(Protocol):
    """What a scanner says of a line (agent.signatures.Match)."""

    @property
    def signature(self) -> str: ...
    @property
    def captured(self) -> dict[str, str]: ...


class LineScanner(Protocol):
    """agent.signatures.Scanner."""

    def scan(self, line: str, source: str = "log") -> Found | None: ...


class BlockSieve(Protocol):
    """agent.signatures.Sieve."""

    def forms(self, block: bytes) -> Collection[int] | None: ...


@dataclass
class Quota:
    """Lets through the first lines of a form and counts the rest: a fault may be printed by the thousand."""

    dropped: dict[str, int] = field(default_factory=dict)
    _seen: dict[tuple[Any, ...], int] = field(default_factory=dict)
    _since: float = 0.0

    def admits(self, found: Found, rank: int | None, now: float) -> bool:
        if now - self._since >= 60 or len(self._seen) > 10_000:
            self._seen, self._since = {}, now
        form = (found.signature, rank)
        alike = (*form, "alike", *sorted(found.captured.items()))
        for key, limit in ((alike, _PER_MINUTE_ALIKE), (form, _PER_MINUTE)):
            self._seen[key] = self._seen.get(key, 0) + 1
            if self._seen[key] > limit:
                self.dropped[found.signature] = self.dropped.get(found.signature, 0) + 1
                return False
        return True


@dataclass
class _Source:
    """One followed file; `rank`: whose it is, if it is one rank's own."""

    follower: Follower
    rank: int | None


class LogProbe:
    """Follows all logs of a pod within a budget of time a tick."""

    def __init__(
        self, scanner: LineScanner, ranks: RankMap, progress: Progress, sieve: BlockSieve | None = None
    ) -> None:
        self._scanner, self._sieve = scanner, sieve
        self.grew_at = 0.0  # when a line came last, by the clock of `tick`
        self._failures: list[Failure] = []
        self._ranks = ranks
        self._progress = progress
        self._context = Context()
        self._quota = Quota()
        self._sources: dict[Path, _Source] = {}

    def follow(
        self,
        path: Path,
        rank: int | None = None,
        positions: Sequence[Position] = (),
        *,
        at_end: bool = False,
        since: float | None = None,
    ) -> None:
        """Begin to follow a file; `rank`: whose own it is; the rest as a Follower's."""
        if path not in self._sources and len(self._sources) < _MAX_FILES:
            follower = Follower(path, list(positions), at_end=at_end, since=since, sieve=self._forms)
            self._sources[path] = _Source(follower, rank)

    def use(self, scanner: LineScanner, sieve: BlockSieve) -> None:
        """Look for other patterns from now on."""
        self._scanner, self._sieve = scanner, sieve

    def follows(self, path: Path) -> bool:
        """Whether the file is among those followed, by whatever name."""
        with contextlib.suppress(OSError):
            return any(known == path or known.samefile(path) for known in self._sources)
        return path in self._sources

    @property
    def behind(self) -> bool:
        return any(source.follower.behind for source in self._sources.values())

    def tick(self, budget_s: float, now: float) -> list[Observation]:
        """New lines' observations. A flood is read for the budget's time; what is over waits, then goes."""
        deadline = time.perf_counter() + budget_s
        found: list[Observation] = []
        for path, source in self._sources.items():
            while True:
                lines = source.follower.poll(CHUNK, now)
                at = stamp() if lines else ""
                self.grew_at = now if lines else self.grew_at
                for line in lines:
                    found += self._line(path, source, line, at)
                if not source.follower.behind or time.perf_counter() > deadline:
                    break
        return found

    def log_at(self) -> str | None:
        """When any of the logs was written last."""
        times = [source.follower.modified for source in self._sources.values()]
        newest = max((one for one in times if one is not None), default=None)
        return None if newest is None else rfc3339(from_timestamp(newest))

    def last_lines(self, rank: int) -> list[str]:
        """What a rank said last, half a line included, and what of it is not yet read."""
        said = self._context.last_lines(rank)
        for source in self._sources.values():
            ends = source.follower.unread_end() or [source.follower.partial()]
            said += [text for text in ends if text and self._rank(source, frame(text)) in (rank, None)]
        return said[-_MAX_LAST:]

    def take_failures(self) -> list[Failure]:
        """What torchelastic said of workers since the last call."""
        failures, self._failures = self._failures, []
        return failures

    def take_dropped(self) -> dict[str, int]:
        """What was left out since the last call, by what it was."""
        skipped = sum(source.follower.take_skipped() for source in self._sources.values())
        dropped = {f"log_match:{signature}": count for signature, count in self._quota.dropped.items()}
        self._quota.dropped = {}
        return dropped | ({"log_bytes": skipped} if skipped else {})

    def positions(self) -> dict[str, list[dict[str, Any]]]:
        """Where each file stands, for the next life."""
        return {
            str(path): [vars(place) for place in source.follower.positions()]
            for path, source in self._sources.items()
        }

    def close(self) -> None:
        for source in self._sources.values():
            source.follower.close()

    def _forms(self, block: bytes) -> Collection[int] | None:
        return None if self._sieve is None else self._sieve.forms(block)

    def _rank(self, source: _Source, framed: Framed) -> int | None:
        """Whose line it is: by its prefix, else by its file, else the pod's only rank."""
        rank = self._ranks.resolve(framed)
        if rank is None:
            rank = source.rank if source.rank is not None else self._ranks.only()
        return rank

    def _line(self, path: Path, source: _Source, line: Line, at: str) -> list[Observation]:
        text = line.text
        framed = frame(text)
        rank = self._rank(source, framed)
        before = self._context.add(rank, text, framed.body)
        mark = find(framed.body)
        if mark is not None:
            self._progress.from_line(rank, mark, time.monotonic())
        if "exitcode: " in text and (failure := torchelastic_failure(text)):
            self._failures.append(failure)
        found = self._scanner.scan(text)
        if found is None or not self._quota.admits(found, rank, time.monotonic()):
            return []
        data = {
            "signature": found.signature,
            "captured": dict(found.captured),
            "line": text,
            "file": path.name,
            "line_no": line.number,
            "context": before,
        }
        return [Observation(Kind.LOG_MATCH, at, rank, data)]
