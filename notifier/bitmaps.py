"""Sets of positions (0 to 65535) as bytes: few as a list of numbers, many as one bit each. Pure.

The first byte says which: LIST is followed by two bytes a number, BITS by bits from the lowest.
"""

import sys
from array import array
from collections.abc import Iterable, Iterator, Sequence

LIST, BITS = 0, 1
MANY = 128  # so many are no list any more
_EMPTY = bytes([LIST])

# What is laid over each other: bits, or numbers in their order. False when nothing is in it.
Set = int | list[int]


def packed(positions: Iterable[int]) -> bytes:
    found = sorted(set(positions))
    if len(found) < MANY:
        numbers = array("H", found)
        if sys.byteorder == "big":
            numbers.byteswap()
        return _EMPTY + numbers.tobytes()
    bits = bytearray(found[-1] // 8 + 1)
    for position in found:
        bits[position >> 3] |= 1 << (position & 7)
    return bytes([BITS]) + bytes(bits)


def added(data: bytes, more: Iterable[int]) -> bytes:
    """With these too."""
    if not data or data[0] == LIST:
        return packed([*(_numbers(data) if data else ()), *more])
    bits = bytearray(data)
    for position in more:
        place = (position >> 3) + 1
        if place >= len(bits):
            bits.extend(bytes(place + 1 - len(bits)))
        bits[place] |= 1 << (position & 7)
    return bytes(bits)


def without(data: bytes, position: int) -> bytes | None:
    """Without this one; None when none is left."""
    left = [one for one in descending(data) if one != position]
    return packed(left) if left else None


def common(sets: Sequence[bytes]) -> Iterator[int]:
    """Those that are in all of them, the highest first."""
    few_first = sorted(sets, key=len)
    found = opened(few_first[0])
    for other in few_first[1:]:
        found = meeting(found, other)
    return falling(found)


def opened(data: bytes) -> Set:
    return int.from_bytes(data[1:], "little") if data[0] == BITS else _numbers(data).tolist()


def meeting(found: Set, data: bytes) -> Set:
    """Those of `found` that are in `data` too."""
    if data[0] == BITS:
        if isinstance(found, int):
            return found & int.from_bytes(data[1:], "little")
        size = len(data) - 1
        return [one for one in found if one >> 3 < size and data[(one >> 3) + 1] >> (one & 7) & 1]
    if isinstance(found, int):
        return [one for one in _numbers(data) if found >> one & 1]
    both = set(_numbers(data))
    return [one for one in found if one in both]


def falling(found: Set) -> Iterator[int]:
    """The highest first."""
    return _of(found) if isinstance(found, int) else reversed(found)


def descending(data: bytes) -> Iterator[int]:
    return common([data])


def _numbers(data: bytes) -> "array[int]":
    numbers = array("H", data[1:])
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


def _of(bits: int) -> Iterator[int]:
    while bits:
        highest = bits.bit_length() - 1
        yield highest
        bits ^= 1 << highest
