"""The real Alertmanager before us and behind us: what it posts arrives, and it is what we post ourselves."""

import re
import shutil
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from channels.alertmanager import fingerprint
from tests.e2e.conftest import System, until

ROOT = Path(__file__).parents[2]
PROGRAMS = ("prometheus-alertmanager", "alertmanager")
NONE = (
    "the tests need Alertmanager and found no prometheus-alertmanager in PATH: install it"
    " (Debian, Ubuntu: apt-get install prometheus-alertmanager; macOS: brew install alertmanager)"
)
LATENCY = {"alertname": "HighLatency", "severity": "critical", "service": "训练 api"}
XID = {"alertname": "GPUXidError", "severity": "critical", "Hostname": "node-2", "gpu": "3"}
NOTES = {"summary": "p99 is 3 s", "description": "for 5 m", "runbook_url": "https://runbooks.example/latency"}


@dataclass(frozen=True)
class Alertmanager:
    """A running one that posts to a channel of ours, to the pool's nodes, and to a stand-in."""

    url: str

    def post(self, labels: dict[str, str], *, is_over: bool = False) -> None:
        now = datetime.now(UTC)
        ends = now - timedelta(seconds=1) if is_over else now + timedelta(minutes=10)
        alert = {"labels": labels, "annotations": NOTES, "generatorURL": "http://prometheus.example/graph"}
        alert |= {"startsAt": (now - timedelta(minutes=1)).isoformat(), "endsAt": ends.isoformat()}
        httpx.post(f"{self.url}/api/v2/alerts", json=[alert]).raise_for_status()

    def fingerprint(self, labels: dict[str, str]) -> str:
        (found,) = [
            str(one["fingerprint"])
            for one in httpx.get(f"{self.url}/api/v2/alerts").json()
            if one["labels"] == labels
        ]
        return found

    def is_ready(self) -> bool:
        try:
            return httpx.get(f"{self.url}/-/ready").is_success
        except httpx.TransportError:
            return False


def shown(page: str) -> dict[str, Any]:
    """The configuration that a page shows."""
    (block,) = re.findall(r"```yaml\n(.*?)```", (ROOT / "docs" / page).read_text(encoding="utf-8"), re.DOTALL)
    document: dict[str, Any] = yaml.safe_load(block)
    return document


def test_both_languages_show_the_same() -> None:
    assert shown("integrations.md") == shown("integrations.zh.md")


def config(system: System, token: Path, sink: str) -> dict[str, Any]:
    """What docs/integrations.md shows, here, with waits as short as they can be, and a receiver beside it."""
    document = shown("integrations.md")
    (ours,) = document["receivers"][0]["webhook_configs"]
    ours["url"] = ours["url"].replace("http://faultcast.example:8642", system.client.server)
    ours["http_config"]["authorization"]["credentials_file"] = str(token)
    people = {**ours, "url": f"{ours['url']}?channel=hook"}
    document["route"] |= {
        "group_wait": "10ms", "group_interval": "1s",
        "routes": [
            {"receiver": "sink", "continue": True},
            {"receiver": "faultcast", "matchers": ['Hostname != ""']},
            {"receiver": "people"},
        ],
    }  # fmt: skip
    document["receivers"] += [
        {"name": "people", "webhook_configs": [people]},
        {"name": "sink", "webhook_configs": [{"url": sink}]},
    ]
    return document


@pytest.fixture(scope="module")
def alertmanager(system: System, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Alertmanager]:
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is None:
        pytest.fail(NONE, pytrace=False)
    folder = tmp_path_factory.mktemp("alertmanager")
    body = {"name": "alertmanager", "role": "operator", "scope": "default"}
    token = folder / "faultcast.token"
    token.write_text(system.client.post("/tokens", body)["token"] + "\n")
    sink = system.providers.robot("webhook", token="theirs").url
    (folder / "am.yml").write_text(yaml.safe_dump(config(system, token, sink)))
    with socket.create_server(("127.0.0.1", 0)) as probe:
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [
                program, "--config.file=am.yml", "--storage.path=data",
                f"--web.listen-address={address}", "--cluster.listen-address=",
            ],
            cwd=folder, stdout=log, stderr=log,
        )  # fmt: skip
    try:
        running = Alertmanager(f"http://{address}")
        until(lambda: running.is_ready() or None, "Alertmanager")
        yield running
    finally:
        process.terminate()
        process.wait(30)


def received(system: System, **wanted: Any) -> list[dict[str, Any]]:
    """What receivers got, of those bodies that have these fields."""
    got = [one.body for one in system.providers.messages("webhook", accepted=True)]
    return [body for body in got if all(body.get(name) == value for name, value in wanted.items())]


def test_an_alert_and_its_end_are_told(system: System, alertmanager: Alertmanager) -> None:
    alertmanager.post(LATENCY)
    (told,) = until(lambda: received(system, version="1", status="firing"), "the alert")
    assert (told["severity"], told["labels"]) == ("critical", LATENCY)
    assert "p99 is 3 s" in told["title"]
    assert told["links"]["runbook_url"] == NOTES["runbook_url"]
    alertmanager.post(LATENCY, is_over=True)
    (over,) = until(lambda: received(system, version="1", status="resolved"), "its end")
    assert over["id"] == told["id"]

    def states() -> list[str]:
        return [one["state"] for one in system.client.get("/deliveries", {"alert": told["id"]})["items"]]

    until(lambda: states() == ["delivered"] * 2 or None, "the log")


def test_a_gpus_alert_becomes_a_node_signal(system: System, alertmanager: Alertmanager) -> None:
    def signals() -> list[str]:
        nodes = {node["name"]: node["signals"] for node in system.client.get("/nodes")["items"]}
        return [one["name"] for one in nodes["node-2"]]

    alertmanager.post(XID)
    until(lambda: signals() == ["GPUXidError"] or None, "the signal")
    alertmanager.post(XID, is_over=True)
    until(lambda: signals() == [] or None, "its end")
    assert not [one for one in system.client.get("/alerts")["items"] if one["labels"] == XID]


def test_what_we_post_has_the_form_of_what_it_posts(system: System, alertmanager: Alertmanager) -> None:
    """And each takes the other's: our ingest what we post, our hash what it computes."""
    url = system.providers.robot("webhook").url
    config = {"url": url, "format": "alertmanager"}
    system.client.post(
        "/channels", {"name": "as-alertmanager", "scope": "default", "kind": "webhook", "config": config}
    )
    alertmanager.post(LATENCY)
    (theirs,) = until(lambda: received(system, receiver="sink", status="firing")[-1:], "theirs")
    given = {"title": "t", "text": "x", "labels": LATENCY, "dedup_key": "k", "channels": ["as-alertmanager"]}
    for n, status in enumerate(("firing", "resolved")):
        system.client.post("/alerts", {**given, "status": status})
        until(lambda n=n: len(received(system, receiver="faultcast")) > n or None, "ours")  # type: ignore[misc]
    firing, over = received(system, receiver="faultcast")
    assert shape(firing) == shape(theirs)
    assert shape(over) == shape(theirs)
    assert [one["alerts"][0]["endsAt"][:4] for one in (firing, over)] == [
        "0001",
        firing["alerts"][0]["startsAt"][:4],
    ]
    assert firing["alerts"][0]["fingerprint"] == over["alerts"][0]["fingerprint"]
    for body in (theirs, firing):
        (alert,) = body["alerts"]
        assert alert["fingerprint"] == fingerprint(alert["labels"])
    assert system.client.post("/ingest/alertmanager", firing)["new"] == 1
    assert system.client.post("/ingest/alertmanager", over)["resolved"] == 1


def shape(value: Any, name: str = "") -> Any:
    """Names and types; what labels are called is everybody's own."""
    if isinstance(value, dict) and "abels" not in name and "nnotations" not in name:
        return {key: shape(one, key) for key, one in value.items()}
    if isinstance(value, list):
        return [shape(one) for one in value]
    return type(value).__name__
