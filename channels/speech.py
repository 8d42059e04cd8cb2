"""Text messages and what is read aloud: words and numbers only, no address, no symbol, no id."""

import re
import unicodedata

from channels.escaping import clean, unlinked
from channels.graphemes import border

MAX_NUMBER = 12  # digits, one by one
_PICTOGRAPHS = re.compile(
    "[\U0001f000-\U0001faff\u2190-\u21ff\u2300-\u23ff\u2460-\u27bf\u2b00-\u2bff\ufe0e\ufe0f\u20e3\u200d]"
)
_ADDRESS = re.compile(r"(?i)\b[a-z][a-z+.-]*://\S*|\bwww\.\S+|\S+@\S+\.\S+")
_PERCENT = re.compile(r"(\d+(?:\.\d+)?)\s?[%％]")
_OPAQUE = re.compile(r"\b(?=\w*\d)(?=\w*[A-Za-z])[A-Za-z0-9_]{16,}\b")
_LONG_NUMBER = re.compile(r"\d{5,}")
_PAUSES = re.compile(r"\s*[()（）\[\]【】:：;；·|→\n]+\s*")
_DOTS = re.compile(r"(?<=\d)\.(?=\d+\.\d)|(?<=\.\d)\.(?=\d)|(?<=[^\W\d])\.(?=\w)|(?<=\w)\.(?=[^\W\d])")
_STOPS = re.compile(r" ?[，。、,.;!?！？](?=[ ，。、,;!?！？.]|$)[ ，。、,.;!?！？]*| [，。、]")
UNITS = {"ms": "milliseconds", "s": "seconds", "min": "minutes", "h": "hours", "d": "days"}
_UNITS = tuple(
    (re.compile(rf"(?<=\d ){unit}\b"), word)
    for unit, word in (
        ("ms", "milliseconds"),
        ("s", "seconds"),
        ("min", "minutes"),
        ("h", "hours"),
        ("d", "days"),
    )
)


def sms(text: str) -> str:
    """For text messages: no pictographs, and nothing that a phone makes a link of."""
    return unlinked(_PICTOGRAPHS.sub("", text)).replace(" · ", " ")


def spoken(text: str, language: str) -> str:
    """Words and numbers to be read aloud: no address, id or symbol. `language`: `zh` or `en`."""
    text = _ADDRESS.sub(" ", _PICTOGRAPHS.sub("", clean(text)))
    percent, comma = ("百分之{}", "，") if language == "zh" else ("{} percent", ", ")
    text = _PERCENT.sub(lambda found: percent.format(found[1]), text)
    text = _OPAQUE.sub(" ", text)
    text = _LONG_NUMBER.sub(lambda found: " ".join(found[0]) if len(found[0]) <= MAX_NUMBER else " ", text)
    text = _DOTS.sub(" ", _PAUSES.sub(comma, text))
    for unit, word in _UNITS if language == "en" else ():
        text = unit.sub(word, text)
    return " ".join("".join(char if _is_spoken(char) else " " for char in text).split())


def tidy(text: str, limit: int) -> str:
    """What is read aloud, as one line of sentences of at most `limit` characters, cut after a whole one."""
    text = _STOPS.sub(lambda found: _stop(found[0]), " ".join(text.split()))
    if len(text) <= limit:
        return text
    end = max(text.rfind(stop, 0, limit) for stop in "。.")
    return text[: end + 1 if end > 0 else border(text, limit)]


def _stop(run: str) -> str:
    """Of several marks in a row the one that ends a sentence."""
    mark = next((char for char in run if char in "。.!?！？"), run.strip()[0])
    return mark + (" " if run.endswith(" ") else "")


def _is_spoken(char: str) -> bool:
    return char.isalnum() or char in "，。、？！,.?! " or unicodedata.category(char)[0] == "M"
