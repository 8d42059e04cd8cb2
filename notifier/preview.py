"""Who would be told: the same routing as for a real alert, and nothing is written."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from pydantic import Field
from sqlalchemy.orm import Session

from notifier.documents import Document, Moment
from notifier.items import ITEMS
from notifier.model import Alert, Channel
from notifier.outbox import Telling, first_state
from notifier.routing import Named, routed
from notifier.silences import hush_of, words


class WouldBeTold(Document):
    channel: str
    kind: str
    item: str
    severity: str
    state: str = Field(description="in which the delivery would begin")
    fallback: list[str]
    language: str | None
    not_before: Moment | None
    why: str


class PreviewDocument(Document):
    item: str
    severity: str
    told: list[WouldBeTold]
    why: str = Field(description="why nobody, or not everybody, would be told")


@dataclass(frozen=True, kw_only=True)
class Supposed:
    """An alert that did not happen. `severity` None: as the item's table has it."""

    pool: str
    queue: str = ""
    job_id: str | None = None
    item: str
    severity: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)


def preview(session: Session, supposed: Supposed, now: datetime) -> PreviewDocument:
    severity = supposed.severity or ITEMS[supposed.item].severity.value
    alert = Alert(
        pool=supposed.pool,
        queue=supposed.queue,
        job_id=supposed.job_id,
        item=supposed.item,
        items=[supposed.item],
        severity=severity,
        labels=dict(supposed.labels),
    )
    found = routed(session, alert, Named(), now)
    hush = hush_of(session, alert, now) if found.told else None
    kept_back = words(session, hush) if hush else ""
    told = [_would_be(channel, replace(telling, kept_back=kept_back)) for channel, telling in found.told]
    why = "; ".join([*found.why, *filter(None, [kept_back])])
    return PreviewDocument(item=supposed.item, severity=severity, told=told, why=why)


def _would_be(channel: Channel, telling: Telling) -> WouldBeTold:
    state, why = first_state(channel, telling)
    return WouldBeTold(
        channel=channel.name,
        kind=channel.kind,
        item=telling.item,
        severity=telling.severity,
        state=state,
        fallback=list(telling.fallback),
        language=telling.language or channel.language,
        not_before=telling.not_before,
        why=why,
    )
