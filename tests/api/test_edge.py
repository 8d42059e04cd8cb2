"""Whatever is sent, the answer is one problem document: never a traceback, never a 5xx."""

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from sqlalchemy.exc import OperationalError

from notifier.api.edge import MAX_BODY, MAX_DEPTH, parse
from notifier.storage import Store

As = Callable[..., httpx.Client]
JSON = {"Content-Type": "application/json"}


def nested(depth: int) -> bytes:
    return b"[" * depth + b"]" * depth


BODIES = {
    "nothing": (b"", JSON, 422),
    "not JSON": (b"{", JSON, 400),
    "two values": (b"{} {}", JSON, 400),
    "NaN": (b'{"a": NaN}', JSON, 400),
    "infinity": (b'{"a": -Infinity}', JSON, 400),
    "a number too large": (b'{"a": 1e400}', JSON, 400),
    "an integer of 5000 digits": (b'{"a": ' + b"9" * 5000 + b"}", JSON, 400),
    "half a surrogate pair": (b'{"name": "\\ud800"}', JSON, 400),
    "half a surrogate pair as a key": (b'{"\\udfff": 1}', JSON, 400),
    "a NUL": (b'{"name": "a\\u0000b"}', JSON, 400),
    "not UTF-8": (b'{"name": "\xff"}', JSON, 400),
    "a surrogate in UTF-8": (b'{"name": "\xed\xa0\x80"}', JSON, 400),
    "UTF-16": ('{"name": "a"}'.encode("utf-16"), JSON, 400),
    "too deep": (nested(MAX_DEPTH + 1), JSON, 400),
    "far too deep": (nested(100_000), JSON, 400),
    "a list": (b"[]", JSON, 422),
    "a text": (b'"x"', JSON, 422),
    "null": (b"null", JSON, 422),
    "too large": (b" " * (MAX_BODY + 1), JSON, 413),
    "a form": (b"name=a", {"Content-Type": "application/x-www-form-urlencoded"}, 415),
    "no media type": (b"{}", {}, 415),
    "another charset": (b"{}", {"Content-Type": "application/json; charset=gbk"}, 415),
    "compressed": (b"\x1f\x8b", {**JSON, "Content-Encoding": "gzip"}, 415),
}


@pytest.mark.parametrize("engine_name", ["sqlite"], indirect=True)  # no database is asked
@pytest.mark.parametrize(("body", "headers", "status"), BODIES.values(), ids=BODIES)
def test_a_hostile_body_is_one_problem(
    admin: httpx.Client, body: bytes, headers: dict[str, str], status: int
) -> None:
    answer = admin.post("/channels", content=body, headers=headers)
    assert_problem(answer, status)


def test_a_body_that_grows_too_large_unannounced_is_cut_off(admin: httpx.Client) -> None:
    def chunks() -> Any:
        for _ in range(MAX_BODY // 1000 + 2):
            yield b" " * 1000

    assert_problem(admin.post("/channels", content=chunks(), headers=JSON), 413)


ADDRESSES = {
    "no such page": ("GET", "/nowhere", 404),
    "outside of the version": ("GET", "http://test/api/v2/channels", 404),
    "a NUL in the path": ("GET", "/channels/a%00b", 404),
    "a NUL in the query": ("GET", "/deliveries?q=%00", 422),
    "no UTF-8 in the path": ("GET", "/channels/%ff%fe", 404),
    "no UTF-8 in the query": ("GET", "/deliveries?job=%ff", 200),
    "a method that is not taken": ("PATCH", "/channels", 405),
    "a limit of nothing": ("GET", "/channels?limit=0", 422),
    "a limit of too much": ("GET", "/channels?limit=501", 422),
    "a limit of no number": ("GET", "/channels?limit=ten", 422),
    "a limit in other digits": ("GET", "/channels?limit=１", 422),
    "a limit as programmers write it": ("GET", "/channels?limit=1_0", 422),
    "a limit beyond all bounds": ("GET", "/channels?limit=1" + "0" * 5000, 422),
    "a foreign cursor": ("GET", "/deliveries?cursor=abc", 422),
    "an unknown state": ("GET", "/deliveries?state=lost", 422),
    "an unknown kind": ("GET", "/deliveries?kind=pigeon", 422),
    "a time without zone": ("GET", "/deliveries?since=2026-01-01T00:00:00", 422),
    "a time before time": ("GET", "/deliveries?since=0001-01-01T00:00:00%2B14:00", 422),
    "a scope of no form": ("GET", "/channels/a?scope=a/b/c", 422),
    "a very long name": ("GET", "/channels/" + "a" * 4000, 404),
    "a very long id": ("DELETE", "/tokens/" + "a" * 4000, 404),
    "an unknown delivery": ("GET", "/deliveries/dlv_0", 404),
}


@pytest.mark.parametrize(("method", "address", "status"), ADDRESSES.values(), ids=ADDRESSES)
def test_a_hostile_address_is_one_problem(
    admin: httpx.Client, method: str, address: str, status: int
) -> None:
    answer = admin.request(method, address)
    if status < 400:
        assert answer.status_code == status
    else:
        assert_problem(answer, status)


BEARERS = {
    "none": {},
    "no scheme": {"Authorization": "fct_x"},
    "another scheme": {"Authorization": "Basic YTpi"},
    "no token of ours": {"Authorization": "Bearer abc"},
    "an unknown token": {"Authorization": "Bearer fct_" + "x" * 43},
    "bytes": {"Authorization": b"Bearer fct_\xff\xfe"},
}


@pytest.mark.parametrize("engine_name", ["sqlite"], indirect=True)  # no database is asked
@pytest.mark.parametrize("headers", BEARERS.values(), ids=BEARERS)
def test_nobody_gets_in_without_a_token(admin: httpx.Client, headers: dict[str, Any]) -> None:
    del admin.headers["Authorization"]
    answer = admin.get("/channels", headers=headers)
    assert_problem(answer, 401)
    assert answer.headers["www-authenticate"] == "Bearer"


def test_a_token_in_the_query_is_not_looked_at(admin: httpx.Client) -> None:
    bearer = admin.headers.pop("Authorization").removeprefix("Bearer ")
    assert_problem(admin.get("/channels", params={"token": bearer, "access_token": bearer}), 401)


def test_a_database_that_is_away_is_a_503_to_come_again(app: FastAPI, admin: httpx.Client) -> None:
    @app.get("/api/v1/broken")
    def broken() -> None:
        raise OperationalError("select CANARY", {}, Exception("CANARY"))

    answer = admin.get("/broken")
    assert_problem(answer, 503)
    assert answer.headers["retry-after"].isdigit()
    assert "CANARY" not in answer.text


def test_an_error_of_ours_is_a_problem_without_its_reason(app: FastAPI, admin: httpx.Client) -> None:
    @app.get("/api/v1/wrong")
    def wrong() -> None:
        raise RuntimeError("CANARY")

    answer = admin.get("/wrong")
    assert (answer.status_code, "CANARY" in answer.text) == (500, False)
    assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize("value", ["é\u4e2d😀", "\x1f", {"a": [1, {"b": None}]}, 1.5, 10**300])
def test_sound_json_passes(value: Any) -> None:
    assert parse(json.dumps(value).encode()) == value


def test_json_as_deep_as_allowed_passes() -> None:
    assert parse(nested(MAX_DEPTH - 1)) is not None


def assert_problem(answer: httpx.Response, status: int) -> None:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    document = answer.json()
    assert document["status"] == status
    assert document["detail"]
    if status == 422:
        assert document["errors"][0]["field"]
        assert document["errors"][0]["message"]


@pytest.mark.parametrize("engine_name", ["postgres"], indirect=True)
def test_a_database_that_went_away_is_a_503_and_works_again_when_it_is_back(
    admin: httpx.Client, store: Store, postgres: Any
) -> None:
    name = store.engine.url.database
    postgres.run(f"alter database {name} allow_connections false")
    postgres.run("select pg_terminate_backend(pid) from pg_stat_activity where datname like 't%'")
    away = admin.get("/channels")
    postgres.run(f"alter database {name} allow_connections true")
    back = admin.get("/channels")
    assert_problem(away, 503)
    assert (away.headers["retry-after"].isdigit(), back.status_code) == (True, 200)
