"""Sets of positions survive being packed, added to, and intersected, whatever their form."""

from hypothesis import given
from hypothesis import strategies as st

from notifier.bitmaps import BITS, LIST, MANY, added, common, descending, packed, without

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


@given(positions)
def test_one_can_be_taken_out(some: set[int]) -> None:
    gone = max(some)
    left = without(packed(some), gone)
    assert set(descending(left) if left is not None else ()) == some - {gone}


def test_many_are_a_bit_each() -> None:
    assert packed(range(MANY - 1))[0] == LIST
    dense = packed(range(8192))
    assert (dense[0], len(dense)) == (BITS, 1025)
