"""Joins the bitmaps of blocks next to each other, so that terms that stand everywhere are read in few rows.

Only of blocks of which nothing changes any more: they are full, looked through for late ones, and nothing of
them is watched. So what a worker of a release before writes meanwhile is never missing; and where a term has
no row here, the blocks' own are read.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from sqlalchemy import bindparam, case, delete, func, insert, literal_column, select
from sqlalchemy.orm import Session

from notifier import bitmaps
from notifier.lots import lots
from notifier.searchmodel import LATE, SearchBits, SearchBlock, SearchStretch, SearchWatch
from notifier.storage import BINARY, Store

SHIFT = 5  # a stretch has 2 ** SHIFT blocks
FEWEST = 4  # a term is in a quarter of them, or its rows stay as they are: a word of few is nowhere else
MANY = 2048  # so many places are no list: of half a million, about where both take as long
BATCH, BATCH_SQLITE = 500, 100  # terms of a write

_ROWS = (
    select(SearchBits.term, SearchBits.block, SearchBits.bits)
    .where(
        SearchBits.term.in_(bindparam("terms", expanding=True)),
        SearchBits.block.between(bindparam("low"), bindparam("top")),
    )
    .execution_options(**BINARY)
)


@dataclass(frozen=True)
class _Stretch:
    """`width`: places of each block."""

    number: int
    width: int

    @property
    def low(self) -> int:
        return self.number << SHIFT

    @property
    def top(self) -> int:
        return self.low + (1 << SHIFT) - 1

    def of_blocks(self, block: Any) -> Any:
        return block.between(self.low, self.top)


def steps(store: Store, writing: Callable[[], AbstractContextManager[Any]]) -> Iterator[int]:
    """Joins all that can be, the newest first, a transaction a step; each says how many terms that were."""
    with store.read() as session:
        waiting = _waiting(session)
    size = BATCH if store.is_postgres else BATCH_SQLITE
    for stretch in waiting:
        with store.read() as session:
            terms = _terms(session, stretch)
        for some in lots(terms, size):
            with writing(), store.write(lasts=False) as session:
                if not _join(session, stretch, some):
                    break
            yield len(some)


def forget(session: Session, added: Mapping[int, Iterable[bytes]]) -> None:
    """To blocks something is added under these terms: their own bitmaps count again."""
    touched: dict[int, set[bytes]] = defaultdict(lambda: {LATE})
    for block, terms in added.items():
        touched[block >> SHIFT].update(terms)
    joined = select(SearchStretch.stretch).where(SearchStretch.stretch.in_(touched)).distinct()
    for number in session.scalars(joined).all():
        for some in lots(touched[number]):
            _delete(session, number, some)


def take_out(session: Session, block: int, place: int, terms: Iterable[bytes]) -> None:
    """A place does not stand under these terms any more."""
    for some in lots(terms):
        rows = select(SearchStretch).where(
            SearchStretch.stretch == block >> SHIFT, SearchStretch.term.in_(some)
        )
        for row in session.scalars(rows.with_for_update()):
            position = (block - (row.stretch << SHIFT)) * row.width + place
            rest = bitmaps.without(row.bits, position)
            if rest is None:
                session.delete(row)
            else:
                row.bits = rest


def sweep(session: Session, most: int) -> bool:
    """Some of the stretches all of whose blocks are gone; whether there may be more."""
    bottom = session.scalar(select(func.min(SearchBlock.block)))
    if bottom is None:
        return False
    gone = select(SearchStretch.stretch).where(SearchStretch.stretch < bottom >> SHIFT).limit(1)
    number = session.scalar(gone)
    if number is None:
        return False
    terms = session.scalars(
        select(SearchStretch.term).where(SearchStretch.stretch == number).limit(most)
    ).all()
    _delete(session, number, terms)
    return True


def _delete(session: Session, number: int, terms: Sequence[bytes]) -> None:
    statement = delete(SearchStretch).where(SearchStretch.stretch == number, SearchStretch.term.in_(terms))
    session.execute(statement, execution_options={"synchronize_session": False})


def _waiting(session: Session) -> list[_Stretch]:
    """Whose row under `LATE`, which is written last, is not there; nothing of them changes any more."""
    number = SearchBlock.block.op(">>")(literal_column(str(SHIFT)))
    unchecked = func.sum(case((SearchBlock.is_checked, 0), else_=1))
    rows = select(
        number.label("number"), func.min(SearchBlock.after_id).label("after_id"),
        func.max(SearchBlock.last_id).label("last_id"), func.max(SearchBlock.used).label("used"),
    )  # fmt: skip
    top = select(func.max(SearchBlock.block)).scalar_subquery()
    whole = rows.where(SearchBlock.block < top).group_by(number)
    found = session.execute(whole.having(func.count() == 1 << SHIFT, unchecked == 0)).all()
    joined = set(session.scalars(select(SearchStretch.stretch).where(SearchStretch.term == LATE)))
    return [
        _Stretch(row.number, (row.used + 7) // 8 * 8)
        for row in sorted(found, key=lambda row: row.number, reverse=True)
        if row.number not in joined and not _is_watched(session, row.after_id, row.last_id)
    ]


def _is_watched(session: Session, after: str, upto: str) -> bool:
    watched = select(SearchWatch.delivery_id).where(
        SearchWatch.delivery_id > after, SearchWatch.delivery_id <= upto
    )
    return session.scalar(watched.limit(1)) is not None


def _terms(session: Session, stretch: _Stretch) -> list[bytes]:
    """Those that are in many of its blocks; `LATE` is the last of them in any case."""
    rows = select(SearchBits.term).where(stretch.of_blocks(SearchBits.block)).group_by(SearchBits.term)
    found = session.scalars(rows.having(func.count() >= (1 << SHIFT) / FEWEST)).all()
    return [*sorted(term for term in found if term != LATE), LATE]


def _join(session: Session, stretch: _Stretch, terms: Sequence[bytes]) -> bool:
    """Whether the stretch is still what it was."""
    blocks = select(SearchBlock).where(stretch.of_blocks(SearchBlock.block)).order_by(SearchBlock.block)
    there = session.scalars(blocks.with_for_update()).all()
    if len(there) != 1 << SHIFT or any(one.used > stretch.width or not one.is_checked for one in there):
        return False
    found: dict[bytes, list[tuple[int, bytes]]] = defaultdict(list)
    for term, block, bits in session.execute(
        _ROWS, {"terms": list(terms), "low": stretch.low, "top": stretch.top}
    ):
        found[term].append(((block - stretch.low) * stretch.width, bits))
    _delete(session, stretch.number, terms)
    rows = [
        {
            "term": term, "stretch": stretch.number, "width": stretch.width,
            "bits": bitmaps.joined(found[term], MANY),
        }
        for term in terms
        if found[term] or term == LATE
    ]  # fmt: skip
    if rows:
        session.execute(insert(SearchStretch.__table__), rows)  # type: ignore[arg-type]
    return True
