"""No address takes a parameter that it does not know, or one of them twice: both are refused by name."""

from fastapi import FastAPI
from fastapi.routing import APIRoute

from tests.master.test_api import TestClient, admin, as_, faults
from tests.master.world import World

__all__ = ["admin", "as_"]
PREFIX = "/api/v1"


def routes(client: TestClient) -> list[tuple[str, str, APIRoute]]:
    """Method, address and route of all that the API has."""
    app = client.app
    assert isinstance(app, FastAPI)
    return [
        (method, one.path.removeprefix(PREFIX).replace("{", "").replace("}", ""), one)
        for one in app.routes
        if isinstance(one, APIRoute) and one.path.startswith(PREFIX)
        for method in one.methods
    ]


def test_every_address_names_what_it_does_not_know(world: World, admin: TestClient) -> None:
    found = {
        f"{method} {path}": admin.request(method, path, params={"chanel": "wa"})
        for method, path, _ in routes(admin)
    }
    assert len(found) > 50
    assert {where for where, answer in found.items() if answer.status_code != 422} == set()
    assert all("no such parameter" in faults(answer)["chanel"] for answer in found.values())
    assert "there are alert, channel, cursor, event" in faults(found["GET /deliveries"])["chanel"]


def test_every_address_names_what_it_is_told_twice(world: World, admin: TestClient) -> None:
    lists = [
        path for method, path, one in routes(admin)
        if method == "GET" and _takes(one, "limit")
    ]  # fmt: skip
    assert {"/alerts", "/deliveries", "/events", "/jobs", "/nodes", "/tokens"} <= set(lists)
    for path in lists:
        answer = admin.get(path, params=[("limit", "1"), ("limit", "1")])
        assert (path, "2 times" in faults(answer)["limit"]) == (path, True)
    states = admin.get("/deliveries/export", params=[("state", "failed"), ("state", "held")])
    assert "2 times" in faults(states)["state"]


def test_what_may_stand_there_often_does(world: World, admin: TestClient) -> None:
    body = {
        "version": "4", "groupKey": "g", "status": "firing", "receiver": "r", "groupLabels": {},
        "commonLabels": {}, "commonAnnotations": {}, "externalURL": "", "alerts": [],
    }  # fmt: skip
    twice = admin.post("/ingest/alertmanager?channel=ding&channel=other", json=body)
    assert twice.status_code == 202, twice.text


def test_whoever_is_not_known_hears_only_that(world: World, admin: TestClient) -> None:
    answer = admin.get("/deliveries?chanel=wa", headers={"Authorization": "Bearer fct_no"})
    assert answer.status_code == 401


def test_nodes_come_in_pages(world: World, admin: TestClient) -> None:
    first = admin.get("/nodes?limit=2").json()
    second = admin.get("/nodes", params={"limit": 2, "cursor": first["next_cursor"]}).json()
    names = [node["name"] for node in (*first["items"], *second["items"])]
    assert (names, second["next_cursor"]) == (["node-1", "node-2", "node-3"], None)
    assert admin.get("/nodes", params={"cursor": "none"}).status_code == 422


def _takes(route: APIRoute, name: str) -> bool:
    parts = (route.dependant, *route.dependant.dependencies)
    return any(one.alias == name for part in parts for one in part.query_params)
