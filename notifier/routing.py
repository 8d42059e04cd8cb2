"""From an alert's rules, or the names it gives, to channels that exist; what is missing is said in words."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from sqlalchemy.orm import Session

from channels.base import Severity
from notifier.channels import lookup
from notifier.items import at_least
from notifier.model import Alert, AlertConfig, Channel
from notifier.outbox import Telling
from notifier.problems import Problem
from notifier.rules import NO_CONFIG, NO_RULE, AlertConfigModel, AlertFacts, Route, route
from notifier.storage import zone_of
from notifier.storedrules import readable


@dataclass(frozen=True)
class Named:
    """The channels that whoever publishes has named; `channels` None leaves it to the rules."""

    channels: tuple[str, ...] | None = None
    fallback: tuple[str, ...] = ()
    known: Mapping[str, Channel] = field(default_factory=dict)

    @classmethod
    def find(
        cls, session: Session, scope: tuple[str, str], channels: Sequence[str] | None, fallback: Sequence[str]
    ) -> "Named":
        """Looks them up in pool and queue.

        Raises:
            Problem: names whichever does not exist.
        """
        if channels is None:
            return cls()
        pool, queue = scope
        places = {"channels": channels, "fallback": fallback}
        known = lookup(session, pool, queue, {name for names in places.values() for name in names})
        where = f"{pool}/{queue} or {pool}" if queue else pool
        errors = [
            (f"{place}.{n}", f"there is no channel {name} in {where}")
            for place, names in places.items()
            for n, name in enumerate(names)
            if name not in known
        ]
        if errors:
            raise Problem(422, errors=errors)
        return cls(tuple(channels), tuple(fallback), known)


@dataclass
class Routed:
    """Who is told, and how; `why` some are not, or nobody is."""

    told: list[tuple[Channel, Telling]] = field(default_factory=list)
    why: list[str] = field(default_factory=list)


def routed(session: Session, alert: Alert, named: Named, now: datetime, *, skip: str | None = None) -> Routed:
    """Channels of the alert's rules or names, each once; a missing one is replaced by its fallback."""
    if named.channels is not None:
        return _resolved(_by_name(alert, named), named.known, Routed(), skip)
    found = Routed()
    config, notes = effective_config(session, alert)
    found.why += notes
    routes = route(config, _facts(alert), now, zone_of(session)) if config is not None else ()
    if not routes:
        found.why.append(NO_RULE if config is not None else NO_CONFIG)
    return _resolved(routes, _known(session, alert, routes), found, skip)


def rerouted(session: Session, alert: Alert, item: str, now: datetime) -> Routed:
    """Who asks for another item of the same alert, such as the one that resolves it."""
    config, _ = effective_config(session, alert)
    facts = AlertFacts((item,), {}, alert.labels)
    routes = route(config, facts, now, zone_of(session)) if config is not None else ()
    return _resolved(routes, _known(session, alert, routes), Routed(), None)


def effective_config(session: Session, alert: Alert) -> tuple[AlertConfigModel | None, tuple[str, ...]]:
    """The job's rules, or else its pool's, and what could not be read of them; None where there are none."""
    owners = [("job", alert.job_id)] if alert.job_id else []
    for owner in (*owners, ("pool", alert.pool)):
        row = session.get(AlertConfig, owner)
        if row is not None:
            return readable(row.config)
    return None, ()


def _by_name(alert: Alert, named: Named) -> list[Route]:
    rest = tuple(item for item in alert.items if item != alert.item)
    return [
        Route(
            name,
            alert.item,
            rest,
            Severity(alert.severity),
            tuple(one for one in named.fallback if one != name),
        )
        for name in dict.fromkeys(named.channels or ())
    ]


def _facts(alert: Alert) -> AlertFacts:
    """Of one item the alert says how severe it is; of several, that its node was isolated."""
    if len(alert.items) == 1:
        return AlertFacts(tuple(alert.items), {alert.item: alert.severity}, alert.labels)
    is_grave = "nodeFT" in alert.items and at_least(alert.severity, Severity.ERROR)
    return AlertFacts(tuple(alert.items), {"nodeFT": Severity.ERROR} if is_grave else {}, alert.labels)


def _known(session: Session, alert: Alert, routes: Sequence[Route]) -> Mapping[str, Channel]:
    names = {name for one in routes for name in (one.channel, *one.fallback)}
    return lookup(session, alert.pool, alert.queue, names) if names else {}


def _resolved(
    routes: Sequence[Route], known: Mapping[str, Channel], found: Routed, skip: str | None
) -> Routed:
    usable = {name: row for name, row in known.items() if row.id != skip}
    for one in routes:
        chosen = _chosen(one, usable)
        if one.channel not in usable:
            reason = "cannot tell of itself" if one.channel in known else "is not there to be told"
            instead = f"; {chosen[0].name} is told instead" if chosen else ""
            found.why.append(f"channel {one.channel} {reason}{instead}")
        if chosen and chosen[0].id not in {channel.id for channel, _ in found.told}:
            found.told.append(chosen)
    return found


def _chosen(one: Route, known: Mapping[str, Channel]) -> tuple[Channel, Telling] | None:
    for n, name in enumerate((one.channel, *one.fallback)):
        if name in known:
            return known[name], Telling(
                item=one.item,
                items=one.items,
                severity=one.severity.value,
                language=one.language,
                trigger="fallback" if n else "alert",
                fallback=one.fallback[n:],
                not_before=one.not_before,
                why=one.why,
            )
    return None
