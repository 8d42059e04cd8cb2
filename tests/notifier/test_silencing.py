"""Which alerts a silence keeps back: matchers, patterns, scope and time, all without a database."""

from datetime import UTC, datetime, timedelta

import pytest

from notifier.silencing import Hush, Matcher, compiled, facts_of, is_bounded, silenced, status

NOW = datetime(2026, 11, 29, 4, tzinfo=UTC)
FACTS = facts_of({"team": "vision", "job": "node"}, {"item": ["jobFT"], "job": ["job_1", "llm"]})


def at(minutes: float) -> datetime:
    return NOW + timedelta(minutes=minutes)


def hush(*matchers: tuple[str, str, str], queue: str = "", start: float = -1, end: float = 60) -> Hush:
    made = tuple(Matcher(*one) for one in matchers)
    return Hush(f"slc_{end}", queue, made, at(start), at(end))


@pytest.mark.parametrize(
    ("matcher", "holds"),
    [
        pytest.param(("item", "=", "jobFT"), True, id="the very value"),
        pytest.param(("item", "=", "jobF"), False, id="a part of it"),
        pytest.param(("item", "!=", "jobFT"), False, id="not that value"),
        pytest.param(("item", "!=", "jobHang"), True, id="another value"),
        pytest.param(("item", "=~", "job.*"), True, id="a pattern"),
        pytest.param(("item", "=~", "job"), False, id="a pattern must match the whole"),
        pytest.param(("item", "=~", "jobHang|jobFT"), True, id="one of several"),
        pytest.param(("item", "!~", "job.*"), False, id="not that pattern"),
        pytest.param(("job", "=", "llm"), True, id="a job by its name"),
        pytest.param(("job", "=", "job_1"), True, id="a job by its id"),
        pytest.param(("job", "=", "node"), True, id="a label of that name counts as well"),
        pytest.param(("job", "!=", "llm"), False, id="not, if any of them is"),
        pytest.param(("rack", "=", ""), True, id="what is not there is empty"),
        pytest.param(("rack", "!=", "a1"), True, id="what is not there is not a1"),
        pytest.param(("rack", "=~", ".+"), False, id="what is not there is nothing"),
        pytest.param(("team", "=~", "(?i)VISION"), True, id="RE2's own flags"),
    ],
)
def test_a_matcher(matcher: tuple[str, str, str], holds: bool) -> None:
    assert Matcher(*matcher).holds(FACTS) is holds


def test_a_pattern_sees_every_line_of_a_title() -> None:
    assert Matcher("title", "=~", "disk.*full").holds({"title": ["disk sda\nis full"]})


def test_all_matchers_must_hold() -> None:
    both = hush(("team", "=", "vision"), ("item", "=", "jobFT"))
    assert silenced([both], "", FACTS, NOW) == both
    assert silenced([hush(("team", "=", "vision"), ("item", "=", "jobHang"))], "", FACTS, NOW) is None


@pytest.mark.parametrize(
    ("of", "queue", "is_silenced"),
    [("", "q1", True), ("", "", True), ("q1", "q1", True), ("q1", "q2", False), ("q1", "", False)],
)
def test_a_pools_silence_covers_its_queues_and_a_queues_only_that(
    of: str, queue: str, is_silenced: bool
) -> None:
    one = hush(("team", "=", "vision"), queue=of)
    assert (silenced([one], queue, FACTS, NOW) == one) is is_silenced


@pytest.mark.parametrize(
    ("minutes", "expected"), [(-1.01, "pending"), (-1, "active"), (59.99, "active"), (60, "expired")]
)
def test_it_holds_from_its_start_to_just_before_its_end(minutes: float, expected: str) -> None:
    one = hush(("team", "=", "vision"))
    assert status(one.starts_at, one.ends_at, at(minutes)) == expected
    assert (silenced([one], "", FACTS, at(minutes)) is not None) is (expected == "active")


def test_one_that_was_ended_before_it_began_never_begins() -> None:
    one = hush(("team", "=", "vision"), start=5, end=1)
    assert [status(one.starts_at, one.ends_at, at(minutes)) for minutes in (0, 1, 6)] == [
        "pending", "expired", "expired",
    ]  # fmt: skip
    assert silenced([one], "", FACTS, at(6)) is None


def test_of_several_the_one_that_ends_last_counts() -> None:
    short, long = hush(("team", "=", "vision"), end=5), hush(("team", "=", "vision"), end=50)
    assert silenced([long, short], "", FACTS, NOW) == long


@pytest.mark.parametrize(
    ("matchers", "bounded"),
    [
        ([("team", "!=", "x")], False),
        ([("team", "=~", ".*")], False),
        ([("team", "=", "")], False),
        ([("team", "!=", "x"), ("severity", "=~", ".+")], True),
        ([("team", "=", "x")], True),
    ],
)
def test_one_matcher_must_name_what_an_alert_must_have(
    matchers: list[tuple[str, str, str]], bounded: bool
) -> None:
    assert is_bounded(Matcher(*one) for one in matchers) is bounded


@pytest.mark.parametrize("pattern", ["(", "a{1,2}{3,4}{", "(?<=a)b", "\ud800", "x" * 1001, "((a{999}){999})"])
def test_what_is_no_pattern_is_refused_in_words(pattern: str) -> None:
    with pytest.raises(ValueError, match=r"is no valid RE2 pattern|is longer than"):
        compiled(pattern)


def test_a_pattern_made_to_take_for_ever_does_not() -> None:
    assert not Matcher("title", "=~", "(a*)*b").holds({"title": ["a" * 60_000]})
