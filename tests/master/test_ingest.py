"""`POST /ingest/alertmanager`: what becomes an alert, what a node signal, and what is refused."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import structlog
from fastapi import FastAPI
from sqlalchemy import func, select

from channels.alertmanager import fingerprint
from master.api.router import mount as mount_master
from master.directory import Jobs
from master.ingest import AT_ONCE
from master.model import NodeSignal
from notifier import faultpoints
from notifier.api.deps import Services
from notifier.api.router import mount as mount_notifier
from notifier.auth import NewToken, Role, create_token
from notifier.model import Alert, Delivery
from tests.master.test_api import TestClient, faults
from tests.master.world import World, both

As = Callable[..., TestClient]
URL = "/ingest/alertmanager"
LATENCY = {"alertname": "HighLatency", "severity": "page", "service": "api"}
XID = {"alertname": "GPUXidError", "severity": "critical", "Hostname": "node-2", "gpu": "3", "xid": "79"}


@pytest.fixture
def as_(world: World, services: Services) -> Iterator[As]:
    app = FastAPI()
    mount_notifier(app, Services(**{**vars(services), "directory": Jobs()}))
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


@both
def test_an_alert_is_told_once_and_its_end_too(as_: As, services: Services) -> None:
    client = as_()
    assert post(client, alert(LATENCY)) == {"new": 1}
    assert post(client, alert(LATENCY)) == {"repeated": 1}
    assert post(client, alert(LATENCY, "resolved")) == {"resolved": 1}
    assert post(client, alert(LATENCY, "resolved")) == {"not_open": 1}
    with services.store.read() as session:
        (row,) = session.scalars(select(Alert))
        told = session.execute(select(Delivery.channel, Delivery.status).order_by(Delivery.id)).all()
    assert told == [("ding", "firing"), ("ding", "resolved")]
    assert (row.severity, row.title, row.body) == (
        "critical",
        "HighLatency happens",
        "it has done so for 5 m",
    )
    assert (row.labels, row.source) == (LATENCY, "alertmanager")
    assert row.context["links"] == {"source": "http://prometheus.example/graph?g0.expr=up"}
    assert row.dedup_key == fingerprint(LATENCY)


@both
def test_a_gpus_alert_becomes_a_node_signal_and_tells_nobody(as_: As, services: Services) -> None:
    client = as_()
    assert post(client, alert(XID)) == {"node_signals": 1}
    assert post(client, alert(XID)) == {"node_signals": 1}
    (node,) = [one for one in client.get("/nodes").json()["items"] if one["name"] == "node-2"]
    (shown,) = node["signals"]
    assert (shown["name"], shown["severity"], shown["source"]) == ("GPUXidError", "critical", "alertmanager")
    assert shown["starts_at"] == "2026-11-29T02:50:00.123Z"
    assert post(client, alert(XID, "resolved")) == {"node_signals": 1}
    assert signals(client) == {}
    with services.store.read() as session:
        assert session.scalar(select(func.count()).select_from(Alert)) == 0
        assert session.scalar(select(NodeSignal.status)) == "resolved"


NODES = {
    "kube-state-metrics": {"alertname": "KubeNodeNotReady", "node": "node-1", "instance": "10.0.0.9:8080"},
    "node_exporter": {"alertname": "NodeRAIDDegraded", "instance": "node-1:9100"},
    "with a domain": {"alertname": "HostEdacUncorrectableErrorsDetected", "instance": "node-1.example:9100"},
    "dcgm-exporter": {"alertname": "TooHot", "Hostname": "node-1", "UUID": "GPU-3a5c"},
    "by a part": {"alertname": "InfiniBandPortDown", "host": "node-1"},
    "by a word": {"alertname": "IBPortDown", "host": "node-1"},
    "by its author": {"alertname": "FanSlow", "node": "node-1", "faultcast": "node"},
}  # fmt: skip
ALERTS = {
    "of a pod": {"alertname": "KubePodCrashLooping", "pod": "web-1", "node": "node-1"},
    "of no known node": {"alertname": "KubeNodeNotReady", "node": "gpu-77"},
    "of no node at all": {"alertname": "GPUQuotaExceeded", "namespace": "research"},
    "by its author": {
        "alertname": "NodeFilesystemAlmostOutOfSpace",
        "instance": "node-1",
        "faultcast": "alert",
    },
    "a word within a word": {"alertname": "ProcessCollectorDown", "instance": "node-1"},
}


@pytest.mark.parametrize("labels", NODES.values(), ids=NODES)
def test_what_speaks_of_a_node(as_: As, labels: dict[str, str]) -> None:
    client = as_()
    assert post(client, alert(labels)) == {"node_signals": 1}
    assert signals(client) == {"node-1": [labels["alertname"]]}


@pytest.mark.parametrize("labels", ALERTS.values(), ids=ALERTS)
def test_what_does_not(as_: As, labels: dict[str, str]) -> None:
    client = as_()
    assert post(client, alert(labels)) == {"new": 1}
    assert signals(client) == {}


def test_whom_it_names_is_told_of_nodes_too(as_: As) -> None:
    client = as_()
    assert post(client, alert(XID), channel=["ding"]) == {"new": 1, "node_signals": 1}
    assert client.get("/alerts").json()["items"][0]["title"] == "GPUXidError happens"


def test_receivers_for_different_people_have_alerts_of_their_own(as_: As, services: Services) -> None:
    client = as_()
    assert post(client, alert(LATENCY)) == {"new": 1}
    assert post(client, alert(LATENCY), channel=["ding"]) == {"new": 1}
    assert post(client, alert(LATENCY, "resolved"), channel=["ding"]) == {"resolved": 1}
    assert [one["status"] for one in client.get("/alerts").json()["items"]] == ["resolved", "firing"]


def test_a_job_is_known_by_the_query_or_by_a_label(as_: As, world: World) -> None:
    job_id = world.submit()
    client = as_()
    assert post(client, alert(LATENCY), job=job_id) == {"new": 1}
    assert post(client, alert({**LATENCY, "job_id": job_id, "job": "node-exporter"})) == {"new": 1}
    assert post(client, alert({**LATENCY, "job_id": "job_of_somebody_else"})) == {"new": 1}
    found = [(one["job_id"], one["labels"].get("job")) for one in client.get("/alerts").json()["items"]]
    assert found[:3] == [(None, None), (job_id, "node-exporter"), (job_id, None)]


ROLES = {
    "admin": {"new": 1, "node_signals": 1},
    "operator": {"new": 1, "node_signals": 1},
    "publisher": {"new": 2},
    "ingest": {"node_signals": 1, "ignored": 1},
}


@pytest.mark.parametrize("role", ROLES)
def test_what_a_token_may_make_of_it(as_: As, role: str) -> None:
    assert post(as_(role), alert(LATENCY), alert(XID)) == ROLES[role]


@pytest.mark.parametrize("role", ["viewer", "agent"])
def test_who_may_not_send_at_all(as_: As, role: str) -> None:
    assert as_(role).post(URL, json=body()).status_code == 403


def test_a_node_belongs_to_its_pool(as_: As) -> None:
    assert post(as_("operator", "default/default"), alert(XID)) == {"new": 1}
    assert as_("ingest", "default/default").post(URL, json=body(alert(XID))).status_code == 403
    assert post(as_("ingest", "other"), alert(XID)) == {"ignored": 1}
    assert as_("ingest").post(URL, json=body(), params={"channel": "ding"}).status_code == 403


@both
def test_an_xid_is_evidence_that_isolates(as_: As, world: World) -> None:
    job_id = world.submit(faultTolerance=True, jobSpec={"replicas": 2})
    node = world.pods(job_id)[0].node
    starts = {"startsAt": world.now.isoformat()}
    assert post(as_("ingest"), alert({**XID, "Hostname": node}, **starts)) == {"node_signals": 1}
    world.wait(3)
    (event,) = world.events(job_id)
    assert (event.cause, event.culprit["node"], event.hardware) == ("gpu_hardware", node, True)
    assert event.decision["isolate_nodes"] == [node]
    assert event.evidence[0]["source"] == "ingest"
    world.wait(3)
    assert len(world.events(job_id)) == 1


def test_a_node_that_is_not_ready_restarts_no_job_that_goes_on(as_: As, world: World) -> None:
    job_id = world.submit(faultTolerance=True)
    node = world.pods(job_id)[0].node
    post(
        as_("ingest"), alert({"alertname": "KubeNodeNotReady", "node": node}, startsAt=world.now.isoformat())
    )
    world.wait(3)
    assert world.events(job_id) == []


def test_a_thousand_alerts_and_duplicates_in_one_body(as_: As, services: Services) -> None:
    many = [alert({**LATENCY, "n": str(n)}) for n in range(1000)]
    twice = [*many[:10], alert({**LATENCY, "n": "5"}, "resolved")]
    assert post(as_(), *many, *twice) == {"new": 999, "not_open": 1}
    with services.store.read() as session:
        assert session.scalar(select(func.count()).select_from(Delivery)) == 999


@both
def test_a_body_that_is_cut_off_in_the_middle_comes_again_and_nothing_is_lost_or_told_twice(
    as_: As, services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = [alert({**LATENCY, "n": str(n)}) for n in range(AT_ONCE + 50)]
    monkeypatch.setattr(faultpoints, "_armed", faultpoints.FaultPoint(f"accepted:{AT_ONCE + 20}:raise"))
    client = as_()
    with structlog.testing.capture_logs():
        assert client.post(URL, json=body(*many)).status_code == 500
    monkeypatch.undo()
    assert post(client, *many) == {"new": 50, "repeated": AT_ONCE}
    with services.store.read() as session:
        assert session.scalar(select(func.count()).select_from(Delivery)) == len(many)


@both
def test_one_bad_alert_and_nothing_of_the_body_is_kept(as_: As, services: Services) -> None:
    client = as_()
    bad = {**alert(LATENCY), "status": "melting"}
    answer = client.post(URL, json=body(alert(LATENCY), bad))
    assert (answer.status_code, list(faults(answer))) == (422, ["alerts.1.status"])
    answer = client.post(URL, json=body(alert(LATENCY), alert(XID)), params={"channel": ["ding", "nobody"]})
    assert (answer.status_code, list(faults(answer))) == (422, ["channel.1"])
    with services.store.read() as session:
        assert session.scalar(select(func.count()).select_from(Alert)) == 0
        assert session.scalar(select(func.count()).select_from(NodeSignal)) == 0


HOSTILE: dict[str, tuple[Any, str]] = {
    "no object": ([], ""),
    "another version": (body(version="5"), "version"),
    "a number for the version": (body(version=4), "version"),
    "no alerts": ({"version": "4"}, "alerts"),
    "alerts that are none": (body(alerts="x"), "alerts"),
    "an alert that is none": (body(alerts=[1]), "alerts.0"),
    "too many": (body(alerts=[{}] * 6000), "alerts"),
    "a label that is no text": (body({**alert(LATENCY), "labels": {"a": 1}}), "alerts.0.labels.a"),
    "labels that are none": (body({**alert(LATENCY), "labels": ["a"]}), "alerts.0.labels"),
    "a time that is none": (body(alert(LATENCY, startsAt="soon")), "alerts.0.startsAt"),
    "a time too far": (body(alert(LATENCY, startsAt="9999-01-01T00:00:00Z")), "alerts.0.startsAt"),
    "a number for a time": (body(alert(LATENCY, endsAt=1)), "alerts.0.endsAt"),
    "less than none": (body(truncatedAlerts=-1), "truncatedAlerts"),
    "a long fingerprint": (body(alert(LATENCY, fingerprint="f" * 65)), "alerts.0.fingerprint"),
}


@pytest.mark.parametrize(("given", "field"), HOSTILE.values(), ids=HOSTILE)
def test_what_is_refused_names_the_alert_and_the_field(as_: As, given: Any, field: str) -> None:
    answer = as_().post(URL, json=given)
    assert answer.status_code == 422
    assert next(iter(faults(answer))).startswith(field)


def test_what_is_too_long_is_kept_in_part(as_: As) -> None:
    labels = {"alertname": "A" * 5000, **{f"{'l' * 300}{n}": "v" * 5000 for n in range(200)}}
    client = as_()
    assert post(client, alert(labels, annotations={"summary": "s" * 9000, "description": "d" * 90_000})) == {
        "new": 1
    }
    (shown,) = client.get("/alerts").json()["items"]
    assert (len(shown["title"]), len(shown["labels"])) == (
        500,
        3,
    )  # of the many one is left: they begin alike
    assert post(client, alert({"alertname": "\u202e\x1b[31m", "a\nb": ""})) == {"new": 1}


def test_a_body_of_megabytes_is_taken_and_one_without_measure_is_not(as_: As) -> None:
    long = {"description": "d" * 40_000}
    many = [alert({**LATENCY, "n": str(n)}, annotations=long) for n in range(50)]
    assert post(as_(), *many) == {"new": 50}
    assert as_().post(URL, content=b" " * (9 * 1024 * 1024)).status_code == 413


def test_what_alertmanager_cut_off_is_said(as_: As) -> None:
    client = as_()
    answer = client.post(URL, json=body(alert(LATENCY), truncatedAlerts=7))
    assert {"truncated": 7, "received": 1, "new": 2}.items() <= answer.json().items()
    assert any("7 more alerts" in one["title"] for one in client.get("/alerts").json()["items"])


@both
def test_two_members_of_a_cluster_at_once_tell_once(as_: As, services: Services) -> None:
    client = as_()
    many = [alert({**LATENCY, "n": str(n)}) for n in range(20)]
    many += [alert({**XID, "gpu": str(n)}) for n in range(8)]
    bodies = [body(*many), body(*reversed(many)), body(*many[10:], *many[:10])]
    with ThreadPoolExecutor(len(bodies)) as pool:
        answers = list(pool.map(lambda one: client.post(URL, json=one), bodies))
    assert [answer.status_code for answer in answers] == [202] * len(bodies)
    assert sum(answer.json()["new"] for answer in answers) == 20
    with services.store.read() as session:
        assert session.scalar(select(func.count()).select_from(Delivery)) == 20
        assert session.scalar(select(func.count()).select_from(NodeSignal)) == 8


@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({"job": "job_0"}, "job"),
        ({"job": "job_0", "channel": "ding"}, "job"),
        ({"scope": "nowhere"}, "scope"),
        ({"channel": "a b"}, "channel"),
    ],
)
def test_an_address_that_names_what_is_not_there(as_: As, params: dict[str, str], field: str) -> None:
    answer = as_("admin", "").post(URL, json=body(alert(LATENCY)), params=params)
    assert (answer.status_code, next(iter(faults(answer))).partition(".")[0]) == (422, field)
