"""What each provider's answers mean, one table a provider, each row with its source.

The first row that fits counts. An answer that fits none is no success: it is tried again (DESIGN 6).
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from channels.answers import Verdict
from channels.base import Outcome


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


def broken(hint: str) -> Verdict:
    """The channel itself is at fault; `hint` tells its owner what to mend."""
    return Verdict(Outcome.CHANNEL_BROKEN, hint=hint)


def refused(hint: str) -> Verdict:
    """This message cannot be told so."""
    return Verdict(Outcome.REFUSED, hint=hint)


def throttled(wait: timedelta) -> Verdict:
    """Too fast; the same wait however often it is said."""
    return Verdict(Outcome.THROTTLED, retry_after=wait, repeated_after=wait)
