"""Sets of positions as bytes: few as a list of numbers, many as one bit each. Pure.

The first byte says which: LIST is followed by two bytes a number, WIDE by four, BITS by bits from the lowest.
"""

import sys
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence

LIST, BITS, WIDE = 0, 1, 2
MANY = 128  # so many are no list any more
_FORMS = {LIST: "H", WIDE: "I"}
_PIECE = 128  # bytes that are looked through at once: of large numbers each step is as long as they are

# What is laid over each other: bits, or numbers in their order. False when nothing is in it.
Set = int | list[int]


def packed(positions: Iterable[int], many: int | None = None) -> bytes:
    """`many`: from how many on they are no list."""
    found = sorted(set(positions))
    if len(found) < (MANY if many is None else many):
        form = WIDE if found and found[-1] >= 1 << 16 else LIST
        numbers = array(_FORMS[form], found)
        if sys.byteorder == "big":
            numbers.byteswap()
        return bytes([form]) + numbers.tobytes()
    bits = bytearray(found[-1] // 8 + 1)
    for position in found:
        bits[position >> 3] |= 1 << (position & 7)
    return bytes([BITS]) + bytes(bits)


def added(data: bytes, more: Iterable[int]) -> bytes:
    """With these too."""
    if not data or data[0] != BITS:
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
    if data[0] == BITS:
        bits, place = bytearray(data), (position >> 3) + 1
        if place < len(bits):
            bits[place] &= ~(1 << (position & 7))
        return bytes(bits) if any(bits[1:]) else None
    left = [one for one in _numbers(data) if one != position]
    return packed(left, len(left) + 1) if left else None


def count(data: bytes) -> int:
    """How many are in it."""
    return _bits(data).bit_count() if data[0] == BITS else len(_numbers(data))


def joined(sets: Iterable[tuple[int, bytes]], many: int) -> bytes:
    """Several as one, each moved up by so many positions, a multiple of eight."""
    known = list(sets)
    if sum(count(data) for _, data in known) < many:
        return packed((start + one for start, data in known for one in _plain(data)), many)
    bits = bytearray(max((start >> 3) + _bytes(data) for start, data in known))
    for start, data in known:
        first = start >> 3
        if data[0] == BITS:
            bits[first : first + len(data) - 1] = data[1:]
        else:
            for one in _numbers(data):
                bits[first + (one >> 3)] |= 1 << (one & 7)
    return bytes([BITS]) + bytes(bits)


def common(sets: Sequence[bytes]) -> Iterator[int]:
    """Those that are in all of them, the highest first."""
    few_first = sorted(sets, key=len)
    found = opened(few_first[0])
    for other in few_first[1:]:
        found = meeting(found, other)
    return falling(found)


def opened(data: bytes) -> Set:
    return _bits(data) if data[0] == BITS else _numbers(data).tolist()


def meeting(found: Set, data: bytes) -> Set:
    """Those of `found` that are in `data` too."""
    if data[0] == BITS:
        return found & _bits(data) if isinstance(found, int) else _standing(found, data, 1)
    if isinstance(found, int):
        return _standing(_numbers(data), _written(found), 0)
    both = set(_numbers(data))
    return [one for one in found if one in both]


def part(found: Set, low: int, high: int) -> Set:
    """Those from `low` to below `high`, counted from `low`."""
    if isinstance(found, int):
        return (found & ((1 << high) - 1)) >> low
    some = found[bisect_left(found, low) : bisect_left(found, high)]
    return [one - low for one in some] if low else some


def above(found: Set, low: int) -> Set:
    """Those from `low` on, where they are."""
    return found >> low << low if isinstance(found, int) else found[bisect_left(found, low) :]


def falling(found: Set) -> Iterator[int]:
    """The highest first."""
    return _of(found) if isinstance(found, int) else reversed(found)


def descending(data: bytes) -> Iterator[int]:
    return common([data])


def _standing(numbers: Sequence[int], bits: bytes, start: int) -> list[int]:
    """Those whose bit is set, of bits from that byte on."""
    data = bits[start:]
    inside = numbers[: bisect_left(numbers, len(data) << 3)]
    return [one for one in inside if data[one >> 3] >> (one & 7) & 1]


def _numbers(data: bytes) -> "array[int]":
    numbers = array(_FORMS[data[0]], data[1:])
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


def _plain(data: bytes) -> Iterable[int]:
    return _of(_bits(data)) if data[0] == BITS else _numbers(data)


def _bits(data: bytes) -> int:
    return int.from_bytes(data[1:], "little")


def _bytes(data: bytes) -> int:
    """As bits."""
    if data[0] == BITS:
        return len(data) - 1
    numbers = _numbers(data)
    return (numbers[-1] >> 3) + 1 if numbers else 0


def _written(bits: int) -> bytes:
    return bits.to_bytes((bits.bit_length() + 7) // 8, "little")


def _of(bits: int) -> Iterator[int]:
    data = _written(bits)
    for start in range((len(data) - 1) // _PIECE * _PIECE, -1, -_PIECE):
        piece = int.from_bytes(data[start : start + _PIECE], "little")
        while piece:
            highest = piece.bit_length() - 1
            yield start * 8 + highest
            piece ^= 1 << highest
