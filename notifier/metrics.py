"""Figures for Prometheus that are counted where things happen: they are in memory, or in shared files where
several processes count together. `notifier/gauges.py` has those that the database knows."""

from collections.abc import Iterator
from functools import cache
from itertools import product
from typing import Any, Protocol, TypeVar

from prometheus_client import Counter, Histogram, disable_created_metrics
from sqlalchemy import Engine, event, exc

from channels.base import Outcome
from channels.registry import ADAPTERS
from notifier.followups import Kind
from notifier.items import ITEMS
from notifier.model import FINAL_STATES

disable_created_metrics()  # type: ignore[no-untyped-call]  # twice as many series, which no rule asks for

Metric = TypeVar("Metric", Counter, Histogram)

NAMES_CHANNELS = "faultcast_channel_"
MAX_CHANNELS = 200  # with figures of their own; the rest of a process share one
OTHERS = "(others)"

DELIVERIES = Counter(
    "faultcast_deliveries", "Deliveries that workers brought to a final state", ("kind", "state")
)
CHANNEL_DELIVERIES = Counter(
    "faultcast_channel_deliveries", "The same by channel, for whoever may see all", ("channel", "state")
)
ATTEMPTS = Counter("faultcast_attempts", "Sends by what the provider's answer means", ("kind", "outcome"))
PROVIDER_S = Histogram(
    "faultcast_provider_seconds", "From a send to the provider's answer", ("kind",),
    buckets=(0.01, 0.03, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 60),
)  # fmt: skip
FIRST_SEND_S = Histogram(
    "faultcast_alert_to_send_seconds", "From an accepted alert to its first send", ("kind",),
    buckets=(0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 5, 30, 60, 300),
)  # fmt: skip
POSSIBLE_DUPLICATES = Counter(
    "faultcast_possible_duplicates", "Sends repeated because an answer was lost", ("kind",)
)
TEMPLATE_ERRORS = Counter(
    "faultcast_template_errors", "Messages told in built-in words because the template failed", ("item",)
)
INDEXED = Counter("faultcast_log_indexed", "Deliveries that the index of the delivery log has read")
REMOVED = Counter("faultcast_log_removed", "What was removed from the delivery log for its age", ("what",))
LEASES_LOST = Counter("faultcast_leases_lost", "Deliveries that another worker took over while we had them")
CLAIMS = Counter("faultcast_claims", "Claims that brought something")
CLAIMED = Counter("faultcast_claimed_deliveries", "Deliveries claimed")
RECONCILED = Counter(
    "faultcast_reconciled", "What was put right because time passed or somebody died", ("what",)
)
FOLLOWED = Counter(
    "faultcast_followups", "Alerts escalated, reminded of, told after a silence, by what it was", ("kind",)
)
BELLS = Counter("faultcast_bells", "Rings of the doorbell: rung, answered already, lost", ("fate",))
DATABASE_ERRORS = Counter(
    "faultcast_database_errors", "Statements that the database did not take", ("error",)
)
WATCHDOG = Counter(
    "faultcast_watchdog_calls", "Calls to the watchdog: made, withheld, unanswered", ("result",)
)

_known: set[str] = set()
_ERRORS = (
    exc.OperationalError, exc.IntegrityError, exc.InternalError, exc.ProgrammingError, exc.DataError,
    exc.NotSupportedError, exc.InterfaceError, exc.DatabaseError,
)  # fmt: skip


@cache
def of(metric: Metric, *labels: str) -> Metric:
    """The one of a metric with these labels, of which there are few; prometheus_client looks for it under a
    lock."""
    return metric.labels(*labels)


@cache
def begin() -> None:
    """Whatever labels can be known beforehand is shown from the first look on, at 0: of a counter that comes
    into being at 1, Prometheus sees no increase."""
    for counter, labels in _known_labels():
        of(counter, *labels)


def _known_labels() -> Iterator[tuple[Counter, tuple[str, ...]]]:
    yield from ((DELIVERIES, labels) for labels in product(ADAPTERS, FINAL_STATES))
    yield from ((ATTEMPTS, labels) for labels in product(ADAPTERS, Outcome))
    for counter, values in (
        (POSSIBLE_DUPLICATES, ADAPTERS),
        (TEMPLATE_ERRORS, ITEMS),
        (REMOVED, ("delivery", "alert")),
        (RECONCILED, ("taken_back", "expired", "released", "channel_broken", "closed")),
        (FOLLOWED, Kind),
        (BELLS, ("rung", "ringing", "lost")),
        (DATABASE_ERRORS, (one.__name__ for one in _ERRORS)),
        (WATCHDOG, ("made", "withheld", "unanswered")),
    ):
        yield from ((counter, (value,)) for value in values)


class Told(Protocol):
    """A delivery, as far as it is counted."""

    kind: Any
    pool: Any
    queue: Any
    channel: Any


def count_settled(row: Told, state: str) -> None:
    """Scope and name make the channel: names of two scopes do not mix."""
    of(DELIVERIES, row.kind, state).inc()
    channel = "/".join(part for part in (row.pool, row.queue, row.channel) if part)
    if channel not in _known:
        if len(_known) < MAX_CHANNELS:
            _known.add(channel)
        else:
            channel = OTHERS
    of(CHANNEL_DELIVERIES, channel, state).inc()


def watch(engine: Engine) -> None:
    """Count what goes wrong with this database from now on."""

    @event.listens_for(engine, "handle_error")
    def _count(context: Any) -> None:
        error = context.sqlalchemy_exception or context.original_exception
        DATABASE_ERRORS.labels(type(error).__name__).inc()
