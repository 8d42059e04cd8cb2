"""Reads an alert configuration as it was stored, whatever is wrong with it by now. Pure."""

from collections.abc import Sequence
from copy import deepcopy
from typing import Any

from pydantic import ValidationError

from notifier.faultwords import mend_of
from notifier.rules import AlertConfigModel

ROUNDS = 8  # what is wrong is found at once, but for a rule of which too little is left
UNREADABLE = "the stored rules cannot be read: save them anew"


def readable(stored: Any) -> tuple[AlertConfigModel, tuple[str, ...]]:
    """The configuration without what cannot be read of it, and a word on each such place.

    A restriction that cannot be read is none: rather too many are told than nobody. Never raises.
    """
    document, notes = stored, list[str]()
    for n in range(ROUNDS):
        try:
            return AlertConfigModel.model_validate(document), tuple(notes)
        except ValidationError as error:
            faults = error.errors(include_url=False, include_context=False, include_input=False)
        document = document if n else deepcopy(document)
        for fault in reversed(faults):  # the last first: the places of the others stay the same
            where = _cut(document, fault["loc"])
            if not where:
                return AlertConfigModel(), (UNREADABLE,)
            notes.append(f"{where} cannot be read and is not heeded ({mend_of(str(fault['msg']))})")
    return AlertConfigModel(), (UNREADABLE,)


def _cut(document: Any, where: Sequence[int | str]) -> str:
    """Takes out the innermost part of `where` that is there; answers its place, "" if that is the whole."""
    path: list[tuple[Any, int | str]] = []
    node = document
    for part in where:
        if not _has(node, part):
            break
        path.append((node, part))
        node = node[part]
    if not path:
        return ""
    container, last = path[-1]
    del container[last]
    return ".".join(str(part) for _, part in path)


def _has(node: Any, part: int | str) -> bool:
    if isinstance(node, list):
        return isinstance(part, int) and part < len(node)
    return isinstance(node, dict) and part in node
