"""Lists by keyset: newest first, each page says where the next one begins. No OFFSET anywhere."""

import base64
import binascii
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from sqlalchemy import Select
from sqlalchemy.orm import InstrumentedAttribute, Session

from notifier.problems import Problem, invalid

DEFAULT_LIMIT = 50
MAX_LIMIT = 500
_ID = re.compile(r"[a-z]{2,8}_[0-9a-z]{26}")

Row = TypeVar("Row")
Narrowed = TypeVar("Narrowed", bound=Select[Any])


@dataclass(frozen=True)
class Ask:
    """Which page: at most `limit` rows, after the one that `cursor` names."""

    limit: int = DEFAULT_LIMIT
    cursor: str | None = None


@dataclass(frozen=True)
class Page(Generic[Row]):
    rows: Sequence[Row]
    next_cursor: str | None


def page(session: Session, rows: Select[Row], key: InstrumentedAttribute[str], ask: Ask) -> Page[Row]:
    """One page of `rows` by descending `key`, an id that sorts by time.

    Raises:
        Problem: the cursor is none of ours.
    """
    return cut(session.scalars(upto(rows, key, ask)).all(), key, ask)


def upto(rows: Narrowed, key: InstrumentedAttribute[str], ask: Ask) -> Narrowed:
    """Those of the page and one more, by which `cut` knows whether there is a next one."""
    if ask.cursor is not None:
        rows = rows.where(key < after(ask.cursor))
    return rows.order_by(key.desc()).limit(ask.limit + 1)


def cut(found: Sequence[Row], key: InstrumentedAttribute[str], ask: Ask) -> Page[Row]:
    if len(found) <= ask.limit:
        return Page(found, None)
    kept = found[: ask.limit]
    return Page(kept, cursor_of(getattr(kept[-1], key.key)))


def cursor_of(last: str) -> str:
    return base64.urlsafe_b64encode(last.encode()).decode().rstrip("=")


def after(cursor: str) -> str:
    try:
        last = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True).decode(
            "ascii"
        )
    except (binascii.Error, ValueError):
        raise _unknown() from None
    if not _ID.fullmatch(last):
        raise _unknown()
    return last


def _unknown() -> Problem:
    return invalid("cursor", "is none of ours; repeat the next_cursor of the page before, unchanged")
