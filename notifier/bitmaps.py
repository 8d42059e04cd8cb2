"""Sets of positions (0 to 65535) as bytes: few as a list of numbers, many as one bit each. Pure.

The first byte says which: LIST is followed by two bytes a number, BITS by bits from the lowest.
"""

import sys
from array import array
from collections.abc import Iterable, Iterator, Sequence

LIST, BITS = 0, 1
MANY = 128  # so many are no list any more
_EMPTY = bytes([LIST])


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
    few = sorted((one for one in sets if one[0] == LIST), key=len)
    many = [one for one in sets if one[0] == BITS]
    if not few:
        bits = int.from_bytes(many[0][1:], "little")
        for other in many[1:]:
            bits &= int.from_bytes(other[1:], "little")
        return _of(bits)
    found = set(_numbers(few[0]))
    for other in few[1:]:
        found.intersection_update(_numbers(other))
    return iter(sorted((one for one in found if all(_has(bits, one) for bits in many)), reverse=True))


def descending(data: bytes) -> Iterator[int]:
    return common([data])


def _numbers(data: bytes) -> "array[int]":
    numbers = array("H", data[1:])
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


def _has(bits: bytes, position: int) -> bool:
    place = (position >> 3) + 1
    return place < len(bits) and bits[place] >> (position & 7) & 1 == 1


def _of(bits: int) -> Iterator[int]:
    while bits:
        highest = bits.bit_length() - 1
        yield highest
        bits ^= 1 << highest
