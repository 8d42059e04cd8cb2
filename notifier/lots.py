"""Many values, some at a time: as many as one statement takes."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

T = TypeVar("T")
MOST = 500


def lots(values: Iterable[T], size: int = MOST) -> Iterator[list[T]]:
    rest = iter(values)
    while lot := list(islice(rest, size)):
        yield lot
