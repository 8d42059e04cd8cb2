"""Sets of positions survive being packed, added to, and intersected, whatever their form."""

from hypothesis import given
from hypothesis import strategies as st

from notifier.bitmaps import (
    BITS,
    LIST,
    MANY,
    WIDE,
    above,
    added,
    common,
    count,
    descending,
    falling,
    joined,
    opened,
    packed,
    part,
    without,
)

positions = st.one_of(
    st.sets(st.integers(0, 65535), min_size=1, max_size=20),
    st.builds(lambda n, step: set(range(0, n * step, step)), st.integers(1, 400), st.integers(1, 20)),
)


@given(positions)
def test_what_is_packed_comes_out_highest_first(some: set[int]) -> None:
    assert list(descending(packed(some))) == sorted(some, reverse=True)


@given(positions, positions)
def test_added_is_the_union(one: set[int], other: set[int]) -> None:
    assert set(descending(added(packed(one), other))) == one | other
    assert set(descending(added(b"", one))) == one


@given(st.lists(positions, min_size=1, max_size=4))
def test_common_is_the_intersection(sets: list[set[int]]) -> None:
    assert list(common([packed(one) for one in sets])) == sorted(set.intersection(*sets), reverse=True)


@given(positions, st.integers(0, 65535))
def test_one_can_be_taken_out(some: set[int], other: int) -> None:
    for gone in (max(some), min(some), other):
        left = without(packed(some), gone)
        assert set(descending(left) if left is not None else ()) == some - {gone}
        assert (left is None) == (some == {gone})


@given(st.lists(positions, max_size=5), st.sampled_from([1, 100, 3000]))
def test_several_become_one(sets: list[set[int]], many: int) -> None:
    whole = joined([(n * 65536, packed(some)) for n, some in enumerate(sets)], many)
    wanted = {n * 65536 + one for n, some in enumerate(sets) for one in some}
    assert list(descending(whole)) == sorted(wanted, reverse=True)
    assert count(whole) == len(wanted)
    assert (whole[0] == BITS) == (len(wanted) >= many)
    for one in {min(wanted), max(wanted)} if wanted else set():
        assert set(descending(without(whole, one) or b"\0")) == wanted - {one}


@given(positions, positions, st.integers(0, 3), st.integers(1, 3000))
def test_joined_ones_meet_as_others_do(one: set[int], other: set[int], n: int, many: int) -> None:
    both = [joined([(n * 65536, packed(some))], size) for some, size in ((one, many), (other, 200))]
    assert list(common(both)) == sorted((n * 65536 + place for place in one & other), reverse=True)


@given(positions, st.integers(0, 70_000), st.integers(0, 70_000))
def test_a_part_is_what_lies_in_it(some: set[int], low: int, high: int) -> None:
    low, high = sorted((low, high))
    found = opened(packed(some))
    assert list(falling(part(found, low, high))) == sorted(
        (one - low for one in some if low <= one < high), reverse=True
    )
    assert set(falling(above(found, low))) == {one for one in some if one >= low}


def test_numbers_may_be_large() -> None:
    assert packed([1, 70_000])[0] == WIDE
    assert list(descending(packed([1, 70_000]))) == [70_000, 1]
    assert set(descending(added(packed([1]), [70_000]))) == {1, 70_000}


def test_many_are_a_bit_each() -> None:
    assert packed(range(MANY - 1))[0] == LIST
    dense = packed(range(8192))
    assert (dense[0], len(dense)) == (BITS, 1025)
