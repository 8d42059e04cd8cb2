"""Cuts a text that is too long for one message into parts, at line borders wherever that is possible.

Providers count bytes, of the text or of the whole JSON body, so the caller says what a text costs.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from channels import numbers
from channels.base import Message
from channels.escaping import unmention, writable
from channels.graphemes import graphemes

MAX_PARTS = 3
MAX_LINK = 500
SHORT_PARAM = (
    12  # characters; less is asked of no variable: cloud.tencent.com/document/product/382/3771, 1036
)

PLACEHOLDER = "<"  # stands for a body while its frame is measured; no keyword may hold it

BOLD = "**"

Cost = Callable[[str], int]

# What is not to be cut inside a line: links, images, tags, entities, escaped characters, marks, addresses.
_ATOM = re.compile(
    r"!?\[[^\]\n]*\]\([^)\s]*\)|<[^<>\n]{1,200}>|&#?\w{1,10};|\\[!-/:-@\[-`{-~]|\*\*"
    r"|https?://[^\s<>()\[\]]+"
)
_MARK = re.compile(r"\\[\\*_`~]|\*\*|<font\b[^<>\n]*>|</font>")
_CJK = re.compile("[\u3000-\u30ff\u3400-\u9fff\uff00-\uffef]")


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


def cut(text: str, budgets: Sequence[int], cost: Cost, tail: str, *, is_marked: bool = False) -> list[str]:
    """As many pieces as needed, the n-th within budgets[n]; what does not fit ends in `tail`.

    `is_marked`: `**` and `<font>` that a cut falls into are closed before it and opened again after it.
    """
    pieces: list[str] = []
    rest = text.strip("\n")
    for budget in budgets[:-1]:
        if cost(rest) <= budget:
            return [*pieces, rest]
        piece, rest = _take(rest, budget, cost, is_marked)
        pieces.append(piece)
    if cost(rest) <= budgets[-1]:
        return [*pieces, rest]
    piece, _ = _take(rest, budgets[-1] - cost(tail), cost, is_marked)
    return [*pieces, piece + tail]


def body_of(message: Message) -> str:
    """The words of a robot's message: as rendered for it, or the plain ones made harmless."""
    return harmless(message, unmention) if message.is_plain else writable(message.text)


def harmless(message: Message, escape: Callable[[str], str]) -> str:
    """The plain words made literal, all but our own links."""
    links = [link for _, link in message.links]
    if not links:
        return escape(message.plain)
    pieces = re.split(f"({'|'.join(map(re.escape, links))})", message.plain)
    return "".join(piece if piece in links else escape(piece) for piece in pieces)


def without_link(message: Message) -> str:
    """The words less the lines that are nothing but our links: for forms that have buttons for them."""
    lines = {f"[{label}]({link})" for label, link in message.links}
    return "\n".join(one for one in writable(message.text).split("\n") if one.strip() not in lines)


def tail_for(text: str, link: str) -> str:
    """What ends a text that is told in part only: that it is, in its language, and where to read on."""
    words = "…（内容过长，已截断）" if _CJK.search(text) else "… (too long, cut short)"
    return f"\n{words}" + (f"\n{link}" if link and link not in text[:1000] else "")


def shortened(message: Message) -> Message:
    """The message at half its length, visibly so: what Mend.SHORTEN asks for."""

    def half(text: str) -> str:
        return cut(text, [len(text) // 2 + 1], len, tail_for(text, message.link or ""))[0]

    params = {name: numbers.shortened(value, SHORT_PARAM) for name, value in message.params.items()}
    return replace(message, text=half(message.text), plain=half(message.plain), html=None, params=params)


def _take(text: str, budget: int, cost: Cost, is_marked: bool) -> tuple[str, str]:
    """(what fits, the rest): whole lines, or as much as fits of a line that is too long for itself."""
    spent = end = 0
    for line in text.splitlines(keepends=True):
        if spent + cost(line.rstrip("\n")) > budget:
            break
        spent += cost(line)
        end += len(line)
    if end:
        return text[:end].rstrip("\n"), text[end:].lstrip("\n")
    if is_marked:
        return _take_marked(text, budget, cost)
    end = _fitting(text, budget, cost)
    return text[:end], text[end:]


def _take_marked(text: str, budget: int, cost: Cost) -> tuple[str, str]:
    """Of one line: with the marks closed that are open at the cut, and opened again in the rest."""
    room = budget
    while True:
        end = _fitting(text, room, cost)
        marks = _open_marks(text[:end])
        closing = "".join(_closing(mark) for mark in reversed(marks))
        spent = cost(text[:end]) + cost(closing)
        if spent <= budget or room <= 0:
            break
        room -= spent - budget
    piece, rest = text[:end], text[end:]
    while marks and piece.endswith(marks[-1]):  # nothing is in it yet: it begins after the cut
        piece, closing = piece.removesuffix(marks[-1]), closing.removeprefix(_closing(marks[-1]))
        rest = marks.pop() + rest
    while marks and rest.startswith(_closing(marks[-1])):  # it ends with the cut
        piece, rest = piece + _closing(marks[-1]), rest.removeprefix(_closing(marks[-1]))
        closing = closing.removeprefix(_closing(marks.pop()))
    return (piece + closing, "".join(marks) + rest) if piece else (text[:end], text[end:])


def _closing(mark: str) -> str:
    return mark if mark == BOLD else "</font>"


def _open_marks(line: str) -> list[str]:
    """The marks that nothing has closed yet, outermost first."""
    marks: list[str] = []
    for found in _MARK.finditer(line):
        mark = found[0]
        if mark == BOLD and BOLD in marks:
            marks.remove(BOLD)
        elif mark == BOLD or mark.startswith("<font"):
            marks.append(mark)
        elif mark == "</font>":
            last = next((one for one in reversed(marks) if one != BOLD), None)
            marks = marks if last is None else [one for one in marks if one is not last]
    return marks


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
