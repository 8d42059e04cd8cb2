"""Who may do what where: every route of the notifier, every role, own scope and another; and no secret seen.

A route without an entry here fails the test.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import structlog
from fastapi import FastAPI
from sqlalchemy import text

from notifier.api.deps import Services
from notifier.api.openapi import PREFIX

As = Callable[..., httpx.Client]
READ, WRITE, ADMIN = ("admin", "operator", "viewer"), ("admin", "operator"), ("admin",)
CANARY = "CANARY5f2c"
HOOK = f"http://127.0.0.1:9/cgi-bin/webhook/send?key={CANARY}"  # nobody is there
CHANNEL = {"kind": "wecom", "config": {"webhook_url": HOOK}}
RULES = {"rules": [{"channels": ["ding"]}]}
SILENCE = {"match": {"item": "jobFT"}, "duration_s": 60, "scope": "mine"}
ROTA = {"turn": "daily", "start": "2026-11-30", "people": ["ding"]}
STAND_IN = {"from": "2026-12-24T00:00:00Z", "until": "2099-12-25T00:00:00Z", "person": "ding"}


# route: who may, what is sent, the status in one's own scope, the status in another one's
ROUTES: dict[str, tuple[tuple[str, ...], Any, int, int]] = {
    "GET /channels": (READ, None, 200, 200),
    "POST /channels": (WRITE, {"name": "new", "scope": "mine", **CHANNEL}, 201, 404),
    "GET /channels/{name}": (READ, None, 200, 404),
    "PUT /channels/{name}": (WRITE, CHANNEL, 200, 404),
    "POST /channels/{name}/test": (WRITE, None, 200, 404),
    "DELETE /channels/{name}": (WRITE, None, 204, 404),
    "GET /alerts": (READ, None, 200, 200),
    "POST /alerts": (("admin", "operator", "publisher"), {"title": "t", "scope": "mine"}, 202, 404),
    "GET /alerts/{alert_id}": (READ, None, 200, 404),
    "POST /alerts/{alert_id}/ack": (WRITE, None, 200, 404),
    "GET /deliveries": (READ, None, 200, 200),
    "GET /deliveries/export": (READ, None, 200, 200),
    "POST /deliveries/resend": (WRITE, {"filter": {"state": "failed"}, "dry_run": True}, 200, 200),
    "DELETE /deliveries/{delivery_id}/content": (WRITE, None, 409, 404),
    "GET /deliveries/{delivery_id}": (READ, None, 200, 404),
    "POST /deliveries/{delivery_id}/resend": (WRITE, None, 202, 404),
    "GET /silences": (READ, None, 200, 200),
    "POST /silences": (WRITE, SILENCE, 201, 404),
    "GET /silences/{silence_id}": (READ, None, 200, 404),
    "DELETE /silences/{silence_id}": (WRITE, None, 204, 404),
    "GET /oncall": (READ, None, 200, 200),
    "POST /oncall": (WRITE, {"name": "day", "scope": "mine", **ROTA}, 201, 404),
    "GET /oncall/{list_name}": (READ, None, 200, 404),
    "PUT /oncall/{list_name}": (WRITE, ROTA, 200, 404),
    "POST /oncall/{list_name}/overrides": (WRITE, STAND_IN, 201, 404),
    "DELETE /oncall/{list_name}": (WRITE, None, 204, 404),
    "GET /pools/{pool_id}/alerts": (READ, None, 200, 404),
    "PUT /pools/{pool_id}/alerts": (WRITE, RULES, 200, 404),
    "GET /pools/{pool_id}/alerts/preview": (READ, None, 200, 404),
    "GET /jobs/{job_id}/alerts": (READ, None, 404, 404),
    "PUT /jobs/{job_id}/alerts": (WRITE, RULES, 404, 404),
    "GET /jobs/{job_id}/alerts/preview": (READ, None, 404, 404),
    "GET /templates": (READ, None, 200, 200),
    "POST /templates": (WRITE, {"text": "{{ job }}!", "scope": "mine"}, 201, 404),
    "POST /templates/preview": (READ, {"text": "{{ job }}!"}, 200, 200),
    "GET /templates/{template_id}": (READ, None, 200, 404),
    "DELETE /templates/{template_id}": (WRITE, None, 204, 404),
    "GET /tokens": (ADMIN, None, 200, 200),
    "POST /tokens": (ADMIN, {"name": "n", "role": "viewer", "scope": "mine"}, 201, 403),
    "DELETE /tokens/{token_id}": (ADMIN, None, 204, 404),
}
ROLES = ("admin", "operator", "viewer", "publisher", "ingest", "agent")


@pytest.fixture
def made(as_: As) -> dict[str, str]:
    """One of each thing, in pool `mine`."""
    admin = as_("admin")
    answer = admin.post("/channels", json={"name": "ding", "scope": "mine", **CHANNEL})
    assert answer.status_code == 201, answer.text
    alert = admin.post("/alerts", json={"title": "t", "channels": ["ding"], "scope": "mine"}).json()
    token = admin.post("/tokens", json={"name": "t", "role": "viewer", "scope": "mine"}).json()
    own = {"text": "{{ what }}", "scope": "mine", "item": "jobFT"}
    template = admin.post("/templates", json=own).json()
    silence = admin.post("/silences", json=SILENCE).json()
    assert admin.post("/oncall", json={"name": "night", "scope": "mine", **ROTA}).status_code == 201
    return {
        "name": "ding",
        "alert_id": alert["id"],
        "delivery_id": alert["deliveries"][0],
        "pool_id": "mine",
        "job_id": "job_0",
        "token_id": token["id"],
        "template_id": template["id"],
        "silence_id": silence["id"],
        "list_name": "night",
    }


def ask(client: httpx.Client, route: str, made: dict[str, str], body: Any) -> httpx.Response:
    method, path = route.split()
    params = {"item": "jobFT"} if path.endswith("/alerts/preview") else {}
    return client.request(method, path.format(**made), json=body, params=params)


def test_every_route_is_in_the_table(app: FastAPI) -> None:
    paths = app.openapi()["paths"]
    served = {
        f"{method.upper()} {path.removeprefix(PREFIX)}"
        for path, methods in paths.items()
        for method in methods
    }
    assert served == set(ROUTES)


@pytest.mark.parametrize("engine_name", ["sqlite"], indirect=True)  # the same statements, tested elsewhere
@pytest.mark.parametrize("route", ROUTES)
def test_roles_and_scopes(as_: As, made: dict[str, str], route: str) -> None:
    may, body, own, foreign = ROUTES[route]
    path = route.split()[1]
    refused = {role: 403 for role in ROLES if role not in may}
    other = dict.fromkeys(may, foreign)
    found_other = {role: ask(as_(role, "other"), route, made, body).status_code for role in ROLES}
    found_refused = {role: ask(as_(role, "mine"), route, made, body).status_code for role in refused}
    found_own = ask(as_(may[-1], "mine"), route, made, body).status_code
    assert (found_other, found_refused, found_own) == ({**refused, **other}, refused, own), path


def test_a_list_shows_ones_own_scope_only(as_: As, made: dict[str, str]) -> None:
    for path in ("/channels", "/alerts", "/deliveries"):
        counts = {
            scope: len(as_("viewer", scope).get(path).json()["items"])
            for scope in ("mine", "other", "mine/q1", None)
        }
        assert counts == {"mine": 1, "other": 0, "mine/q1": 0, None: 1}, path


def test_another_ones_and_nobodys_look_the_same(as_: As, made: dict[str, str]) -> None:
    client = as_("viewer", "other")
    foreign = client.get(f"/alerts/{made['alert_id']}").json()
    nobodys = client.get(f"/alerts/{made['alert_id'][:-1]}0").json()
    assert {**foreign, "detail": ""} == {**nobodys, "detail": ""}
    assert foreign["detail"].replace(made["alert_id"], "X") == "no alert X"


def test_a_rule_cannot_name_another_pools_channel(as_: As, made: dict[str, str]) -> None:
    answer = as_("operator", "other").put("/pools/other/alerts", json=RULES)
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, "rules.0.channels.0")
    alert = as_("publisher", "other").post("/alerts", json={"title": "t", "channels": ["ding"]})
    assert alert.status_code == 422


def test_a_queues_operator_may_use_but_not_touch_what_is_the_pools(as_: As, made: dict[str, str]) -> None:
    client = as_("operator", "mine/q1")
    assert client.post("/alerts", json={"title": "t", "channels": ["ding"]}).status_code == 202
    assert client.delete("/channels/ding").status_code == 404
    assert client.put("/pools/mine/alerts", json=RULES).status_code == 403


@pytest.fixture
def logged() -> Iterator[list[Any]]:
    with structlog.testing.capture_logs() as entries:
        yield entries


def test_no_secret_is_in_any_answer_log_or_file(
    as_: As, made: dict[str, str], services: Services, logged: list[Any], tmp_path: Path, engine_name: str
) -> None:
    admin = as_("admin")
    answers = []
    for route, (_, body, _, _) in ROUTES.items():
        if not route.startswith("DELETE"):
            answers.append(ask(admin, route, made, body).text)
            answers.append(
                ask(admin, route, made, {"config": {"webhook_url": CANARY, "secret": [CANARY]}}).text
            )
    token = admin.headers["Authorization"].removeprefix("Bearer ")
    with services.store.engine.connect() as connection:
        rows = [
            str(connection.execute(text(f"select * from {table}")).all())  # noqa: S608  names of our own
            for table in ("channels", "deliveries", "attempts", "alerts", "idempotency", "tokens", "meta")
        ]
    seen = [*answers, json.dumps(logged, default=str), *rows]
    assert not [one for one in seen if CANARY in one or token in one]
    if engine_name == "sqlite":
        files = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
        assert CANARY.encode() not in files
