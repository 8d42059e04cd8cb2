"""Reads pickles of plain data that somebody wrote who is not trusted.

Pickle is a program. A third of its instructions make dicts, lists, small tuples, texts and numbers; none of
these names a class or calls anything. They are carried out here, any other ends the reading.
"""

import io
import pickletools
from collections.abc import Callable
from typing import Any

_MAX_STEPS = 2_000_000
_MARK = object()
_VALUES = frozenset({"BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT", "BINUNICODE", "SHORT_BINUNICODE"})
_TUPLES = {"EMPTY_TUPLE": 0, "TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
_FILLS = {"APPEND": 1, "SETITEM": 2, "APPENDS": 0, "SETITEMS": 0}
_FRESH: dict[str, Callable[[], Any]] = {
    "EMPTY_DICT": dict,
    "EMPTY_LIST": list,
    "NONE": lambda: None,
    "NEWTRUE": lambda: True,
    "NEWFALSE": lambda: False,
    "MARK": lambda: _MARK,
}


def load(content: bytes) -> Any:
    """What it holds. A list may hold itself.

    Raises:
        ValueError: it holds more than plain data, is cut short or too long.
    """
    stack: list[Any] = []
    memo: dict[int, Any] = {}
    try:
        for n, (code, value, _) in enumerate(pickletools.genops(io.BytesIO(content))):
            if code.name == "STOP":
                return stack[-1]
            if n > _MAX_STEPS:
                raise ValueError("the pickle is too long")
            _step(code.name, value, stack, memo)
    except (IndexError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise ValueError(f"the pickle cannot be read ({type(error).__name__})") from error
    raise ValueError("the pickle is cut short")


def _step(name: str, value: Any, stack: list[Any], memo: dict[int, Any]) -> None:
    if name in _VALUES:
        stack.append(value)
    elif name in _FRESH:
        stack.append(_FRESH[name]())
    elif name in _TUPLES:
        stack.append(tuple([stack.pop() for _ in range(_TUPLES[name])][::-1]))
    elif name in _FILLS:
        _fill(
            stack,
            _since_mark(stack) if name.endswith("S") else [stack.pop() for _ in range(_FILLS[name])][::-1],
        )
    elif name in ("BINGET", "LONG_BINGET"):
        stack.append(memo[value])
    elif name in ("BINPUT", "LONG_BINPUT", "MEMOIZE"):
        memo[len(memo) if name == "MEMOIZE" else value] = stack[-1]
    elif name not in ("PROTO", "FRAME"):
        raise ValueError(f"the pickle holds more than plain data: {name}")


def _fill(stack: list[Any], above: list[Any]) -> None:
    """Into the list or dict below go these."""
    if isinstance(stack[-1], list):
        stack[-1].extend(above)
    else:
        stack[-1].update(zip(above[::2], above[1::2], strict=True))


def _since_mark(stack: list[Any]) -> list[Any]:
    above: list[Any] = []
    while (one := stack.pop()) is not _MARK:
        above.append(one)
    return above[::-1]
