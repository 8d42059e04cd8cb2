"""Reads bitmaps of the delivery log's index: of blocks, and of stretches of them."""

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import Select, bindparam, func, literal_column, select
from sqlalchemy.orm import Session

from notifier import kept, stretches
from notifier.among import among
from notifier.searchmodel import SearchBits, SearchStretch
from notifier.storage import BINARY

_FEW = 4  # blocks are named when they are less than a quarter of their span

BITS: Any = SearchBits.__table__.c
STRETCH: Any = SearchStretch.__table__.c
_BLOCKS = select(BITS.block, BITS.bits).execution_options(**BINARY)
_OF_TERM = BITS.term == bindparam("term")
_FROM_TO = BITS.block.between(bindparam("low"), bindparam("top"))
_SEVERAL_BLOCKS = _BLOCKS.add_columns(BITS.term).where(
    BITS.term.in_(bindparam("terms", expanding=True)), _FROM_TO
)
_SPAN = _BLOCKS.where(_OF_TERM, _FROM_TO)
_NAMED = _BLOCKS.where(_OF_TERM, among(BITS.block, "blocks"))
_JOINED = among(BITS.block.op(">>")(bindparam("shift")), "joined")
_NEWEST = _SPAN.order_by(BITS.block.desc()).limit(bindparam("most"))
_NEWEST_OTHERS = _NEWEST.where(~_JOINED)
_STRETCHES = select(STRETCH.stretch, STRETCH.width, STRETCH.bits).execution_options(**BINARY)
_SEVERAL = (
    STRETCH.term.in_(bindparam("terms", expanding=True)),
    STRETCH.stretch.between(bindparam("low"), bindparam("top")),
)
_ROW = (STRETCH.term, STRETCH.stretch, STRETCH.width, STRETCH.bits)
_SEVERAL_STRETCHES = select(*_ROW).where(*_SEVERAL).execution_options(**BINARY)
# Of PostgreSQL: every write of a row makes a new pair of these.
_VERSION: Any = (
    literal_column("cast(cast(search_stretches.xmin as text) as bigint)"),
    literal_column("cast(search_stretches.ctid as text)"),
)
_SIZES = (
    select(STRETCH.term, STRETCH.stretch, func.length(STRETCH.bits))
    .where(*_SEVERAL)
    .execution_options(**BINARY)
)
_VERSIONS = _SIZES.add_columns(*_VERSION)
_SEVERAL_WITH_VERSIONS = select(*_ROW, *_VERSION).where(*_SEVERAL).execution_options(**BINARY)
_STRETCHES_OF_TERM = _STRETCHES.where(STRETCH.term == bindparam("term"))
_STRETCH_SPAN = _STRETCHES_OF_TERM.where(STRETCH.stretch.between(bindparam("low"), bindparam("top")))
_NEWEST_STRETCHES = _STRETCH_SPAN.order_by(STRETCH.stretch.desc()).limit(bindparam("most"))
_STRETCHES_NAMED = _STRETCHES_OF_TERM.where(among(STRETCH.stretch, "stretches"))

Blocks = dict[int, bytes]
Stretches = dict[int, tuple[int, bytes]]  # width and bits


def several(session: Session, terms: Iterable[bytes], low: int, top: int) -> dict[bytes, Blocks]:
    """Of several terms, from a block to another."""
    terms = list(terms)
    found: dict[bytes, Blocks] = {term: {} for term in terms}
    for block, bits, term in session.execute(_SEVERAL_BLOCKS, {"terms": terms, "low": low, "top": top}).all():
        found[term][block] = bits
    return found


def blocks_of(session: Session, term: bytes, blocks: Sequence[int]) -> Blocks:
    """In those blocks, and perhaps in some between them."""
    if not blocks:
        return {}
    low, top = min(blocks), max(blocks)
    if len(blocks) * _FEW < top - low:
        return dict(_rows(session, _NAMED, {"term": term, "blocks": list(blocks)}))
    return dict(_rows(session, _SPAN, {"term": term, "low": low, "top": top}))


def newest_blocks(
    session: Session, term: bytes, span: tuple[int, int], joined: Iterable[int], most: int
) -> Blocks:
    """From a block to another, the newest first, without those of these stretches."""
    low, top = span
    first, last = low >> stretches.SHIFT, top >> stretches.SHIFT
    known = [one for one in joined if first <= one <= last]
    values = {"term": term, "low": low, "top": top, "most": most}
    if not known:
        return dict(_rows(session, _NEWEST, values))
    others = sorted(set(range(first, last + 1)).difference(known))
    if not others:
        return {}
    values["low"] = max(low, others[0] << stretches.SHIFT)
    values["top"] = min(top, ((others[-1] + 1) << stretches.SHIFT) - 1)
    if len(others) == others[-1] - others[0] + 1:
        return dict(_rows(session, _NEWEST, values))
    return dict(_rows(session, _NEWEST_OTHERS, {**values, "shift": stretches.SHIFT, "joined": known}))


def newest_stretches(session: Session, term: bytes, span: tuple[int, int], most: int) -> Stretches:
    """Those from a block to another."""
    low, top = (block >> stretches.SHIFT for block in span)
    rows = _rows(session, _NEWEST_STRETCHES, {"term": term, "low": low, "top": top, "most": most})
    return {stretch: (width, bits) for stretch, width, bits in rows}


class Together:
    """Stretches of several terms in a span of them, read from the newest down, so many bytes at once.

    What there is, is looked at once for a question; and on PostgreSQL which of it is known from before. Of
    `others` nothing is read.
    """

    def __init__(
        self, session: Session, terms: Iterable[bytes], span: tuple[int, int], others: Iterable[bytes] = ()
    ) -> None:
        self._session, self._bottom = session, span[0]
        self._memory = _memory(session)
        self._there: dict[int, dict[bytes, kept.Known | int]] = {}  # as known, or how many bytes it has
        self._terms = list(terms)
        values = {"terms": [*self._terms, *others], "low": span[0], "top": span[1]}
        for term, stretch, size, *version in _rows(
            session, _SIZES if self._memory is None else _VERSIONS, values
        ):
            known = self._memory and self._memory.get((term, stretch), (version[0], version[1]))
            self._there.setdefault(stretch, {})[term] = known or size

    def below(self, top: int, most: int, wide: int) -> tuple[dict[bytes, Stretches], int]:
        """From one downwards, `wide` of them and about `most` bytes of what is not known yet; with the lowest
        one."""
        low = self._read(max(self._bottom, top - wide + 1), top, most)
        found: dict[bytes, Stretches] = {term: {} for term in self._terms}
        for stretch, rows in self._there.items():
            if low <= stretch <= top:
                for term in self._terms:
                    if isinstance(row := rows.get(term), kept.Known):  # else it is gone meanwhile
                        found[term][stretch] = row.width, row.bits
        return found, low

    def known(self, term: bytes, which: Sequence[int]) -> Stretches | None:
        """Those of one of the others; None: some of them must be read."""
        rows = {stretch: self._there[stretch].get(term) for stretch in which if stretch in self._there}
        if any(isinstance(row, int) for row in rows.values()):
            return None
        return {
            stretch: (row.width, row.bits) for stretch, row in rows.items() if isinstance(row, kept.Known)
        }

    def _read(self, low: int, top: int, most: int) -> int:
        """Down to which one all is known then."""
        size = 0
        unknown: dict[int, list[bytes]] = {}
        for stretch in sorted((one for one in self._there if low <= one <= top), reverse=True):
            rows = self._there[stretch]
            sizes = {term: row for term in self._terms if isinstance(row := rows.get(term), int)}
            size += sum(sizes.values())
            if sizes and unknown and size > most:
                low = stretch + 1
                break
            if sizes:
                unknown[stretch] = list(sizes)
        if unknown:
            terms = sorted({term for some in unknown.values() for term in some})
            for term, stretch, row in _known(self._session, self._memory, terms, min(unknown), max(unknown)):
                self._there.setdefault(stretch, {})[term] = row
        return low


def _memory(session: Session) -> kept.Kept | None:
    connection = session.connection()
    return kept.of(connection.engine) if connection.dialect.name == "postgresql" else None


def _known(
    session: Session, memory: kept.Kept | None, terms: Sequence[bytes], low: int, top: int
) -> Iterator[tuple[bytes, int, kept.Known]]:
    """Read now, and kept where that is possible."""
    values = {"terms": terms, "low": low, "top": top}
    if memory is None:
        for term, stretch, width, bits in _rows(session, _SEVERAL_STRETCHES, values):
            yield term, stretch, kept.Known((0, ""), width, bits)
        return
    for term, stretch, width, bits, *version in _rows(session, _SEVERAL_WITH_VERSIONS, values):
        row = kept.Known((version[0], version[1]), width, bits)
        memory.put((term, stretch), row)
        yield term, stretch, row


def stretches_of(session: Session, term: bytes, which: Sequence[int]) -> Stretches:
    """Those, and perhaps some between them."""
    if not which:
        return {}
    low, top = min(which), max(which)
    if len(which) * _FEW >= top - low:
        return Together(session, [term], (low, top)).below(top, sys.maxsize, top - low + 1)[0][term]
    rows = _rows(session, _STRETCHES_NAMED, {"term": term, "stretches": list(which)})
    return {stretch: (width, bits) for stretch, width, bits in rows}


def _rows(session: Session, rows: Select[Any], values: Mapping[str, Any]) -> Sequence[Any]:
    """As the driver has them: thousands of rows are half the time of a long question."""
    with session.connection().execute(rows, values) as found:
        rows_found: Sequence[Any] = found.cursor.fetchall()
        return rows_found
