"""Who is told of what: rules, severities, labels, quiet hours; and what a wrong configuration answers."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from channels.base import Severity
from notifier.rules import AlertConfigModel, AlertFacts, quiet_until, route

SHANGHAI = ZoneInfo("Asia/Shanghai")
BERLIN = ZoneInfo("Europe/Berlin")
NOON = datetime(2026, 11, 29, 4, 0, tzinfo=UTC)  # 12:00 in Shanghai
NIGHT = datetime(2026, 11, 29, 15, 30, tzinfo=UTC)  # 23:30 in Shanghai
HANG = AlertFacts(("jobHang", "jobFT"))


def config(*rules: dict) -> AlertConfigModel:
    return AlertConfigModel.model_validate({"rules": list(rules)})


def told(
    *rules: dict, facts: AlertFacts = HANG, now: datetime = NOON
) -> dict[str, tuple[str, tuple[str, ...]]]:
    return {one.channel: (one.item, one.items) for one in route(config(*rules), facts, now, SHANGHAI)}


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        pytest.param({"channels": ["a"]}, {"a": ("jobHang", ("jobFT",))}, id="no items means every item"),
        pytest.param(
            {"channels": ["a"], "items": ["jobFT"]}, {"a": ("jobFT", ())}, id="the item that it matches"
        ),
        pytest.param({"channels": ["a"], "items": ["jobSucceed"]}, {}, id="another item"),
        pytest.param(
            {"channels": ["a"], "min_severity": "error"},
            {"a": ("jobHang", ())},
            id="each item by its own severity",
        ),
        pytest.param({"channels": ["a"], "min_severity": "critical"}, {}, id="not severe enough"),
        pytest.param(
            {"channels": ["a", "b"]}, dict.fromkeys("ab", ("jobHang", ("jobFT",))), id="all channels"
        ),
        pytest.param({"channels": ["a"], "match": {"team": "x"}}, {}, id="a label it lacks"),
    ],
)
def test_a_rule_tells_of_what_it_matches(rule: dict, expected: dict) -> None:
    assert told(rule) == expected


def test_labels_must_all_match() -> None:
    facts = AlertFacts(("custom",), {"custom": "error"}, {"team": "x", "env": "prod"})
    assert told({"channels": ["a"], "match": {"team": "x", "env": "prod"}}, facts=facts)
    assert not told({"channels": ["a"], "match": {"team": "x", "env": "test"}}, facts=facts)


def test_a_channel_named_twice_is_told_once_of_all() -> None:
    first = {"channels": ["a"], "items": ["jobFT"], "fallback": ["m"]}
    (one,) = route(
        config(first, {"channels": ["a"], "items": ["jobHang"], "fallback": ["n", "m"]}), HANG, NOON, SHANGHAI
    )
    assert (one.item, one.items, one.fallback, one.severity) == (
        "jobHang",
        ("jobFT",),
        ("m", "n"),
        Severity.ERROR,
    )


def test_a_channel_is_no_fallback_of_itself() -> None:
    (one,) = route(config({"channels": ["a"], "fallback": ["a", "b"]}), HANG, NOON, SHANGHAI)
    assert one.fallback == ("b",)


def test_quiet_hours_hold_back_all_but_the_critical() -> None:
    rule = {"channels": ["a"], "quiet_hours": "22:00-08:00"}
    (held,) = route(config(rule), HANG, NIGHT, SHANGHAI)
    assert held.not_before == datetime(2026, 11, 30, 8, 0, tzinfo=SHANGHAI)
    assert held.why == "quiet hours until 08:00"
    (at_once,) = route(config(rule), AlertFacts(("jobGaveUp", "jobFailed")), NIGHT, SHANGHAI)
    assert at_once.not_before is None


def test_a_rule_without_quiet_hours_tells_the_same_channel_at_once() -> None:
    quiet = {"channels": ["a"], "quiet_hours": "22:00-08:00"}
    (one,) = route(config(quiet, {"channels": ["a"]}), HANG, NIGHT, SHANGHAI)
    assert one.not_before is None


def test_for_s_waits_before_it_tells() -> None:
    (one,) = route(config({"channels": ["a"], "for_s": 60}), HANG, NOON, SHANGHAI)
    assert (one.not_before, one.why) == (NOON + timedelta(seconds=60), "told if it lasts 60 s")


@pytest.mark.parametrize(
    ("hours", "zone", "now", "until"),
    [
        pytest.param(
            "12:00-13:00",
            SHANGHAI,
            NOON,
            datetime(2026, 11, 29, 13, tzinfo=SHANGHAI),
            id="the start is inside",
        ),
        pytest.param("11:00-12:00", SHANGHAI, NOON, None, id="the end is outside"),
        pytest.param(
            "22:00-13:00", SHANGHAI, NOON, datetime(2026, 11, 29, 13, tzinfo=SHANGHAI), id="after midnight"
        ),
        pytest.param(
            "23:00-01:00", SHANGHAI, NIGHT, datetime(2026, 11, 30, 1, tzinfo=SHANGHAI), id="before midnight"
        ),
        pytest.param(
            "22:00-02:30",
            BERLIN,
            datetime(2026, 10, 25, 0, 40, tzinfo=UTC),
            None,
            id="the first 02:40 is out",
        ),
        pytest.param(
            "22:00-02:30",
            BERLIN,
            datetime(2026, 10, 25, 1, 10, tzinfo=UTC),
            datetime(2026, 10, 25, 1, 30, tzinfo=UTC),
            id="the clock goes back: quiet again until the second 02:30",
        ),
        pytest.param(
            "22:00-02:30",
            BERLIN,
            datetime(2026, 3, 29, 0, 50, tzinfo=UTC),
            datetime(2026, 3, 29, 1, 30, tzinfo=UTC),
            id="an end that the clock leaves out is reached all the same",
        ),
        pytest.param(
            "22:00-08:00",
            BERLIN,
            datetime(2026, 3, 28, 22, 0, tzinfo=UTC),
            datetime(2026, 3, 29, 8, tzinfo=BERLIN),
            id="the clock goes forward: an hour less",
        ),
    ],
)
def test_quiet_hours_end(hours: str, zone: ZoneInfo, now: datetime, until: datetime | None) -> None:
    assert quiet_until(hours, now, zone) == until


@settings(max_examples=300, deadline=None)
@given(
    now=st.integers(0, 365 * 86_400).map(lambda passed: NOON + timedelta(seconds=passed)),
    zone=st.sampled_from([SHANGHAI, BERLIN, ZoneInfo("Australia/Lord_Howe"), ZoneInfo("America/St_Johns")]),
    hours=st.tuples(st.integers(0, 1439), st.integers(0, 1439)).filter(lambda pair: pair[0] != pair[1]),
)
def test_quiet_hours_always_end_and_then_are_over(
    now: datetime, zone: ZoneInfo, hours: tuple[int, int]
) -> None:
    start, end = (f"{minute // 60:02}:{minute % 60:02}" for minute in hours)
    until = quiet_until(f"{start}-{end}", now, zone)
    clock = f"{now.astimezone(zone):%H:%M}"
    inside = start <= clock < end if start < end else clock >= start or clock < end
    if until is None:
        assert not inside
    else:
        assert inside
        assert now < until <= now + timedelta(hours=26)
        gap = timedelta(hours=1)  # what a clock change may add
        assert any(f"{(until - late).astimezone(zone):%H:%M}" == end for late in (timedelta(0), gap / 2, gap))


def test_baidus_form_is_one_rule() -> None:
    read = AlertConfigModel.model_validate(
        {"alertItems": ["jobFT", "jobHang"], "notifyRuleId": "oncall", "for": "5m", "alertName": "x"}
    )
    expected = (["oncall"], ["jobFT", "jobHang"], 300)
    assert [(rule.channels, rule.items, rule.for_s) for rule in read.rules] == [expected]


def test_what_is_stored_reads_back_as_the_same() -> None:
    stored = {
        "rules": [
            {"channels": ["值班-钉钉"], "items": ["jobFT"], "quiet_hours": "22:00-08:00", "language": "zh"}
        ],
        "escalation": [{"after_s": 300, "channels": ["oncall-sms"], "min_severity": "error"}],
    }
    once = AlertConfigModel.model_validate(stored)
    assert AlertConfigModel.model_validate(once.model_dump(mode="json")) == once


@pytest.mark.parametrize(
    ("wrong", "field", "words"),
    [
        ({"rules": [{"channels": []}]}, "rules.0.channels", "at least 1"),
        ({"rules": [{"channels": ["a"], "items": ["jobft"]}]}, "rules.0.items.0", "no such alert item"),
        ({"rules": [{"channels": ["a"], "quiet_hours": "22-8"}]}, "rules.0.quiet_hours", "22:00-08:00"),
        (
            {"rules": [{"channels": ["a"], "quiet_hours": "08:00-08:00"}]},
            "rules.0.quiet_hours",
            "two different",
        ),
        (
            {"rules": [{"channels": ["a"], "quiet_hours": "1１:00-08:00"}]},
            "rules.0.quiet_hours",
            "two different",
        ),
        ({"alertItems": ["jobFT"], "notifyRuleId": "a", "for": "５m"}, "", "for: give a duration"),
        ({"rules": [{"channels": ["a"], "chanels": []}]}, "rules.0.chanels", "channels, fallback"),
        ({"rulez": []}, "rulez", "there are rules, escalation"),
        ({"rules": [None]}, "rules.0", "give an object"),
        ({"rules": [{"channels": ["a b"]}]}, "rules.0.channels.0", "without blanks"),
        ({"rules": [{"channels": ["a"], "for_s": 1e9}]}, "rules.0.for_s", "86400"),
        ({"alertItems": ["jobft"], "notifyRuleId": "a"}, "", "alertItems: there is no item jobft"),
        ({"alertItems": [["x"]], "notifyRuleId": "a"}, "", "alertItems"),
        ({"alertItems": "jobFT", "notifyRuleId": "a"}, "", "alertItems: give a list"),
        ({"alertItems": [], "notifyRuleId": "a"}, "", "alertItems: give a list"),
        ({"alertItems": ["jobFT"], "notifyRuleId": 7}, "", "notifyRuleId: give the name"),
        ({"alertItems": ["jobFT"], "notifyRuleId": "a", "for": "99h"}, "", "for: give a duration"),
        ({"alertItems": ["jobFT"], "notifyRuleId": "a", "for": 5}, "", "for: give a duration"),
        ({"alertItems": ["jobFT"], "notifyRuleId": "a", "notifyRule": 1}, "notifyRule", "no such field"),
        ({"rules": [{"channels": ["a"], "min_severity": "fatal"}]}, "rules.0.min_severity", "'critical'"),
        ({"alertItems": ["jobFT"]}, "", "notifyRuleId: is missing"),
        ({"alertItems": ["jobFT"], "notifyRuleId": "a", "rules": []}, "", "not both"),
        (
            {"escalation": [{"after_s": 0, "channels": ["a"]}]},
            "escalation.0.after_s",
            "give 1 or more",
        ),
    ],
)
def test_what_is_wrong_is_named(wrong: dict, field: str, words: str) -> None:
    with pytest.raises(ValidationError) as caught:
        AlertConfigModel.model_validate(wrong)
    (fault,) = caught.value.errors()
    assert ".".join(map(str, fault["loc"])) == field
    assert words in fault["msg"]
