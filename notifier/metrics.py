"""Figures for Prometheus: counted where things happen, and read off the database when somebody asks.

Workers and server are processes of their own: with `PROMETHEUS_MULTIPROC_DIR` set (by `faultcast up`)
they count into shared files, and any of them can show the sum.
"""

import os
from collections.abc import Iterator

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector
from sqlalchemy import func, select
from sqlalchemy.exc import SQLAlchemyError

from notifier.model import Channel, Delivery
from notifier.settle import OPEN
from notifier.storage import Store

SHARED = "PROMETHEUS_MULTIPROC_DIR"

DELIVERIES = Counter(
    "faultcast_deliveries", "Deliveries that reached a final state, or are held", ("kind", "state")
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


class Queue(Collector):
    """What waits, as the database has it."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def collect(self) -> Iterator[Metric]:
        open_now = GaugeMetricFamily(
            "faultcast_open_deliveries", "Deliveries that are not final", labels=("kind", "state")
        )
        age = GaugeMetricFamily("faultcast_queue_age_seconds", "Age of the oldest delivery that is overdue")
        broken = GaugeMetricFamily("faultcast_broken_channels", "Channels that cannot tell anything")
        try:
            with self._store.read() as session:
                now = self._store.now(session)
                waiting = select(Delivery.kind, Delivery.state, func.count()).where(OPEN)
                for kind, state, count in session.execute(waiting.group_by(Delivery.kind, Delivery.state)):
                    open_now.add_metric((kind, state), count)
                due = select(func.min(Delivery.next_attempt_at)).where(OPEN, Delivery.next_attempt_at <= now)
                oldest = session.scalar(due)
                age.add_metric((), (now - oldest).total_seconds() if oldest is not None else 0.0)
                failing = session.scalar(select(func.count()).where(Channel.health == "broken"))
                broken.add_metric((), failing or 0)
        except SQLAlchemyError:
            return  # what is counted in memory can still be shown
        yield from (open_now, age, broken)


def exposition(store: Store) -> bytes:
    """All figures in Prometheus' text form."""
    ours = CollectorRegistry()
    ours.register(Queue(store))
    if not os.environ.get(SHARED):
        return generate_latest(REGISTRY) + generate_latest(ours)
    MultiProcessCollector(ours)  # type: ignore[no-untyped-call]
    return generate_latest(ours)
