"""How the text of one flag becomes a value: ranges, forms, patterns; refusals name the flag and the mend."""

import re
from collections.abc import Callable

from agent.signatures import check_pattern

MAX_MINUTES = 7 * 24 * 60.0
MAX_PATTERN = 500
MAX_PHONES = 20
# float() takes far more: 1_0, nan, digits of other scripts.
_NUMBER = re.compile(r"-?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]{1,3})?")

Reader = Callable[[str, str], object]


class SettingError(ValueError):
    """One setting cannot be taken. `field` is the flag or the JSON field; `message` names the mend."""

    def __init__(self, field: str, message: str) -> None:
        self.field, self.message = field, message
        super().__init__(f"{field}: {message}")


def boolean(flag: str, text: str) -> bool:
    known = {"true": True, "1": True, "false": False, "0": False}
    if text.lower() not in known:
        raise SettingError(
            flag, f"{shown(text)} is neither true nor false; write {flag}=true or {flag}=false"
        )
    return known[text.lower()]


def whole(low: int, high: int, words: str) -> Reader:
    def read(flag: str, text: str) -> int:
        digits = text.removeprefix("-")
        if not (digits.isascii() and digits.isdigit()) or len(digits) > 12 or not low <= int(text) <= high:
            raise SettingError(flag, f"{shown(text)} will not do; give {words}")
        return int(text)

    return read


def minutes(low: str) -> Reader:
    words = f"give minutes, a number {'of 0 or more' if low == '>=' else 'above 0'} such as 7 or 0.5"

    def read(flag: str, text: str) -> float:
        if not _NUMBER.fullmatch(text):
            raise SettingError(flag, f"{shown(text)} is no number; {words}")
        value = float(text)
        if not (0 <= value <= MAX_MINUTES) or (value == 0 and low == ">"):
            raise SettingError(
                flag, f"{shown(text)} is out of range; {words}, at most {MAX_MINUTES:.0f} (a week)"
            )
        return value

    return read


def pattern(flag: str, text: str) -> str:
    """A literal, or `re:` and an expression that RE2 takes: no pattern can blow up on a log line."""
    if not text.strip() or len(text) > MAX_PATTERN or not text.isprintable():
        raise SettingError(flag, f"give 1 to {MAX_PATTERN} printable characters of a log line, or re:PATTERN")
    try:
        check_pattern(text)
    except ValueError as error:
        raise SettingError(flag, f"{error}; give a literal, or re:PATTERN in RE2 syntax") from None
    return text


def phones(flag: str, text: str) -> tuple[str, ...]:
    numbers = tuple(number.strip() for number in text.split(",") if number.strip())
    if not numbers or len(numbers) > MAX_PHONES:
        raise SettingError(flag, f"give 1 to {MAX_PHONES} numbers, comma-separated")
    for number in numbers:
        digits = number.removeprefix("+").replace("-", "")
        if not (digits.isascii() and digits.isdigit() and 3 <= len(digits) <= 20):
            raise SettingError(flag, f"{shown(number)} is no phone number; give digits, +8613800000000")
    return numbers


def shown(text: str, quote: str = "'") -> str:
    """What was given, for an error: short, on one line."""
    short = text if len(text) <= 60 else text[:59] + "…"
    return quote + "".join(c if c.isprintable() else "�" for c in short) + quote
