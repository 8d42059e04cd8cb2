"""Who is told of what: a job's or pool's alert configuration, and the routes that follow. Pure."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, time, timedelta
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, Field, model_validator

from channels.base import Severity
from notifier.documents import NAME, Body, ChannelName, Whole
from notifier.items import ITEMS, at_least, most_severe, most_specific
from notifier.wording import clip

_HOURS = re.compile(r"([01][0-9]|2[0-3]):[0-5][0-9]-([01][0-9]|2[0-3]):[0-5][0-9]")
DAY_S = 86_400
MIN_REMIND_S = 60
BAIDU_NAMES = ("alertItems", "notifyRuleId")
# What Baidu's form may carry besides: names in a service of its own, of which we have nothing.
BAIDU_IGNORED = ("alertIds", "instanceId", "alertName", "description", "severity")
_LASTING = re.compile(r"([0-9]{1,5})([smh])")
_SECONDS = {"s": 1, "m": 60, "h": 3600}

LASTS = "told if it lasts {seconds} s"
QUIET = "quiet hours until {until}"
NO_RULE = "no rule matches"
MOST_REASONS, MOST_SAID = 5, 100
NO_CONFIG = "no rules: neither the job nor its pool says who is told"


def _item(name: str) -> str:
    if name not in ITEMS:
        raise ValueError(f"no such alert item; give one of {', '.join(ITEMS)}")
    return name


def _hours(text: str) -> str:
    found = _HOURS.fullmatch(text)
    if found is None or text[:5] == text[6:]:
        raise ValueError("give two different times of day such as 22:00-08:00")
    return text


def _beat(seconds: int) -> int:
    """A robot takes 20 messages a minute, of all alerts together."""
    if 0 < seconds < MIN_REMIND_S:
        raise ValueError(f"give 0 for no reminders, or at least {MIN_REMIND_S}")
    return seconds


AlertItem = Annotated[str, AfterValidator(_item), Field(examples=["jobFT"])]
Labels = Annotated[dict[str, str], Field(max_length=64)]
Names = Annotated[list[ChannelName], Field(max_length=50)]
NOBODY_ELSE = "names nobody but those in channels, who are told anyway: name another, or leave it out"


def is_no_fallback(channels: Sequence[str], fallback: Sequence[str]) -> bool:
    """It is there, and nobody is left to turn to."""
    return bool(fallback) and set(fallback) <= set(channels)


class Rule(Body):
    """All of `channels` are told of what matches; no `items` means every item."""

    channels: Annotated[list[ChannelName], Field(min_length=1, max_length=50)]
    fallback: Names = Field(default_factory=list)
    items: list[AlertItem] = Field(default_factory=list)
    min_severity: Severity = Severity.INFO
    match: Labels = Field(default_factory=dict)
    quiet_hours: Annotated[str, AfterValidator(_hours)] | None = None
    remind_every_s: Annotated[Whole, Field(ge=0, le=7 * DAY_S), AfterValidator(_beat)] = 0
    language: Literal["zh", "en"] | None = None
    for_s: Annotated[Whole, Field(ge=0, le=DAY_S)] = 0


class EscalationStep(Body):
    """Told when nobody acknowledged for so long, counted from the alert."""

    after_s: Annotated[Whole, Field(ge=1, le=7 * DAY_S)]
    channels: Annotated[list[ChannelName], Field(min_length=1, max_length=50)]
    items: list[AlertItem] = Field(default_factory=list)
    min_severity: Severity = Severity.INFO


class AlertConfigModel(Body):
    """`alertConfig`: ours, or Baidu's `{"alertItems": […], "notifyRuleId": "CHANNEL"}`, read as one rule."""

    rules: Annotated[list[Rule], Field(max_length=100)] = Field(default_factory=list)
    escalation: Annotated[list[EscalationStep], Field(max_length=20)] = Field(default_factory=list)

    @model_validator(mode="before")
    @classmethod
    def _from_baidu(cls, data: Any) -> Any:
        if not isinstance(data, Mapping) or not any(name in data for name in BAIDU_NAMES):
            return data
        if "rules" in data or "escalation" in data:
            raise ValueError("give either rules or alertItems with notifyRuleId, not both")
        missing = [name for name in BAIDU_NAMES if name not in data]
        if missing:
            raise ValueError(f"{missing[0]}: is missing, alertItems and notifyRuleId go together")
        known = {*BAIDU_NAMES, *BAIDU_IGNORED, "for"}
        rest = {name: value for name, value in data.items() if name not in known}
        return {"rules": [_rule_of_baidu(data)], **rest}

    def channel_names(self) -> frozenset[str]:
        """Every channel that it names anywhere."""
        told = {name for rule in self.rules for name in (*rule.channels, *rule.fallback)}
        return frozenset(told | {name for step in self.escalation for name in step.channels})


def _rule_of_baidu(data: Mapping[str, Any]) -> dict[str, Any]:
    """Raises ValueError in the words of that form."""
    items, channel = data["alertItems"], data["notifyRuleId"]
    if not isinstance(items, list) or not items:
        raise ValueError(f"alertItems: give a list of {', '.join(ITEMS)}")
    unknown = [str(item)[:60] for item in items if not (isinstance(item, str) and item in ITEMS)]
    if unknown:
        raise ValueError(f"alertItems: there is no item {unknown[0]}; give any of {', '.join(ITEMS)}")
    if not (isinstance(channel, str) and re.fullmatch(NAME, channel)):
        raise ValueError("notifyRuleId: give the name of a channel")
    return {"channels": [channel], "items": items, "for_s": _lasting(data.get("for") or "0m")}


def _lasting(given: object) -> int:
    """Prometheus' short form of a duration, `5m`, in seconds."""
    found = _LASTING.fullmatch(given) if isinstance(given, str) else None
    lasts = int(found[1]) * _SECONDS[found[2]] if found else -1
    if not 0 <= lasts <= DAY_S:
        raise ValueError("for: give a duration such as 0m, 30s or 5m, a day at most")
    return lasts


@dataclass(frozen=True)
class AlertFacts:
    """What rules look at. `severities`: where they differ from the table (`custom`)."""

    items: tuple[str, ...]
    severities: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)

    def severity(self, item: str) -> Severity:
        return Severity(self.severities.get(item, ITEMS[item].severity))


@dataclass(frozen=True)
class Route:
    """One channel that is told. `item` is the most specific that the rules match, `items` the rest.

    Attributes:
        channel: its name, or an on-call list's.
        fallback: in order, whoever is told when this channel cannot be.
        not_before: nothing is sent earlier, and `why`; `quiet_hours` hold for what is told later.
    """

    channel: str
    item: str
    items: tuple[str, ...]
    severity: Severity
    fallback: tuple[str, ...] = ()
    language: str | None = None
    not_before: datetime | None = None
    why: str = ""
    quiet_hours: str | None = None


@dataclass(frozen=True)
class Unasked:
    """A channel that the rules name and none of them tells; why, in words."""

    channel: str
    why: str


def route(config: AlertConfigModel, facts: AlertFacts, now: datetime, zone: ZoneInfo) -> tuple[Route, ...]:
    """The channels that are told of an alert; a channel named by several rules is told once."""
    found: dict[str, Route] = {}
    for rule in config.rules:
        matched = matching(rule, facts)
        if not matched:
            continue
        severity = most_severe(facts.severity(item) for item in matched)
        until, why = _wait(rule, severity, now, zone)
        for name in dict.fromkeys(rule.channels):
            new = _route(name, rule, matched, severity)
            new = replace(new, not_before=until, why=why)
            found[name] = _both(found[name], new) if name in found else new
    return tuple(found.values())


def unasked(config: AlertConfigModel, facts: AlertFacts) -> tuple[Unasked, ...]:
    """Every channel that rules name in `channels` and none of them tells of such an alert."""
    told: set[str] = set()
    reasons: dict[str, list[str]] = {}
    for n, rule in enumerate(config.rules, 1):
        if matching(rule, facts):
            told.update(rule.channels)
            continue
        reason = f"rule {n} {restriction(rule, facts)}"
        for name in dict.fromkeys(rule.channels):
            reasons.setdefault(name, []).append(reason)
    return tuple(
        Unasked(name, f"{NO_RULE}: {'; '.join(found[:MOST_REASONS])}{'; …' if found[MOST_REASONS:] else ''}")
        for name, found in reasons.items()
        if name not in told
    )


def restriction(rule: Rule, facts: AlertFacts) -> str:
    """What of a rule that does not match keeps it from doing so."""
    lacking = [f"{key}={value}" for key, value in rule.match.items() if facts.labels.get(key) != value]
    if lacking:
        return f"wants {clip(', '.join(lacking), MOST_SAID)}"
    if rule.items and not set(rule.items).intersection(facts.items):
        return f"is for {', '.join(rule.items)}"
    return f"tells from {rule.min_severity} up"


def matching(rule: Rule, facts: AlertFacts) -> tuple[str, ...]:
    """The items of the alert that this rule tells of."""
    if any(facts.labels.get(name) != value for name, value in rule.match.items()):
        return ()
    return tuple(
        item
        for item in facts.items
        if (not rule.items or item in rule.items) and at_least(facts.severity(item), rule.min_severity)
    )


def quiet_until(hours: str, now: datetime, zone: ZoneInfo) -> datetime | None:
    """When the quiet hours that hold now end; None when they do not hold. Over midnight and clock changes."""
    start, end = (time.fromisoformat(part) for part in hours.split("-"))
    here = now.astimezone(zone)
    clock = here.time()
    inside = start <= clock < end if start < end else clock >= start or clock < end
    if not inside:
        return None
    day = here.date() + timedelta(days=int(start > end and clock >= start))
    moments = (datetime.combine(day, end, zone).replace(fold=fold).astimezone(UTC) for fold in (0, 1))
    # In the hour that the clock repeats the first one may be over; a date alone cannot tell.
    return next((moment for moment in moments if moment > now), None)


def quiet(hours: str, now: datetime, zone: ZoneInfo) -> tuple[datetime | None, str]:
    """Until when they hold what is told now back, and why; (None, "") when they do not."""
    until = quiet_until(hours, now, zone)
    return until, QUIET.format(until=f"{until.astimezone(zone):%H:%M}") if until else ""


def _wait(rule: Rule, severity: Severity, now: datetime, zone: ZoneInfo) -> tuple[datetime | None, str]:
    """Before when nothing is sent, and why."""
    waits: list[tuple[datetime, str]] = []
    if rule.for_s:
        waits.append((now + timedelta(seconds=rule.for_s), LASTS.format(seconds=rule.for_s)))
    if rule.quiet_hours and severity is not Severity.CRITICAL:
        until, why = quiet(rule.quiet_hours, now, zone)
        waits += [(until, why)] if until else []
    return max(waits, default=(None, ""))


def _route(name: str, rule: Rule, matched: tuple[str, ...], severity: Severity) -> Route:
    item = most_specific(matched)
    rest = tuple(one for one in matched if one != item)
    fallback = tuple(one for one in dict.fromkeys(rule.fallback) if one != name)
    return Route(name, item, rest, severity, fallback, rule.language, quiet_hours=rule.quiet_hours)


def _both(one: Route, other: Route) -> Route:
    """Two rules name the channel: it is told once, of all they match, at the earlier moment."""
    matched = dict.fromkeys((one.item, *one.items, other.item, *other.items))
    item = most_specific(matched)
    earlier = min((one, other), key=lambda each: (each.not_before is not None, each.not_before or 0))
    return Route(
        one.channel,
        item,
        tuple(each for each in matched if each != item),
        most_severe((one.severity, other.severity)),
        one.fallback + tuple(name for name in other.fallback if name not in one.fallback),
        one.language or other.language,
        earlier.not_before,
        earlier.why,
        one.quiet_hours if other.quiet_hours else None,
    )
