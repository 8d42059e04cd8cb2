"""Characters as a reader sees them: accents, joined emoji, flags and Korean syllables stay whole.

By the rules of Unicode's annex 29, from the properties that Python knows; where it knows too little, more is
kept together rather than less.
"""

import unicodedata
from collections.abc import Iterator

MAX_GRAPHEME = 32  # a letter with hundreds of accents is taken apart

_JOINER = "\u200d"
_EXTENDS = frozenset("\u200c\ufe0e\ufe0f\u20e3\uff9e\uff9f")
_PREPENDED = frozenset(
    "\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2\u0d4e\U000110bd\U000110cd"
    "\U000111c2\U000111c3\U0001193f\U00011941\U00011a3a\U00011a84\U00011a85\U00011a86\U00011a87"
    "\U00011a88\U00011a89\U00011d46\U00011f02"
)
_VIRAMA = 9  # its combining class: the letter that follows joins the one before


def graphemes(text: str) -> Iterator[str]:
    start = 0
    for at in range(1, len(text) + 1):
        if at == len(text) or at - start >= MAX_GRAPHEME or not _continues(text, start, at):
            yield text[start:at]
            start = at


def border(text: str, at: int) -> int:
    """Where a text may be cut so that no more than `at` characters stay: `at`, or a little before it."""
    if at >= len(text):
        return len(text)
    for end in range(at, max(0, at - MAX_GRAPHEME) - 1, -1):
        if end == 0 or not _continues(text, _start(text, end), end):
            return end
    return at


def _start(text: str, at: int) -> int:
    """Where the flag begins whose second half may stand at `at`: flags are counted off in pairs."""
    start = at
    while start > 0 and at - start < 2 * MAX_GRAPHEME and _is_flag(text[start - 1]):
        start -= 1
    return at - 1 - (at - start - 1) % 2 if start < at else at - 1


def _continues(text: str, start: int, at: int) -> bool:
    """Whether the character at `at` belongs to the one that began at `start`."""
    char, before = text[at], text[at - 1]
    if char < "\u0300" and before < "\u0300":
        return False
    if _JOINER in (char, before) or char in _EXTENDS or before in _PREPENDED:
        return True
    if unicodedata.category(char) in ("Mn", "Me", "Mc") or "\U0001f3fb" <= char <= "\U0001f3ff":
        return True
    if unicodedata.combining(before) == _VIRAMA and unicodedata.category(char) == "Lo":
        return True
    if _is_flag(char) and _is_flag(before):
        return at - start == 1
    return _is_syllable(before, char)


def _is_flag(char: str) -> bool:
    return "\U0001f1e6" <= char <= "\U0001f1ff"


def _is_syllable(before: str, char: str) -> bool:
    """Hangul: leading consonants, then vowels, then trailing consonants."""
    first, second = _jamo(before), _jamo(char)
    return (
        (first == "L" and second in ("L", "V", "LV", "LVT"))
        or (first in ("V", "LV") and second in ("V", "T"))
        or (first in ("T", "LVT") and second == "T")
    )


def _jamo(char: str) -> str:
    if "\uac00" <= char <= "\ud7a3":
        return "LV" if (ord(char) - 0xAC00) % 28 == 0 else "LVT"
    if "\u1100" <= char <= "\u115f" or "\ua960" <= char <= "\ua97c":
        return "L"
    if "\u1160" <= char <= "\u11a7" or "\ud7b0" <= char <= "\ud7c6":
        return "V"
    return "T" if "\u11a8" <= char <= "\u11ff" or "\ud7cb" <= char <= "\ud7fb" else ""
