"""Figures for Prometheus of the half that looks after training: jobs, nodes, agents, who leads."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from prometheus_client.core import GaugeMetricFamily, Metric
from sqlalchemy import Select, func, select
from sqlalchemy.orm import Session

from master.model import AgentLife, FaultEventRow, Job, Leader, Node
from notifier.gauges import FromDatabase, gauge

LATELY = timedelta(seconds=60)


class Training(FromDatabase):
    """What the master's rows say now. No job is named: there may be any number of them."""

    def read(self, session: Session, now: datetime) -> Iterator[Metric]:
        jobs = select(Job.status, func.count()).where(Job.delete_requested.is_(False)).group_by(Job.status)
        yield _by(session, "faultcast_jobs", "Jobs by status", ("status",), jobs)
        nodes = select(Node.status, func.count()).group_by(Node.status)
        yield _by(session, "faultcast_nodes", "Nodes by status", ("status",), nodes)
        leads = GaugeMetricFamily("faultcast_leader", "Whether somebody leads the pool", labels=("pool",))
        for pool, until in session.execute(select(Leader.pool, Leader.until)):
            leads.add_metric((pool,), float(until > now))
        yield leads
        heard = select(func.count()).where(AgentLife.seen_at > now - LATELY)
        yield gauge("faultcast_agents", "Agents heard lately", value=session.scalar(heard) or 0)
        events = select(FaultEventRow.fault_class, FaultEventRow.cause, func.count())
        events = events.group_by(FaultEventRow.fault_class, FaultEventRow.cause)
        yield _by(session, "faultcast_fault_events", "Fault events kept", ("fault_class", "cause"), events)


def _by(
    session: Session, name: str, help_text: str, labels: tuple[str, ...], rows: Select[*tuple[Any, ...]]
) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, help_text, labels=labels)
    for *values, count in session.execute(rows):
        family.add_metric(tuple(values), count)
    return family
