"""Reads bitmaps of the delivery log's index: of blocks, and of stretches of them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import Select, bindparam, select
from sqlalchemy.orm import Session

from notifier import stretches
from notifier.among import among
from notifier.searchmodel import SearchBits, SearchStretch
from notifier.storage import BINARY

_FEW = 4  # blocks are named when they are less than a quarter of their span

BITS: Any = SearchBits.__table__.c
STRETCH: Any = SearchStretch.__table__.c
_BLOCKS = select(BITS.block, BITS.bits).execution_options(**BINARY)
_OF_TERM = BITS.term == bindparam("term")
_FROM_TO = BITS.block.between(bindparam("low"), bindparam("top"))
_SEVERAL = _BLOCKS.add_columns(BITS.term).where(BITS.term.in_(bindparam("terms", expanding=True)), _FROM_TO)
_SPAN = _BLOCKS.where(_OF_TERM, _FROM_TO)
_NAMED = _BLOCKS.where(_OF_TERM, among(BITS.block, "blocks"))
_JOINED = among(BITS.block.op(">>")(bindparam("shift")), "joined")
_NEWEST = _SPAN.order_by(BITS.block.desc()).limit(bindparam("most"))
_NEWEST_OTHERS = _NEWEST.where(~_JOINED)
_STRETCHES = select(STRETCH.stretch, STRETCH.width, STRETCH.bits).execution_options(**BINARY)
_SEVERAL_STRETCHES = _STRETCHES.add_columns(STRETCH.term).where(
    STRETCH.term.in_(bindparam("terms", expanding=True)),
    STRETCH.stretch.between(bindparam("low"), bindparam("top")),
)
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
    for block, bits, term in session.execute(_SEVERAL, {"terms": terms, "low": low, "top": top}).all():
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


def several_stretches(session: Session, terms: Iterable[bytes], low: int, top: int) -> dict[bytes, Stretches]:
    """Of several terms, from a stretch to another."""
    terms = list(terms)
    found: dict[bytes, Stretches] = {term: {} for term in terms}
    values = {"terms": terms, "low": low, "top": top}
    for stretch, width, bits, term in _rows(session, _SEVERAL_STRETCHES, values):
        found[term][stretch] = width, bits
    return found


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
