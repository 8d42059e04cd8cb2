"""Who would be told: the same routing as for a real alert, and nothing is written."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from pydantic import Field
from sqlalchemy.orm import Session

from notifier.alertdocuments import AlertBody
from notifier.audience import known, noted
from notifier.documents import Document, Moment
from notifier.followups import planned, rule_of
from notifier.items import ITEMS
from notifier.lookup import KnownChannel
from notifier.model import Alert
from notifier.outbox import DISABLED, UNASKED, Telling, first_state
from notifier.routing import MISSING, Named, Routed, facts_of, routed, routed_by
from notifier.rules import AlertConfigModel, matching, restriction, unasked
from notifier.silences import hush_of, words
from notifier.storedrules import readable

UNSAID = AlertBody.model_fields["severity"].default  # of an alert from outside that names none


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


class WouldFollow(Document):
    """What comes later, should nobody acknowledge it: a step of escalation, or reminders."""

    kind: str = Field(description="`escalate` or `remind`")
    after_s: float = Field(description="since the alert; of reminders also the interval")
    channels: list[str] = Field(description="as they would be told at this moment")
    why: str


class NotTold(Document):
    """A channel or list that rules or steps name for other alerts."""

    channel: str
    why: str = Field(description="what each rule or step that names it wants")


class PreviewDocument(Document):
    item: str
    severity: str
    told: list[WouldBeTold]
    later: list[WouldFollow]
    not_told: list[NotTold]
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
    severity = supposed.severity or (UNSAID if supposed.item == "custom" else ITEMS[supposed.item].severity)
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
    later = _later(session, alert, found.config, now) if found.config is not None else []
    named = {one.channel for one in told}.union(*(one.channels for one in later))
    not_told = _not_told(session, alert, found, named)
    return PreviewDocument(
        item=supposed.item, severity=severity, told=told, later=later, not_told=not_told, why=why
    )


def _not_told(session: Session, alert: Alert, found: Routed, named: set[str]) -> list[NotTold]:
    """Whom the rules name, and the steps, besides those who would be told (`named`)."""
    if found.config is None:
        return []
    facts = facts_of(alert)
    reasons = {
        channel.name: noted(_off(channel) if telling.trigger == UNASKED else "", telling.kept_back)
        for channel, telling in found.unasked
    }
    names = {one.channel: one.why for one in unasked(found.config, facts)}
    there = known(session, (alert.pool, alert.queue), names)
    gone = {name: noted(MISSING.format(name=name), why) for name, why in names.items() if name not in there}
    reasons |= gone
    for n, step in enumerate(found.config.escalation, 1):
        rule = rule_of(step)
        if not matching(rule, facts):
            why = f"step {n} of escalation {restriction(rule, facts)}"
            reasons |= {
                name: noted(reasons.get(name, ""), why) for name in rule.channels if name not in named
            }
    return [NotTold(channel=name, why=why) for name, why in reasons.items()]


def _off(channel: KnownChannel) -> str:
    return "" if channel.enabled else DISABLED.format(name=channel.name)


def _later(session: Session, alert: Alert, config: AlertConfigModel, now: datetime) -> list[WouldFollow]:
    """In the order in which they would come."""
    found = []
    for one in sorted(planned(config, facts_of(alert), now), key=lambda one: one.due_at):
        routed_then = routed_by(session, alert, readable({"rules": [one.spec["rule"]]})[0], now)
        via = {telling.why for _, telling in routed_then.told if telling.why}
        found.append(
            WouldFollow(
                kind=one.kind,
                after_s=(one.due_at - now).total_seconds(),
                channels=[channel.name for channel, _ in routed_then.told],
                why="; ".join([*routed_then.why, *sorted(via)]),
            )
        )
    return found


def _would_be(channel: KnownChannel, telling: Telling) -> WouldBeTold:
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
