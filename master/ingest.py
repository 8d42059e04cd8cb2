"""What Alertmanager posts, sorted: what speaks of a known node is a node signal, all else an alert.

An alert and its deliveries are one transaction, and so are a hundred of them: longer nobody else should wait
to write. A body that was kept in part only is answered by no 2xx; Alertmanager posts it again after a 5xx or
a broken connection, and what is kept already is then a repeat.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from master import nodesignals
from master.nodesignals import IN_ONE, Signal
from master.nodesorts import names_in, node_of, speaks_of_node
from notifier.alertmanager import SOURCE, PrometheusAlert, Target, new_alert
from notifier.alerts import publish
from notifier.auth import Principal, Role
from notifier.directory import Directory, KnownJob
from notifier.ends import resolve
from notifier.lasting import FIRING
from notifier.model import Alert
from notifier.severities import severity_named

AT_ONCE = 100
JOB_LABELS = ("faultcast_job_id", "job_id")


@dataclass(frozen=True)
class Rights:
    """What a token may make of a body."""

    signals: bool
    alerts: bool

    @classmethod
    def of(cls, principal: Principal) -> "Rights":
        """A node belongs to a pool: a token of one queue says nothing of it."""
        may = principal.role in {Role.ADMIN, Role.OPERATOR, Role.INGEST}
        return cls(signals=may and principal.queue is None, alerts=principal.role is not Role.INGEST)


@dataclass
class Taken:
    """What became of each alert of a body, and whose bell is to be rung."""

    received: int = 0
    new: int = 0
    repeated: int = 0
    resolved: int = 0
    not_open: int = 0
    node_signals: int = 0
    ignored: int = 0
    shards: set[int] = field(default_factory=set)
    is_evidence: bool = False

    def __iadd__(self, other: "Taken") -> "Taken":
        for name, count in other.counts().items():
            setattr(self, name, getattr(self, name) + count)
        self.shards |= other.shards
        self.is_evidence |= other.is_evidence
        return self

    def counts(self) -> dict[str, int]:
        return {name: value for name, value in vars(self).items() if type(value) is int}


@dataclass(frozen=True)
class Intake:
    """Alerts on their way into the database, in one transaction."""

    session: Session
    directory: Directory
    principal: Principal
    rights: Rights
    target: Target
    nodes_of: str | None  # the pool whose nodes count; None: any
    now: datetime

    def take(self, alerts: Sequence[PrometheusAlert]) -> Taken:
        """What became of them, and no more than that: it may be done again.

        Raises:
            Problem: a named channel does not exist; then nothing of them may be kept.
        """
        taken = Taken()
        signals = self._signals(alerts) if self.rights.signals else {}
        self._keep_signals(list(signals.values()), taken)
        # Whoever names people wants them to be told of nodes as well.
        named = self.target.channels is not None or self.target.job is not None
        rest = [alert for alert in alerts if named or alert.key not in signals]
        if self.rights.alerts:
            self._publish(rest, taken)
        else:
            taken.ignored += len(rest)
        return taken

    def _signals(self, alerts: Sequence[PrometheusAlert]) -> dict[str, Signal]:
        about = [alert for alert in alerts if speaks_of_node(alert.labels)]
        names = {name for alert in about for name in names_in(alert.labels)}
        pools = nodesignals.known_nodes(self.session, names, self.nodes_of)
        found = {alert.key: node_of(alert.labels, pools) for alert in about}
        return {
            alert.key: self._signal(alert, pools[node], node)
            for alert in about
            if (node := found[alert.key]) is not None
        }

    def _signal(self, alert: PrometheusAlert, pool: str, node: str) -> Signal:
        return Signal(
            pool=pool,
            node=node,
            source=SOURCE,
            key=alert.key,
            name=alert.name or alert.title,
            status=alert.status,
            severity=severity_named(alert.labels.get("severity")).value,
            text="\n".join(part for part in (alert.title, alert.text) if part),
            labels=alert.kept_labels,
            starts_at=alert.starts_at or self.now,
            ends_at=None if alert.is_firing else alert.ends_at or self.now,
        )

    def _keep_signals(self, signals: Sequence[Signal], taken: Taken) -> None:
        kept = nodesignals.keep(self.session, signals, self.now)
        taken.node_signals += len(signals)
        taken.is_evidence = taken.is_evidence or kept.is_evidence

    def _publish(self, alerts: Sequence[PrometheusAlert], taken: Taken) -> None:
        known = self._open([self.target.key(alert) for alert in alerts])
        for alert in alerts:
            before = known.get(self.target.key(alert))
            if alert.is_firing:
                told = publish(self.session, new_alert(alert, self.target, self._job(alert)), self.now)
                is_new = before is None or told.alert_id != before.id
                taken.new, taken.repeated = taken.new + is_new, taken.repeated + (not is_new)
            elif before is None:
                taken.not_open += 1
                continue
            else:
                told = resolve(self.session, alert_id=before.id, now=self.now)
                taken.resolved += 1
            taken.shards |= told.shards

    def _open(self, keys: Sequence[str]) -> dict[str, Alert]:
        """Which of them are open alerts of this token."""
        found: dict[str, Alert] = {}
        for at in range(0, len(keys), IN_ONE):
            rows = select(Alert).where(
                Alert.token_id == self.target.token_id, Alert.source == SOURCE, Alert.status == FIRING,
                Alert.dedup_key.in_(keys[at : at + IN_ONE]),
            )  # fmt: skip
            found |= {str(row.dedup_key): row for row in self.session.scalars(rows)}
        return found

    def _job(self, alert: PrometheusAlert) -> KnownJob | None:
        """The job that the body is for, or that the alert names by a label, if it is in the token's reach."""
        if self.target.job is not None:
            return self.target.job
        for label in JOB_LABELS:
            named = alert.labels.get(label, "")[:64]
            job = self.directory.job(self.session, named) if named else None
            if job is not None and self.principal.covers(job.pool, job.queue):
                return job
        return None
