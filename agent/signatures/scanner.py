"""Finds known line forms in one line of a log, at little cost where there is none."""

from collections.abc import Sequence
from functools import cache, lru_cache

import re2

from agent.signatures.accelerators import ACCELERATORS
from agent.signatures.cuda import CUDA
from agent.signatures.custom import compiled
from agent.signatures.framing import Framed, framed, kernel_framed
from agent.signatures.host import HOST
from agent.signatures.kernel import KERNEL
from agent.signatures.launcher import LAUNCHER
from agent.signatures.model import Match, Role, Signature
from agent.signatures.nccl import NCCL
from agent.signatures.prefilter import Prefilter
from agent.signatures.process import PROCESS
from agent.signatures.rendezvous import RENDEZVOUS
from agent.signatures.schedulers import SCHEDULERS
from agent.signatures.watchdog import WATCHDOG

# Order decides where two forms fit: the special before the general.
SIGNATURES: tuple[Signature, ...] = (
    *NCCL,
    *WATCHDOG,
    *RENDEZVOUS,
    *SCHEDULERS,
    *ACCELERATORS,
    *CUDA,
    *PROCESS,
    *LAUNCHER,
    *HOST,
    *KERNEL,
)
_BY_ID = {one.id: one for one in SIGNATURES}
CUSTOM = "custom"
MAX_LINE = 8192  # agent.wire.MAX_TEXT: what is beyond cannot be reported anyway


def signature(name: str) -> Signature | None:
    """The signature of that id."""
    return _BY_ID.get(name)


class Scanner:
    """Holds the user's own patterns beside the known forms. Safe to share between threads."""

    def __init__(self, custom: Sequence[str] = ()) -> None:
        self._custom = compiled(tuple(custom))

    def scan(self, line: str, source: str = "log") -> Match | None:
        """What a line says, or None. `source`: "log" or "kernel"."""
        text = _encodable(line[:MAX_LINE])
        for pattern, expression in self._custom if source == "log" else ():
            if expression.search(text):
                return Match(CUSTOM, "custom_pattern", Role.CULPRIT, line, {"pattern": pattern})
        suspects = _suspects(text, source)
        return _first(suspects, line, text, source) if suspects else None


def _first(suspects: list[Signature], line: str, text: str, source: str) -> Match | None:
    framing = kernel_framed(text) if source == "kernel" else framed(text)
    for one in suspects:
        if not _counts(one, framing):
            continue
        expression = _expression(one.pattern)
        found = expression.fullmatch(framing.body) or expression.fullmatch(framing.said())
        if found:
            if one.role is Role.BENIGN:
                return None
            captured = {key: value for key, value in found.groupdict().items() if value is not None}
            return Match(one.id, one.cause, one.role, line, {**captured, **framing.facts()})
    return None


def _counts(one: Signature, framing: Framed) -> bool:
    if one.origins and framing.origin not in one.origins:
        return False
    return not framing.level or framing.level in (one.levels or "WEF")


@lru_cache(maxsize=2)
def _prefilter(source: str) -> tuple[Sequence[Signature], Prefilter]:
    signatures = [one for one in SIGNATURES if one.kernel == (source == "kernel")]
    return signatures, Prefilter([one.pattern for one in signatures])


def _suspects(text: str, source: str) -> list[Signature]:
    """Those whose literals the line holds, in the table's order."""
    signatures, prefilter = _prefilter(source)
    return [signatures[at] for at in prefilter.hits(text)]


@cache  # re2's own cache holds 128, fewer than we have
def _expression(pattern: str) -> "re2._Regexp[str]":
    return re2.compile(pattern)


def _encodable(text: str) -> str:
    """RE2 takes UTF-8; logs hold whatever a program printed."""
    if text.isascii():
        return text
    return text.encode("utf-8", "replace").decode("utf-8")
