"""Clients of the ingest route, and what Alertmanager posts, for the tests of it."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from fastapi import FastAPI

from master.api.router import mount as mount_master
from master.directory import Jobs
from notifier.api.deps import Services
from notifier.api.router import mount as mount_notifier
from notifier.auth import NewToken, Role, create_token
from tests.master.test_api import TestClient
from tests.master.world import World

As = Callable[..., TestClient]
URL = "/ingest/alertmanager"
LATENCY = {"alertname": "HighLatency", "severity": "page", "service": "api"}
XID = {"alertname": "GPUXidError", "severity": "critical", "Hostname": "node-2", "gpu": "3", "xid": "79"}


@pytest.fixture
def as_(world: World, services: Services) -> Iterator[As]:
    app = FastAPI()
    mount_notifier(app, replace(services, directory=Jobs()))
    mount_master(app, world.controller)
    clients: list[TestClient] = []

    def client(role: str = "operator", scope: str = "default") -> TestClient:
        pool, _, queue = scope.partition("/")
        with services.store.write() as session:
            _, token = create_token(
                session, NewToken(role, Role(role), pool or None, queue or None), world.now
            )
        made = TestClient(app, base_url="http://test/api/v1", raise_server_exceptions=False)
        made.headers["Authorization"] = f"Bearer {token}"
        clients.append(made)
        return made

    yield client
    for each in clients:
        each.close()


def alert(labels: dict[str, str], status: str = "firing", **given: Any) -> dict[str, Any]:
    is_over = status == "resolved"
    return {
        "status": status, "labels": labels,
        "annotations": {"summary": f"{labels['alertname']} happens", "description": "it has done so for 5 m"},
        "startsAt": "2026-11-29T02:50:00.123456789Z",
        "endsAt": "2026-11-29T02:58:00Z" if is_over else "0001-01-01T00:00:00Z",
        "generatorURL": "http://prometheus.example/graph?g0.expr=up", "fingerprint": "", **given,
    }  # fmt: skip


def body(*alerts: dict[str, Any], **given: Any) -> dict[str, Any]:
    return {
        "version": "4", "groupKey": "{}:{}", "truncatedAlerts": 0, "status": "firing", "receiver": "us",
        "groupLabels": {}, "commonLabels": {}, "commonAnnotations": {}, "externalURL": "http://am.example",
        "alerts": list(alerts), **given,
    }  # fmt: skip


def post(client: TestClient, *alerts: dict[str, Any], **params: Any) -> dict[str, Any]:
    """What came of it, as far as it is not nothing."""
    answer = client.post(URL, json=body(*alerts), params=params)
    assert answer.status_code == 202, answer.text
    return {name: count for name, count in answer.json().items() if count and name != "received"}


def signals(client: TestClient) -> dict[str, list[str]]:
    items = client.get("/nodes").json()["items"]
    return {node["name"]: [one["name"] for one in node["signals"]] for node in items if node["signals"]}
