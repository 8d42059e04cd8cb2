"""Which words a text holds, and which questions it answers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from notifier.words import MAX_TEXT, answers, document, has_word, normal, question, words

HOLDS = {
    "words in any order": ("NCCL timeout on rank 3", "rank nccl"),
    "whatever the case": ("Watchdog ERROR", "watchdog error"),
    "Chinese without spaces": ("NCCL 通信超时 · rank 3", "通信超时"),
    "one Chinese character": ("磁盘满", "满"),
    "Chinese beside letters": ("节点node7掉线", "node7 掉线"),
    "a wide form": ("ＧＰＵ掉卡", "gpu"),
    "another case of another script": ("ΔΙΚΤΥΟ", "δικτυο"),
    "sharp s": ("STRASSE", "straße"),
    "a name with a number, without it": ("llama3-70b", "llama"),
    "a name with signs, whole": ("pre-llama-3.1", "pre-llama-3.1"),
    "a part of a name": ("rank_12@gpu-node", "gpu"),
    "a sign beside a word": ("98 % full", "98 %"),
    "an address": ("told ops@example.com", "ops@example.com"),
    "Thai": ("ดิสก์เต็ม", "ดิสก์เต็ม"),
}
LACKS = {
    "one word of two": ("NCCL timeout", "nccl hang"),
    "another sign": ("98 x full", "98 %"),
    "the middle of a word": ("webhook", "hook"),
    "characters that are not together": ("通超信时", "通信"),
    "a name with other signs": ("pre llama 3", "pre-llama-3"),
    "another number": ("rank 31", "rank 3"),
}


@pytest.mark.parametrize(("text", "asked"), HOLDS.values(), ids=HOLDS)
def test_it_answers(text: str, asked: str) -> None:
    assert answers(document([text]), question(asked))


@pytest.mark.parametrize(("text", "asked"), LACKS.values(), ids=LACKS)
def test_it_does_not_answer(text: str, asked: str) -> None:
    assert not answers(document([text]), question(asked))


@given(st.text(max_size=60), st.text(max_size=10))
def test_every_text_answers_its_own_words(before: str, told: str) -> None:
    """Whatever is asked for stands in the index under all of its terms."""
    text = document([f"{before}\n{told}\n"])
    assert question(told).terms <= words(text)
    assert answers(text, question(told))


PIECES = st.sampled_from(["a", "b1", "磁", "盘", "_", "-", " ", "12", "é", "x" * 39, "ß", "٣", "²", "ก"])


@given(st.lists(PIECES, max_size=12), st.lists(PIECES, min_size=1, max_size=3))
def test_a_word_is_found_in_the_text_as_among_its_words(text: list[str], word: list[str]) -> None:
    whole = normal("".join(text))
    for one in question("".join(word)).terms | words(whole):
        assert has_word(whole, one) == (one in words(whole))


def test_a_document_is_looked_at_as_far_as_it_is_useful() -> None:
    assert "b" not in words(document(["a " * MAX_TEXT, "b"]))


def test_a_question_of_signs_has_no_terms() -> None:
    assert question(" % — \N{COMBINING ACUTE ACCENT} ").terms == frozenset()
