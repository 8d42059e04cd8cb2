"""Rules that cannot be read any more: what can be read of them counts, and nothing raises."""

from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from notifier.rules import AlertConfigModel, AlertFacts, route
from notifier.storedrules import UNREADABLE, readable

NOW = datetime(2026, 11, 29, 15, 30, tzinfo=UTC)
SHANGHAI = ZoneInfo("Asia/Shanghai")
SOUND = {"channels": ["a"]}


def told(stored: Any) -> dict[str, datetime | None]:
    config, _ = readable(stored)
    facts = AlertFacts(("jobFT",), {}, {"team": "x"})
    return {one.channel: one.not_before for one in route(config, facts, NOW, SHANGHAI)}


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param({"quiet_hours": "2１:00-08:00"}, id="hours in other digits"),
        pytest.param({"min_severity": "fatal"}, id="a severity that there is not"),
        pytest.param({"items": ["jobDied"]}, id="an item that there is not"),
        pytest.param({"match": {"team": 7}}, id="a label that is no text"),
        pytest.param({"match": "team=y"}, id="labels of another form"),
        pytest.param({"for_s": -1}, id="a time before the alert"),
        pytest.param({"language": "fr"}, id="a language that there is not"),
        pytest.param({"only_on": "monday"}, id="a field of a later version"),
        pytest.param({"channels": ["a", "b c"]}, id="a channel of no name"),
    ],
)
def test_a_restriction_that_cannot_be_read_holds_nobody_back_and_is_named(wrong: dict[str, Any]) -> None:
    stored = {"rules": [{**SOUND, **wrong}]}
    assert told(stored) == {"a": None}
    (note,) = readable(stored)[1]
    assert note.startswith(f"rules.0.{next(iter(wrong))}")
    assert "not heeded" in note


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param({"channels": []}, id="no channel"),
        pytest.param({"channels": ["b c"]}, id="no channel with a name"),
        pytest.param({}, id="no channels"),
        pytest.param(None, id="no rule"),
    ],
)
def test_a_rule_that_tells_nobody_takes_no_other_along(wrong: Any) -> None:
    assert told({"rules": [wrong, SOUND]}) == {"a": None}
    assert readable({"rules": [wrong, SOUND]})[1]


@pytest.mark.parametrize("wrong", [None, [], "rules", {"alertItems": 1}])
def test_what_is_no_configuration_at_all_is_none(wrong: Any) -> None:
    assert readable(wrong) == (AlertConfigModel(), (UNREADABLE,))


def test_what_is_sound_is_read_as_it_is() -> None:
    stored = {"rules": [{**SOUND, "quiet_hours": "22:00-08:00"}]}
    assert readable(stored) == (AlertConfigModel.model_validate(stored), ())


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.sampled_from(["a", "2１:00-08:00"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["rules", "escalation", "channels", "match", "items", "quiet_hours", "x"]), inner
        )
    ),
)


@settings(max_examples=200, deadline=None)
@given(stored=JSON)
def test_nothing_that_can_be_stored_raises(stored: Any) -> None:
    told(stored)
