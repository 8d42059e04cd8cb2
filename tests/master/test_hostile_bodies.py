"""Sound bodies with one hostile value in them, into every route that takes a body: refused in words or taken,
never an error of ours, on both databases."""

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.master.posting import LATENCY, XID, As, alert, as_, body
from tests.master.world import World, both

__all__ = ["as_"]
EXAMPLES = 25
RULE = {"channels": ["ding"], "items": ["jobFT"], "min_severity": "warning", "match": {"a": "b"}, "for_s": 5}
EVENT = {"specversion": "1.0", "id": "1", "source": "/a", "type": "t", "subject": "s", "data": {"title": "t"}}
JOB = {
    "name": "train", "command": "python t.py", "priority": "high", "faultTolerance": True,
    "faultToleranceArgs": "--max-restarts=3", "labels": [{"key": "a", "value": "b"}],
    "jobSpec": {
        "replicas": 1, "envs": [{"name": "A", "value": "b"}], "resources": [{"name": "g", "quantity": 1}],
    },
    "alertConfig": {"rules": [RULE]},
}  # fmt: skip
HOOK = {"url": "http://127.0.0.1:9/x", "secret": "whsec_" + "a2tr" * 8, "headers": {"X-A": "b"}}
ROTA = {
    "name": "night", "turn": "weekly", "weekday": "mon", "handover": "09:00", "timezone": "Asia/Shanghai",
    "start": "2026-11-30", "people": ["ding", {"name": "li", "channels": ["ding"]}],
    "overrides": [{"from": "2036-12-24T00:00:00Z", "until": "2036-12-25T00:00:00Z", "person": "li"}],
}  # fmt: skip
SOUND: dict[str, Any] = {
    "POST /ingest/alertmanager": body(alert(LATENCY), alert(XID, "resolved")),
    "POST /ingest/alertmanager?channel=ding": body(alert(XID)),
    "POST /alerts": {
        "title": "t", "text": "x", "severity": "error", "labels": {"a": "b"}, "dedup_key": "k",
        "expires_s": 60, "channels": ["ding"], "fallback": [], "source": "s", "status": "firing",
    },
    "POST /alerts#": EVENT,
    "POST /jobs?dry_run=true": JOB,
    "POST /channels": {"name": "hook", "kind": "webhook", "config": HOOK, "language": "zh"},
    "PUT /pools/default/alerts": {"rules": [RULE], "escalation": [{"after_s": 60, "channels": ["ding"]}]},
    "POST /silences": {"match": {"item": "jobFT"}, "duration_s": 60, "comment": "c"},
    "POST /oncall": ROTA,
    "POST /templates": {"text": "{{ what }}", "title": "t", "item": "jobFT", "language": "zh"},
    "POST /templates/preview": {"text": "{{ what }}", "item": "jobFT"},
    "POST /tokens": {"name": "n", "role": "viewer", "expires_at": "2036-11-29T04:00:00Z"},
    "POST /deliveries/resend": {"filter": {"channel": "ding", "state": "failed"}, "dry_run": True},
    "PATCH /pools/default": {"fault_isolation": True, "isolation_cap": 0.5},
    "PUT /pools/default/datasources/nfs": {"type": "nfs"},
    "POST /nodes/node-1/isolate": {"reason": "r"},
}  # fmt: skip
HOSTILE = (
    None, True, False, 0, -1, 1.5, 1e308, 2**31, 2**63, 2**64, 10**30, "", " ", "0", "-1", "NaN", "1e400",
    "\x00", "\ud800", "\u202e", "\x1b[31m", "a\r\nb: c", "💥" * 300, "x" * 70_000, "%00", "../../etc/passwd",
    "' or 1=1 --", "{{ 7*7 }}", "<b>", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "2026-02-30T00:00:00Z",
    [], {}, [[]], [{}], ["ding"] * 60, ["\x00"], {"": ""}, {"a": None}, {"a": {"b": []}}, {"x" * 500: "y"},
    {"$ref": "#"}, {"\x00": 1},
)  # fmt: skip


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Of every value in a document."""
    yield at
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in inside:
        yield from places(one, (*at, key))


def spoilt(sound: Any, at: tuple[Any, ...], hostile: Any, key: str | None) -> Any:
    """With the value in that place replaced, or, of an object, with one more field."""
    if not at:
        return hostile
    document = copy.deepcopy(sound)
    parent = document
    for step in at[:-1]:
        parent = parent[step]
    if key is not None and isinstance(parent, dict):
        parent[key] = hostile
    else:
        parent[at[-1]] = hostile
    return document


@both
@pytest.mark.parametrize("route", SOUND)
def test_no_body_is_an_error_of_ours(as_: As, world: World, route: str) -> None:
    method, path = route.rstrip("#").split()
    kind = "application/cloudevents+json" if route.endswith("#") else "application/json"
    client, sound = as_("admin", ""), SOUND[route]
    assert client.request(method, path, json=sound, headers={"Content-Type": kind}).is_success

    @settings(
        max_examples=EXAMPLES, derandomize=True, database=None, deadline=None,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(
        at=st.sampled_from(list(places(sound))),
        hostile=st.sampled_from(HOSTILE),
        key=st.none() | st.sampled_from(["", "x", "\ud800", "__class__", "$where"]),
    )
    def spoil(at: tuple[Any, ...], hostile: Any, key: str | None) -> None:
        content = json.dumps(spoilt(sound, at, hostile, key)).encode()
        answer = client.request(method, path, content=content, headers={"Content-Type": kind})
        assert answer.status_code < 500, (at, hostile, key, answer.text)
        if not answer.is_success:
            assert answer.headers["content-type"] == "application/problem+json"
            assert answer.json()["detail"]

    spoil()
