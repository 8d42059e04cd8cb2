"""How our processes log: structlog to stderr, one line an event; libraries' own logs in the same form."""

import logging
import sys
from typing import Literal

import structlog
from structlog.typing import Processor

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
    for name in QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)


def _rendering(log_format: Literal["console", "json"]) -> list[Processor]:
    first = structlog.stdlib.ProcessorFormatter.remove_processors_meta
    if log_format == "json":
        return [first, structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    return [first, structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=_plain)]


_plain = structlog.dev.plain_traceback
