"""Which of many forms a text may hold, in one pass over it."""

from collections.abc import Sequence

import re2


class Prefilter:
    """Looks for the literals that each form needs (RE2 finds them in the patterns)."""

    def __init__(self, patterns: Sequence[str]) -> None:
        self._filter = re2.Filter()
        for pattern in patterns:
            self._filter.Add(pattern)
        self._filter.Compile()

    def hits(self, text: str) -> Sequence[int]:
        """The places, in order, of patterns whose literals the text holds."""
        return sorted(self._filter.Match(text, potential=True) or ())
