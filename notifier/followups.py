"""What is to be done about an alert later, if it still matters then: when, and whether. Pure.

A step of `escalation` and a rule with `remind_every_s` are kept as they stand when the alert is published:
who changes the configuration changes it for the alerts to come.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from notifier.rules import AlertConfigModel, AlertFacts, EscalationStep, Rule, matching

ESCALATION, REMIND = "escalation", "remind"  # triggers of deliveries
FALLBACK = "fallback"  # in place of one that could not be told
IN_PLACE = {ESCALATION: "escalation_fallback", REMIND: "remind_fallback"}  # and of these
AGAIN = (*IN_PLACE, *IN_PLACE.values())  # what is told again and again, until somebody takes it on
FALLBACKS = (FALLBACK, *IN_PLACE.values())
SILENCED_AGAIN = timedelta(seconds=30)  # a silence may be ended before its time


class Kind(StrEnum):
    ESCALATE = "escalate"
    REMIND = "remind"
    UNSILENCE = "unsilence"


class Do(StrEnum):
    TELL = "tell"
    WAIT = "wait"
    DROP = "drop"


@dataclass(frozen=True)
class Planned:
    """A follow-up to be. `n` tells those of one kind apart; `spec` is what it needs to know then."""

    kind: Kind
    n: int
    spec: Mapping[str, Any]
    due_at: datetime


@dataclass(frozen=True)
class Standing:
    """How an alert stands when a follow-up of it is due.

    `untold_until`: nobody was told of it yet, because its rules want to wait (quiet hours, `for_s`): nobody
    could have acknowledged it. `told_at`: when the first was to be told; None: with the alert.
    """

    created_at: datetime
    is_open: bool = True
    is_acked: bool = False
    silenced_until: datetime | None = None
    untold_until: datetime | None = None
    told_at: datetime | None = None


@dataclass(frozen=True)
class Step:
    """What is done now; `again_at`: when it is looked at next, None: never again."""

    do: Do
    again_at: datetime | None = None


def planned(config: AlertConfigModel, facts: AlertFacts, created_at: datetime) -> Iterator[Planned]:
    """What these rules will ask for, should the alert last."""
    for n, step in enumerate(config.escalation):
        rule = rule_of(step)
        if matching(rule, facts):
            spec = {"after_s": step.after_s, "rule": _kept(rule)}
            yield Planned(Kind.ESCALATE, n, spec, created_at + timedelta(seconds=step.after_s))
    for n, rule in enumerate(config.rules):
        if rule.remind_every_s and matching(rule, facts):
            spec = {"every_s": rule.remind_every_s, "rule": _kept(rule)}
            yield Planned(Kind.REMIND, n, spec, created_at + timedelta(seconds=rule.remind_every_s))


def in_place_of(trigger: str) -> str:
    """The trigger of what is told in place of one of that trigger."""
    return trigger if trigger in FALLBACKS else IN_PLACE.get(trigger, FALLBACK)


def told_as(trigger: str) -> str:
    """In whose words: who is told in place of another hears what that one was to hear."""
    return next((again for again, instead in IN_PLACE.items() if instead == trigger), trigger)


def rule_of(step: EscalationStep) -> Rule:
    """A step tells as a rule does."""
    return Rule(channels=step.channels, items=step.items, min_severity=step.min_severity)


def due(kind: Kind, spec: Mapping[str, Any], standing: Standing, now: datetime) -> Step:
    """What is to be done about a follow-up that is due."""
    if standing.is_acked or not standing.is_open:
        return Step(Do.DROP)
    if kind is Kind.REMIND:
        again = next_beat(standing.created_at, timedelta(seconds=spec["every_s"]), now)
        return Step(Do.WAIT if standing.silenced_until else Do.TELL, again)
    return _escalated(spec, standing, now) if kind is Kind.ESCALATE else Step(Do.TELL)


def _escalated(spec: Mapping[str, Any], standing: Standing, now: datetime) -> Step:
    """Counted from the alert, be its channels ever so slow; where it was kept back, from when the first was
    to be told: before, nobody could have taken it on."""
    after = timedelta(seconds=spec["after_s"])
    if standing.silenced_until:
        return Step(Do.WAIT, min(standing.silenced_until, now + SILENCED_AGAIN))
    if standing.untold_until:
        return Step(Do.WAIT, standing.untold_until + after)
    due_at = (standing.told_at or standing.created_at) + after
    return Step(Do.TELL) if due_at <= now else Step(Do.WAIT, due_at)


def next_beat(start: datetime, every: timedelta, now: datetime) -> datetime:
    """The first moment after `now` on the beat: what was missed meanwhile is not made up for."""
    return start + every * ((now - start) // every + 1)


def _kept(rule: Rule) -> dict[str, Any]:
    """`for_s` has passed by then, or has not: it is no reason to wait again."""
    return rule.model_copy(update={"for_s": 0, "remind_every_s": 0}).model_dump(mode="json")
