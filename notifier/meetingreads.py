"""Reads bitmaps of the delivery log's index: of blocks, and of stretches of them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import Select, bindparam, literal_column, select
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
_VERSIONS = select(STRETCH.term, STRETCH.stretch, *_VERSION).where(*_SEVERAL).execution_options(**BINARY)
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


def several_stretches(
    session: Session, terms: Iterable[bytes], span: tuple[int, int], most: int
) -> tuple[dict[bytes, Stretches], int]:
    """Of several terms the newest `most` stretches of a span of them, and those below that are known already;
    with the lowest of these."""
    terms, (bottom, top) = list(terms), span
    low = max(bottom, top - most + 1)
    if session.get_bind().dialect.name == "postgresql":
        return _mostly_known(session, terms, span, low)
    found: dict[bytes, Stretches] = {term: {} for term in terms}
    values = {"terms": terms, "low": low, "top": top}
    for term, stretch, width, bits in _rows(session, _SEVERAL_STRETCHES, values):
        found[term][stretch] = width, bits
    return found, low


def _mostly_known(
    session: Session, terms: Sequence[bytes], span: tuple[int, int], low: int
) -> tuple[dict[bytes, Stretches], int]:
    connection = session.connection()
    memory = kept.of(connection.engine)
    values = {"terms": terms, "low": span[0], "top": span[1]}
    known: dict[int, dict[bytes, kept.Known | None]] = {}
    for term, stretch, *version in _rows(session, _VERSIONS, values):
        known.setdefault(stretch, {})[term] = memory.get((term, stretch), (version[0], version[1]))
    while low > span[0] and (rows := known.get(low - 1)) and None not in rows.values():
        low -= 1
    unknown = [stretch for stretch in known if stretch >= low and None in known[stretch].values()]
    if unknown:
        values = {"terms": terms, "low": min(unknown), "top": max(unknown)}
        for term, stretch, width, bits, *version in _rows(session, _SEVERAL_WITH_VERSIONS, values):
            row = kept.Known((version[0], version[1]), width, bits)
            memory.put((term, stretch), row)
            known.setdefault(stretch, {})[term] = row
    found: dict[bytes, Stretches] = {term: {} for term in terms}
    for stretch, there in known.items():
        for term, one in there.items():
            if one is not None and stretch >= low:
                found[term][stretch] = one.width, one.bits
    return found, low


def stretches_of(session: Session, term: bytes, which: Sequence[int]) -> Stretches:
    """Those, and perhaps some between them."""
    if not which:
        return {}
    low, top = min(which), max(which)
    if len(which) * _FEW < top - low:
        rows = _rows(session, _STRETCHES_NAMED, {"term": term, "stretches": list(which)})
    else:
        rows = _rows(session, _STRETCH_SPAN, {"term": term, "low": low, "top": top})
    return {stretch: (width, bits) for stretch, width, bits in rows}


def _rows(session: Session, rows: Select[Any], values: Mapping[str, Any]) -> Sequence[Any]:
    """As the driver has them: thousands of rows are half the time of a long question."""
    with session.connection().execute(rows, values) as found:
        rows_found: Sequence[Any] = found.cursor.fetchall()
        return rows_found
