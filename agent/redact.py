"""Command lines as they may be shown: what looks like a secret is left out."""

import re
from collections.abc import Sequence

_MAX = 400
_SECRET = re.compile(r"(?i)(token|secret|passw|api[-_]?key|access[-_]?key|credential|auth)")


def command_line(argv: Sequence[str]) -> str:
    """One line of a program's arguments; the values of secret-looking ones are `***`."""
    words: list[str] = []
    hide_next = False
    for word in argv:
        name, equals, _ = word.partition("=")
        if hide_next and not word.startswith("-"):
            words.append("***")
            hide_next = False
            continue
        secret = bool(_SECRET.search(name)) and (word.startswith("-") or bool(equals))
        words.append(f"{name}=***" if secret and equals else word)
        hide_next = secret and not equals
    text = " ".join(" ".join(words).split())
    return text if len(text) <= _MAX else text[: _MAX - 3] + "..."
