"""How our processes log: structlog to stderr, one line an event; libraries' own logs in the same form."""

import logging
import sys
import threading
import traceback
from typing import Literal

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

# What these say at INFO is said better by our own events.
QUIET = ("httpx", "httpcore", "urllib3", "rq", "rq.worker", "alembic", "uvicorn.access")


def configure(log_format: Literal["console", "json"]) -> None:
    """To be called once, before anything logs."""
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(foreign_pre_chain=shared, processors=_rendering(log_format))
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO)
    threading.excepthook = _thread_died
    for name in QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)


def _rendering(log_format: Literal["console", "json"]) -> list[Processor]:
    first = structlog.stdlib.ProcessorFormatter.remove_processors_meta
    if log_format == "json":
        return [first, _without_values, structlog.processors.JSONRenderer()]
    return [first, _without_values, structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())]


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
