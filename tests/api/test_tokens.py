"""Tokens over the API: shown once, never reaching further than who made them, dead when deleted."""

from collections.abc import Callable
from typing import Any

import httpx
import pytest

As = Callable[..., httpx.Client]
ONE_ENGINE = pytest.mark.parametrize("engine_name", ["sqlite"], indirect=True)  # refused by no database


def speaks(client: httpx.Client, plaintext: str) -> int:
    return client.get("/channels", headers={"Authorization": f"Bearer {plaintext}"}).status_code


def test_a_token_is_shown_once_works_and_dies_when_deleted(admin: httpx.Client) -> None:
    made = admin.post("/tokens", json={"name": "ci", "role": "viewer", "scope": "default"})
    assert (made.status_code, made.json()["scope"], made.json()["token"][:4]) == (201, "default", "fct_")
    assert made.json()["token"] not in admin.get("/tokens").text
    assert speaks(admin, made.json()["token"]) == 200
    assert admin.delete(f"/tokens/{made.json()['id']}").status_code == 204
    assert speaks(admin, made.json()["token"]) == 401
    assert admin.delete(f"/tokens/{made.json()['id']}").status_code == 404


def test_a_keyed_creation_answers_the_same_token_twice(admin: httpx.Client) -> None:
    body, key = {"name": "ci", "role": "viewer"}, {"Idempotency-Key": "k"}
    first, again = (admin.post("/tokens", json=body, headers=key).json() for _ in range(2))
    assert first == again
    assert speaks(admin, again["token"]) == 200


WRONG = {
    "no name": ({"role": "viewer"}, "name"),
    "a name with blanks": ({"name": "a b", "role": "viewer"}, "name"),
    "no such role": ({"name": "a", "role": "king"}, "role"),
    "no such scope": ({"name": "a", "role": "viewer", "scope": "a/b/c"}, "scope"),
    "past expiry": ({"name": "a", "role": "viewer", "expires_at": "2020-01-01T00:00:00Z"}, "expires_at"),
    "a time without zone": (
        {"name": "a", "role": "viewer", "expires_at": "2030-01-01T00:00:00"},
        "expires_at",
    ),
    "a time out of range": (
        {"name": "a", "role": "viewer", "expires_at": "9999-12-31T23:59:59Z"},
        "expires_at",
    ),
    "an agent without a node": ({"name": "a", "role": "agent"}, "node"),
    "a node without an agent": ({"name": "a", "role": "viewer", "node": "n1"}, "node"),
    "a field too many": ({"name": "a", "role": "viewer", "sudo": True}, "sudo"),
}


@ONE_ENGINE
@pytest.mark.parametrize(("body", "field"), WRONG.values(), ids=WRONG)
def test_a_wrong_field_is_named(admin: httpx.Client, body: dict[str, Any], field: str) -> None:
    answer = admin.post("/tokens", json=body)
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"] == field


REACH = {
    "its own pool": ("p", "p", 201),
    "a queue of its pool": ("p", "p/q", 201),
    "another pool": ("p", "x", 403),
    "all pools": ("p", None, 403),
    "its queue": ("p/q", "p/q", 201),
    "the pool of its queue": ("p/q", "p", 403),
}


@ONE_ENGINE
@pytest.mark.parametrize(("own", "asked", "status"), REACH.values(), ids=REACH)
def test_a_token_reaches_no_further_than_its_maker(as_: As, own: str, asked: str | None, status: int) -> None:
    assert (
        as_("admin", own).post("/tokens", json={"name": "a", "role": "admin", "scope": asked}).status_code
        == status
    )


def test_an_admin_of_a_pool_sees_and_deletes_its_tokens_only(as_: As) -> None:
    everywhere, here = as_("admin"), as_("admin", "p")
    other = everywhere.post("/tokens", json={"name": "x", "role": "viewer", "scope": "x"}).json()
    own = here.post("/tokens", json={"name": "own", "role": "viewer", "scope": "p/q"}).json()
    assert {item["name"] for item in here.get("/tokens").json()["items"]} == {"own", "admin-token"}
    assert here.delete(f"/tokens/{other['id']}").status_code == 404
    assert here.delete(f"/tokens/{own['id']}").status_code == 204
