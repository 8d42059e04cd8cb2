"""What the played providers of texts and calls share: an account, its quotas, and what becomes of a send."""

import re
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import count
from typing import Protocol

from channels.standin.robots import Reply, Request, Window

SMS, PHONE, QUERY = "sms", "phone", "query"  # the journal's kinds
_VARIABLE = re.compile(r"\$\{(\w+)\}|\{\$?(\w+)\}")
_WEB = re.compile(
    r"(?i)https?:|www\.\w|\b\d{1,3}(\.\d{1,3}){3}\b|[a-z0-9]\.(com|cn|net|org|io|dev|internal)\b"
)


class Fate(StrEnum):
    """What becomes of a text or a call that the provider took; PENDING: it does not know yet."""

    DELIVERED = "delivered"  # it is on the handset; a call was answered
    PENDING = "pending"
    FAILED = "failed"  # no such number, or the handset stayed off
    BUSY = "busy"  # of calls only, as the next one
    NO_ANSWER = "no_answer"


@dataclass(frozen=True)
class Line:
    """One text or call to one number, as it stands in the provider's books.

    `batch` is the id of the first line of the same request; `at`: seconds since 1970.
    """

    id: str
    batch: str
    kind: str
    to: str
    text: str
    reference: str
    at: float


@dataclass
class Account:
    """A customer of a played provider; what is no secret may be changed between requests.

    Attributes:
        key: access key id, secret id or account SID; `secret` signs for it.
        endpoint: as a channel's config wants it.
        signs: approved signatures (their ids, where the provider counts those).
        templates: approved texts by id; variables as `${name}`, or `{1}` where they are counted.
        senders: numbers that calls and texts may come from.
        app_id: of Tencent's applications.
        balance: sends that are paid for.
        blocked: numbers that the provider refuses to send to.
        fates: what becomes of sends to a number; DELIVERED where nothing is said.
        is_limited: False: no quota for a number is kept.
    """

    provider: str
    key: str
    secret: str
    endpoint: str
    signs: frozenset[str] = frozenset()
    templates: Mapping[str, str] = field(default_factory=dict)
    senders: frozenset[str] = frozenset()
    app_id: str = ""
    balance: int = 1_000_000
    blocked: set[str] = field(default_factory=set)
    fates: dict[str, Fate] = field(default_factory=dict)
    is_limited: bool = True
    lines: list[Line] = field(default_factory=list)
    nonces: set[str] = field(default_factory=set)  # of signatures, none of which is taken twice
    lock: threading.Lock = field(default_factory=threading.Lock)  # held while a request is judged
    _numbers: "count[int]" = field(default_factory=lambda: count(1))

    def over(self, kind: str, to: Iterable[str], windows: Sequence[Window], now: float) -> Window | None:
        """The window of a number in which one more is too many; nothing is counted."""
        if not self.is_limited:
            return None
        for number in to:
            sent = [line.at for line in self.lines if (line.kind, line.to) == (kind, number)]
            for window in windows:
                if sum(1 for at in sent if at > now - window.seconds) >= window.count:
                    return window
        return None

    def take(self, kind: str, to: Iterable[str], text: str, reference: str, now: float) -> tuple[Line, ...]:
        """Enters a send to each number in the books; from now on it counts, whatever becomes of it."""
        ids = [(f"{self.key[:8]}^{next(self._numbers)}", number) for number in to]
        made = tuple(Line(one, ids[0][0], kind, number, text, reference, now) for one, number in ids)
        self.lines.extend(made)
        self.balance -= len(made)
        return made

    def fate(self, line: Line) -> Fate:
        return self.fates.get(line.to, Fate.DELIVERED)


class Provider(Protocol):
    """A module of this folder that plays a provider of texts and calls."""

    def takes(self, request: Request) -> bool:
        """Whether this request is meant for this provider: by path, or by the header with its action."""

    def token(self, request: Request) -> str:
        """The key that the request names, or ""."""

    def stranger(self, request: Request) -> Reply:
        """For a key that nobody registered."""

    def judge(self, request: Request, account: Account, now: float) -> Reply:
        """Check the signature, do what is asked, and answer. `Reply.kind` is SMS, PHONE or QUERY."""


def fill(template: str, params: Mapping[str, str]) -> str | None:
    """What people read or hear: the template with its variables filled; None: one of them is missing."""
    wanted = [named or counted for named, counted in _VARIABLE.findall(template)]
    if any(name not in params for name in wanted):
        return None
    return _VARIABLE.sub(lambda found: params[found[1] or found[2]], template)


def has_web(text: str) -> bool:
    """Whether a variable holds what looks like a URL or an address to the providers that forbid them."""
    return _WEB.search(text) is not None
