"""Where in the index of the delivery log several terms stand together: blocks in lots, the newest first.

The term that is in the fewest blocks leads, the others are read only where it is; so a rare one makes all of
them quick, and what is left to do are terms that all stand everywhere.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Select, bindparam, select
from sqlalchemy.orm import Session

from notifier import bitmaps
from notifier.among import among
from notifier.bitmaps import Set
from notifier.searchmodel import LATE, PLACES, SearchBits
from notifier.storage import BINARY

FIRST, LARGEST = 8, 2048  # blocks of a lot
GROWS, LEAPS = 4, 16  # by how much the next one is larger; where there was nothing at all
_FEW = 4  # blocks are named when they are less than a quarter of their span

BITS: Any = SearchBits.__table__.c
_ROWS = select(BITS.block, BITS.bits).execution_options(**BINARY)
_OF_TERM = BITS.term == bindparam("term")
_FROM_TO = BITS.block.between(bindparam("low"), bindparam("top"))
_SEVERAL = _ROWS.add_columns(BITS.term).where(BITS.term.in_(bindparam("terms", expanding=True)), _FROM_TO)
_NEWEST = _ROWS.where(_OF_TERM, _FROM_TO).order_by(BITS.block.desc()).limit(bindparam("most"))
_SPAN = _ROWS.where(_OF_TERM, _FROM_TO)
_NAMED = _ROWS.where(_OF_TERM, among(BITS.block, "blocks"))

Bits = Mapping[int, bytes]


@dataclass(frozen=True)
class Lot:
    """Places where all terms stand, by block. `late`: those out of their order, also of other blocks."""

    places: Mapping[int, Set]
    late: Mapping[int, frozenset[int]]

    def slots(self, cut: Mapping[int, int]) -> Iterator[int]:
        """In order, the highest first; of some blocks only up to a place."""
        for block in sorted(self.places, reverse=True):
            late, last = self.late.get(block, frozenset()), cut.get(block, PLACES)
            for place in bitmaps.falling(self.places[block]):
                if place <= last and place not in late:
                    yield block * PLACES + place

    def behind(self) -> list[int]:
        """The late ones."""
        return [
            block * PLACES + place
            for block in self.late.keys() & self.places.keys()
            for place in bitmaps.falling(self.places[block])
            if place in self.late[block]
        ]


def lots(session: Session, terms: Iterable[bytes], bottom: int, top: int) -> Iterator[Lot]:
    """Of the blocks from top to bottom."""
    size, low = FIRST, max(bottom, top - FIRST + 1)
    first = _several(session, [*terms, LATE], low, top)
    lead, *others = sorted(terms, key=lambda term: sum(map(len, first[term].values())))
    places = _opened(first[lead])
    for term in others:
        places = _meeting(places, first[term])
    yield Lot(places, _late(first[LATE]))
    if low == bottom:
        return
    late, rest = None, low - 1
    while low > bottom:
        top, size = low - 1, min(size * (GROWS if places else LEAPS), LARGEST)
        led = _read(session, _NEWEST, {"term": lead, "low": bottom, "top": top, "most": size})
        low = min(led) if len(led) == size else bottom
        places = _opened(led)
        for term in others:
            places = _meeting(places, _of(session, term, places))
        if places and late is None:
            late = _late(_read(session, _SPAN, {"term": LATE, "low": bottom, "top": rest}))
        yield Lot(places, late or {})


def _opened(found: Bits) -> dict[int, Set]:
    return {block: bitmaps.opened(bits) for block, bits in found.items()}


def _meeting(places: Mapping[int, Set], others: Bits) -> dict[int, Set]:
    both: dict[int, Set] = {}
    for block, some in places.items():
        if (bits := others.get(block)) is not None and (left := bitmaps.meeting(some, bits)):
            both[block] = left
    return both


def _late(late: Bits) -> dict[int, frozenset[int]]:
    return {block: frozenset(bitmaps.descending(bits)) for block, bits in late.items()}


def _several(session: Session, terms: Iterable[bytes], low: int, top: int) -> dict[bytes, dict[int, bytes]]:
    terms = list(terms)
    found: dict[bytes, dict[int, bytes]] = {term: {} for term in terms}
    for block, bits, term in session.execute(_SEVERAL, {"terms": terms, "low": low, "top": top}).all():
        found[term][block] = bits
    return found


def _of(session: Session, term: bytes, blocks: Mapping[int, Any]) -> dict[int, bytes]:
    """In those blocks, and perhaps in some between them."""
    if not blocks:
        return {}
    low, top = min(blocks), max(blocks)
    if len(blocks) * _FEW < top - low:
        return _read(session, _NAMED, {"term": term, "blocks": list(blocks)})
    return _read(session, _SPAN, {"term": term, "low": low, "top": top})


def _read(session: Session, rows: Select[Any], values: Mapping[str, Any]) -> dict[int, bytes]:
    """As the driver has them: thousands of rows are half the time of a long question."""
    with session.connection().execute(rows, values) as found:
        return dict(found.cursor.fetchall())
