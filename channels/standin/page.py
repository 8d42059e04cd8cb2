"""The stand-ins' own page: how to make a channel to each, and what arrived."""

import html
from collections.abc import Sequence

from channels.standin.journal import Journal, Received

HEAD = "<!doctype html><meta charset=utf-8><title>Stand-in providers</title>"
STYLE = "<style>td{vertical-align:top;padding:0 1em 0 0}pre{white-space:pre-wrap;margin:.3em 0}</style>"


def page(journal: Journal, commands: Sequence[str]) -> str:
    """Everything in it is made literal: a message can be anything."""
    given = "".join(f"<pre>{html.escape(command)}</pre>" for command in commands)
    make = f"<h1>Channels to paste</h1>{given}" if given else ""
    rows = "\n".join(
        "<tr>" + "".join(f"<td><pre>{html.escape(cell)}</pre></td>" for cell in _cells(one)) + "</tr>"
        for one in reversed(journal.all())
    )
    return f"{HEAD}{STYLE}{make}<h1>What arrived</h1><table>{rows}</table>"


def _cells(one: Received) -> tuple[str, ...]:
    shown = "shown" if one.is_accepted else f"refused ({one.code})"
    return one.at, one.kind, one.robot, shown, f"{one.title}\n{one.text}".strip(), " ".join(one.called)
