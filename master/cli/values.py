"""Values of flags: K=V pairs, booleans, documents from files, secrets kept out of the process list."""

import json
import re
import sys
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Any

from master.cli.errors import CommandError

STDIN = "-"
_SPAN, _UNITS = re.compile(r"([0-9]{1,6})([smhd])"), {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_TRUE, _FALSE = frozenset({"true", "1", "yes", "on"}), frozenset({"false", "0", "no", "off"})


def boolean(flag: str, value: str | None) -> bool | None:
    """`true` or `false`; None where the flag was not given."""
    if value is None:
        return None
    word = value.strip().lower()
    if word not in _TRUE | _FALSE:
        raise CommandError(f"{flag}: {value} is neither true nor false: give {flag}=true or {flag}=false")
    return word in _TRUE


def pairs(flag: str, given: Iterable[str], *, last_wins: bool = False) -> dict[str, str]:
    """Repeated `K=V` as a mapping; `last_wins`: as in a shell's environment, else a key has one value."""
    found: dict[str, str] = {}
    for text in given:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise CommandError(f"{flag}: {text} has no KEY=VALUE: write {flag} NAME=VALUE")
        if last_wins:
            found[key.strip()] = value
        elif found.setdefault(key.strip(), value) != value:
            raise CommandError(
                f"{flag}: {key.strip()} is given twice with different values; keep one of them"
            )
    return found


def moment(flag: str, text: str | None) -> str | None:
    """A time as the API takes it; one without a zone is this machine's."""
    if text is None:
        return None
    try:
        return datetime.fromisoformat(text.strip()).astimezone().isoformat()
    except (ValueError, OverflowError):
        raise CommandError(
            f"{flag}: {text} is no time; give one such as 2026-11-29T08:00:00+08:00, or 2026-11-29 08:00"
        ) from None


def span_s(flag: str, text: str) -> int:
    """A span such as `90s`, `30m`, `2h` or `7d`, in seconds."""
    found = _SPAN.fullmatch(text.strip())
    if found is None or not int(found[1]):
        raise CommandError(f"{flag}: {text} is no span of time; give one such as 90s, 30m, 2h or 7d")
    return int(found[1]) * _UNITS[found[2]]


def read_text(flag: str, name: str) -> str:
    """The text of a file, or of stdin for `-`."""
    try:
        if name != STDIN:
            return Path(name).read_text(encoding="utf-8")
        if sys.stdin is None:
            raise CommandError(f"{flag}: standard input is closed; name a file")
        return sys.stdin.read()
    except OSError as error:
        raise CommandError(f"{flag}: {name}: {error.strerror}: name a readable file") from None
    except UnicodeDecodeError:
        raise CommandError(f"{flag}: {name} is not UTF-8 text") from None


def read_document(flag: str, name: str) -> dict[str, Any]:
    """A JSON or YAML file that holds one mapping."""
    return parse_mapping(flag, read_text(flag, name))


def parse_mapping(flag: str, text: str) -> dict[str, Any]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        document = _yaml(flag, text)
    if not isinstance(document, dict):
        raise CommandError(f"{flag}: a mapping of names to values is wanted (JSON or YAML)")
    return document


def _yaml(flag: str, text: str) -> Any:
    import yaml  # noqa: PLC0415  few commands need it

    try:
        # JSON first and last: a YAML date would be no JSON value.
        return json.loads(json.dumps(yaml.safe_load(text)))
    except RecursionError:
        raise CommandError(f"{flag}: is nested too deeply; give a mapping of names to values") from None
    except (yaml.YAMLError, TypeError, ValueError) as error:
        where = getattr(error, "problem_mark", None)
        line = f" in line {where.line + 1}" if where else ""
        raise CommandError(f"{flag}: neither JSON nor YAML{line}: {error}") from None


def inline_or_file(flag: str, value: str) -> str:
    """`@FILE` (or `@-`, stdin) as its text; anything else as it stands."""
    return read_text(flag, value[1:]).strip() if value.startswith("@") else value


def scalar(text: str) -> Any:
    """A `--set` value: JSON where it is one (`true`, `3`, `["a"]`), else the text itself."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
