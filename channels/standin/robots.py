"""What all played providers share: a request, a reply, a robot's settings and its rate."""

import json
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Request:
    """An HTTP request, its query decoded once, as a provider's server does."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> dict[str, Any] | None:
        try:
            found = json.loads(self.body.decode())
        except (ValueError, RecursionError):
            return None
        return found if isinstance(found, dict) else None


@dataclass(frozen=True)
class Reply:
    """What the provider answers, and what it makes of the message.

    `kind` is for the journal where it is not the provider's name: `sms`, `phone` or `query`.
    """

    body: Mapping[str, Any]
    status: int = 200
    code: str = ""
    is_accepted: bool = False
    title: str = ""
    text: str = ""
    called: tuple[str, ...] = ()
    id: str = ""
    kind: str = ""


@dataclass(frozen=True)
class Window:
    """At most `count` messages in any `seconds`; over it, silence for `penalty_s` more."""

    count: int
    seconds: float
    penalty_s: float = 0.0


class Meter:
    """Counts one robot's messages in sliding windows."""

    def __init__(self, windows: Sequence[Window]) -> None:
        self._windows = windows
        self._seen: deque[float] = deque(maxlen=max((window.count for window in windows), default=0) + 1)
        self._shut_until = 0.0
        self._lock = threading.Lock()

    def over(self, now: float) -> Window | None:
        """The window that this message is too many for; it counts otherwise."""
        with self._lock:
            for window in self._windows:
                recent = sum(1 for seen in self._seen if seen > now - window.seconds)
                if recent >= window.count or (window.penalty_s and now < self._shut_until):
                    self._shut_until = max(self._shut_until, now + window.penalty_s)
                    return window
            self._seen.append(now)
            return None


@dataclass
class Robot:
    """One robot (or sink) and its safety settings."""

    kind: str
    token: str
    url: str
    secret: str | None = None
    keyword: str | None = None
    success: Mapping[str, Any] = field(default_factory=dict)  # what `any` answers
    quota: int | None = None  # messages that the organisation has left; of DingTalk only
    meter: Meter = field(default_factory=lambda: Meter(()))


Judge = Callable[[Request, Robot, float], Reply]


def text_of(value: object) -> str:
    """Every piece of text in a payload: a keyword may stand in any of them."""
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        return "\n".join(text_of(item) for item in value.values())
    if isinstance(value, list):
        return "\n".join(text_of(item) for item in value)
    return ""
