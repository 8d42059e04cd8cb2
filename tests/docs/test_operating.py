"""Dashboard, alert rules and the page of figures name what is really exported."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from master.figures import Training
from notifier import metrics
from notifier.exposition import exposition
from notifier.model import Delivery
from notifier.storage import Store

ROOT = Path(__file__).parents[2]
RULES = ROOT / "deploy/prometheus/faultcast.rules.yml"
DASHBOARD = ROOT / "deploy/grafana/faultcast.json"
PAGES = (ROOT / "docs/operating.md", ROOT / "docs/operating.zh.md")
NAME = re.compile(r"\bfaultcast_[a-z_]+\b")
OF_A_HISTOGRAM = re.compile(r"_(bucket|sum|count)$")
STATES = {"delivered", "accepted", "unknown", "failed", "expired", "suppressed", "merged"}


@pytest.fixture
def engine_name() -> str:
    return "sqlite"


@pytest.fixture
def exported(store: Store) -> set[str]:
    """The names of all families, counters with their `_total`."""
    shown = exposition(store, Training(store)).decode()
    shown += exposition(store, names=True).decode()
    return {
        name + "_total" * (kind == "counter" and not name.endswith("_total"))
        for name, kind in re.findall(r"^# TYPE (faultcast_\w+) (\w+)$", shown, re.MULTILINE)
    }


def named(expression: str) -> set[str]:
    return {OF_A_HISTOGRAM.sub("", name) for name in NAME.findall(expression)} - {"faultcast"}


def rules() -> list[dict[str, Any]]:
    (group,) = yaml.safe_load(RULES.read_text())["groups"]
    found: list[dict[str, Any]] = group["rules"]
    return found


def panels() -> Iterator[dict[str, Any]]:
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        if panel["type"] != "row":
            yield panel


def test_each_rule_asks_for_figures_that_there_are(exported: set[str]) -> None:
    assert len(rules()) > 10
    for rule in rules():
        unknown = named(rule["expr"]) - exported
        assert not unknown, rule["alert"]
        assert rule["labels"]["severity"] in {"warning", "critical"}
        assert rule["annotations"]["summary"]
        for states in re.findall(r'state=~"([^"]+)"', rule["expr"]):
            assert set(states.split("|")) <= STATES


def test_each_panel_asks_for_figures_that_there_are(exported: set[str]) -> None:
    for panel in panels():
        assert panel["targets"], panel["title"]
        for target in panel["targets"]:
            found = named(target["expr"])
            assert found, panel["title"]
            assert not found - exported, panel["title"]


def test_panels_do_not_lie_upon_each_other() -> None:
    taken: set[tuple[int, int]] = set()
    ids = [panel["id"] for panel in panels()]
    assert len(ids) == len(set(ids))
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert max(x for x, _ in cells) < 24
        assert not taken & cells, panel["title"]
        taken |= cells


def test_each_label_that_is_asked_for_is_there() -> None:
    metrics.count_settled(Delivery(kind="webhook", pool="p", queue="", channel="c"), "delivered")
    known = {"le", "pool", "instance", "version", "severity", "fault_class", "cause", "status"}
    for name in ("DELIVERIES", "CHANNEL_DELIVERIES", "ATTEMPTS", "TEMPLATE_ERRORS", "RECONCILED", "BELLS",
                 "DATABASE_ERRORS", "WATCHDOG", "PROVIDER_S"):  # fmt: skip
        known |= set(getattr(metrics, name)._labelnames)
    expressions = [rule["expr"] for rule in rules()]
    expressions += [target["expr"] for panel in panels() for target in panel["targets"]]
    for expression in expressions:
        for group in re.findall(r"(?:by|on) \(([^)]*)\)", expression):
            assert {label.strip() for label in group.split(",")} <= known, expression


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_each_figure_is_explained(exported: set[str], page: Path) -> None:
    explained = {OF_A_HISTOGRAM.sub("", name) for name in NAME.findall(page.read_text())}
    assert exported - explained == set()
    assert {name for name in explained if name.endswith("_total")} - exported == set()


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is part of Debian's prometheus")
def test_promtool_takes_rules_and_figures(store: Store) -> None:
    subprocess.run(["promtool", "check", "rules", RULES], check=True, capture_output=True, timeout=60)
    text = exposition(store, Training(store), names=True)
    subprocess.run(["promtool", "check", "metrics"], input=text, check=True, capture_output=True, timeout=60)
