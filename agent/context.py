"""The last lines of each rank and the tracebacks among them: the context of what is reported."""

from collections import deque
from dataclasses import dataclass, field

KEPT_LINES = 30
KEPT_TEXT = 1024  # characters of one line kept as context; what is reported itself is kept whole
_TRACE_HEAD = 4
_TRACE_TAIL = 28
_FRESH = 2000  # a traceback further back than so many lines of the pod is no longer the last word
_START = "Traceback (most recent call last):"
_CHAINED = ("During handling of the above exception", "The above exception was the direct cause")


@dataclass
class Trace:
    """A traceback being read or read: its lines, and where in the pod's output it began and ended."""

    lines: deque[str]
    head: list[str]
    began: int
    ended: int = 0

    @classmethod
    def begun(cls, line: str, at: int) -> "Trace":
        return cls(deque(maxlen=_TRACE_TAIL), [line], at)

    def add(self, line: str) -> None:
        if len(self.head) < _TRACE_HEAD:
            self.head.append(line)
        else:
            self.lines.append(line)

    def text(self) -> list[str]:
        return [*self.head, *self.lines]


@dataclass
class _Voice:
    """What one rank said last."""

    recent: deque[tuple[int, str]] = field(default_factory=lambda: deque(maxlen=KEPT_LINES))
    reading: Trace | None = None
    last: Trace | None = None


class Context:
    """Kept by rank; `None` stands for lines of which nobody knows whose they are."""

    def __init__(self) -> None:
        self._voices: dict[int | None, _Voice] = {}
        self._count = 0

    def add(self, rank: int | None, line: str, body: str) -> list[str]:
        """Keep a line; the lines that belong before it: its traceback, else what the rank said last."""
        self._count += 1
        voice = self._voices.setdefault(rank, _Voice())
        line = line[:KEPT_TEXT]
        before = self._traceback(voice, line, body)
        if before is None:
            before = [text for _, text in list(voice.recent)[-10:]]
        voice.recent.append((self._count, line))
        return before

    def last_lines(self, rank: int | None) -> list[str]:
        """What a rank said last, its traceback kept; lines of unknown rank fill what room is left."""
        own, others = self._voices.get(rank), self._voices.get(None) if rank is not None else None
        lines = list(own.recent) if own else []
        room = KEPT_LINES - len(lines)
        if others and room > 0:
            lines = sorted(lines + list(others.recent)[-room:])
        texts = [text for _, text in lines]
        trace = self._last_trace(own) or self._last_trace(others)
        if trace is None or not lines or trace.began >= lines[0][0]:
            return texts
        over = max(trace.ended, trace.began + len(trace.head) + len(trace.lines) - 1)
        return trace.text() + [text for at, text in lines if at > over]

    def _last_trace(self, voice: _Voice | None) -> Trace | None:
        """The traceback that may be a voice's last word."""
        trace = (voice.reading or voice.last) if voice else None
        if trace is None or self._count - max(trace.ended, trace.began) > _FRESH:
            return None
        return trace

    @staticmethod
    def _is_inside(body: str) -> bool:
        return not body or body[0] in " \t" or body.startswith(_CHAINED)

    def _traceback(self, voice: _Voice, line: str, body: str) -> list[str] | None:
        """The traceback above a line that ends one; None for any other line."""
        trace = voice.reading
        if body.startswith(_START):
            if trace is None:
                voice.reading = Trace.begun(line, self._count)
            else:
                trace.add(line)
            return None
        if trace is None:
            return None
        if self._is_inside(body):
            trace.add(line)
            return None
        above = trace.text()
        trace.add(line)
        trace.ended = self._count
        voice.last, voice.reading = trace, None
        return above
