"""What is asked of the kit, and what it says it did."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Wish:
    """The options of one injection; None is the fault's own default.

    Attributes:
        rank: the global rank that is struck.
        seconds: how long what ends by itself lasts.
        line: the text that is written instead of the usual one.
        skew_s: by how much a clock goes wrong, in seconds; ahead if positive.
    """

    rank: int | None = None
    seconds: float | None = None
    line: str | None = None
    skew_s: float | None = None


@dataclass(frozen=True)
class Done:
    """Where it struck, and one sentence on what was done."""

    rank: int
    pod: str
    node: str
    did: str

    def document(self) -> dict[str, Any]:
        return {"rank": self.rank, "pod": self.pod, "node": self.node, "did": self.did}
