"""Lines come out the same however the bytes were cut, and no line costs more than its head and tail."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.lines import HEAD, TAIL, Splitter, clean
from agent.wire import MAX_TEXT

bytes_of_logs = st.lists(
    st.one_of(
        st.binary(max_size=40),
        st.sampled_from([b"\n", b"\r", b"\r\n", b"\0", b"\x1b[31m", "é".encode(), "步".encode(), b"\xff"]),
        st.integers(HEAD - 2, HEAD + TAIL + 3).map(lambda n: b"x" * n),
    ),
    max_size=25,
).map(b"".join)


def fed(chunks: list[bytes]) -> list[tuple[str, int | None]]:
    splitter = Splitter()
    lines = [line for chunk in chunks for line in splitter.feed(chunk)] + splitter.rest()
    return [(line.text, line.number) for line in lines]


@given(bytes_of_logs, st.lists(st.integers(0, 5000), max_size=12))
def test_cutting_the_bytes_changes_nothing(text: bytes, cuts: list[int]) -> None:
    borders = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    chunks = [text[start:end] for start, end in pairwise(borders)]
    assert fed(chunks) == fed([text])


@given(bytes_of_logs)
def test_a_line_is_one_line_of_bounded_readable_text(text: bytes) -> None:
    for line, _ in fed([text]):
        assert len(line) <= MAX_TEXT
        assert len(line.splitlines()) <= 1
        assert "\x1b" not in line
        line.encode("utf-8")


@given(bytes_of_logs)
def test_numbers_count_newlines(text: bytes) -> None:
    numbers = [number for _, number in fed([text + b"end"])]
    assert numbers == sorted(number for number in numbers if number is not None)
    assert numbers[-1] == text.count(b"\n") + 1


@given(st.binary(max_size=300))
def test_cleaning_twice_is_cleaning_once(raw: bytes) -> None:
    once = clean(raw)
    assert clean(once.encode()) == once


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        pytest.param(b"plain", "plain", id="plain"),
        pytest.param(b"\x1b[1;31mERROR\x1b[0m here", "ERROR here", id="colours"),
        pytest.param(b"\x1b]8;;http://x\x07link\x1b]8;;\x07", "link", id="hyperlink"),
        pytest.param(b"tab\tstays", "tab\tstays", id="tab"),
        pytest.param(b"nul\0bell\x07", "nulbell", id="controls"),
        pytest.param("损失 2.3".encode(), "损失 2.3", id="chinese"),
        pytest.param(b"bad \xff byte", "bad � byte", id="undecodable"),
        pytest.param("a\u2028b".encode(), "ab", id="unicode-line-end"),
    ],
)
def test_cleaning(raw: bytes, expected: str) -> None:
    assert clean(raw) == expected


def test_an_endless_line_keeps_head_and_tail_at_character_borders() -> None:
    body = "步".encode() * 10_000
    ((text, number),) = fed([b"start" + body + b"end\n"])
    assert text.startswith("start步")
    assert text.endswith("步end")
    assert "bytes left out" in text
    assert "�" not in text
    assert number == 1


def test_progress_bars_are_lines_of_one_number() -> None:
    assert fed([b"\r 1%\r 2%\r 3%\nnext\n"]) == [(" 1%", 1), (" 2%", 1), (" 3%", 1), ("next", 2)]


def test_after_a_gap_nobody_knows_the_number() -> None:
    splitter = Splitter()
    splitter.feed(b"one\nhal")
    splitter.gap()
    assert [(line.text, line.number) for line in splitter.feed(b"rest\nthree\n")] == [
        ("rest", None),
        ("three", None),
    ]
