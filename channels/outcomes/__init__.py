"""What each provider's answers mean, one table a provider, each row with its source.

The first row that fits counts. An answer that fits none is no success: it is tried again (DESIGN 6).
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from channels.answers import Verdict


@dataclass(frozen=True)
class Row:
    """`says`: a pattern sought in the answer's words, in lower case, where the code means several things."""

    code: int | range
    verdict: Verdict
    says: str = ""

    def fits(self, code: int, words: str) -> bool:
        known = code in self.code if isinstance(self.code, range) else code == self.code
        return known and re.search(self.says, words) is not None


def look_up(table: Sequence[Row], code: int, said: str) -> Verdict | None:
    """The verdict on an answer; None where the table does not know it."""
    words = said.lower()
    return next((row.verdict for row in table if row.fits(code, words)), None)
