"""One id leads through the log of all processes: from a fault, or an alert from outside, to each attempt."""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import urllib3

from channels.standin import StandIn
from tests.cli.test_up import LIMIT_S, Up, started

Line = dict[str, Any]
BUG = f"""{sys.executable} -c 'print("step 1", flush=True); raise ValueError("bad batch")'"""
BREAKS = 'ends\n{"event": "told", "incident": "made up"}\r\x1b[2K\u2028'


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.1)


def ask(up: Up, method: str, path: str, body: object = None) -> Any:
    bearer = {"Authorization": f"Bearer {(up.data_dir / 'admin.token').read_text().strip()}"}
    answer = urllib3.request(method, f"{up.url}/api/v1{path}", headers=bearer, json=body)
    assert answer.status < 300, answer.data
    return answer.json()


def test_one_id_from_fault_to_attempt(tmp_path: Path) -> None:
    data, written = tmp_path / "data", tmp_path / "log"
    settings = {"FAULTCAST_LOG_FORMAT": "json", "FAULTCAST_ALLOW_TARGETS": "127.0.0.0/8"}
    with StandIn() as providers, written.open("a+") as log, started(data, log, **settings) as up:
        url = providers.robot("webhook").url
        ask(up, "POST", "/channels", {"name": "hook", "kind": "webhook", "config": {"url": url}})
        job = {
            "name": "breaks", "command": BUG, "faultTolerance": True,
            "faultToleranceArgs": "--max-num-of-unconditional-retry=1",
            "alertConfig": {"rules": [{"channels": ["hook"]}]},
        }  # fmt: skip
        job_id = ask(up, "POST", "/jobs", job)["id"]
        alert = {
            "source": BREAKS,
            "item": "custom",
            "severity": "error",
            "title": BREAKS,
            "channels": ["hook"],
        }
        alert_id = ask(up, "POST", "/alerts", alert)["id"]

        def tried(incident: str) -> bool:
            found = ask(up, "GET", f"/deliveries?{'event' if incident[:3] == 'evt' else 'alert'}={incident}")
            return bool(found["items"]) and all(one["state"] == "delivered" for one in found["items"])

        until(lambda: ask(up, "GET", f"/jobs/{job_id}")["status"] == "Failed")
        last, first = ask(up, "GET", f"/jobs/{job_id}/events")["items"]
        for incident in (alert_id, first["id"], last["id"]):
            until(lambda incident=incident: tried(incident))  # type: ignore[misc]
        assert up.end() == 0
    lines: list[Line] = [json.loads(line) for line in written.read_text().splitlines()]

    def trail(incident: str) -> list[Line]:
        return [line for line in lines if line.get("incident") == incident]

    def said(incident: str) -> set[str]:
        return {line["event"] for line in trail(incident)}

    assert said(first["id"]) == {"fault", "run_begun", "pod_started", "alert_accepted", "told"}
    assert said(last["id"]) == {"fault", "alert_accepted", "told"}
    assert said(alert_id) == {"alert_accepted", "told"}
    (accepted,) = [line for line in trail(alert_id) if line["event"] == "alert_accepted"]
    (told,) = [line for line in trail(alert_id) if line["event"] == "told"]
    assert accepted["source"] == BREAKS
    assert accepted["deliveries"] == [told["delivery"]]
    assert (told["channel"], told["attempt"], told["outcome"]) == ("hook", 1, "delivered")
    assert {line["job"] for line in trail(first["id"])} == {job_id}
    assert said("made up") == set()
    assert url.rpartition("/")[2] not in written.read_text(), "the robot's address is a secret"
