"""Words of the delivery log: which ones a text holds, and whether it answers a question. Pure.

A word is a run of letters and digits, whatever its case; scripts written without spaces (Chinese, Japanese,
Thai) are taken by single characters and by pairs.
"""

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby, pairwise

MAX_WORD = 40  # characters of a word that are looked at
MAX_TEXT = 20_000  # characters of a document that are looked at
_RUN = re.compile(r"[^\W_]+")
_HEAD = re.compile(r"[^\W\d_]{2,}")  # of a word that goes on with a digit


@dataclass(frozen=True)
class Question:
    """What somebody looks for.

    Attributes:
        texts: all of them stand in the document, as they are.
        terms: all of these are among its words.
    """

    texts: tuple[str, ...]
    terms: frozenset[str]


def normal(text: str) -> str:
    """Without differences that nobody means: case, width, ligatures."""
    return unicodedata.normalize("NFKC", text.casefold()).casefold()


def document(texts: Iterable[str | None]) -> str:
    """One normal text of several, as far as it is looked at."""
    return normal("\n".join(text for text in texts if text)[:MAX_TEXT])


def question(text: str) -> Question:
    texts = tuple(dict.fromkeys(normal(text).split()))
    return Question(texts, frozenset(term for one in texts for term in _asked(one)))


def words(text: str) -> set[str]:
    """All words of a normal text, as the index has them: `llama3` also under `llama`."""
    runs = set(_RUN.findall(text))
    return set().union(*(_of_known(run) if len(run) <= MAX_WORD else _of_run(run) for run in runs))


def _of_run(run: str) -> frozenset[str]:
    found: set[str] = set()
    for piece, is_of_characters in _pieces(run):
        if is_of_characters:
            found.update(piece)
            found.update(a + b for a, b in pairwise(piece))
        else:
            found.add(piece[:MAX_WORD])
            head = _HEAD.match(piece)
            if head and piece[head.end() : head.end() + 1].isdecimal():
                found.add(head[0][:MAX_WORD])
    return frozenset(found)


_of_known = lru_cache(maxsize=8192)(_of_run)  # most runs come again and again


def answers(text: str, asked: Question) -> bool:
    """Whether a normal text holds all that is asked for."""
    return all(one in text for one in asked.texts) and all(has_word(text, one) for one in asked.terms)


def has_word(text: str, word: str) -> bool:
    """Whether it is among the `words` of a normal text, found without taking it apart."""
    if is_unspaced(word[0]):
        return word in text
    at = text.find(word)
    while at >= 0:
        end = at + len(word)
        if _is_edge(text[at - 1 : at]) and (len(word) == MAX_WORD or _ends(word, text[end : end + 1])):
            return True
        at = text.find(word, at + 1)
    return False


def is_unspaced(character: str) -> bool:
    """Whether its script is written without spaces."""
    return not character.isascii() and unicodedata.category(character) == "Lo"


def _ends(word: str, following: str) -> bool:
    return _is_edge(following) or (
        following.isdecimal() and len(word) > 1 and _HEAD.fullmatch(word) is not None
    )


def _is_edge(character: str) -> bool:
    return not character.isalnum() or is_unspaced(character)


def _asked(text: str) -> Iterable[str]:
    """The words that a document with this text in it has."""
    for run in _RUN.findall(text):
        for piece, is_of_characters in _pieces(run):
            if not is_of_characters:
                yield piece[:MAX_WORD]
            elif len(piece) == 1:
                yield piece
            else:
                yield from (a + b for a, b in pairwise(piece))


def _pieces(run: str) -> Iterable[tuple[str, bool]]:
    if run.isascii():
        return ((run, False),)
    return (("".join(group), is_of_characters) for is_of_characters, group in groupby(run, key=is_unspaced))
