"""What is planned for an alert that lasts, and what is done about it when that is due."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pydantic import ValidationError

from notifier.followups import SILENCED_AGAIN, Do, Kind, Standing, Step, due, next_beat, planned
from notifier.rules import AlertConfigModel, AlertFacts

NOW = datetime(2026, 11, 29, 4, tzinfo=UTC)


def after(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def plan(*items: str, rules: Any = (), escalation: Any = (), **facts: Any) -> list[tuple[Kind, int, float]]:
    config = AlertConfigModel.model_validate({"rules": list(rules), "escalation": list(escalation)})
    found = planned(config, AlertFacts(items, **facts), NOW)
    return [(one.kind, one.n, (one.due_at - NOW).total_seconds()) for one in found]


STEPS = [
    {"after_s": 300, "channels": ["sms"], "min_severity": "error"},
    {"after_s": 900, "channels": ["phone"], "items": ["jobHang"]},
]
PLANNED = {
    "every step that matches": (("jobHang",), [(Kind.ESCALATE, 0, 300), (Kind.ESCALATE, 1, 900)]),
    "not below its severity": (("jobFT",), []),
    "not for other items": (("jobFailed",), [(Kind.ESCALATE, 0, 300)]),
    "for any item of the incident": (
        ("jobFT", "jobHang"),
        [(Kind.ESCALATE, 0, 300), (Kind.ESCALATE, 1, 900)],
    ),
}


@pytest.mark.parametrize(("items", "expected"), PLANNED.values(), ids=PLANNED)
def test_escalation_is_planned(items: tuple[str, ...], expected: list[Any]) -> None:
    assert plan(*items, escalation=STEPS) == expected


def test_each_rule_that_reminds_and_matches_is_planned() -> None:
    rules = [
        {"channels": ["a"]},
        {"channels": ["b"], "remind_every_s": 600},
        {"channels": ["c"], "remind_every_s": 60, "items": ["jobHang"]},
        {"channels": ["d"], "remind_every_s": 120, "match": {"team": "nlp"}},
    ]
    assert plan("jobFT", rules=rules) == [(Kind.REMIND, 1, 600)]
    assert plan("jobFT", rules=rules, labels={"team": "nlp"})[1:] == [(Kind.REMIND, 3, 120)]


def test_what_is_kept_of_a_rule_neither_waits_again_nor_reminds_of_reminders() -> None:
    config = AlertConfigModel.model_validate(
        {"rules": [{"channels": ["a"], "remind_every_s": 600, "for_s": 300, "quiet_hours": "22:00-08:00"}]}
    )
    (one,) = planned(config, AlertFacts(("jobFT",)), NOW)
    kept = one.spec["rule"]
    assert (kept["for_s"], kept["remind_every_s"], kept["quiet_hours"]) == (0, 0, "22:00-08:00")


OPEN = Standing(NOW)
LATELY = Standing(NOW, told_at=after(60))
SILENCED = Standing(NOW, silenced_until=after(3600))
SHORTLY = Standing(NOW, silenced_until=after(310))
QUIET = Standing(NOW, untold_until=after(3600))
DUE = {
    "escalation of what nobody was told of yet": (Kind.ESCALATE, QUIET, Step(Do.WAIT, after(3600 + 300))),
    "reminder of what nobody was told of yet": (Kind.REMIND, QUIET, Step(Do.TELL, after(400))),
    "escalation of an open alert": (Kind.ESCALATE, OPEN, Step(Do.TELL)),
    "escalation of what was told late": (Kind.ESCALATE, LATELY, Step(Do.WAIT, after(360))),
    "escalation of an acknowledged one": (Kind.ESCALATE, Standing(NOW, is_acked=True), Step(Do.DROP)),
    "escalation of what is over": (Kind.ESCALATE, Standing(NOW, is_open=False), Step(Do.DROP)),
    "escalation while silenced": (Kind.ESCALATE, SILENCED, Step(Do.WAIT, after(300) + SILENCED_AGAIN)),
    "escalation while silenced for a moment": (Kind.ESCALATE, SHORTLY, Step(Do.WAIT, after(310))),
    "reminder of an open alert": (Kind.REMIND, OPEN, Step(Do.TELL, after(400))),
    "reminder while silenced": (Kind.REMIND, SILENCED, Step(Do.WAIT, after(400))),
    "reminder of an acknowledged one": (Kind.REMIND, Standing(NOW, is_acked=True), Step(Do.DROP)),
    "reminder of what is over": (Kind.REMIND, Standing(NOW, is_open=False), Step(Do.DROP)),
    "the end of a silence": (Kind.UNSILENCE, OPEN, Step(Do.TELL)),
    "the end of a silence of two": (Kind.UNSILENCE, SILENCED, Step(Do.TELL)),
    "the end of a silence after the alert's": (Kind.UNSILENCE, Standing(NOW, is_open=False), Step(Do.DROP)),
}


@pytest.mark.parametrize(("kind", "standing", "step"), DUE.values(), ids=DUE)
def test_what_is_due(kind: Kind, standing: Standing, step: Step) -> None:
    assert due(kind, {"every_s": 200, "after_s": 300}, standing, after(300)) == step


@pytest.mark.parametrize(
    ("now", "expected"), [(0, 60), (59.999, 60), (60, 120), (60.5, 120), (3600, 3660), (7201, 7260)]
)
def test_the_beat_is_kept_and_what_was_missed_is_not_made_up_for(now: float, expected: float) -> None:
    assert next_beat(NOW, timedelta(seconds=60), after(now)) == after(expected)


@pytest.mark.parametrize("seconds", [1, 59])
def test_nobody_is_reminded_every_few_seconds(seconds: int) -> None:
    with pytest.raises(ValidationError, match="give 0 for no reminders, or at least 60"):
        AlertConfigModel.model_validate({"rules": [{"channels": ["a"], "remind_every_s": seconds}]})
