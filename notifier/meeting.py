"""Where in the index of the delivery log several terms stand together: blocks in lots, the newest first.

The term that is in the fewest blocks leads, the others are read only where it is; so a rare one makes all of
them quick, and what is left to do are terms that all stand everywhere: of those, whole stretches of blocks
are laid over each other at once.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from sqlalchemy.orm import Session

from notifier import bitmaps, meetingreads, stretches
from notifier.bitmaps import Set
from notifier.meetingreads import Stretches
from notifier.searchmodel import LATE, PLACES

FIRST, LARGEST = 8, 2048  # blocks of a lot
GROWS, LEAPS = 4, 256  # by how much the next one is larger; where there was nothing at all
RARE = 4  # a lead is everywhere when it is in more than a quarter of the first blocks
TOGETHER = 384 << 10  # bytes that are read at once: of more, each takes twice as long
WIDE = 2  # stretches of the first step; what is known already needs no reading, and time all the same


class Area(NamedTuple):
    """Blocks from `block` on whose places are numbered through, `width` of each."""

    block: int
    width: int = PLACES
    blocks: int = 1

    def slot(self, position: int) -> int:
        block, place = divmod(position, self.width)
        return (self.block + block) * PLACES + place

    def upto(self, slot: int) -> int:
        """How many of its positions there are up to a slot."""
        block, place = divmod(slot, PLACES)
        inside = (block - self.block) * self.width + min(place + 1, self.width)
        return max(0, min(inside, self.blocks * self.width))


Places = Mapping[Area, Set]


@dataclass(frozen=True)
class Lot:
    """Places where all terms stand. `late`: those of them that are out of their order."""

    places: Places
    late: Places

    def slots(self, upto: int) -> Iterator[int]:
        """Those in order, the highest first, up to a slot."""
        for area in sorted(self.places, reverse=True):
            for position in bitmaps.falling(bitmaps.part(self.places[area], 0, area.upto(upto))):
                slot = area.slot(position)
                if slot not in self._behind:
                    yield slot

    def behind(self) -> list[int]:
        """The late ones."""
        return list(self._behind)

    @cached_property
    def _behind(self) -> frozenset[int]:
        return frozenset(
            area.slot(position) for area, some in self.late.items() for position in bitmaps.falling(some)
        )


def lots(session: Session, terms: Iterable[bytes], bottom: int, top: int) -> Iterator[Lot]:
    """Of the blocks from top to bottom."""
    size, low = FIRST, max(bottom, top - FIRST + 1)
    first = meetingreads.several(session, [*terms, LATE], low, top)
    lead, *others = sorted(terms, key=lambda term: sum(map(len, first[term].values())))
    places: Places = {Area(block): bitmaps.opened(bits) for block, bits in first[lead].items()}
    is_everywhere = len(first[lead]) * RARE > FIRST
    for term in others:
        places = _blocks_meeting(places, first[term])
    yield Lot(places, _blocks_meeting(places, first[LATE]))
    if low == bottom:
        return
    reads = _Together(session, (lead, *others), (bottom, low - 1)) if is_everywhere else _Apart(session)
    while low > bottom:
        top = low - 1
        size = LARGEST if is_everywhere else min(size * (GROWS if places else LEAPS), LARGEST)
        places, low = _led(session, reads, lead, (bottom, top), size)
        for term in others:
            places = _meeting(session, reads, places, term)
        yield Lot(places, _meeting(session, reads, places, LATE))


class _Apart:
    """Stretches of a term are read when it is its turn, only where all before it are."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def newest(self, lead: bytes, span: tuple[int, int], size: int) -> tuple[Stretches, int]:
        """The lead's in that span, as far down as to a block."""
        most = max(1, size >> stretches.SHIFT)
        found = meetingreads.newest_stretches(self._session, lead, span, most)
        return found, max(span[0], min(found) << stretches.SHIFT) if len(found) == most else span[0]

    def of(self, term: bytes, which: Sequence[int]) -> Stretches:
        return meetingreads.stretches_of(self._session, term, which)


class _Together(_Apart):
    """Stretches of the lead and the next term are read at once, no more than a processor has at hand: mostly
    nothing is left then, or enough."""

    def __init__(self, session: Session, terms: Sequence[bytes], span: tuple[int, int]) -> None:
        super().__init__(session)
        bottom, top = (block >> stretches.SHIFT for block in span)
        self._several = meetingreads.Together(session, (*terms[:2], LATE), (bottom, top), terms[2:])
        self._known: Mapping[bytes, Stretches] = {}
        self._wide = WIDE

    def newest(self, lead: bytes, span: tuple[int, int], size: int) -> tuple[Stretches, int]:  # noqa: ARG002
        self._known, low = self._several.below(span[1] >> stretches.SHIFT, TOGETHER, self._wide)
        self._wide *= GROWS
        return self._known[lead], max(span[0], low << stretches.SHIFT)

    def of(self, term: bytes, which: Sequence[int]) -> Stretches:
        if term in self._known:
            return self._known[term]
        known = self._several.known(term, which)
        return super().of(term, which) if known is None else known


def _led(
    session: Session, reads: _Apart, lead: bytes, span: tuple[int, int], size: int
) -> tuple[Places, int]:
    """Where the lead stands in the newest blocks of a span, about `size` of them; and down to which block."""
    joined, low = reads.newest(lead, span, size)
    top, blocks = span[1], 1 << stretches.SHIFT
    found = meetingreads.newest_blocks(session, lead, (low, top), joined, size)
    if len(found) == size:
        low = min(found)
    places: dict[Area, Set] = {Area(block): bitmaps.opened(bits) for block, bits in found.items()}
    for stretch, (width, bits) in joined.items():
        area = Area(stretch * blocks, width, blocks)
        if area.block + blocks > low and (some := _within(area, bitmaps.opened(bits), (low, top))):
            places[area] = some
    return places, low


def _within(area: Area, found: Set, span: tuple[int, int]) -> Set:
    """Without blocks that lie outside of the span."""
    low, top = (block - area.block for block in span)
    if top < area.blocks - 1:
        found = bitmaps.part(found, 0, (top + 1) * area.width)
    return bitmaps.above(found, low * area.width) if low > 0 else found


def _meeting(session: Session, reads: _Apart, places: Places, term: bytes) -> Places:
    """Of these places those where a term stands too."""
    wide = [area for area in places if area.blocks > 1]
    joined = reads.of(term, [area.block >> stretches.SHIFT for area in wide])
    both: dict[Area, Set] = {}
    apart = {area: some for area, some in places.items() if area.blocks == 1}
    for area in wide:
        width, bits = joined.get(area.block >> stretches.SHIFT, (0, b""))
        if width != area.width:
            apart[area] = places[area]
        elif left := bitmaps.meeting(places[area], bits):
            both[area] = left
    blocks = [area.block + n for area in apart for n in range(area.blocks)]
    both.update(_blocks_meeting(apart, meetingreads.blocks_of(session, term, blocks)))
    return both


def _blocks_meeting(places: Places, others: Mapping[int, bytes]) -> Places:
    both: dict[Area, Set] = {}
    for area, some in places.items():
        for n in range(area.blocks):
            bits = others.get(area.block + n)
            if bits is None:
                continue
            own = some if area.blocks == 1 else bitmaps.part(some, n * area.width, (n + 1) * area.width)
            if left := bitmaps.meeting(own, bits):
                both[Area(area.block + n)] = left
    return both
