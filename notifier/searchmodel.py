"""The tables by which words and filters of the delivery log are found: a bitmap for each word and block.

A block is up to `indexing.FULL` deliveries next to each other in time. Its bitmaps say at which places of the
block a word, or the value of a filter, was seen. They may say too much, never too little: whoever reads them
looks at the delivery itself.
"""

from sqlalchemy import BigInteger, Integer, LargeBinary
from sqlalchemy.orm import Mapped, mapped_column

from notifier.storage import Base

LATE = b"\0"  # the term of places that are out of their order by id
PLACES = 65536  # of a block: a slot is block * PLACES + place


class SearchBlock(Base):
    """All deliveries with ids above `after_id`, up to `last_id`; so many places of it are `used`."""

    __tablename__ = "search_blocks"
    block: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    after_id: Mapped[str]
    last_id: Mapped[str]
    used: Mapped[int]
    is_checked: Mapped[bool]  # whether it was looked through for deliveries that were committed late


class SearchSlot(Base):
    """Which delivery has which place."""

    __tablename__ = "search_slots"
    slot: Mapped[int] = mapped_column(
        BigInteger().with_variant(Integer(), "sqlite"), primary_key=True, autoincrement=False
    )
    delivery_id: Mapped[str] = mapped_column(unique=True)


class SearchBits(Base):
    """At which places of a block a term stands (`bitmaps`)."""

    __tablename__ = "search_bits"
    term: Mapped[bytes] = mapped_column(LargeBinary, primary_key=True)
    block: Mapped[int] = mapped_column(primary_key=True, autoincrement=False, index=True)
    bits: Mapped[bytes] = mapped_column(LargeBinary)


class SearchStretch(Base):
    """The same of many blocks in one row (`stretches`): of a term that is in many of them, once nothing of
    them changes any more. Place p of its n-th block is at n * `width` + p. A row has all that the blocks' own
    say; where there is none, theirs are read.
    """

    __tablename__ = "search_stretches"
    term: Mapped[bytes] = mapped_column(LargeBinary, primary_key=True)
    stretch: Mapped[int] = mapped_column(primary_key=True, autoincrement=False, index=True)
    width: Mapped[int]
    bits: Mapped[bytes] = mapped_column(LargeBinary)


class SearchWatch(Base):
    """A delivery that may still change, as it was when it was read last."""

    __tablename__ = "search_watch"
    delivery_id: Mapped[str] = mapped_column(primary_key=True)
    state: Mapped[str]
    attempt_count: Mapped[int]
