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
        rows = rows.where(key < after(ask.cursor, _list_of(key)))
    return rows.order_by(key.desc()).limit(ask.limit + 1)


def cut(found: Sequence[Row], key: InstrumentedAttribute[str], ask: Ask) -> Page[Row]:
    if len(found) <= ask.limit:
        return Page(found, None)
    kept = found[: ask.limit]
    return Page(kept, cursor_of(getattr(kept[-1], key.key), _list_of(key)))


def cursor_of(last: str, of: str) -> str:
    """Says of which list it is, for there are many, and after what the next page begins."""
    return base64.urlsafe_b64encode(f"{of} {last}".encode()).decode().rstrip("=")


def after(cursor: str, of: str) -> str:
    """The id that a cursor of this list names."""
    try:
        named = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        known, _, last = named.decode("ascii").partition(" ")
    except (binascii.Error, ValueError):
        raise unknown_cursor() from None
    if known != of or not _ID.fullmatch(last):
        raise unknown_cursor()
    return last


def unknown_cursor() -> Problem:
    return invalid("cursor", "is none of this list's; repeat the next_cursor of the page before, unchanged")


def _list_of(key: InstrumentedAttribute[str]) -> str:
    column: Any = key.expression
    return str(column.table.name)
