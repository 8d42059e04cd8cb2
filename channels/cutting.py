"""Cuts a text that is too long for one message into parts, at line borders wherever that is possible.

Providers count bytes, of the text or of the whole JSON body, so the caller says what a text costs.
"""

import json
import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from channels.base import Message
from channels.escaping import unmention, writable

MAX_PARTS = 3
MAX_LINK = 500
MAX_GRAPHEME = 32  # a letter with hundreds of accents is taken apart

PLACEHOLDER = "<"  # stands for a body while its frame is measured; no keyword may hold it

Cost = Callable[[str], int]

# What is not to be cut inside a line: links, images, tags, entities, escaped characters, addresses.
_ATOM = re.compile(
    r"!?\[[^\]\n]*\]\([^)\s]*\)|<[^<>\n]{1,200}>|&#?\w{1,10};|\\[!-/:-@\[-`{-~]|https?://[^\s<>()\[\]]+"
)
_CJK = re.compile("[\u3000-\u30ff\u3400-\u9fff\uff00-\uffef]")
_JOINER, _VARIATION = "\u200d", "\ufe0e\ufe0f\u20e3"


def utf8(text: str) -> int:
    """What a text costs where the provider counts its UTF-8 bytes."""
    return len(text.encode("utf-8", "replace"))


def in_json(text: str) -> int:
    """What a text costs inside a JSON body sent as UTF-8."""
    return utf8(json.dumps(text, ensure_ascii=False)) - 2


def label(n: int, of: int) -> str:
    """` (1/3)`, or nothing for a message in one part."""
    return f" ({n}/{of})" if of > 1 else ""


WIDEST_LABEL = label(MAX_PARTS, MAX_PARTS)


def cut(text: str, budgets: Sequence[int], cost: Cost, tail: str) -> list[str]:
    """As many pieces as needed, the n-th within budgets[n]; what does not fit ends in `tail`."""
    pieces: list[str] = []
    rest = text.strip("\n")
    for budget in budgets[:-1]:
        if cost(rest) <= budget:
            return [*pieces, rest]
        piece, rest = _take(rest, budget, cost)
        pieces.append(piece)
    if cost(rest) <= budgets[-1]:
        return [*pieces, rest]
    piece, _ = _take(rest, budgets[-1] - cost(tail), cost)
    return [*pieces, piece + tail]


def body_of(message: Message) -> str:
    """The words of a robot's message: as rendered for it, or the plain ones made harmless."""
    return unmention(message.plain) if message.is_plain else writable(message.text)


def tail_for(text: str, link: str) -> str:
    """What ends a text that is told in part only: that it is, in its language, and where to read on."""
    words = "…（内容过长，已截断）" if _CJK.search(text) else "… (too long, cut short)"
    return f"\n{words}" + (f"\n{link}" if link and link not in text[:1000] else "")


def shortened(message: Message) -> Message:
    """The message at half its length, visibly so: what Mend.SHORTEN asks for."""

    def half(text: str) -> str:
        return cut(text, [len(text) // 2 + 1], len, tail_for(text, message.link or ""))[0]

    return replace(message, text=half(message.text), plain=half(message.plain), html=None)


def graphemes(text: str) -> Iterator[str]:
    """What a reader takes for one character each: accents, joined emoji and flags stay whole."""
    start = 0
    for at in range(1, len(text) + 1):
        if at == len(text) or at - start >= MAX_GRAPHEME or not _continues(text, start, at):
            yield text[start:at]
            start = at


def _take(text: str, budget: int, cost: Cost) -> tuple[str, str]:
    """(what fits, the rest): whole lines, or as much as fits of a line that is too long for itself."""
    spent = end = 0
    for line in text.splitlines(keepends=True):
        if spent + cost(line.rstrip("\n")) > budget:
            break
        spent += cost(line)
        end += len(line)
    if end:
        return text[:end].rstrip("\n"), text[end:].lstrip("\n")
    end = _fitting(text, budget, cost)
    return text[:end], text[end:]


def _fitting(text: str, budget: int, cost: Cost) -> int:
    spent = end = 0
    for atom in _atoms(text):
        spent += cost(atom)
        if spent > budget:
            break
        end += len(atom)
    if end:
        return end
    for grapheme in graphemes(text):  # one link or word that is longer than a part
        budget -= cost(grapheme)
        if budget < 0:
            break
        end += len(grapheme)
    return end or 1


def _atoms(text: str) -> Iterator[str]:
    at = 0
    for found in _ATOM.finditer(text):
        yield from graphemes(text[at : found.start()])
        yield found[0]
        at = found.end()
    yield from graphemes(text[at:])


def _continues(text: str, start: int, at: int) -> bool:
    char, before = text[at], text[at - 1]
    if _JOINER in (char, before) or char in _VARIATION or unicodedata.combining(char):
        return True
    if "\U0001f3fb" <= char <= "\U0001f3ff":  # skin tones
        return True
    return _is_flag(char) and _is_flag(before) and at - start == 1


def _is_flag(char: str) -> bool:
    return "\U0001f1e6" <= char <= "\U0001f1ff"
