"""Whether a silence keeps an alert back: matchers over its facts, the time between two moments. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache

import re2

OPERATORS = ("=", "!=", "=~", "!~")
PATTERNS = frozenset({"=~", "!~"})
MAX_PATTERN = 1000
_MAX_PROGRAM_BYTES = 1 << 20  # an automaton beyond that would slow every alert of the pool

SILENCED = "silenced until "  # begins why a delivery was kept back
PENDING, ACTIVE, EXPIRED = "pending", "active", "expired"

Facts = Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class Matcher:
    """One condition on a fact; patterns are RE2 and must match the whole value, as in Alertmanager."""

    name: str
    op: str
    value: str

    def holds(self, facts: Facts) -> bool:
        """A fact that is not there is the empty text; one with several values is each of them."""
        found = any(self._is(value) for value in facts.get(self.name) or ("",))
        return found is (self.op in {"=", "=~"})

    def _is(self, value: str) -> bool:
        if self.op in PATTERNS:
            return compiled(self.value).fullmatch(value) is not None
        return value == self.value


@dataclass(frozen=True)
class Hush:
    """A silence as far as this decision needs it. `queue` "": of all queues."""

    id: str
    queue: str
    matchers: tuple[Matcher, ...]
    starts_at: datetime
    ends_at: datetime
    comment: str = ""
    created_by: str = ""


def status(starts_at: datetime, ends_at: datetime, now: datetime) -> str:
    if now >= ends_at:
        return EXPIRED  # one that was ended before it began, too
    return PENDING if now < starts_at else ACTIVE


def silenced(silences: Iterable[Hush], queue: str, facts: Facts, now: datetime) -> Hush | None:
    """The silence that keeps such an alert of that queue back; of several the one that ends last."""
    found = [
        one
        for one in silences
        if one.queue in {"", queue}
        and status(one.starts_at, one.ends_at, now) == ACTIVE
        and all(matcher.holds(facts) for matcher in one.matchers)
    ]
    return max(found, key=lambda one: (one.ends_at, one.id), default=None)


def facts_of(labels: Mapping[str, object], own: Mapping[str, Iterable[str | None]]) -> dict[str, list[str]]:
    """What matchers look at: the alert's labels, and what is known of it besides, under the same names."""
    facts = {name: [str(value)] for name, value in labels.items()}
    for name, values in own.items():
        facts.setdefault(name, []).extend(value for value in values if value)
    return facts


def is_bounded(matchers: Iterable[Matcher]) -> bool:
    """Whether at least one of them asks for something that an alert must have; else a slip silences all."""
    return any(not one.holds({}) for one in matchers)


@lru_cache(maxsize=512)
def compiled(pattern: str) -> "re2._Regexp[str]":
    """Raises ValueError with what is wrong with it."""
    if len(pattern) > MAX_PATTERN:
        raise ValueError(f"is longer than {MAX_PATTERN} characters")
    options = re2.Options()
    options.max_mem = _MAX_PROGRAM_BYTES
    options.log_errors = False
    options.dot_nl = True
    try:
        return re2.compile(pattern, options=options)
    except (re2.error, UnicodeEncodeError) as error:
        first = error.args[0] if error.args else "unreadable"
        words = first.decode(errors="replace") if isinstance(first, bytes) else str(first)
        raise ValueError(f"is no valid RE2 pattern ({words})") from None
