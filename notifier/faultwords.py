"""What pydantic finds wrong with input, in words that say what to give instead. Pure.

The value that was given is never repeated: it may be a secret.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import BaseModel
from pydantic_core import InitErrorDetails, PydanticCustomError

_SHAPE = re.compile(r"(?:tuple|list|dict)\[.*\]", re.DOTALL)  # and on which shape of a field it was tried
_OF_OURS = re.compile(r"([A-Za-z_]\w*(?:\.\w+)*): (.+)", re.DOTALL)  # which field inside is wrong
_OF_KEY = "[key]"  # how pydantic places what is wrong with a name in a mapping
_WHOLE = ("body",)
# The beginning of pydantic's message → ours. The first that fits counts; `\1` is what the first one holds.
_WORDS: Sequence[tuple[re.Pattern[str], str]] = tuple(
    (re.compile(pattern, re.DOTALL), words)
    for pattern, words in (
        (r"Value error, (.*)", r"\1"),
        (r"Field required", "is missing"),
        (r"Extra inputs are not permitted", "no such field: leave it out"),
        (r"Input should be a valid (?:list|tuple|set).*", "give a list: […]"),
        (r"Input should be a valid dictionary.*|Input should be an object.*", "give an object: {…}"),
        (r"Input should be a valid string.*", "give a text"),
        (r"Input should be a valid boolean.*", "give true or false"),
        (r"Input should be a valid integer.*", "give a whole number"),
        (r"Unable to parse input string as an integer.*", "give a whole number of fewer digits"),
        (r"Input should be a valid number.*|Input should be a finite number", "give a number"),
        (r"Input should be a valid datetime.*", "give a time such as 2026-11-29T08:00:00Z"),
        (r"Input should have timezone info", "give the time zone too, as in 2026-11-29T08:00:00Z"),
        (r"Input should be greater than or equal to (\S+)", r"give \1 or more"),
        (r"Input should be less than or equal to (\S+)", r"give \1 or less"),
        (r"Input should be greater than (\S+)", r"give more than \1"),
        (r"Input should be less than (\S+)", r"give less than \1"),
        (r"Input should be (.*)", r"give \1"),
        (r"String should have at least 1 character", "must not be empty"),
        (r"String should have at least (\d+) characters", r"give at least \1 characters"),
        (r"String should have at most (\d+) characters?", r"give at most \1 characters"),
        (r"\w+ should have at least (\d+) items? .*", r"give at least \1"),
        (r"\w+ should have at most (\d+) items? .*", r"give at most \1"),
    )
)


def mend_of(message: str) -> str:
    """Pydantic's message in our words; one of our own stays as it is."""
    for pattern, words in _WORDS:
        if (found := pattern.fullmatch(message)) is not None:
            return found.expand(words)
    return message


def placed(where: Sequence[int | str], message: str) -> tuple[str, str]:
    """The field, as a path with dots, and the mend; a check of a whole begins with the field inside it."""
    mend = mend_of(message)
    if (inside := _OF_OURS.fullmatch(mend)) is not None:
        where, mend = [*([] if tuple(where) == _WHOLE else where), inside[1]], inside[2]
    if where and where[-1] == _OF_KEY:
        where, mend = where[:-2], f"each name in it: {mend}"
    return ".".join(str(part) for part in where if not _SHAPE.fullmatch(str(part))), mend


def settled(faults: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """One mend a field. Of a field that may have several shapes, what is wrong inside of one counts."""
    mends: dict[str, list[str]] = {}
    for field, mend in faults:
        mends.setdefault(field, []).append(mend)
    inside = {field for field in mends for other in mends if other.startswith(f"{field}.")}
    return [(field, "; or ".join(dict.fromkeys(mends[field]))) for field in mends if field not in inside]


def naming_fields(model: type[BaseModel], fault: Mapping[str, Any]) -> InitErrorDetails:
    """The same fault in our words; where a field is unknown, the known ones are the mend."""
    message = mend_of(str(fault["msg"]))
    if fault["type"] == "extra_forbidden" and len(fault["loc"]) == 1:
        message = f"no such field; there are {', '.join(known_fields(model))}"
    error = PydanticCustomError(fault["type"], "{message}", {"message": message})
    return InitErrorDetails(type=error, loc=fault["loc"], input=None)


def known_fields(model: type[BaseModel]) -> list[str]:
    return [info.alias or name for name, info in model.model_fields.items()]
