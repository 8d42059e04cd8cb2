"""A template may fail in any way: its alert is told all the same, and the failure counted and shown."""

import pytest
from prometheus_client import REGISTRY

from notifier.clock import utcnow
from notifier.ids import new_id
from notifier.model import Template
from tests.cases.town import Town, said

COUNTER = "faultcast_template_errors_total"

# What a save may not see: only the rendering of this very alert fails.
FAILING = {
    "an undefined name": "{{ cluster.url.base.x() }}",
    "an unknown filter": "{{ labels.x | nofilter }}",
    "a syntax error": "{{ title",
    "a hundred megabytes": "{{ 'x' * 100000000 }}",
    "an endless loop": "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
    "the way out of the sandbox": "{{ ''.__class__.__mro__ }}",
    "a division by nought": "{{ 1 / 0 }}",
}


def counted() -> float:
    return sum(
        sample.value for metric in REGISTRY.collect() for sample in metric.samples if sample.name == COUNTER
    )


def put(town: Town, text: str) -> None:
    """A template as an older version may have saved it: unchecked."""
    now = utcnow()
    with town.house.store.write() as session:
        session.add(
            Template(
                id=new_id("tpl", now), pool="default", channel="hook", text=text,
                created_at=now,
            )
        )  # fmt: skip


@pytest.mark.parametrize("text", FAILING.values(), ids=FAILING)
def test_an_alert_whose_template_fails_is_told_in_built_in_words_with_the_reason(
    town: Town, text: str
) -> None:
    """D-S16, D-S18 and row 10: prometheus/alertmanager#2857, #2301, #3490, #5322, #311; grafana#35207."""
    before = counted()
    town.channel("hook")
    put(town, text)
    (one,) = town.publish("hook", title="disk full", text="98 %")
    town.settle(one, timeout_s=30)
    (shown,) = town.arrived("webhook")
    assert "disk full" in said(shown)
    assert "98 %" in said(shown)
    assert counted() == before + 1
    row = town.delivery(one)
    assert "template" in row["why"]
    assert len(row["attempts"]) == 1, "told once, and not retried for ever"


@pytest.mark.parametrize("text", [FAILING[name] for name in FAILING if "loop" not in name])
def test_such_a_template_is_refused_when_it_is_saved(town: Town, text: str) -> None:
    """D-S18 and row 10, the same threads: told to whoever writes it, not to the night shift."""
    answer = town.api.post("/templates", json={"text": text})
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"] == "text"
