"""Stretches of the index that were read lately, kept as they were: on PostgreSQL most of a question's time
would go into carrying them over the wire again.

Whether a row is still what is kept, its version tells, which PostgreSQL changes with every write of the row.
"""

import threading
from collections import OrderedDict
from typing import NamedTuple
from weakref import WeakKeyDictionary

from sqlalchemy import Engine

MOST = 64 << 20  # bytes of one database
_ROW = 200  # bytes beside the bits


class Known(NamedTuple):
    """A row. `version`: whatever differs when it is written again."""

    version: tuple[int, str]
    width: int
    bits: bytes


Key = tuple[bytes, int]  # term and stretch


class Kept:
    """Of one database; what was not asked for the longest goes first. For any thread."""

    def __init__(self, most: int = MOST) -> None:
        self._most, self._size = most, 0
        self._rows: OrderedDict[Key, Known] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Key, version: tuple[int, str]) -> Known | None:
        """The row, if that is its version."""
        with self._lock:
            found = self._rows.get(key)
            if found is None or found.version != version:
                return None
            self._rows.move_to_end(key)
            return found

    def put(self, key: Key, row: Known) -> None:
        with self._lock:
            self._forget(self._rows.pop(key, None))
            self._rows[key] = row
            self._size += len(row.bits) + _ROW
            while self._size > self._most:
                self._forget(self._rows.popitem(last=False)[1])

    def _forget(self, row: Known | None) -> None:
        self._size -= len(row.bits) + _ROW if row is not None else 0


_of: WeakKeyDictionary[Engine, Kept] = WeakKeyDictionary()


def of(engine: Engine) -> Kept:
    return _of.setdefault(engine, Kept())
