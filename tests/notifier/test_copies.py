"""A message copied for another delivery of the same alert is the one that would have been rendered."""

from dataclasses import replace
from typing import Any

import pytest

from channels.registry import ADAPTERS
from notifier.copies import KEPT, Copies
from notifier.items import ITEMS
from notifier.rendering import AlertView, render
from tests.notifier.messages import FULL, LABELS, PUBLIC, SHANGHAI, incident
from tests.notifier.test_rendering_hostile import HOSTILE

FIRST, SECOND = "dlv_01jdvw0c3k0000000000000001", "dlv_01jdvw0c3k0000000000000002"


def pair(view: AlertView) -> tuple[AlertView, AlertView]:
    acks = {FIRST: f"{FIRST}.{'a' * 26}", SECOND: f"{SECOND}.{'b' * 26}"}
    first, second = (replace(view, delivery_id=one, ack=acks[one]) for one in (FIRST, SECOND))
    return first, second


def check(view: AlertView, kind: str, language: str, public_url: str | None) -> bool:
    """Whether the second one was copied."""
    first, second = pair(view)
    copies, how = Copies(), (ADAPTERS[kind], language, SHANGHAI, public_url)
    assert copies.render(first, *how) == render(first, *how)
    known = dict(copies.known)
    assert copies.render(second, *how) == render(second, *how)
    return bool(known) and copies.known == known


@pytest.mark.parametrize("public_url", [None, PUBLIC, f"{PUBLIC}/a%20(b)&c"])
@pytest.mark.parametrize("job", [None, {"id": "job_1", "name": "llm"}])
@pytest.mark.parametrize("kind", FULL)
def test_a_copy_is_what_would_have_been_rendered(
    kind: str, job: dict[str, Any] | None, public_url: str | None
) -> None:
    for item in ITEMS:
        for language in ("zh", "en"):
            view = incident(item, job=job, labels=LABELS.get(item, {"team": "nlp"}))
            assert check(view, kind, language, public_url)
            assert check(
                replace(view, status="resolved", resolved_at=view.created_at), kind, language, public_url
            )


@pytest.mark.parametrize("kind", FULL)
def test_hostile_words_are_copied_as_they_were_rendered(kind: str) -> None:
    for words in HOSTILE:
        view = incident("custom", job=None, event=None, title=words, text=words, labels={"a": words})
        assert check(view, kind, "zh", PUBLIC)


def test_an_alert_that_quotes_the_first_delivery_is_rendered_again() -> None:
    view = incident("custom", job=None, event=None, title="x", text=f"see {FIRST}")
    assert not check(view, "webhook", "en", PUBLIC)


@pytest.mark.parametrize(
    "changes",
    [{"alert_id": "alr_2"}, {"item": "nodeFT"}, {"status": "resolved"}, {"severity": "critical"},
     {"ack": None}, {"trigger": "remind", "open_s": 90.0}, {"items": ("a", "b")}, {"repeats": 3},
     {"title": "y"}, {"labels": {"a": "b"}}, {"links": {"logs": "https://x"}}],
)  # fmt: skip
def test_what_is_told_otherwise_is_no_copy(changes: dict[str, Any]) -> None:
    first, second = pair(incident("custom", job=None, event=None, text="x"))
    copies, how = Copies(), (ADAPTERS["webhook"], "en", SHANGHAI, PUBLIC)
    copies.render(first, *how)
    other, known = replace(second, **changes), dict(copies.known)
    assert copies.render(other, *how) == render(other, *how)
    assert copies.known != known


def test_no_more_than_the_last_ones_are_kept() -> None:
    copies, how = Copies(), (ADAPTERS["webhook"], "en", SHANGHAI, PUBLIC)
    for n in range(KEPT + 2):
        copies.render(incident("custom", alert_id=f"alr_{n}", job=None, event=None), *how)
    assert len(copies.known) == KEPT
    assert next(iter(copies.known))[1] == "alr_2"
