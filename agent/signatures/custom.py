"""The users' own fault keywords (`--custom-log-patterns`): literal, or RE2 behind `re:`."""

import re

import re2

_PREFIX = "re:"
_ENDS = re.compile(r"\\[Az]|\(\?[a-zA-Z]*-")  # of the text; or flags that are taken back
_MAX_LENGTH = 1000
_MAX_PROGRAM_BYTES = 1 << 20  # an automaton beyond that would slow every line of every rank


def check_pattern(pattern: str) -> None:
    """ValueError naming the pattern and what is wrong with it."""
    _compiled(pattern)


def compiled(patterns: tuple[str, ...]) -> list[tuple[str, "re2._Regexp[str]"]]:
    """Each pattern with what finds it in a line."""
    return [(pattern, _compiled(pattern)) for pattern in patterns]


def over_lines(patterns: tuple[str, ...]) -> "list[re2._Regexp[str]] | None":
    """What finds each in a text of many lines that end in newlines; None: one asks for the text's end."""
    for pattern in patterns:
        if pattern.startswith(_PREFIX) and _ENDS.search(pattern):
            return None
    return [_compiled(pattern, "(?m)") for pattern in patterns]


def _compiled(pattern: str, before: str = "") -> "re2._Regexp[str]":
    if len(pattern) > _MAX_LENGTH:
        raise ValueError(f"log pattern {pattern[:40]!r}…: longer than {_MAX_LENGTH} characters")
    expression = pattern.removeprefix(_PREFIX) if pattern.startswith(_PREFIX) else re2.escape(pattern)
    if not pattern.removeprefix(_PREFIX).strip():
        raise ValueError(f"log pattern {pattern!r}: empty, it would match every line")
    options = re2.Options()
    options.max_mem = _MAX_PROGRAM_BYTES
    options.log_errors = False
    try:
        found = re2.compile(before + expression, options=options)
    except (re2.error, UnicodeEncodeError) as error:
        raise ValueError(f"log pattern {pattern!r}: not valid RE2 syntax ({_words(error)})") from None
    if found.search(""):
        raise ValueError(f"log pattern {pattern!r}: matches the empty line, so it would match every line")
    return found


def _words(error: Exception) -> str:
    first = error.args[0] if error.args else "unreadable"
    return first.decode(errors="replace") if isinstance(first, bytes) else str(first)
