"""Whose turn it is: exactly one person's at any moment, over clock changes, with overrides."""

from datetime import UTC, date, datetime, timedelta
from itertools import islice, pairwise
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from notifier.oncall import Spec, Turn, turn, turns

UTC_ZONE = ZoneInfo("UTC")
BERLIN = "Europe/Berlin"
ZONES = ["UTC", "Asia/Shanghai", BERLIN, "Australia/Lord_Howe", "America/St_Johns", "Pacific/Apia"]
ABC = ["a", {"name": "bob", "channels": ["b1", "b2"]}, "c"]


def rota(**more: Any) -> Spec:
    base = {"turn": "daily", "timezone": "UTC", "start": "2026-11-30", "people": ABC}
    return Spec.model_validate(base | more)


def who(spec: Spec, moment: str) -> str:
    return turn(spec, datetime.fromisoformat(moment), UTC_ZONE).person


@pytest.mark.parametrize(
    ("moment", "person"),
    [
        pytest.param("2026-11-01T00:00Z", "a", id="long before the start: the first"),
        pytest.param("2026-11-30T08:59Z", "a", id="before the first handover"),
        pytest.param("2026-11-30T09:00Z", "a", id="the first turn"),
        pytest.param("2026-12-01T08:59:59Z", "a", id="until the next handover"),
        pytest.param("2026-12-01T09:00Z", "bob", id="the second"),
        pytest.param("2026-12-02T23:00Z", "c", id="the third"),
        pytest.param("2026-12-03T09:00Z", "a", id="and round again"),
    ],
)
def test_a_daily_turn(moment: str, person: str) -> None:
    assert who(rota(), moment) == person


@pytest.mark.parametrize(
    ("moment", "person"),
    [
        ("2026-12-03T17:59Z", "a"),  # the start is a monday; the first thursday after it
        ("2026-12-03T18:00Z", "a"),
        ("2026-12-10T17:59Z", "a"),
        ("2026-12-10T18:00Z", "bob"),
        ("2026-12-24T18:00Z", "a"),
    ],
)
def test_a_weekly_turn_begins_on_its_weekday(moment: str, person: str) -> None:
    assert who(rota(turn="weekly", weekday="thu", handover="18:00"), moment) == person


def test_a_turn_says_whom_it_reaches_and_until_when() -> None:
    found = turn(rota(), datetime(2026, 12, 1, 12, tzinfo=UTC), UTC_ZONE)
    since, until = datetime(2026, 12, 1, 9, tzinfo=UTC), datetime(2026, 12, 2, 9, tzinfo=UTC)
    assert found == Turn("bob", ("b1", "b2"), since, until)


def test_a_list_without_a_zone_goes_by_the_servers() -> None:
    moment = datetime(2026, 12, 1, 1, tzinfo=UTC)  # 09:00 in Shanghai
    assert turn(rota(timezone=None), moment, ZoneInfo("Asia/Shanghai")).person == "bob"


@pytest.mark.parametrize(
    ("handover", "moment", "person"),
    [
        pytest.param("09:00", "2026-03-29T06:59Z", "a", id="summer time: 09:00 is an hour earlier"),
        pytest.param("09:00", "2026-03-29T07:00Z", "bob", id="by the local clock"),
        pytest.param("02:30", "2026-03-29T01:29Z", "a", id="an hour that is left out is not over yet"),
        pytest.param("02:30", "2026-03-29T01:30Z", "bob", id="an hour that is left out is reached"),
    ],
)
def test_the_handover_is_at_local_time(handover: str, moment: str, person: str) -> None:
    assert who(rota(timezone=BERLIN, start="2026-03-28", handover=handover), moment) == person


def test_an_hour_that_comes_twice_begins_one_turn() -> None:
    spec = rota(timezone=BERLIN, start="2026-10-24", handover="02:30")
    moments = ["2026-10-25T00:29Z", "2026-10-25T00:30Z", "2026-10-25T01:30Z"]
    assert [who(spec, moment) for moment in moments] == ["a", "bob", "bob"]


OVERRIDES = [
    {"from": "2026-12-01T00:00Z", "until": "2026-12-03T00:00Z", "person": "c"},
    {"from": "2026-12-01T12:00Z", "until": "2026-12-01T18:00Z", "channels": ["boss"]},
    {"from": "2026-12-05T00:00Z", "until": "2026-12-06T00:00Z", "person": "guest", "channels": ["guest-sms"]},
]


@pytest.mark.parametrize(
    ("moment", "person", "until"),
    [
        pytest.param("2026-11-30T23:00Z", "a", "2026-12-01T00:00Z", id="before it"),
        pytest.param("2026-12-01T00:00Z", "c", "2026-12-01T12:00Z", id="it wins over the list"),
        pytest.param("2026-12-01T12:00Z", "boss", "2026-12-01T18:00Z", id="the later one wins"),
        pytest.param("2026-12-01T18:00Z", "c", "2026-12-03T00:00Z", id="and then the first again"),
        pytest.param("2026-12-03T00:00Z", "c", "2026-12-03T09:00Z", id="after it, the list's own"),
        pytest.param("2026-12-05T12:00Z", "guest", "2026-12-06T00:00Z", id="somebody from outside"),
    ],
)
def test_overrides(moment: str, person: str, until: str) -> None:
    found = turn(rota(overrides=OVERRIDES), datetime.fromisoformat(moment), UTC_ZONE)
    assert (found.person, found.until) == (person, datetime.fromisoformat(until))


moments = st.integers(0, 19 * 365 * 86_400).map(
    lambda passed: datetime(2012, 2, 1, tzinfo=UTC) + timedelta(seconds=passed)
)


@st.composite
def specs(draw: st.DrawFn) -> Spec:
    begins = draw(st.lists(moments, max_size=4))
    overrides = [
        {"from": at, "until": at + timedelta(hours=draw(st.integers(1, 400))), "channels": [f"o{n}"]}
        for n, at in enumerate(begins)
    ]
    minute = draw(st.integers(0, 1439))
    weekly = {"turn": "weekly", "weekday": draw(st.sampled_from(["mon", "thu", "sun"]))}
    return Spec.model_validate(
        {
            **draw(st.sampled_from([{"turn": "daily"}, weekly])),
            "handover": f"{minute // 60:02}:{minute % 60:02}",
            "timezone": draw(st.sampled_from(ZONES)),
            "start": draw(st.dates(date(2012, 2, 1), date(2030, 1, 1))),
            "people": [f"p{n}" for n in range(draw(st.integers(1, 4)))],
            "overrides": overrides,
        }
    )


@settings(max_examples=300, deadline=None)
@given(spec=specs(), moment=moments)
def test_at_any_moment_exactly_one_has_the_turn_and_keeps_it_until_it_says(
    spec: Spec, moment: datetime
) -> None:
    found = turn(spec, moment, UTC_ZONE)
    assert found.since is None or found.since <= moment
    assert moment < found.until
    last = turn(spec, found.until - timedelta(microseconds=1), UTC_ZONE)
    assert (last.person, last.until) == (found.person, found.until)


@settings(max_examples=100, deadline=None)
@given(spec=specs(), moment=moments)
def test_turns_follow_each_other_in_the_lists_order(spec: Spec, moment: datetime) -> None:
    plain = spec.model_copy(update={"overrides": []})
    names = [person.name for person in spec.people]
    for one, following in islice(pairwise(turns(plain, moment, UTC_ZONE)), 10):
        assert following.since == one.until
        step = (names.index(following.person) - names.index(one.person)) % len(names)
        assert step == (1 % len(names) if one.since is not None else 0)


@settings(max_examples=100, deadline=None)
@given(spec=specs(), moment=moments)
def test_the_last_override_that_holds_has_the_turn(spec: Spec, moment: datetime) -> None:
    holding = [one for one in spec.overrides if one.since <= moment < one.until]
    found = turn(spec, moment, UTC_ZONE)
    assert found.is_override is bool(holding)
    if holding:
        assert found.channels == tuple(holding[-1].channels or ())


def test_what_is_stored_reads_back_as_the_same() -> None:
    spec = rota(overrides=OVERRIDES)
    assert Spec.model_validate(spec.model_dump(mode="json", by_alias=True)) == spec


@pytest.mark.parametrize(
    ("wrong", "field", "words"),
    [
        ({"turn": "monthly"}, "turn", "'weekly'"),
        ({"handover": "9:00"}, "handover", "09:00"),
        ({"weekday": "mon"}, "", "weekly turn"),
        ({"timezone": "Mars/Base"}, "timezone", "no such time zone"),
        ({"start": 20000}, "start", "2026-11-30"),
        ({"start": "2026-02-30"}, "start", "2026-11-30"),
        ({"people": []}, "people", "at least 1"),
        ({"people": ["a b"]}, "people.0.channels.0", "without blanks"),
        ({"people": [{"name": "x"}]}, "people.0.channels", "missing"),
        ({"people": [{"name": "x", "channels": ["x"], "phone": 1}]}, "people.0.phone", "name, channels"),
        ({"overrides": [OVERRIDES[0] | {"person": "x"}]}, "", "overrides.0.person"),
        ({"overrides": [OVERRIDES[0] | {"until": "2026-11-01T00:00Z"}]}, "overrides.0", "after from"),
        ({"overrides": [{"from": "2026-12-01T00:00Z", "until": "2026-12-02T00:00Z"}]}, "overrides.0", "who"),
        ({"overrides": [OVERRIDES[0] | {"from": "yesterday"}]}, "overrides.0.from", "2026-11-29T08:00:00Z"),
    ],
)
def test_what_is_wrong_is_named(wrong: dict[str, Any], field: str, words: str) -> None:
    with pytest.raises(ValidationError) as caught:
        rota(**wrong)
    fault = caught.value.errors()[0]
    assert ".".join(map(str, fault["loc"])) == field
    assert words in fault["msg"]
