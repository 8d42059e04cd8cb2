"""Pydantic's words become ours, for everything that our documents may hold; no value is told."""

from typing import Annotated, Any, Literal

import pytest
from pydantic import Field, ValidationError

from notifier.documents import Body, Flag, GivenMoment, Real, Whole
from notifier.faultwords import mend_of, placed, settled

CANARY = "hunter2"


class Part(Body):
    kind: Literal["a", "b"] = "a"


class Sample(Body):
    text: Annotated[str, Field(min_length=1, max_length=3)] = "x"
    whole: Annotated[Whole, Field(ge=1, le=9)] = 1
    real: Annotated[Real, Field(gt=0, lt=1)] = 0.5
    flag: Flag = False
    when: GivenMoment | None = None
    some: Annotated[tuple[str, ...], Field(min_length=1, max_length=2)] = ("x",)
    many: list[int] = Field(default_factory=list)
    named: dict[Annotated[str, Field(min_length=1, max_length=3)], str] = Field(default_factory=dict)
    part: Part = Part()


class TwoShapes(Body):
    either: tuple[str, ...] | dict[str, str]


def fault(**given: Any) -> tuple[str, str]:
    with pytest.raises(ValidationError) as caught:
        Sample.model_validate(given)
    (found,) = caught.value.errors()
    return placed(found["loc"], found["msg"])


TIME = "give a time such as 2026-11-29T08:00:00Z"
NUMBER = "give a number, without quotes"


@pytest.mark.parametrize(
    ("given", "field", "mend"),
    [
        ({"text": 7}, "text", "give a text"),
        ({"text": ""}, "text", "must not be empty"),
        ({"text": "four"}, "text", "give at most 3 characters"),
        ({"whole": True}, "whole", NUMBER),
        ({"whole": "5"}, "whole", NUMBER),
        ({"whole": 1.5}, "whole", "give a whole number"),
        ({"whole": None}, "whole", "give a whole number"),
        ({"whole": 0}, "whole", "give 1 or more"),
        ({"whole": 10}, "whole", "give 9 or less"),
        ({"real": True}, "real", NUMBER),
        ({"real": "0.5"}, "real", NUMBER),
        ({"real": []}, "real", "give a number"),
        ({"real": 0}, "real", "give more than 0"),
        ({"real": 1}, "real", "give less than 1"),
        ({"flag": "no"}, "flag", "give true or false"),
        ({"flag": 1}, "flag", "give true or false"),
        ({"when": "yesterday"}, "when", TIME),
        ({"when": ""}, "when", TIME),
        ({"when": 1732843742}, "when", TIME),
        ({"when": "1732843742"}, "when", TIME),
        ({"when": True}, "when", TIME),
        ({"when": "2026-11-29T08:00:00"}, "when", "give the time zone too, as in 2026-11-29T08:00:00Z"),
        ({"when": "2026-13-29T08:00:00Z"}, "when", TIME),
        ({"some": "x"}, "some", "give a list: […]"),
        ({"some": []}, "some", "give at least 1"),
        ({"some": ["x"] * 3}, "some", "give at most 2"),
        ({"many": {}}, "many", "give a list: […]"),
        ({"many": ["x"]}, "many.0", "give a whole number"),
        ({"named": []}, "named", "give an object: {…}"),
        ({"named": {"": "x"}}, "named", "each name in it: must not be empty"),
        ({"named": {"long": "x"}}, "named", "each name in it: give at most 3 characters"),
        ({"part": []}, "part", "give an object: {…}"),
        ({"part": {"kind": "c"}}, "part.kind", "give 'a' or 'b'"),
        ({"part": {"kin": "a"}}, "part.kin", "no such field; there are kind"),
    ],
)
def test_what_is_wrong_is_said_with_its_mend(given: dict[str, Any], field: str, mend: str) -> None:
    assert fault(**given) == (field, mend)


@pytest.mark.parametrize(
    ("where", "said", "field", "mend"),
    [
        (("body",), "weekday: goes with a weekly turn", "weekday", "goes with a weekly turn"),
        ((), "overrides.0.person: is not in people", "overrides.0.person", "is not in people"),
        (("matchers", 0), "value: is no pattern (x: y)", "matchers.0.value", "is no pattern (x: y)"),
        (("config",), "Value error, app_id: give it", "config.app_id", "give it"),
        (("matchers", 0), "give this: or that", "matchers.0", "give this: or that"),
    ],
)
def test_a_check_of_a_whole_names_the_field_inside(
    where: tuple[int | str, ...], said: str, field: str, mend: str
) -> None:
    assert placed(where, said) == (field, mend)


EITHER = "give a list: […]; or give an object: {…}"


@pytest.mark.parametrize(
    ("given", "field", "mend"),
    [
        ("x", "either", EITHER),
        (None, "either", EITHER),
        ([7], "either.0", "give a text"),
        ({"a": 7}, "either.a", "give a text"),
    ],
)
def test_of_two_shapes_the_one_that_was_meant_counts(given: Any, field: str, mend: str) -> None:
    with pytest.raises(ValidationError) as caught:
        TwoShapes(either=given)
    found = settled(placed(fault["loc"], fault["msg"]) for fault in caught.value.errors())
    assert found == [(field, mend)]


def test_whole_numbers_may_be_written_as_fractions() -> None:
    assert (Sample(whole=2.0).whole, Sample(real=1e-1).real) == (2, 0.1)


def test_words_of_our_own_stay() -> None:
    assert mend_of("give two different times of day") == "give two different times of day"


@pytest.mark.parametrize("field", list(Sample.model_fields))
def test_no_value_is_told(field: str) -> None:
    assert CANARY not in str(fault(**{field: CANARY}))
