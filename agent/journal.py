"""The agent's own log: one JSON object a line on stderr (structlog is more than a sidecar should carry)."""

import json
import sys

from agent.clock import stamp


def note(event: str, **fields: str | int | float | None) -> None:
    """Write one line. Values are data: they can hold any text and still make one line."""
    line = json.dumps({"at": stamp(), "event": event, **fields})
    try:
        sys.stderr.write(line + "\n")
        sys.stderr.flush()
    except OSError:
        return  # stderr is gone or full; watching goes on
