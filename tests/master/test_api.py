"""The master's routes over a real database: bodies, scopes, roles, and errors that name the mend."""

import warnings
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
from notifier.clock import rfc3339
from tests.master.world import World, both

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it would rather have httpx2; httpx is what we ship
    from fastapi.testclient import TestClient

As = Callable[..., TestClient]
BODY = {"name": "train", "command": "python train.py"}
NOBODY = "job_00000000000000000000000000"


@pytest.fixture
def as_(world: World, services: Services) -> Iterator[As]:
    """`as_("viewer", "pool/queue")` is a client with a token of that role and scope."""
    app = FastAPI()
    mount_notifier(app, replace(services, directory=Jobs()))
    mount_master(app, world.controller)
    clients: list[TestClient] = []

    def client(role: str = "admin", scope: str | None = None, token: str | None = None) -> TestClient:
        pool, _, queue = (scope or "").partition("/")
        if token is None:
            with services.store.write() as session:
                new = NewToken(f"{role}-token", Role(role), pool or None, queue or None)
                _, token = create_token(session, new, world.now)
        made = TestClient(app, base_url="http://test/api/v1", raise_server_exceptions=False)
        made.headers["Authorization"] = f"Bearer {token}"
        clients.append(made)
        return made

    yield client
    for each in clients:
        each.close()


@pytest.fixture
def admin(as_: As) -> TestClient:
    return as_()


def faults(answer: Any) -> dict[str, str]:
    assert answer.headers["content-type"] == "application/problem+json"
    return {fault["field"]: fault["message"] for fault in answer.json()["errors"]}


def created(client: TestClient, **more: Any) -> str:
    answer = client.post("/jobs", json={**BODY, **more})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


@both
def test_create_answers_the_effective_settings(admin: TestClient) -> None:
    body = {
        **BODY,
        "faultTolerance": True,
        "faultToleranceArgs": "--max-restarts=3",
        "jobSpec": {"image": "pytorch"},
    }
    answer = admin.post("/jobs", json=body)
    assert answer.status_code == 201
    document = answer.json()
    assert set(document) == {"id", "name", "status", "fault_tolerance", "warnings"}
    assert (document["name"], document["status"]) == ("train", "Created")
    assert document["fault_tolerance"]["max_restarts"] == 3
    assert document["fault_tolerance"]["hang_detection_log_timeout_minutes"] == 7
    assert "jobSpec.image" in document["warnings"][0]


def test_dry_run_creates_nothing(admin: TestClient) -> None:
    answer = admin.post("/jobs?dry_run=true", json={**BODY, "jobSpec": {"image": "pytorch"}})
    assert answer.status_code == 200
    assert answer.json()["warnings"]
    assert admin.post("/jobs?dry_run=true", json={"name": "x"}).status_code == 422
    assert admin.get("/jobs").json()["items"] == []


@both
def test_the_same_creation_with_one_key_is_done_once(admin: TestClient) -> None:
    first, second = (admin.post("/jobs", json=BODY, headers={"Idempotency-Key": "k1"}) for _ in range(2))
    assert (first.status_code, first.json()) == (201, second.json())
    assert len(admin.get("/jobs").json()["items"]) == 1


@both
def test_a_live_jobs_name_is_taken(admin: TestClient, world: World) -> None:
    job_id = created(admin)
    assert admin.post("/jobs", json=BODY).status_code == 409
    created(admin, queue="default", name="other")
    admin.post(f"/jobs/{job_id}/stop")
    world.settle()
    assert admin.get(f"/jobs/{job_id}").json()["status"] == "Stopped"
    created(admin)


REFUSED = {
    "typo": ({**BODY, "faultTolerence": True}, "faultTolerence"),
    "no command": ({"name": "a"}, "command"),
    "no such queue": ({**BODY, "queue": "x"}, "queue"),
    "unknown flag": ({**BODY, "faultToleranceArgs": "--max-restart=3"}, "faultToleranceArgs"),
    "both forms": ({**BODY, "faultToleranceArgs": "", "faultToleranceConfig": {}}, "faultToleranceArgs"),
    "no such channel": (
        {**BODY, "alertConfig": {"rules": [{"channels": ["nobody"]}]}},
        "alertConfig.rules.0.channels.0",
    ),
    "no such item": (
        {**BODY, "alertConfig": {"rules": [{"channels": ["ding"], "items": ["jobX"]}]}},
        "alertConfig.rules.0.items.0",
    ),
    "number for a text": ({**BODY, "name": 5}, "name"),
    "text for a truth value": ({**BODY, "faultTolerance": "no"}, "faultTolerance"),
    "number for a truth value": ({**BODY, "jobSpec": {"hostNetwork": 1}}, "jobSpec.hostNetwork"),
    "truth value for a number": (
        {**BODY, "jobSpec": {"resources": [{"name": "gpu", "quantity": True}]}},
        "jobSpec.resources.0.quantity",
    ),
    "a label of two values": (
        {**BODY, "labels": [{"key": "team", "value": "a"}, {"key": "team", "value": "b"}]},
        "labels",
    ),
    "a variable of no name": ({**BODY, "jobSpec": {"envs": [{"name": "a b"}]}}, "jobSpec.envs.0.name"),
}


@pytest.mark.parametrize(("body", "field"), REFUSED.values(), ids=REFUSED)
def test_refused_bodies_name_the_field(admin: TestClient, body: dict[str, Any], field: str) -> None:
    answer = admin.post("/jobs", json=body)
    assert answer.status_code == 422
    assert field in faults(answer)
    assert "should" not in answer.text  # pydantic's words name no mend


def test_a_pool_that_is_not_there(admin: TestClient) -> None:
    assert admin.post("/jobs", json={**BODY, "resourcePoolId": "x"}).status_code == 404
    assert admin.post("/jobs?resourcePoolId=x", json=BODY).status_code == 404
    both = admin.post("/jobs?resourcePoolId=x", json={**BODY, "resourcePoolId": "default"})
    assert "contradict" in faults(both)["resourcePoolId"]


def test_a_jobs_rules_may_name_an_on_call_list(admin: TestClient) -> None:
    rota = {"name": "night", "turn": "daily", "start": "2026-11-30", "people": ["ding"]}
    assert admin.post("/oncall", json=rota).status_code == 201
    job_id = created(admin, alertConfig={"rules": [{"channels": ["night"], "items": ["jobFT"]}]})
    would = admin.get(f"/jobs/{job_id}/alerts/preview", params={"item": "jobFT"}).json()["told"]
    assert [(one["channel"], one["why"]) for one in would] == [("ding", "on call: ding (list night)")]


def test_baidus_alert_form_is_one_rule(admin: TestClient) -> None:
    job_id = created(admin, alertConfig={"alertItems": ["jobFT"], "notifyRuleId": "ding"})
    rules = admin.get(f"/jobs/{job_id}/alerts").json()["rules"]
    assert [(rule["channels"], rule["items"]) for rule in rules] == [(["ding"], ["jobFT"])]


def test_secrets_in_variables_are_not_shown(admin: TestClient) -> None:
    envs = [{"name": "WANDB_API_KEY", "value": "sesame"}, {"name": "NCCL_DEBUG", "value": "INFO"}]
    job_id = created(admin, jobSpec={"envs": envs})
    shown = admin.get(f"/jobs/{job_id}")
    assert "sesame" not in shown.text
    assert shown.json()["spec"]["envs"]["NCCL_DEBUG"] == "INFO"


@both
def test_list_by_status_and_page(admin: TestClient, world: World) -> None:
    ids = [created(admin, name=f"job{n}") for n in range(5)]
    first = admin.get("/jobs?limit=2").json()
    second = admin.get(f"/jobs?limit=2&cursor={first['next_cursor']}").json()
    assert [job["id"] for job in first["items"] + second["items"]] == ids[:0:-1]
    assert admin.get("/jobs?status=Running").json()["items"] == []
    world.settle()
    assert len(admin.get("/jobs?status=Running").json()["items"]) == 5
    assert admin.get("/jobs?status=Dancing").status_code == 422
    assert "cursor" in faults(admin.get("/jobs?cursor=x"))


def test_a_deleted_job_is_gone_at_once(admin: TestClient, world: World) -> None:
    job_id = created(admin)
    world.settle()
    assert admin.delete(f"/jobs/{job_id}").status_code == 204
    assert admin.get(f"/jobs/{job_id}").status_code == 404
    assert admin.get("/jobs").json()["items"] == []
    assert admin.delete(f"/jobs/{job_id}").status_code == 404


def test_stop_is_asked_twice_and_too_late(admin: TestClient, world: World) -> None:
    job_id = created(admin)
    world.settle()
    assert admin.post(f"/jobs/{job_id}/stop", json={}).json()["status"] == "Stopping"
    assert admin.post(f"/jobs/{job_id}/stop").status_code == 202
    world.settle()
    assert admin.post(f"/jobs/{job_id}/stop").status_code == 202
    done = created(admin, name="done")
    world.settle()
    world.runtime.exit(world.pods(done)[0].id, code=0)
    world.settle()
    assert admin.post(f"/jobs/{done}/stop").status_code == 409


@both
def test_events_and_timeline_of_a_fault(admin: TestClient, world: World) -> None:
    job_id = created(admin, faultTolerance=True)
    world.settle()
    world.train(job_id, 1, 6)
    answer = admin.delete(f"/jobs/{job_id}/pods/train-0")
    assert answer.status_code == 204
    world.wait(3)
    world.train(job_id, 5, 9)
    [event] = admin.get(f"/jobs/{job_id}/events").json()["items"]
    assert set(event) >= {
        "id", "job_id", "run", "time", "fault_class", "cause", "reason", "advice", "culprit", "confidence",
        "hardware", "retryable", "evidence", "decision", "detected_at", "decided_at", "recovered_at",
        "steps_lost", "downtime_s",
    }  # fmt: skip
    assert set(event["decision"]) == {
        "action", "mode", "isolate_nodes", "restart_no", "budget_left", "why", "would",
    }  # fmt: skip
    assert isinstance(event["reason"], str)
    english = admin.get(f"/jobs/{job_id}/events?language=en").json()["items"][0]
    assert english["reason"].isascii()
    assert not event["reason"].isascii()  # the server's own language is Chinese
    assert admin.get("/events").json()["items"] == [event]
    timeline = admin.get(f"/jobs/{job_id}/timeline").json()
    assert [run["n"] for run in timeline["runs"]] == [0, 1]
    assert timeline["recoveries"][0]["stage"] == "done"
    assert 0 < timeline["effective_ratio"] <= 1


def test_logs(admin: TestClient, world: World) -> None:
    job_id = created(admin)
    world.settle()
    world.runtime.log = "one\ntwo\n"
    whole = admin.get(f"/jobs/{job_id}/logs").json()
    assert (whole["text"], whole["pod"], whole["next_offset"], whole["ended"]) == (
        "one\ntwo\n",
        "train-0",
        8,
        False,
    )
    assert admin.get(f"/jobs/{job_id}/logs?offset=4&limit=3").json()["text"] == "two"
    assert admin.get(f"/jobs/{job_id}/logs?pod=train-9").status_code == 404
    assert admin.get(f"/jobs/{job_id}/logs?run=7").status_code == 404
    for bad in ("offset=-1", "limit=0", "limit=99999999", "offset=x", "tail=3"):
        assert admin.get(f"/jobs/{job_id}/logs?{bad}").status_code == 422


def test_stacks_of_a_job_that_does_not_run(admin: TestClient, world: World) -> None:
    job_id = created(admin)
    empty = {"collected_at": None, "ranks": [], "frames": [], "errors": {}}
    empty |= {"odd": "", "children": {}, "child_frames": {}}
    assert admin.get(f"/jobs/{job_id}/stacks").json() == empty
    assert admin.post(f"/jobs/{job_id}/stacks").status_code == 409


PATHS = [
    ("GET", "/jobs/{}"),
    ("DELETE", "/jobs/{}"),
    ("POST", "/jobs/{}/stop"),
    ("GET", "/jobs/{}/logs"),
    ("GET", "/jobs/{}/events"),
    ("GET", "/jobs/{}/timeline"),
    ("GET", "/jobs/{}/stacks"),
    ("POST", "/jobs/{}/stacks"),
    ("DELETE", "/jobs/{}/pods/train-0"),
    ("GET", "/jobs/{}/alerts"),
]


@both
def test_what_lies_outside_ones_scope_is_not_there(as_: As, admin: TestClient, world: World) -> None:
    admin.put("/pools/default/queues/vision")
    job_id = created(admin)
    world.settle()
    for scope in ("default/vision", "elsewhere"):
        stranger = as_("admin", scope)
        for method, path in PATHS:
            theirs = stranger.request(method, path.format(job_id))
            none = stranger.request(method, path.format(NOBODY))
            assert theirs.status_code == 404, (method, path)
            assert theirs.json()["detail"].replace(job_id, NOBODY) == none.json()["detail"]
        assert stranger.get("/jobs").json()["items"] == []
        assert stranger.get("/events").json()["items"] == []
    assert as_("admin", "default/vision").post("/jobs", json=BODY).status_code == 404
    assert as_("viewer", "default/default").get(f"/jobs/{job_id}").status_code == 200
    assert world.job(job_id).status == "Running"


WRITES = [
    ("POST", "/jobs"),
    ("DELETE", "/jobs/x"),
    ("POST", "/jobs/x/stop"),
    ("POST", "/jobs/x/stacks"),
    ("PATCH", "/pools/default"),
    ("PUT", "/pools/default/queues/a"),
    ("DELETE", "/pools/default/queues/a"),
    ("PUT", "/pools/default/datasources/a"),
    ("DELETE", "/pools/default/datasources/a"),
    ("POST", "/nodes/node-1/isolate"),
    ("POST", "/nodes/node-1/restore"),
    ("DELETE", "/jobs/x/pods/y"),
]


@pytest.mark.parametrize("role", ["viewer", "publisher", "ingest", "agent"])
def test_who_may_not_write(as_: As, role: str) -> None:
    client = as_(role)
    body = {"POST": BODY, "PATCH": {"isolation_cap": 0.1}, "PUT": {"type": "a"}}
    for method, path in WRITES:
        answer = client.request(method, path, json=body.get(method))
        assert answer.status_code == 403, (method, path, answer.text)


@pytest.mark.parametrize("role", ["publisher", "ingest", "agent"])
def test_who_may_not_read(as_: As, role: str) -> None:
    client = as_(role)
    for path in (
        "/jobs",
        "/jobs/x",
        "/events",
        "/pools/default",
        "/nodes",
        "/jobs/x/logs",
        "/jobs/x/timeline",
    ):
        assert client.get(path).status_code == 403, path


REPORT = {"boot": "b", "seq": 1, "sent_at": "2026-11-29T03:00:00Z", "observations": []}


@pytest.mark.parametrize("role", ["admin", "operator", "viewer", "publisher", "ingest"])
def test_only_agents_report(as_: As, role: str) -> None:
    assert as_(role).post("/agent/reports", json=REPORT).status_code == 403


def test_a_pods_agent_reports_and_an_urgent_word_wakes_the_master(as_: As, world: World) -> None:
    job_id = world.submit()
    agent = as_(token=world.runtime.pods[world.pods(job_id)[0].id].agent.token)
    world.controller._woken.clear()
    answer = agent.post("/agent/reports", json=REPORT)
    assert answer.json() == {"ack": 1, "want": {"patterns": []}}
    assert not world.controller._woken.is_set()
    ended = {"kind": "process_exited", "at": rfc3339(world.now), "rank": 0, "data": {"signal": 9}}
    agent.post("/agent/reports", json={**REPORT, "seq": 2, "observations": [ended]})
    assert world.controller._woken.is_set()
    assert agent.get("/channels").status_code == 403


def test_an_agents_token_dies_with_its_pod(as_: As, world: World) -> None:
    job_id = world.submit()
    agent = as_(token=world.runtime.pods[world.pods(job_id)[0].id].agent.token)
    world.stop(job_id)
    world.wait(1)
    assert agent.post("/agent/reports", json=REPORT).status_code == 401


@both
def test_pool(admin: TestClient, as_: As) -> None:
    answer = admin.get("/pools/default")
    document = answer.json()
    assert document["fault_isolation"] is True
    assert document["queues"] == ["default"]
    assert document["datasources"] == [{"name": "hostpath", "type": "hostpath"}]
    changed = admin.patch("/pools/default", json={"fault_isolation": False})
    assert changed.json()["fault_isolation"] is False
    assert (
        "switch it on" in faults(admin.post("/jobs", json={**BODY, "faultTolerance": True}))["faultTolerance"]
    )
    stale = {"If-Match": answer.headers["etag"]}
    assert admin.patch("/pools/default", json={"isolation_cap": 0.5}, headers=stale).status_code == 412
    for bad in ({}, {"isolation_cap": 2}, {"isolation_cap": "x"}, {"fault_isolatoin": True}):
        assert admin.patch("/pools/default", json=bad).status_code == 422
    assert admin.get("/pools/none").status_code == 404
    assert (
        as_("operator", "default/default").patch("/pools/default", json={"isolation_cap": 0}).status_code
        == 403
    )


@both
def test_queues_and_data_sources(admin: TestClient, world: World) -> None:
    for _ in range(2):
        assert admin.put("/pools/default/queues/vision").status_code == 200
        assert admin.put("/pools/default/datasources/pfs-1", json={"type": "pfs"}).status_code == 200
    source = {"type": "pfs", "name": "pfs-1", "sourcePath": "/a", "mountPath": "/b"}
    created(admin, queue="vision", datasources=[source])
    assert admin.delete("/pools/default/queues/vision").status_code == 409
    assert admin.delete("/pools/default/datasources/pfs-1").status_code == 204
    assert admin.delete("/pools/default/datasources/pfs-1").status_code == 404
    assert admin.delete("/pools/default/queues/none").status_code == 404
    assert "name" in faults(admin.put("/pools/default/queues/a b"))
    assert admin.put("/pools/none/queues/a").status_code == 404


@both
def test_nodes_are_isolated_and_restored_and_people_are_told(admin: TestClient, world: World) -> None:
    assert [node["name"] for node in admin.get("/nodes").json()["items"]] == ["node-1", "node-2", "node-3"]
    done = admin.post("/nodes/node-2/isolate", json={"reason": "the fan is loud"})
    assert (done.json()["status"], done.json()["reason"]) == ("isolated", "the fan is loud")
    admin.post("/nodes/node-2/isolate", json={})
    assert admin.post("/nodes/node-2/restore").json()["status"] == "ready"
    assert world.told() == [("nodeFT", "firing"), ("nodeFT", "resolved")]
    assert admin.post("/nodes/none/isolate").status_code == 404
    assert admin.post("/nodes/node-1/isolate", json={"raeson": "x"}).status_code == 422


@both
def test_whoever_was_told_of_an_isolated_node_hears_that_it_is_no_more(
    admin: TestClient, world: World
) -> None:
    for name in ("node-2", "node-3"):
        admin.post(f"/nodes/{name}/isolate")
    world.runtime._count = 2
    world.new_master()
    world.controller.start()
    world.controller.stop()
    assert world.told() == [("nodeFT", "firing")] * 2 + [("nodeFT", "resolved")]
    assert [alert.labels for alert in world.alerts() if alert.status == "firing"] == [{"node": "node-2"}]


THERE = ["default", "default/default"]
NOT_THERE = ["ghostpool", "ghostpool/ghostq", "default/ghost", "pool/queue"]
SCOPED = {
    "/alerts": {"title": "t"},
    "/channels": {"name": "hook", "kind": "webhook", "config": {"url": "http://127.0.0.1:9/"}},
    "/templates": {"text": "{{ what }}"},
    "/tokens": {"name": "t", "role": "viewer"},
}


@pytest.mark.parametrize("path", SCOPED)
def test_a_scope_must_be_there(admin: TestClient, path: str) -> None:
    for scope in THERE:
        assert admin.post(path, json={**SCOPED[path], "scope": scope}).status_code < 300, scope
    for scope in NOT_THERE:
        answer = admin.post(path, json={**SCOPED[path], "scope": scope})
        assert (answer.status_code, list(faults(answer))) == (422, ["scope"]), scope


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"fault_isolation": "no"}, "fault_isolation"),
        ({"fault_isolation": 0}, "fault_isolation"),
        ({"isolation_cap": True}, "isolation_cap"),
        ({"isolation_cap": "0.5"}, "isolation_cap"),
        ({"isolation": True}, "isolation"),
    ],
)
def test_a_pool_is_changed_by_what_is_meant(admin: TestClient, change: dict[str, Any], field: str) -> None:
    before = admin.get("/pools/default").json()
    answer = admin.patch("/pools/default", json=change)
    assert (answer.status_code, list(faults(answer))) == (422, [field])
    assert admin.get("/pools/default").json() == before


@pytest.mark.parametrize(
    "path",
    ["/jobs/{}", "/jobs/{}/logs", "/jobs/{}/alerts", "/pools/{}", "/pools/{}/alerts", "/alerts/{}",
     "/deliveries/{}", "/channels/{}", "/templates/{}", "/jobs/{}/events"],
)  # fmt: skip
def test_what_cannot_be_there_is_not_there(admin: TestClient, path: str) -> None:
    assert admin.get(path.format("x" * 1000)).status_code == 404
