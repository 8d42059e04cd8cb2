"""Reads one log file as a stream: what counts in it, when, whose. Memory is bounded, whatever the file."""

import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from agent.signatures import OF_LOGS_AND_KERNELS, Scanner, Sieve, is_kernel_line, is_progress, step_of
from master.bundlenames import Named
from master.bundlestamps import FileClock, Sort, stamp_of

CHUNK = 1 << 18
LONGEST = 1 << 16  # of a longer line the beginning and the end are read
KEPT = 8192
_BLOCK, _PART = 1 << 16, 1 << 13  # what is looked at as a whole; of it, where something may be wrong
_SHORT = 1 << 14
_HEAD, _EVENLY, _AT_END = 4096, 16, 8  # bytes of a quiet block; lines of a file's last one
_FIRST, _LAST = 50, 50  # lines of one form and writer that are kept
_FORMS = 20_000
_STEPS = 20_000
_LOOK_BACK = 100  # lines in which the stamp of one without is looked for
_NONE_SO_FAR = 3  # the same where no line before had any
_PREFIX = re.compile(
    r"(?:\S{10,40} )?(?:\[rank(?P<rank>\d{1,6})\]:|\[default(?P<local>\d{1,5})\]:|"
    r"\[1,(?P<mpi>\d{1,6})\]<std|(?P<srun>\d{1,6}): )"
)
_WRITER = re.compile(r"\[(?:rank|default|1,)(\d{1,6})\]")
_NUMBER = re.compile(r"(?<!\d)\d{1,6}(?!\d)")
_NUMBERS = ("line_rank", "rank", "ranks", "other_rank", "line_local_rank", "local_rank", "line_device")
_HINTS = ("step", "iter", "epoch", "it/s", "s/it", "batch")
_ADDRESS = re.compile(
    r"(?P<host>[\w.-]{1,120}):\d+:\d+ \[-?\d+\] NCCL INFO (?:Bootstrap ?: ?Using|NET/\w+ ?: ?Using) "
    r"[^\n]{0,200}?(?P<ip>\d{1,3}(?:\.\d{1,3}){3})<\d"
)
_SCANNER = Scanner()
_SIEVE = Sieve(known=OF_LOGS_AND_KERNELS)
_FACTS = Sieve(known=(r"\[rank\d", r"\[default\d", r"\]<std", "NCCL INFO (?:Bootstrap|NET/)"))


class Source(Protocol):
    """What is read: a file, or what gunzip makes of one."""

    def read(self, size: int, /) -> bytes: ...


@dataclass
class Entry:
    """One line that counts. `sort`, `at`: on the file's own clock. `kind`: log, journal, kernel, k8s or
    agent."""

    number: int
    text: str
    sort: Sort
    at: datetime
    rank: int | None
    kind: str


@dataclass
class LogFile:
    """What one file told."""

    file: str
    named: Named
    entries: list[Entry] = field(default_factory=list)
    steps: list[tuple[Sort, datetime, int | None]] = field(default_factory=list)
    clock: FileClock = field(default_factory=FileClock)
    began: datetime | None = None  # on its own clock
    ranks: set[int] = field(default_factory=set)  # that lines name as their writers
    told: set[int] = field(default_factory=set)  # that lines tell of, by whatever number
    hosts: dict[str, str] = field(default_factory=dict)  # host → address, by NCCL's own words


class LogReader:
    """Feed it a stream; `result` holds what counts."""

    def __init__(self, file: str, named: Named) -> None:
        self.result = LogFile(file, named)
        self._kept: dict[tuple[str, int | None], tuple[list[Entry], deque[Entry]]] = {}
        self._steps_seen, self._every = 0, 1

    def read(self, stream: Source) -> LogFile:
        held: tuple[int, bytes] | None = None
        for number, block in blocks(stream):
            if held is not None:
                self._block(*held, is_last=False)
            held = number, block
        if held is not None:
            self._block(*held, is_last=True)
        found = [entry for head, tail in self._kept.values() for entry in (*head, *tail)]
        self.result.entries = sorted(found, key=lambda entry: entry.number)
        return self.result

    def _block(self, first: int, raw: bytes, *, is_last: bool) -> None:
        if _FACTS.forms(raw):
            self._facts(raw.decode("utf-8", "replace"))
        if first == 1:
            self._first_stamp(_lines(raw[: _LOOK_BACK * _HEAD].decode("utf-8", "replace"), 1)[1])
        is_short = is_last and first == 1 and len(raw) <= _SHORT  # the sieve itself costs more
        size = _BLOCK // 2 if not is_short and self._is_quiet(raw) else _PART
        for start, end in _cuts(raw, size):
            part = raw[start:end]
            count = part.count(b"\n")
            if is_short or (size == _PART and not self._is_quiet(part)):
                self._each(*_lines(part.decode("utf-8", "replace"), first))
            else:
                self.result.clock.pass_lines(count)
                self._sample(part, is_last=is_last and end == len(raw))
            first += count

    def _is_quiet(self, raw: bytes) -> bool:
        return self.result.named.kind not in ("k8s", "agent") and not _SIEVE.forms(raw)

    def _facts(self, text: str) -> None:
        """Ranks that lines name as their writers, and addresses of hosts."""
        if len(self.result.ranks) < 100_000:
            for found in _WRITER.finditer(text):
                line = text.rfind("\n", 0, found.start()) + 1
                if (rank := int(found[1])) not in self.result.ranks and _PREFIX.match(text, line):
                    self.result.ranks.add(rank)
        if "NCCL INFO" in text and len(self.result.hosts) < 1000:
            for found in _ADDRESS.finditer(text):
                self.result.hosts.setdefault(found["host"], found["ip"])

    def _first_stamp(self, lines: list[str]) -> None:
        for line in lines[:_LOOK_BACK]:
            if self.result.clock.see(stamp_of(line)):
                break
        self.result.began = self.result.clock.at

    def _sample(self, raw: bytes, *, is_last: bool) -> None:
        """Nothing is wrong here: one of its steps; of a file's last lines some, and when it ends, for what
        was wrong elsewhere is judged by what came after it."""
        _, lines = _lines((raw if is_last else raw[:_HEAD]).decode("utf-8", "replace"), 0)
        every = max(1, len(lines) // _EVENLY) if is_last else len(lines)
        places = [*range(0, len(lines) - _AT_END, every), *range(max(0, len(lines) - _AT_END), len(lines))]
        stamped = -1
        for place in places if is_last else [0]:
            until = min(place + every, len(lines))
            at = next((at for at in range(max(place, stamped + 1), until) if _is_step(lines[at])), None)
            if at is not None:
                self._step(lines, at, stamped)
                stamped = at
        if is_last or stamped < 0:
            self._moment(lines, len(lines) - 1, stamped)

    def _each(self, numbers: list[int], lines: list[str]) -> None:
        stamped = -1
        for at, line in enumerate(lines):
            self.result.clock.pass_lines(1)
            if _is_step(line):
                self._step(lines, at, stamped)
                stamped = at
            kind = self._kind(line)
            if kind:
                self._moment(lines, at, stamped)
                stamped = at
                self._keep(numbers[at], line, kind)
        self._moment(lines, len(lines) - 1, stamped)

    def _kind(self, line: str) -> str:
        """As which sort of line it counts; "" where it does not."""
        named = self.result.named
        if named.kind in ("k8s", "agent"):
            return named.kind if line.strip() else ""
        if named.kind != "kernel" and _SCANNER.scan(line) is not None:
            return "journal" if named.kind == "journal" else "log"
        if named.rank is not None or not (named.kind in ("kernel", "journal") or is_kernel_line(line)):
            return ""
        return "kernel" if _SCANNER.scan(line, "kernel") is not None else ""

    def _keep(self, number: int, line: str, kind: str) -> None:
        rank = self._rank(line) if kind in ("log", "journal", "agent") else None
        match = _SCANNER.scan(line, "kernel" if kind == "kernel" else "log")
        if match is not None and kind in ("log", "journal"):
            for name in _NUMBERS:
                self.result.told |= {int(one) for one in _NUMBER.findall(match.captured.get(name, ""))}
        form = (match.signature + match.captured.get("type", "")) if match else kind
        if (form, rank) not in self._kept and len(self._kept) >= _FORMS:
            form = kind
        head, tail = self._kept.setdefault((form, rank), ([], deque(maxlen=_LAST)))
        clock = self.result.clock
        entry = Entry(number, line[:KEPT].rstrip("\r"), clock.sort, clock.at, rank, kind)
        (head if len(head) < _FIRST else tail).append(entry)

    def _rank(self, line: str) -> int | None:
        found = _PREFIX.match(line)
        if self.result.named.rank is not None or found is None:
            return self.result.named.rank
        rank = int(next(number for number in found.groups() if number))
        self.result.ranks.add(rank)
        return rank

    def _step(self, lines: list[str], at: int, since: int) -> None:
        self.result.clock.pass_step()
        self._moment(lines, at, since)
        self._steps_seen += 1
        if self._steps_seen % self._every == 0:
            mark = (self.result.clock.sort, self.result.clock.at, step_of(lines[at][:KEPT]))
            self.result.steps.append(mark)
        if len(self.result.steps) > _STEPS:  # of a long run every second one will do
            self.result.steps = self.result.steps[::2]
            self._every *= 2

    def _moment(self, lines: list[str], at: int, since: int) -> None:
        """The clock as of this line: its own stamp, else that of the last one before it that has any."""
        far = _LOOK_BACK if self.result.clock.sort is not Sort.NONE else _NONE_SO_FAR
        for here in range(at, max(since, at - far), -1):
            if self.result.clock.see(stamp_of(lines[here])):
                return


def _is_step(line: str) -> bool:
    lowered = line[:1000].lower()
    hinted = any(hint in lowered for hint in _HINTS) or ("|" in lowered and "[" in lowered)
    return hinted and is_progress(line[:KEPT])


def _lines(text: str, first: int) -> tuple[list[int], list[str]]:
    """Lines with their numbers; what a progress bar redraws are several of one number."""
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    if "\r" not in text:
        return list(range(first, first + len(lines))), lines
    numbers, found = [], []
    for number, line in enumerate(lines, start=first):
        redrawn = [part for part in line.split("\r") if part] or [""]
        found += redrawn
        numbers += [number] * len(redrawn)
    return numbers, found


def blocks(stream: Source) -> Iterator[tuple[int, bytes]]:
    """Whole lines of a stream in blocks, each with its first line's number. Of an endless line the beginning
    and the end are given."""
    number, left = 1, b""
    while chunk := stream.read(CHUNK):
        data = left + chunk
        end = data.rfind(b"\n") + 1
        left = data[end:]
        if len(left) > LONGEST:
            left = left[:KEPT] + b" ... " + left[-KEPT:]
        for start, stop in _cuts(data[:end], _BLOCK):
            part = data[start:stop]
            yield number, part
            number += part.count(b"\n")
    if left:
        yield number, left


def _cuts(raw: bytes, size: int) -> Iterator[tuple[int, int]]:
    """Where whole lines of about a size begin and end."""
    start = 0
    while start < len(raw):
        stop = raw.find(b"\n", min(start + size, len(raw)) - 1) + 1 or len(raw)
        yield start, stop
        start = stop
