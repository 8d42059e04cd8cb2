"""What is kept of the log's index is what stands in the database, and never more than there is room for."""

from notifier.kept import Kept, Known


def row(version: int, size: int = 1000) -> Known:
    return Known((version, "(0,1)"), 8, bytes(size))


def test_a_row_is_answered_as_long_as_its_version_is_the_same() -> None:
    kept = Kept()
    kept.put((b"a", 1), row(7))
    assert kept.get((b"a", 1), (7, "(0,1)")) == row(7)
    assert kept.get((b"a", 1), (8, "(0,1)")) is None
    assert kept.get((b"a", 1), (7, "(0,2)")) is None
    assert kept.get((b"a", 2), (7, "(0,1)")) is None
    kept.put((b"a", 1), row(8))
    assert kept.get((b"a", 1), (7, "(0,1)")) is None
    assert kept.get((b"a", 1), (8, "(0,1)")) == row(8)


def test_what_was_asked_for_the_longest_ago_goes_first() -> None:
    kept = Kept(most=3 * 1500)
    for n in range(3):
        kept.put((b"a", n), row(n))
    assert kept.get((b"a", 0), (0, "(0,1)"))
    kept.put((b"a", 3), row(3))
    assert [n for n in range(4) if kept.get((b"a", n), (n, "(0,1)"))] == [0, 2, 3]
    for _ in range(9):  # the same again takes no more room
        kept.put((b"a", 3), row(3))
    assert [n for n in range(4) if kept.get((b"a", n), (n, "(0,1)"))] == [0, 2, 3]
