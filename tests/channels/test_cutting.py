"""Where a text that is too long is cut."""

import pytest

from channels.base import Message, Severity
from channels.cutting import cut, in_json, shortened, tail_for, utf8
from channels.graphemes import graphemes

TAIL = "…"


@pytest.mark.parametrize(
    ("text", "budgets", "pieces"),
    [
        pytest.param("one\ntwo", [10], ["one\ntwo"], id="fits"),
        pytest.param("one\ntwo\nthree", [8, 8], ["one\ntwo", "three"], id="at-line-borders"),
        pytest.param("one\n\n\ntwo", [5, 5], ["one", "two"], id="no-blank-lines-at-the-border"),
        pytest.param("aaaa bbbb", [5, 5], ["aaaa ", "bbbb"], id="a-line-too-long-for-itself"),
        pytest.param("one\n" + "x" * 20, [5, 6], ["one", "xxx…"], id="the-rest-is-cut-short"),
        pytest.param("训练训练", [6, 6], ["训练", "训练"], id="bytes-not-characters"),
        pytest.param("训练训练", [7, 7], ["训练", "训练"], id="never-inside-a-character"),
        pytest.param("ab👩‍👩‍👧cd", [10, 30], ["ab", "👩‍👩‍👧cd"], id="never-inside-an-emoji"),
        pytest.param("ab[x](http://y/z)", [8, 20], ["ab", "[x](http://y/z)"], id="never-inside-a-link"),
        pytest.param("ab<font color=x>c", [8, 20], ["ab", "<font color=x>c"], id="never-inside-a-tag"),
        pytest.param("abc&#42;", [5, 20], ["abc", "&#42;"], id="never-inside-an-entity"),
        pytest.param("abc\\*d", [4, 20], ["abc", "\\*d"], id="never-after-an-escape-character"),
        pytest.param(
            "https://example.com/long", [10, 99], ["https://ex", "ample.com/long"], id="unless-it-is-longer"
        ),
        pytest.param("", [5], [""], id="empty"),
    ],
)
def test_cut(text, budgets, pieces):
    assert cut(text, budgets, utf8, TAIL) == pieces


def test_costs_of_json_count_escapes():
    assert in_json('a"b\\c\n训') == 1 + 2 + 1 + 2 + 1 + 2 + 3


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("e\u0301x", ["e\u0301", "x"]),
        ("🇨🇳🇩🇪", ["🇨🇳", "🇩🇪"]),
        ("👍🏽!", ["👍🏽", "!"]),
        ("❤️x", ["❤️", "x"]),
    ],
)
def test_graphemes(text, expected):
    assert list(graphemes(text)) == expected


def test_a_letter_with_hundreds_of_accents_is_no_bomb():
    assert max(len(one) for one in graphemes("a" + "\u0301" * 1000)) <= 32


def test_the_tail_speaks_the_texts_language():
    assert "已截断" in tail_for("训练失败", "")
    assert "cut short" in tail_for("training failed", "")


def test_the_tail_repeats_no_link_that_the_head_has():
    assert "https://f/1" in tail_for("text", "https://f/1")
    assert "https://f/1" not in tail_for("see https://f/1", "https://f/1")


def test_shortened_keeps_the_head_and_the_link():
    long = "culprit: rank 3\n" + "line\n" * 200
    message = Message("d", "title", long, long, Severity.ERROR, html="<p>", link="https://f/1")
    half = shortened(message)
    assert half.text.startswith("culprit: rank 3\n")
    assert half.text.endswith("https://f/1")
    assert len(half.text) <= len(long) // 2 + 1
    assert (half.id, half.title, half.html) == ("d", "title", None)
