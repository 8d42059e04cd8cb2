"""`POST /ingest/alertmanager`: what becomes an alert, what a node signal."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import structlog
from sqlalchemy import func, select

from channels.alertmanager import fingerprint
from master.api import ingest
from master.model import NodeSignal
from notifier import faultpoints
from notifier.api.deps import Services
from notifier.model import Alert, Delivery
from tests.master.posting import LATENCY, URL, XID, As, alert, as_, body, post, signals
from tests.master.world import World, both

__all__ = ["as_"]


@both
def test_an_alert_is_told_once_and_its_end_too(as_: As, services: Services) -> None:
    client = as_()
    given = {"fingerprint": fingerprint(LATENCY)}
    assert post(client, alert(LATENCY, **given)) == {"new": 1}
    assert post(client, alert(LATENCY, **given)) == {"repeated": 1}
    assert post(client, alert(LATENCY, "resolved", **given)) == {"resolved": 1}
    assert post(client, alert(LATENCY, "resolved", **given)) == {"not_open": 1}
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
    many = [alert({**LATENCY, "n": str(n)}) for n in range(15)]
    monkeypatch.setattr(ingest, "AT_ONCE", 10)
    monkeypatch.setattr(faultpoints, "_armed", faultpoints.FaultPoint("accepted:12:raise"))
    client = as_()
    with structlog.testing.capture_logs():
        assert client.post(URL, json=body(*many)).status_code == 500
    monkeypatch.setattr(faultpoints, "_armed", None)
    assert post(client, *many) == {"new": 5, "repeated": 10}
    with services.store.read() as session:
        assert session.scalar(select(func.count()).select_from(Delivery)) == len(many)


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
