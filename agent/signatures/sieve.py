"""Tells at some GB/s of which known forms a block of a log may hold lines, so that in a flood only those are
taken apart."""

import contextlib
import re
from collections.abc import Collection, Sequence
from functools import cached_property
from typing import Any

from agent.signatures.colours import ANSI
from agent.signatures.custom import over_lines
from agent.signatures.model import Role
from agent.signatures.prefilter import Prefilter
from agent.signatures.scanner import SIGNATURES

try:
    import hyperscan

    HAS_HYPERSCAN = True
except ImportError:  # there is no wheel of it for this machine: RE2 is an eighth as quick
    HAS_HYPERSCAN = False

# What others than the scanner look for in lines: context, and torchelastic's word of its workers.
ALSO = (r"Traceback \(most recent call last\)", r"exitcode: ")
_KNOWN = [one for one in SIGNATURES if one.role is not Role.BENIGN]
OF_LOGS = (*(one.pattern for one in _KNOWN if not one.kernel), *ALSO)
OF_LOGS_AND_KERNELS = tuple(one.pattern for one in _KNOWN)
_ANSI = re.compile(ANSI.encode())


class Sieve:
    """Holds every form that a `Scanner` with the same custom patterns finds, or those that are `known`. For
    one thread.

    May find a form where there is none, never none where a whole line would be found.
    """

    def __init__(self, custom: Sequence[str] = (), known: Sequence[str] = OF_LOGS) -> None:
        self._custom, self._patterns = over_lines(tuple(custom)), known

    @cached_property
    def _known(self) -> "_Hyperscan | _Filter":
        """Made for the first flood: it takes a tenth of a second and 7 MiB, and most logs never are one."""
        return _quickest(self._patterns)

    def forms(self, block: bytes) -> Collection[int] | None:
        """Of which forms some line of the block may be; None: that can only be told line by line."""
        if self._custom is None:
            return None
        plain = _ANSI.sub(b"", block) if b"\x1b" in block else block
        found = self._known.forms(plain)
        if not self._custom:
            return found
        text = plain.replace(b"\r", b"\n").decode("utf-8", "replace")
        return [*found, *(-n for n, one in enumerate(self._custom, 1) if one.search(text))]


class _Hyperscan:
    """Unanchored and by bytes: a line's own words lie behind framing that is not taken off here."""

    def __init__(self, patterns: Sequence[str]) -> None:
        self._base = hyperscan.Database()
        flags = hyperscan.HS_FLAG_PREFILTER | hyperscan.HS_FLAG_SINGLEMATCH
        self._base.compile(
            expressions=[pattern.encode() for pattern in patterns],
            ids=list(range(len(patterns))),
            flags=[flags] * len(patterns),
        )

    def forms(self, block: bytes) -> Collection[int]:
        found: list[int] = []

        def hear(which: int, *_place: Any) -> None:
            found.append(which)

        self._base.scan(block, match_event_handler=hear)
        return found


class _Filter:
    """The same by the scanner's own prefilter."""

    def __init__(self, patterns: Sequence[str]) -> None:
        self._prefilter = Prefilter(patterns)

    def forms(self, block: bytes) -> Collection[int]:
        return self._prefilter.hits(block.decode("utf-8", "replace"))


def _quickest(patterns: Sequence[str]) -> _Hyperscan | _Filter:
    """A processor may be too old for hyperscan."""
    if HAS_HYPERSCAN:
        with contextlib.suppress(hyperscan.error):
            return _Hyperscan(patterns)
    return _Filter(patterns)
