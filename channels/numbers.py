"""Phone numbers, and what providers of texts and calls allow in the variables of a template. All pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from pydantic import AfterValidator, StringConstraints

from channels.escaping import clean
from channels.graphemes import graphemes

E164 = re.compile(r"\+[1-9][0-9]{6,14}")
CUT = "…"
LONGEST = 4000  # characters; no provider takes so many, so what follows is cut off anyway
EMPTY = "-"  # no provider takes an empty variable

# Each begins where a run of its characters begins, so that no value takes long.
_SCHEME = re.compile(r"(?i)(?<![a-z0-9+.-])[a-z][a-z0-9+.-]*://\S*|https?:\S*|\b(?:mailto|tel|sms):\S*")
_DOTTED = re.compile(r"(?<!\w)\w+(?:[.．｡]+\w+)+")
_DECIMAL = re.compile(r"\d+\.\d+[A-Za-z%]{0,3}")
_ASCII_STOP = re.compile(r"(?<=[A-Za-z0-9])。(?=[A-Za-z0-9])")
_COLONS = re.compile(r"(?<![0-9A-Fa-f:])[0-9A-Fa-f]*:[0-9A-Fa-f:]*:[0-9A-Fa-f]*")
_TIME = re.compile(r"\d{1,2}:\d{2}:\d{2}")


def _number(value: str) -> str:
    if E164.fullmatch(value) is None:
        raise ValueError("give a number in E.164 form, with + and the country's code: +8613800001111")
    return value


Number = Annotated[str, StringConstraints(strip_whitespace=True), AfterValidator(_number)]


def domestic(number: str) -> str:
    """As providers in China want it: eleven digits there, elsewhere the country's code without the plus."""
    return number.removeprefix("+86") if number.startswith("+861") else number.removeprefix("+")


def is_chinese(number: str) -> bool:
    return number.startswith("+86")


@dataclass(frozen=True)
class Rules:
    """What a provider takes as the value of a variable.

    Attributes:
        each: the longest that one value may be, in UTF-16 units, which is how their servers count.
        total: likewise for all values together.
        is_web_free: neither URLs nor host names, IP addresses or mail addresses.
        unwanted: characters that are not taken.
    """

    each: int | None = None
    total: int | None = None
    is_web_free: bool = False
    unwanted: str = ""


def fitted(params: Mapping[str, str], rules: Rules) -> dict[str, str]:
    """The values as the provider takes them: one line each, never empty, shortened where it can be seen."""
    values = {name: _allowed(value, rules) for name, value in params.items()}
    limit = min(one for one in (rules.each, rules.total, LONGEST - 1) if one is not None)
    if rules.total is not None:
        limit = _share(sorted(units(value) for value in values.values()), rules.total, limit)
    return {name: shortened(value, limit) for name, value in values.items()}


def shortened(text: str, limit: int) -> str:
    """At most `limit` UTF-16 units, ended by … where something was cut off; no character is cut in two."""
    if units(text) <= limit:
        return text
    kept, left = [], limit - units(CUT)
    for grapheme in graphemes(text):
        left -= units(grapheme)
        if left < 0:
            break
        kept.append(grapheme)
    return "".join(kept).rstrip() + CUT


def units(text: str) -> int:
    """The length as Java and JavaScript count it."""
    return len(text.encode("utf-16-le", "replace")) // 2


def webless(text: str) -> str:
    """No URL, host name, IP address or mail address is left, and what stood there can still be read:
    `10.0.0.1` → `10-0-0-1`, `a@b.cn` → `a at b-cn`; whole URLs are left out. Decimals and times stay."""
    text = _SCHEME.sub("", text)
    text = re.sub(r"\s*[@＠]\s*", " at ", text)
    text = _ASCII_STOP.sub("-", text)
    text = _COLONS.sub(_without_colons, text)
    text = _DOTTED.sub(_without_dots, text)
    return text.replace("://", " ")


def _allowed(value: str, rules: Rules) -> str:
    text = " ".join(clean(value[:LONGEST]).split())
    if rules.is_web_free:
        text = webless(text)
    if rules.unwanted:
        text = re.sub(f"[{re.escape(rules.unwanted)}]", " ", text)
    return " ".join(text.split()) or EMPTY


def _share(sizes: list[int], total: int, limit: int) -> int:
    """The longest that a value may be so that all of them together fit: the long ones pay."""
    fits = (cap for cap in range(min(limit, total), 1, -1) if sum(min(size, cap) for size in sizes) <= total)
    return next(fits, 1)


def _without_dots(found: re.Match[str]) -> str:
    return found[0] if _DECIMAL.fullmatch(found[0]) else re.sub("[.．｡]+", "-", found[0])


def _without_colons(found: re.Match[str]) -> str:
    return found[0] if _TIME.fullmatch(found[0]) else re.sub(":+", "-", found[0])
