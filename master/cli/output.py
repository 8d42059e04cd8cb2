"""What a command prints: one JSON document, or a table or a list of facts for people."""

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from master.cli.errors import one_line

_GREEN = ("delivered", "accepted", "Running", "Succeeded", "ready", "ok")
_RED = ("failed", "expired", "Failed", "Abnormal", "isolated", "broken")
_YELLOW = ("retrying", "held", "unknown", "Restarting")
STATE_STYLES = {
    **dict.fromkeys(_GREEN, "green"),
    **dict.fromkeys(_RED, "red"),
    **dict.fromkeys(_YELLOW, "yellow"),
}


def print_json(document: Any) -> None:
    """Exactly one document on stdout, nothing else."""
    sys.stdout.write(json.dumps(document, ensure_ascii=False, indent=2) + "\n")


def say(text: str) -> None:
    """One line of result on stdout."""
    sys.stdout.write(one_line(text) + "\n")


def note(text: str) -> None:
    """One line beside the result, on stderr: `--json` output stays one document."""
    sys.stderr.write(one_line(text) + "\n")


def print_items(
    items: Iterable[Any], columns: Mapping[str, Callable[[Any], Any]], *, as_json: bool, empty: str
) -> None:
    """A list as `{"items": […]}` or as a table, one line an item."""
    rows = list(items)
    if as_json:
        print_json({"items": rows})
    elif rows:
        print_table(tuple(columns), [[column(row) for column in columns.values()] for row in rows])
    else:
        note(empty)


def print_text(text: str) -> None:
    """Several lines, each made printable."""
    for line in text.splitlines():
        say(line)


def print_table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    from rich.console import Console  # noqa: PLC0415  only people need it
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    table = Table(box=None, pad_edge=False, header_style="dim")
    for title in head:
        table.add_column(title, overflow="fold")
    for row in rows:
        texts = [one_line(show(value)) for value in row]
        table.add_row(*(Text(text, style=STATE_STYLES.get(text, "")) for text in texts))
    # A pipe gets whole lines: what reads it must not find words broken at a width.
    console = Console() if sys.stdout.isatty() else Console(width=_width(head, rows))
    console.print(table)


def _width(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> int:
    from rich.cells import cell_len  # noqa: PLC0415

    lines = [tuple(head), *rows]
    return sum(max(cell_len(one_line(show(line[n]))) for line in lines) + 2 for n in range(len(head)))


def print_facts(document: Mapping[str, Any], names: Iterable[str] | None = None) -> None:
    """`name  value` lines; what is nested is indented under its name."""
    chosen = {name: document.get(name) for name in (names or document)}
    _print_facts(chosen, 0)


def _print_facts(facts: Mapping[str, Any], depth: int) -> None:
    width = max((len(str(name)) for name in facts), default=0)
    for name, value in facts.items():
        head = "  " * depth + one_line(str(name))
        if isinstance(value, Mapping) and value:
            sys.stdout.write(head + "\n")
            _print_facts(value, depth + 1)
        elif isinstance(value, list) and any(isinstance(part, Mapping) for part in value):
            sys.stdout.write(head + "\n")
            for part in value:
                sys.stdout.write("  " * (depth + 1) + "- " + one_line(show(part)) + "\n")
        else:
            sys.stdout.write(f"{head:<{width + 2 * depth}}  {one_line(show(value))}".rstrip() + "\n")


def show(value: Any) -> str:
    """One value for people: nothing as `-`, lists with commas, objects as JSON."""
    if value is None or value in ("", [], {}):
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, list) and all(isinstance(part, str | int) for part in value):
        return ", ".join(str(part) for part in value)
    if isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False)
    return str(value)


def moment(value: str | None) -> str:
    """An RFC 3339 time in this machine's zone, to the second."""
    if not value:
        return "-"
    return datetime.fromisoformat(value).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f} s"


def count(number: int, what: str, many: str = "") -> str:
    """`1 rank`, `2 ranks`."""
    return f"{number} {what if number == 1 else many or what + 's'}"


def field(name: str) -> Callable[[Any], Any]:
    """A column that is one field of the item."""
    return lambda item: item.get(name)


def time_of(name: str) -> Callable[[Any], str]:
    """A column that is a time."""
    return lambda item: moment(item.get(name))
