"""Whose turn it is: a list of people who take over by day or week, and overrides. Pure.

A turn begins at `handover` by the local clock. An hour that the clock leaves out is reached all the same,
one that it repeats begins the turn the first time: at any moment exactly one has the turn.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from notifier.documents import Body, ChannelName, GivenMoment, TimeZone

WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_BREAKS = ("Cc", "Zl", "Zp")  # control characters, ends of lines and paragraphs
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_FIRST, _LAST = date(1970, 1, 2), date(8999, 12, 31)


def _time(text: str) -> str:
    if not re.fullmatch(r"([01][0-9]|2[0-3]):[0-5][0-9]", text):
        raise ValueError("give a time of day such as 09:00")
    return text


def _day(value: object) -> object:
    """Bare numbers would be taken for seconds or days since 1970."""
    if isinstance(value, date):
        return value
    with suppress(ValueError):
        if isinstance(value, str) and _DAY.fullmatch(value):
            return date.fromisoformat(value)
    raise ValueError("give a day such as 2026-11-30")


def _is_one_line(name: str) -> str:
    if not name.strip() or any(unicodedata.category(one) in _BREAKS for one in name):
        raise ValueError("give a name in one line")
    return name


def _in_range(day: date) -> date:
    if not _FIRST <= day <= _LAST:
        raise ValueError("give a day between 1970 and 9000")
    return day


Day = Annotated[date, BeforeValidator(_day), AfterValidator(_in_range)]
PersonName = Annotated[
    str, Field(min_length=1, max_length=100, examples=["alice"]), AfterValidator(_is_one_line)
]
Channels = Annotated[list[ChannelName], Field(min_length=1, max_length=20)]


class Person(Body):
    """Somebody who takes turns, and the channels that reach them; a channel's name alone is both."""

    name: PersonName
    channels: Channels

    @model_validator(mode="before")
    @classmethod
    def _from_name(cls, data: Any) -> Any:
        return {"name": data, "channels": [data]} if isinstance(data, str) else data


class Override(Body):
    """From one moment until another somebody else has the turn: one of the list, or other channels."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    since: GivenMoment = Field(alias="from")
    until: GivenMoment
    person: PersonName | None = None
    channels: Channels | None = None

    @model_validator(mode="after")
    def _is_whole(self) -> "Override":
        if self.until <= self.since:
            raise ValueError("until: must come after from")
        if self.person is None and self.channels is None:
            raise ValueError("say who: give person or channels")
        return self


class Spec(Body):
    """An on-call list. The first person's turn begins at the first handover on `start` or after it."""

    turn: Literal["weekly", "daily"]
    handover: Annotated[str, AfterValidator(_time)] = "09:00"
    weekday: Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"] | None = Field(
        default=None, description="of a weekly handover; monday where it is left out"
    )
    timezone: TimeZone | None = Field(default=None, description="null: the server's")
    start: Day
    people: Annotated[list[Person], Field(min_length=1, max_length=100)]
    overrides: Annotated[list[Override], Field(max_length=200)] = Field(default_factory=list)

    @model_validator(mode="after")
    def _is_whole(self) -> "Spec":
        if self.turn == "daily" and self.weekday is not None:
            raise ValueError("weekday: goes with a weekly turn, leave it out")
        names = [person.name for person in self.people]
        for n, override in enumerate(self.overrides):
            if override.channels is None and override.person not in names:
                raise ValueError(
                    f"overrides.{n}.person: is not in people; give channels too, or one of people"
                )
        return self

    def channel_names(self) -> list[tuple[str, str]]:
        """Every channel that it names, by place."""
        holders: list[tuple[str, Sequence[str]]] = [
            (f"people.{n}.channels", person.channels) for n, person in enumerate(self.people)
        ]
        holders += [(f"overrides.{n}.channels", one.channels or ()) for n, one in enumerate(self.overrides)]
        return [(f"{place}.{m}", name) for place, names in holders for m, name in enumerate(names)]

    def names_from(self, moment: datetime) -> list[str]:
        """Every channel that may be told at that moment or later, each once."""
        holders = [person.channels for person in self.people]
        holders += [one.channels or [] for one in self.overrides if one.until > moment]
        return list(dict.fromkeys(name for names in holders for name in names))


@dataclass(frozen=True)
class Turn:
    """Who is on duty, and until when that is certain. `since` None: from before the list began."""

    person: str
    channels: tuple[str, ...]
    since: datetime | None
    until: datetime
    is_override: bool = False


def turn(spec: Spec, moment: datetime, zone: ZoneInfo) -> Turn:
    """Whose turn it is at that moment. The last override that holds wins over those before it and the list.

    `zone`: the server's, for a list without one.
    """
    for n in reversed(range(len(spec.overrides))):
        one = spec.overrides[n]
        if one.since <= moment < one.until:
            later = [each.since for each in spec.overrides[n + 1 :] if each.since > moment]
            people = {person.name: person.channels for person in spec.people}
            channels = one.channels or people[str(one.person)]
            name = one.person or ", ".join(channels)
            return Turn(name, tuple(channels), one.since, min([one.until, *later]), is_override=True)
    n = _number(spec, moment, zone)
    person = spec.people[max(n, 0) % len(spec.people)]
    since = handover(spec, n, zone) if n >= 0 else None
    until = handover(spec, n + 1, zone)
    ends = [until, *(one.since for one in spec.overrides if one.since > moment)]
    begins = [one.until for one in spec.overrides if one.until <= moment]
    return Turn(
        person.name,
        tuple(person.channels),
        max([since, *begins]) if since is not None else max(begins, default=None),
        min(ends),
    )


def readable(stored: object) -> Spec | None:
    """The list as it was stored; None if it cannot be read any more."""
    try:
        return Spec.model_validate(stored)
    except ValidationError:
        return None


def zone_of(spec: Spec, zone: ZoneInfo) -> ZoneInfo:
    """By whose clock its days and handovers are; `zone`: the server's, for a list without one."""
    return ZoneInfo(spec.timezone) if spec.timezone else zone


def turns(spec: Spec, moment: datetime, zone: ZoneInfo) -> Iterator[Turn]:
    """The turn at that moment and those after it, without end."""
    while True:
        now = turn(spec, moment, zone)
        yield now
        moment = now.until


def handover(spec: Spec, n: int, zone: ZoneInfo) -> datetime:
    """When turn `n` begins."""
    clock = time.fromisoformat(spec.handover)
    day = _first_day(spec) + timedelta(days=n * _days(spec))
    return datetime.combine(day, clock, zone_of(spec, zone)).astimezone(UTC)


def _number(spec: Spec, moment: datetime, zone: ZoneInfo) -> int:
    """Which turn it is; -1 before the first one."""
    passed = (moment.astimezone(zone_of(spec, zone)).date() - _first_day(spec)).days
    n = max(passed // _days(spec) + 1, -1)
    while n >= 0 and handover(spec, n, zone) > moment:
        n -= 1
    return n


def _first_day(spec: Spec) -> date:
    if spec.turn == "daily":
        return spec.start
    wanted = WEEKDAYS.index(spec.weekday or WEEKDAYS[0])
    return spec.start + timedelta(days=(wanted - spec.start.weekday()) % 7)


def _days(spec: Spec) -> int:
    return 7 if spec.turn == "weekly" else 1
