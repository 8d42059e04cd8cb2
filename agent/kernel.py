"""A node's kernel log, from a file or /dev/kmsg: new lines only, messages split over lines joined again."""

import contextlib
import os
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

from agent.clock import from_timestamp, rfc3339, with_uptime
from agent.follow import CHUNK, Follower, Position
from agent.lines import clean
from agent.logprobe import Found, LineScanner, Quota
from agent.wire import Kind, Observation

_LEVEL = r"(?:<\d{1,3}>)?"
_UPTIME = re.compile(_LEVEL + r"\[\s{0,8}(\d{1,12}\.\d{1,9})\]\s?(?:\[[^\]]{1,16}\]\s?)?")
_KMSG = re.compile(r"(\d{1,10}),(\d{1,20}),(\d{1,20}),[^;]{0,200};")
_ISO = re.compile(
    r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d(?:[.,]\d{1,9})?)(Z|[+-]\d\d:?\d\d)?\s{1,4}"
    r"(?:(?:\S{1,255} )?kernel:\s)?"
)
_SYSLOG = re.compile(r"([A-Z][a-z]{2}\s{1,2}\d{1,2} \d\d:\d\d:\d\d) \S{1,255} kernel:\s")
_TAG = re.compile(r"\s{0,40}([\w.-]{1,40}(?: [\w.:-]{1,40})?): ")
_SLACK = timedelta(seconds=2)
_JOIN_WITHIN_S = 2.0
_JOIN_LINES = 4
_BUDGET_S = 0.02
_PER_TICK = 2000  # records of /dev/kmsg


@dataclass(frozen=True)
class Stamped:
    """A kernel line without its stamps; `at` is None where it had none that makes sense."""

    body: str
    at: datetime | None


def stamped(line: str, now: datetime, uptime_s: float) -> Stamped:
    """Take off wall-clock and uptime stamps, whichever a line has."""
    at: datetime | None = None
    body = line.lstrip()
    if match := _ISO.match(body):
        at, body = _iso(match), body[match.end() :]
    elif match := _SYSLOG.match(body):
        at, body = _syslog(match[1], now), body[match.end() :]
    if match := _UPTIME.match(body):
        at = at or _at_uptime(float(match[1]), now, uptime_s)
        body = body[match.end() :]
    elif match := _KMSG.match(body):
        at, body = _at_uptime(int(match[3]) / 1e6, now, uptime_s), body[match.end() :]
    return Stamped(body, at)


def _at_uptime(seconds: float, now: datetime, uptime_s: float) -> datetime | None:
    """A moment after boot; one that has not come yet is another machine's and says nothing."""
    return now - timedelta(seconds=uptime_s - seconds) if seconds <= uptime_s + 5 else None


def _iso(match: re.Match[str]) -> datetime | None:
    day, clock, zone = match[1], match[2].replace(",", "."), match[3] or ""
    with contextlib.suppress(ValueError, OverflowError):
        return datetime.fromisoformat(f"{day}T{clock}{zone}").astimezone()
    return None


def _syslog(text: str, now: datetime) -> datetime | None:
    """Syslog names no year and means local time."""
    with contextlib.suppress(ValueError, OverflowError):
        moment = datetime.strptime(f"{now.year} {text}", "%Y %b %d %H:%M:%S").astimezone()
        return moment if moment <= now + timedelta(days=1) else moment.replace(year=now.year - 1)
    return None


@dataclass
class Joiner:
    """Joins a line to those before it that it continues: same tag, shortly after, no full stop between."""

    _tag: str = ""
    _parts: list[str] = field(default_factory=list)
    _last: float = 0.0

    def add(self, body: str, now: float) -> str:
        """The whole message as far as it has come."""
        match = _TAG.match(body)
        tag = match[1] if match else ""
        open_before = bool(self._parts) and not self._parts[-1].rstrip().endswith((".", "!", ";"))
        if tag and tag == self._tag and open_before and now - self._last <= _JOIN_WITHIN_S:
            rest = body[match.end() :] if match else body
            self._parts = [*self._parts, rest.strip()][-_JOIN_LINES:]
        else:
            self._parts = [body.strip()]
        self._tag, self._last = tag, now
        whole = " ".join(self._parts)
        return whole if not tag or whole.startswith(f"{tag}:") else f"{tag}: {whole}"

    def close(self) -> None:
        """The message is complete: what follows is another."""
        self._parts = []


class KernelProbe:
    """`since`: what was logged before is not told."""

    def __init__(
        self, path: Path, scanner: LineScanner, since: datetime, positions: Sequence[Position] = ()
    ) -> None:
        self._scanner = scanner
        self._since = since - _SLACK
        self._quota = Quota()
        self._joiner = Joiner()
        self._skipped = 0
        self._device = Device(path) if path.is_char_device() else None
        self._follower = None if self._device else Follower(path, list(positions), at_end=not positions)

    def tick(self, now: float) -> list[Observation]:
        found: list[Observation] = []
        for text in self._lines(now):
            found += self._line(text, now)
        return found

    def take_dropped(self) -> dict[str, int]:
        dropped = {f"kernel_line:{signature}": count for signature, count in self._quota.dropped.items()}
        self._quota.dropped = {}
        if self._follower is not None and (skipped := self._follower.take_skipped()):
            dropped["kernel_log_bytes"] = skipped
        if self._device is not None and self._device.overrun:
            dropped["kernel_log_overruns"], self._device.overrun = self._device.overrun, 0
        return dropped

    def positions(self) -> list[dict[str, object]]:
        return [vars(place) for place in self._follower.positions()] if self._follower else []

    def close(self) -> None:
        if self._device is not None:
            self._device.close()
        if self._follower is not None:
            self._follower.close()

    def _lines(self, now: float) -> list[str]:
        if self._device is not None:
            return self._device.read()
        lines: list[str] = []
        deadline = time.perf_counter() + _BUDGET_S
        while self._follower is not None:
            lines += [line.text for line in self._follower.poll(CHUNK, now)]
            if not self._follower.behind or time.perf_counter() > deadline:
                break
        return lines

    def _line(self, text: str, now: float) -> list[Observation]:
        moment, uptime_s = with_uptime()
        line = stamped(text, moment, uptime_s)
        if line.at is not None and line.at < self._since:
            return []
        whole = self._joiner.add(line.body, now)
        told, found = self._scan(line.body, whole)
        if found is None:
            return []
        self._joiner.close()
        if not self._quota.admits(found, None, now):
            return []
        at = min(line.at or moment, moment)
        data = {"signature": found.signature, "captured": dict(found.captured), "line": told}
        return [Observation(Kind.KERNEL_LINE, rfc3339(at), None, data)]

    def _scan(self, body: str, whole: str) -> tuple[str, Found | None]:
        """The line's own meaning, told with the lines it continues where they mean the same."""
        alone = self._scanner.scan(body, "kernel")
        if whole == body:
            return body, alone
        joined = self._scanner.scan(whole, "kernel")
        if joined is not None and (alone is None or alone.signature == joined.signature):
            return whole, joined
        return body, alone


class Device:
    """/dev/kmsg: one record a read, from now on."""

    def __init__(self, path: Path) -> None:
        self.overrun = 0
        self._fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with contextlib.suppress(OSError):
            os.lseek(self._fd, 0, os.SEEK_END)

    def read(self) -> list[str]:
        lines: list[str] = []
        while len(lines) < _PER_TICK:
            try:
                record = os.read(self._fd, 16 << 10)
            except BlockingIOError:
                break
            except BrokenPipeError:  # records were overwritten before we came
                self.overrun += 1
                continue
            if not record:
                break
            if (text := kernel_record(record)) is not None:
                lines.append(text)
        return lines

    def close(self) -> None:
        os.close(self._fd)


def kernel_record(record: bytes) -> str | None:
    """A record's line, if the kernel itself wrote it: programs write there too, as another facility."""
    text = clean(record.partition(b"\n")[0])
    match = _KMSG.match(text)
    return text if match is not None and int(match[1]) >> 3 == 0 else None


def parse_since(text: object) -> datetime | None:
    """When an earlier life last looked."""
    with contextlib.suppress(TypeError, ValueError):
        return from_timestamp(float(str(text)))
    return None
