"""What the node's agent finds out about its machine by itself, beside what the kernel prints.

A finding is an event, and evidence: it goes as a `kernel_line`, by the id of a signature. A condition stands
for a while and is for people to see beside the node: it rides on heartbeats (agent/wire.py).
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from agent.clock import rfc3339, stamp, utcnow
from agent.wire import MAX_CONDITIONS, Kind, Observation

MAX_WORD = 512  # characters: the master takes no longer ones
_AGAIN_S = 60.0  # unchanged conditions are told again so often: a master may have lost its memory of them


@dataclass(frozen=True)
class Finding:
    """`signature`: an id of agent.signatures, by which diagnosis knows what it means. `line`: for people."""

    signature: str
    line: str
    captured: dict[str, str] = field(default_factory=dict)

    def observed(self) -> Observation:
        data = {"signature": self.signature, "captured": dict(self.captured), "line": self.line}
        return Observation(Kind.KERNEL_LINE, stamp(), None, data)


@dataclass(frozen=True, order=True)
class Condition:
    """`name` and `subject` (a device, a path) tell it from others; `severity`: `info`, `warning`, `error`."""

    name: str
    subject: str
    severity: str
    text: str


class Standing:
    """Which conditions stand, and when they are to be told: at once when they change, else now and then."""

    def __init__(self) -> None:
        self._since: dict[tuple[str, str], str] = {}
        self._told: list[tuple[str, str]] | None = None
        self._next = 0.0

    def tell(self, conditions: Iterable[Condition], now: float) -> list[dict[str, str]] | None:
        """All that stand, for the next heartbeat; None: nothing new. `now`: a clock that only grows, in s."""
        standing = sorted(set(conditions))[:MAX_CONDITIONS]
        keys = [(one.name, one.subject) for one in standing]
        if keys == self._told and now < self._next:
            return None
        self._told, self._next = keys, now + _AGAIN_S
        at = rfc3339(utcnow())
        self._since = {key: self._since.get(key, at) for key in keys}
        return [
            {name: text[:MAX_WORD] for name, text in vars(one).items()}
            | {"since": self._since[one.name, one.subject]}
            for one in standing
        ]
