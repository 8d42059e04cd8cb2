"""Bytes of a log become lines: partial ones are joined, endless ones cut in the middle, colours removed."""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

from agent.signatures.colours import ANSI

HEAD = 4096
TAIL = 3968  # with HEAD and the note between them at most 8 KiB
BULK = 32 << 10  # of a chunk so large only what matters is taken apart
_BLOCK = 4 << 10
_LAST = 2 << 10
_SAMPLES = 2  # blocks of a chunk that are read for one form
Sieve = Callable[[bytes], Collection[int] | None]  # forms of which a block has lines; None: nobody can tell
_LINE_END = re.compile(rb"\r?\n|\r(?!\n)")
_ANSI = re.compile(ANSI)
# everything but the tab that moves a cursor or forges a line end where the text is shown
_CONTROL = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029]")


@dataclass(frozen=True, slots=True)
class Line:
    """`number` counts from 1 by newlines; None after a gap, when nobody can tell."""

    text: str
    number: int | None


def clean(raw: bytes) -> str:
    """Text to read: no colours, no control characters, undecodable bytes replaced."""
    text = raw.decode("utf-8", "replace")
    if text.isprintable():
        return text
    return _CONTROL.sub("", _ANSI.sub("", text) if "\x1b" in text else text)


def _blocks(chunk: bytes, start: int) -> Iterator[tuple[int, int]]:
    """Where they begin and end: with a line each, but for the last."""
    while start < len(chunk):
        end = chunk.find(b"\n", min(start + _BLOCK, len(chunk) - 1)) + 1 or len(chunk)
        yield start, end
        start = end


def _samples(held: Sequence[Collection[int]]) -> list[bool]:
    """Which blocks matter: of each form the first few."""
    seen: Counter[int] = Counter()
    matter = []
    for forms in held:
        matter.append(any(seen[form] < _SAMPLES for form in forms))
        seen.update(forms)
    return matter


class Splitter:
    """Feed it chunks; it gives whole lines. It holds at most one line's head and tail.

    A lone carriage return also ends a line (progress bars), but does not count as one. Of large chunks
    only what a `sieve` finds is read, with what stands beside it, and the last lines; the rest is counted.
    """

    def __init__(self, number: int | None = 1, sieve: Sieve | None = None) -> None:
        self.number = number
        self.left_out = 0  # bytes of a flood of fault lines that were not looked at
        self._sieve = sieve
        self._goes_on = False  # the chunk before ended with a block that matters
        self._head = b""
        self._tail = b""
        self._length = 0
        self._carriage = False  # the last chunk ended in a carriage return: a newline may belong to it

    @property
    def pending(self) -> int:
        """Bytes held of a line that has not ended."""
        return self._length + self._carriage

    def feed(self, chunk: bytes) -> list[Line]:
        if self._carriage:
            chunk, self._carriage = b"\r" + chunk, False
        if chunk.endswith(b"\r"):
            chunk, self._carriage = chunk[:-1], True
        if self._sieve is not None and len(chunk) >= BULK:
            return self._in_bulk(chunk, self._sieve)
        return self._whole(chunk)

    def _in_bulk(self, chunk: bytes, sieve: Sieve) -> list[Line]:
        """A line that was begun before, and what stands beside lines that matter, is read with them."""
        forms = sieve(chunk)
        if forms is None:
            return self._whole(chunk)
        first = chunk.find(b"\n") + 1 if self._length else 0
        found = self._whole(chunk[:first])
        if not forms and not self._goes_on:
            last = max(first, chunk.rfind(b"\n", 0, max(0, len(chunk) - _LAST)) + 1)
            self._pass(chunk, first, last)
            return found + self._whole(chunk[last:])
        places = list(_blocks(chunk, first))
        held = [sieve(chunk[start:end]) or () for start, end in places]
        matter = _samples(held)
        near = [self._goes_on, *matter, True]
        for n, (start, end) in enumerate(places):
            if near[n] or near[n + 1] or near[n + 2]:
                found += self._whole(chunk[start:end])
            else:
                self._pass(chunk, start, end)
                self.left_out += end - start if held[n] else 0
        self._goes_on = bool(matter) and matter[-1]
        return found

    def _pass(self, chunk: bytes, start: int, end: int) -> None:
        if self.number is not None:
            self.number += chunk.count(b"\n", start, end)

    def _whole(self, chunk: bytes) -> list[Line]:
        if b"\r" not in chunk:
            return self._by_newline(chunk)
        found: list[Line] = []
        start = 0
        for end in _LINE_END.finditer(chunk):
            self._take(chunk[start : end.start()])
            self._finish(found, counts=end.group() != b"\r")
            start = end.end()
        self._take(chunk[start:])
        return found

    def gap(self) -> None:
        """Bytes were left out: what is held belongs to no line that will end, and numbers are lost."""
        self._head, self._tail, self._length, self._carriage = b"", b"", 0, False
        self.number = None

    def peek(self) -> str:
        """What stands without an end so far."""
        return clean(self._joined())

    def rest(self) -> list[Line]:
        """What stands without an end, for a file that will not grow."""
        found: list[Line] = []
        if self._length:
            self._finish(found, counts=True)
        self._carriage = False
        return found

    def _by_newline(self, chunk: bytes) -> list[Line]:
        *whole, partial = chunk.split(b"\n")
        found: list[Line] = []
        for part in whole:
            if self._length or len(part) > HEAD:
                self._take(part)
                self._finish(found, counts=True)
            else:
                found.append(Line(clean(part), self.number))
                self.number = None if self.number is None else self.number + 1
        self._take(partial)
        return found

    def _take(self, part: bytes) -> None:
        if not part:
            return
        self._length += len(part)
        room = HEAD - len(self._head)
        if room > 0:
            self._head += part[:room]
            part = part[room:]
        if part:
            self._tail = (self._tail + part[-TAIL:])[-TAIL:]

    def _finish(self, found: list[Line], *, counts: bool) -> None:
        if counts or self._length:
            found.append(Line(clean(self._joined()), self.number))
        if counts and self.number is not None:
            self.number += 1
        self._head, self._tail, self._length = b"", b"", 0

    def _joined(self) -> bytes:
        left_out = self._length - len(self._head) - len(self._tail)
        if not left_out:
            return self._head + self._tail
        return b"%s ...[%d bytes left out]... %s" % (
            _no_torn_end(self._head),
            left_out,
            _no_torn_start(self._tail),
        )


def _no_torn_end(raw: bytes) -> bytes:
    """Without the first bytes of a character whose rest was cut off."""
    for back in range(1, min(4, len(raw)) + 1):
        byte = raw[-back]
        if byte & 0xC0 != 0x80:
            needs = 1 + (byte >= 0xC0) + (byte >= 0xE0) + (byte >= 0xF0)
            return raw[:-back] if needs > back else raw
    return raw


def _no_torn_start(raw: bytes) -> bytes:
    """Without the last bytes of a character whose beginning was cut off."""
    at = 0
    while at < min(3, len(raw)) and raw[at] & 0xC0 == 0x80:
        at += 1
    return raw[at:]
