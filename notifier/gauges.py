"""Figures for Prometheus that the database has, read when somebody asks."""

from collections.abc import Iterator
from datetime import datetime
from importlib.metadata import version

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from sqlalchemy import func, select
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from notifier.model import Channel, Delivery
from notifier.presence import living
from notifier.settle import OPEN
from notifier.storage import Store


class FromDatabase(Collector):
    """Shows nothing while the database is away: what is counted in memory can still be shown."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def collect(self) -> Iterator[Metric]:
        try:
            with self._store.read() as session:
                found = [*self.read(session, self._store.now(session))]
        except SQLAlchemyError:
            return
        yield from found

    def read(self, session: Session, now: datetime) -> Iterator[Metric]:
        raise NotImplementedError


class Queue(FromDatabase):
    """What waits, and who is there to send it."""

    def collect(self) -> Iterator[Metric]:
        found = [*super().collect()]
        yield gauge("faultcast_database_up", "Whether the database can be read", value=bool(found))
        yield from found

    def read(self, session: Session, now: datetime) -> Iterator[Metric]:
        yield gauge("faultcast_build_info", "Which release this is", {"version": version("faultcast")})
        yield from _waiting(session)
        yield from _late(session, now)
        yield from _channels(session, now)
        workers = living(session, now)
        yield gauge("faultcast_workers", "Workers that spoke lately", value=len(workers))
        behind = max((abs(worker.behind_s) for worker in workers), default=0.0)
        yield gauge("faultcast_clock_skew_seconds", "The worst worker's clock against ours", value=behind)


def _waiting(session: Session) -> Iterator[Metric]:
    open_now = GaugeMetricFamily(
        "faultcast_open_deliveries", "Deliveries that are not final", labels=("kind", "state")
    )
    for state in (OPEN, Delivery.state == "held"):
        rows = select(Delivery.kind, Delivery.state, func.count()).where(state)
        for kind, name, count in session.execute(rows.group_by(Delivery.kind, Delivery.state)):
            open_now.add_metric((kind, name), count)
    yield open_now


def _late(session: Session, now: datetime) -> Iterator[Metric]:
    by_kind = GaugeMetricFamily(
        "faultcast_overdue_seconds", "Age of the oldest overdue delivery by kind and severity",
        labels=("kind", "severity"),
    )  # fmt: skip
    oldest = func.min(Delivery.next_attempt_at)
    due = select(Delivery.kind, Delivery.severity, oldest).where(OPEN, Delivery.next_attempt_at <= now)
    worst = 0.0
    for kind, severity, moment in session.execute(due.group_by(Delivery.kind, Delivery.severity)):
        late_s = (now - (moment or now)).total_seconds()
        worst = max(worst, late_s)
        by_kind.add_metric((kind, severity), late_s)
    yield gauge("faultcast_queue_age_seconds", "Age of the oldest delivery that is overdue", value=worst)
    yield by_kind


def _channels(session: Session, now: datetime) -> Iterator[Metric]:
    def count(*which: object) -> int:
        return session.scalar(select(func.count()).select_from(Channel).where(*which)) or 0  # type: ignore[arg-type]

    broken = count(Channel.health == "broken")
    paused = count(Channel.paused_until > now)
    yield gauge("faultcast_broken_channels", "Channels that cannot tell anything", value=broken)
    yield gauge("faultcast_paused_channels", "Channels whose provider told us to wait", value=paused)


def gauge(
    name: str, help_text: str, labels: dict[str, str] | None = None, value: float = 1.0
) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, help_text, labels=tuple(labels or ()))
    family.add_metric(tuple((labels or {}).values()), value)
    return family
