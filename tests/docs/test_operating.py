"""Dashboard, alert rules and the page of figures name what is really exported."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from master.figures import Training
from notifier import metrics
from notifier.exposition import exposition
from notifier.model import Delivery
from notifier.settings import SHARED_FIGURES
from notifier.storage import Store, make_engine

ROOT = Path(__file__).parents[2]
RULES = ROOT / "deploy/prometheus/faultcast.rules.yml"
DASHBOARD = ROOT / "deploy/grafana/faultcast.json"
PAGES = (ROOT / "docs/operating.md", ROOT / "docs/operating.zh.md")
NAME = re.compile(r"\bfaultcast_[a-z_]+\b")
OF_A_HISTOGRAM = re.compile(r"_(bucket|sum|count)$")
FRESH = """
import sys
from notifier.exposition import exposition
from notifier.storage import Store, make_engine
sys.stdout.buffer.write(exposition(Store(make_engine(sys.argv[1]))))
"""
promtool = pytest.mark.skipif(shutil.which("promtool") is None, reason="part of Debian's package prometheus")
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


@promtool
def test_promtool_takes_rules_and_figures(store: Store) -> None:
    subprocess.run(["promtool", "check", "rules", RULES], check=True, capture_output=True, timeout=60)
    text = exposition(store, Training(store), names=True)
    subprocess.run(["promtool", "check", "metrics"], input=text, check=True, capture_output=True, timeout=60)


@pytest.mark.parametrize("together", [False, True], ids=["one process", "processes together"])
def test_what_has_not_happened_yet_is_shown_at_0(
    database_url: str, tmp_path: Path, *, together: bool
) -> None:
    """Of a counter that comes into being at 1, Prometheus sees no increase and misses the first failure."""
    folder = tmp_path / "metrics"
    folder.mkdir()
    env = {**os.environ, SHARED_FIGURES: str(folder)} if together else dict(os.environ)
    command = [sys.executable, "-c", FRESH, database_url]
    text = subprocess.run(command, env=env, check=True, capture_output=True, text=True).stdout
    shown = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    values = {(sample.name, value) for sample in shown for value in sample.labels.values()}
    for path in (ROOT / "notifier").glob("*.py"):
        for name, value in re.findall(r'metrics\.([A-Z_]+)\.labels\("(\w+)"\)', path.read_text()):
            assert (f"{getattr(metrics, name)._name}_total", value) in values, path.name
    for rule in rules():
        for name, asked in re.findall(r"(faultcast_\w+_total)(?:\{([^}]*)\})?", rule["expr"]):
            for label, matches in re.findall(r'(\w+)=~?"([^"]+)"', asked) or [("", "")]:
                for value in matches.split("|"):
                    found = [one for one in shown if one.name == name and one.labels.get(label, "") == value]
                    found = found or [one for one in shown if one.name == name and not label]
                    assert found, rule["alert"]
                    assert all(one.value == 0 for one in found), rule["alert"]


def test_a_server_says_that_it_cannot_read_its_database(store: Store) -> None:
    away = Store(make_engine("postgresql+psycopg://nobody@/none?host=/nowhere"))
    shown = {where: exposition(where, Training(where)).decode() for where in (store, away)}
    assert "\nfaultcast_database_up 1.0\n" in shown[store]
    assert "\nfaultcast_database_up 0.0\n" in shown[away]
    assert "faultcast_workers" not in shown[away]
    assert 'faultcast_deliveries_total{kind="webhook",state="failed"}' in shown[away], (
        "what is counted is known"
    )


FAILED = 'faultcast_deliveries_total{instance="worker-1:9642", kind="email", state="failed"}'
TEMPLATE = 'faultcast_template_errors_total{instance="worker-1:9642", item="jobHang"}'
UP = 'up{job="faultcast", instance="%s"}'


def fires(tmp_path: Path, alert: str, series: dict[str, str], at: str, *expected: dict[str, str]) -> None:
    """What Prometheus itself makes of the rule, with a value a minute of each series."""
    wanted = [rule for rule in rules() if rule["alert"] == alert]
    alone = tmp_path / "rules.yml"
    for rule in wanted:
        del rule["annotations"]
    alone.write_text(yaml.safe_dump({"groups": [{"name": "faultcast", "rules": wanted}]}))
    severity = wanted[0]["labels"]["severity"]
    test = {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "alert_rule_test": [
            {
                "alertname": alert,
                "eval_time": at,
                "exp_alerts": [{"exp_labels": {"severity": severity, **labels}} for labels in expected],
            }
        ],
    }
    case = tmp_path / "case.yml"
    case.write_text(
        yaml.safe_dump({"rule_files": [str(alone)], "evaluation_interval": "1m", "tests": [test]})
    )
    done = subprocess.run(
        ["promtool", "test", "rules", case], check=False, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr


@promtool
@pytest.mark.parametrize(
    ("values", "at", "told"),
    [
        pytest.param("0x9 1x60", "20m", True, id="the first after start"),
        pytest.param("_x9 1x60", "20m", True, id="seen for the first time at 1"),
        pytest.param("0x9 1x60", "40m", False, id="long ago"),
        pytest.param("_x9 1x60", "40m", False, id="seen for the first time at 1, long ago"),
        pytest.param("_x9 0x60", "20m", False, id="a worker that starts"),
        pytest.param("7x60", "50m", False, id="none since"),
        pytest.param("7x30 _x2 0x10 1x30", "50m", True, id="the first after a restart"),
    ],
)
def test_messages_that_fail_are_told_from_the_first_on(
    tmp_path: Path, values: str, at: str, *, told: bool
) -> None:
    fires(tmp_path, "FaultcastMessagesFail", {FAILED: values}, at, *([{"kind": "email"}] * told))


@promtool
@pytest.mark.parametrize("values", ["0x9 1x200", "_x9 1x200"], ids=["at 0 before", "not seen before"])
def test_a_template_that_fails_is_told_from_the_first_on(tmp_path: Path, values: str) -> None:
    fires(tmp_path, "FaultcastTemplateErrors", {TEMPLATE: values}, "30m", {"item": "jobHang"})
    fires(tmp_path, "FaultcastTemplateErrors", {TEMPLATE: values}, "90m")


@promtool
def test_a_worker_that_shows_its_figures_is_no_server_without_a_database(tmp_path: Path) -> None:
    servers = {f'faultcast_database_up{{instance="server-{n}:8642"}}': f"{n}x20" for n in (0, 1)}
    up = {UP % "worker-1:9642": "1x20", UP % "server-0:8642": "1x20", UP % "server-1:8642": "1x20"}
    down = {"instance": "server-0:8642"}
    fires(tmp_path, "FaultcastDatabaseUnknown", {**up, **servers}, "10m", down)
    fires(tmp_path, "FaultcastDown", up, "10m")
    up[UP % "worker-1:9642"] = "0x20"
    fires(tmp_path, "FaultcastDown", up, "10m", {"job": "faultcast", "instance": "worker-1:9642"})
