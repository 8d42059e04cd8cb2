"""The one id by which the log follows an incident: the fault event's, or the alert's where no fault lies
behind it. Every line of a thread that works on it carries it (`incident`)."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

import structlog
from sqlalchemy.orm import Session
from structlog.contextvars import bind_contextvars, unbind_contextvars

from notifier.model import Alert, Delivery
from notifier.storage import after_commit
from notifier.wording import AlertView

MAX_TOLD_OF = 50  # incidents of one digest that its lines name

log = structlog.get_logger()


class Sent(Protocol):
    """What is being sent, as far as the log names it."""

    @property
    def row(self) -> Delivery: ...
    @property
    def views(self) -> Sequence[AlertView]: ...


def incident_of(event_id: str | None, alert_id: str | None) -> str | None:
    return event_id or alert_id


@contextmanager
def following(sent: Sent) -> Iterator[None]:
    """While this lasts, what others log in this thread names the delivery, and the incident if it is one."""
    bind_contextvars(incident=incident_of(sent.row.event_id, sent.row.alert_id), delivery=sent.row.id)
    try:
        yield
    finally:
        unbind_contextvars("incident", "delivery")


def names_of(sent: Sent) -> dict[str, object]:
    """Where a line about it belongs; of a digest, to each incident that it tells of."""
    row = sent.row
    named: dict[str, object] = {"delivery": row.id, "channel": row.channel, "kind": row.kind}
    if row.is_digest:
        found = [incident_of((view.event or {}).get("id"), view.alert_id) for view in sent.views]
        return {**named, "incidents": list(dict.fromkeys(found))[:MAX_TOLD_OF]}
    named |= {"incident": incident_of(row.event_id, row.alert_id), "alert": row.alert_id}
    return named if row.job_id is None else {**named, "job": row.job_id}


def note_alert(session: Session, alert: Alert, deliveries: Sequence[str]) -> None:
    """Once it is kept: what was accepted or resolved, and who will be told."""
    said = {
        "incident": incident_of(alert.event_id, alert.id),
        "alert": alert.id, "job": alert.job_id, "source": alert.source, "item": alert.item,
        "severity": alert.severity, "status": alert.status, "deliveries": list(deliveries),
        "why": alert.why,
    }  # fmt: skip
    shown = {name: value for name, value in said.items() if value not in (None, "")}
    after_commit(session, lambda: log.info("alert_accepted", **shown))


def note_step(session: Session, event: str, alert: Alert, **more: object) -> None:
    """Once it is kept: what else was done about an alert."""
    incident = incident_of(alert.event_id, alert.id)
    names = {"incident": incident, "alert": alert.id, **more}
    after_commit(session, lambda: log.info(event, **names))
