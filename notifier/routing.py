"""From an alert's rules, or the names it gives, to channels that exist; what is missing is said in words.

A name is a channel's or an on-call list's: whoever has the turn at this moment is told.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from sqlalchemy.orm import Session

from channels.base import Severity
from notifier.audience import Reach, noted, reach
from notifier.followups import FALLBACK
from notifier.items import at_least
from notifier.lookup import KnownChannel
from notifier.model import Alert, AlertConfig
from notifier.outbox import DISABLED, UNASKED, Telling
from notifier.problems import Problem
from notifier.rules import (
    NO_CONFIG,
    NO_RULE,
    AlertConfigModel,
    AlertFacts,
    Route,
    Unasked,
    route,
    unasked,
)
from notifier.storage import zone_of
from notifier.storedrules import readable

MISSING = "channel {name} is not there to be told"


@dataclass(frozen=True)
class Named:
    """The channels that whoever publishes has named; `channels` None leaves it to the rules."""

    channels: tuple[str, ...] | None = None
    fallback: tuple[str, ...] = ()
    reached: Mapping[str, Reach] = field(default_factory=dict)

    @classmethod
    def find(
        cls,
        session: Session,
        scope: tuple[str, str],
        channels: Sequence[str] | None,
        fallback: Sequence[str],
        now: datetime,
    ) -> "Named":
        """Looks them up in pool and queue.

        Raises:
            Problem: names whichever does not exist.
        """
        if channels is None:
            return cls()
        pool, queue = scope
        places = {"channels": channels, "fallback": fallback}
        reached = reach(session, scope, (name for names in places.values() for name in names), now)
        where = f"{pool}/{queue} or {pool}" if queue else pool
        errors = [
            (f"{place}.{n}", f"there is no channel or on-call list {name} in {where}")
            for place, names in places.items()
            for n, name in enumerate(names)
            if name not in reached
        ]
        if errors:
            raise Problem(422, errors=errors)
        return cls(tuple(channels), tuple(fallback), reached)


@dataclass
class Routed:
    """Who is told, and how; `why` some are not, or nobody is; `config`: by which rules, if by any.

    `unasked`: channels that the rules name for other alerts, or that are disabled; each has a row in the log
    that says why.
    """

    told: list[tuple[KnownChannel, Telling]] = field(default_factory=list)
    unasked: list[tuple[KnownChannel, Telling]] = field(default_factory=list)
    why: list[str] = field(default_factory=list)
    config: AlertConfigModel | None = None


def routed(session: Session, alert: Alert, named: Named, now: datetime, *, skip: str | None = None) -> Routed:
    """Channels of the alert's rules or names, each once; a missing one is replaced by its fallback."""
    if named.channels is not None:
        return _resolved(_by_name(alert, named), named.reached, Routed(), skip)
    config, notes = effective_config(session, alert)
    found = Routed(why=list(notes), config=config)
    if config is None:
        found.why.append(NO_CONFIG)
        return found
    facts = facts_of(alert)
    routes, others = route(config, facts, now, zone_of(session)), unasked(config, facts)
    if not routes:
        found.why.append(NO_RULE)
    reached = _reached(session, alert, routes, now, [one.channel for one in others])
    _resolved(routes, reached, found, skip)
    seen = {channel.id for channel, _ in (*found.told, *found.unasked)} | ({skip} if skip else set())
    found.unasked += _unasked(alert, others, reached, seen)
    return found


def routed_by(
    session: Session, alert: Alert, config: AlertConfigModel, now: datetime, *, skip: str | None = None
) -> Routed:
    """Who is told by these rules, whatever the job's or pool's are by now."""
    routes = route(config, facts_of(alert), now, zone_of(session))
    return _resolved(routes, _reached(session, alert, routes, now), Routed(), skip)


def rerouted(session: Session, alert: Alert, item: str, now: datetime) -> Routed:
    """Who asks for another item of the same alert, such as the one that resolves it."""
    config, _ = effective_config(session, alert)
    facts = AlertFacts((item,), {}, alert.labels)
    routes = route(config, facts, now, zone_of(session)) if config is not None else ()
    return _resolved(routes, _reached(session, alert, routes, now), Routed(), None)


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


def facts_of(alert: Alert) -> AlertFacts:
    """Of one item the alert says how severe it is; of several, that its node was isolated."""
    if len(alert.items) == 1:
        return AlertFacts(tuple(alert.items), {alert.item: alert.severity}, alert.labels)
    is_grave = "nodeFT" in alert.items and at_least(alert.severity, Severity.ERROR)
    return AlertFacts(tuple(alert.items), {"nodeFT": Severity.ERROR} if is_grave else {}, alert.labels)


def _reached(
    session: Session, alert: Alert, routes: Sequence[Route], now: datetime, more: Iterable[str] = ()
) -> Mapping[str, Reach]:
    names = {name for one in routes for name in (one.channel, *one.fallback)}
    return reach(session, (alert.pool, alert.queue), names.union(more), now)


def _resolved(
    routes: Sequence[Route], reached: Mapping[str, Reach], found: Routed, skip: str | None
) -> Routed:
    seen = {channel.id for channel, _ in found.told}
    for one in routes:
        chosen = _chosen(one, reached, skip)
        missing = _missing(one.channel, reached, skip)
        if missing:
            is_instead = bool(chosen) and chosen[0][1].name != one.channel
            missing += f"; {chosen[0][0].name} is told instead" if is_instead else ""
            found.why.append(missing)
        off = replace(_telling(one, one.channel), kept_back=missing)
        disabled = [(channel, off) for channel in _disabled(reached.get(one.channel), skip)]
        for place, rows in ((found.told, chosen), (found.unasked, disabled)):
            place.extend((channel, telling) for channel, telling in rows if channel.id not in seen)
            seen.update(channel.id for channel, _ in rows)
    return found


def _missing(name: str, reached: Mapping[str, Reach], skip: str | None) -> str:
    """What of this name is not there to be told, in words."""
    known = reached.get(name)
    if known is None:
        return MISSING.format(name=name)
    absent = ((MISSING, known.missing), (DISABLED, [row.name for row in _disabled(known, skip)]))
    lost = "; ".join(words.format(name=", ".join(names)) for words, names in absent if names)
    if lost or not known.channels:
        return ": ".join(filter(None, [known.via, lost]))
    return f"channel {name} cannot tell of itself" if not _usable(known, skip) else ""


def _usable(known: Reach | None, skip: str | None) -> list[KnownChannel]:
    return [row for row in known.channels if row.id != skip and row.enabled] if known else []


def _disabled(known: Reach | None, skip: str | None) -> list[KnownChannel]:
    return [row for row in known.channels if row.id != skip and not row.enabled] if known else []


def _chosen(one: Route, reached: Mapping[str, Reach], skip: str | None) -> list[tuple[KnownChannel, Telling]]:
    """All that the first name reaches of which any is there."""
    for n, name in enumerate((one.channel, *one.fallback)):
        usable = _usable(reached.get(name), skip)
        if usable:
            telling = replace(
                _telling(one, name),
                trigger=FALLBACK if n else "alert",
                fallback=one.fallback[n:],
                not_before=one.not_before,
                why=noted(one.why, reached[name].via),
                quiet_hours=one.quiet_hours,
            )
            return [(channel, telling) for channel in usable]
    return []


def _telling(one: Route, name: str) -> Telling:
    return Telling(
        name=name, item=one.item, items=one.items, severity=one.severity.value, language=one.language
    )


def _unasked(
    alert: Alert, others: Sequence[Unasked], reached: Mapping[str, Reach], told: set[str]
) -> list[tuple[KnownChannel, Telling]]:
    rest = tuple(item for item in alert.items if item != alert.item)
    found: dict[str, tuple[KnownChannel, Telling]] = {}
    for one in others:
        known = reached.get(one.channel)
        for channel in known.channels if known else ():
            if channel.id not in told:
                why = noted(one.why, known.via if known else "")
                how = Telling(
                    item=alert.item, items=rest, severity=str(alert.severity), trigger=UNASKED, kept_back=why
                )
                found.setdefault(channel.id, (channel, how))
    return list(found.values())
