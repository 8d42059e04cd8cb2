"""How our processes log: structlog to stderr, one line an event; libraries' own logs in the same form."""

import logging
import re
import sys
import threading
import traceback
from typing import Literal

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

# What these say at INFO is said better by our own events.
QUIET = ("httpx", "httpcore", "urllib3", "rq", "alembic", "uvicorn.access")

_QUOTED = re.compile("[ =\"']")


def configure(log_format: Literal["console", "json"]) -> None:
    """To be called once, before anything logs. Our own lines do not go by the standard library's `logging`:
    there is one for each attempt, and that way costs several times as much."""
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    rendering = _rendering(log_format)
    structlog.configure(
        processors=[*shared, *rendering],
        logger_factory=lambda *_: _Lines(),
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    first = structlog.stdlib.ProcessorFormatter.remove_processors_meta
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(foreign_pre_chain=shared, processors=[first, *rendering])
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO)
    threading.excepthook = _thread_died
    for name in QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)


class _Lines:
    """Writes each line whole, so that those of other threads and processes stand above or below it."""

    def msg(self, line: str) -> None:
        sys.stderr.write(line + "\n")

    debug = info = warning = error = critical = msg


def _rendering(log_format: Literal["console", "json"]) -> list[Processor]:
    if log_format == "json":
        return [_without_values, structlog.processors.JSONRenderer()]
    if sys.stderr.isatty():
        return [_without_values, _on_one_line, structlog.dev.ConsoleRenderer(colors=True)]
    return [_without_values, _on_one_line, _plain]


def _plain(_logger: WrappedLogger, _name: str, event: EventDict) -> str:
    """What structlog's renderer writes without colours, in a quarter of its time."""
    begins = f"{event.pop('timestamp')} [{event.pop('level'):<9}] {event.pop('event')!s:<30}"
    return f"{begins} {' '.join([f'{key}={_shown(event[key])}' for key in sorted(event)])}".rstrip(" ")


def _shown(value: object) -> str:
    is_plain = isinstance(value, str) and value.isprintable() and not _QUOTED.search(value)
    return str(value) if is_plain else repr(value)


def _on_one_line(_logger: WrappedLogger, _name: str, event: EventDict) -> EventDict:
    """A foreign line may hold what somebody else wrote; values are quoted by whoever renders them."""
    text = str(event.get("event", ""))
    if not text.isprintable():
        event["event"] = "".join(char if char.isprintable() else f"\\u{ord(char):04x}" for char in text)
    return event


def _without_values(_logger: WrappedLogger, _name: str, event: EventDict) -> EventDict:
    """Kind and place of an exception, whoever logs it: its own words may hold a secret."""
    info = event.pop("exc_info", None)
    error = sys.exc_info()[1] if info is True else info[1] if isinstance(info, tuple) else info
    if isinstance(error, BaseException):
        event["error"] = " of ".join(type(one).__name__ for one in _chain(error))
        event["where"] = "".join(traceback.format_tb(error.__traceback__))
    return event


def _chain(error: BaseException | None) -> list[BaseException]:
    """The error, and what it came of."""
    found: list[BaseException] = []
    while error is not None and error not in found:
        found.append(error)
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return found


def _thread_died(died: threading.ExceptHookArgs) -> None:
    name = died.thread.name if died.thread else "?"
    structlog.get_logger().error("thread_died", thread=name, exc_info=died.exc_value)
