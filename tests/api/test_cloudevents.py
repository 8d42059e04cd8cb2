"""CloudEvents into `POST /alerts`: structured and binary, ours and strangers', each event once."""

import base64
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
from cloudevents.core.bindings.http import HTTPMessage, to_binary_event, to_structured_event
from cloudevents.core.v1.event import CloudEvent

As = Callable[..., httpx.Client]
EVENT = {"specversion": "1.0", "id": "e1", "source": "/ci", "type": "com.example.build.failed"}
STRUCTURED = {"Content-Type": "application/cloudevents+json"}


def post(client: httpx.Client, event: Any, **headers: str) -> httpx.Response:
    return client.post("/alerts", json=event, headers=STRUCTURED | headers)


def told(client: httpx.Client, event: Any, **headers: str) -> dict[str, Any]:
    """The alert that it became."""
    answer = post(client, event, **headers)
    assert answer.status_code == 202, answer.text
    found: dict[str, Any] = client.get(f"/alerts/{answer.json()['id']}").json()
    return found


def faults(answer: httpx.Response) -> dict[str, str]:
    assert answer.headers["content-type"] == "application/problem+json"
    return {fault["field"]: fault["message"] for fault in answer.json()["errors"]}


def test_data_that_are_an_alert(admin: httpx.Client) -> None:
    data = {"title": "disk is full", "severity": "critical", "labels": {"team": "nlp"}}
    alert = told(admin, {**EVENT, "data": data})
    assert (alert["title"], alert["severity"], alert["labels"]) == (
        "disk is full",
        "critical",
        {"team": "nlp"},
    )
    assert alert["source"] == "/ci"


def test_the_same_event_twice_is_one_alert(admin: httpx.Client) -> None:
    event = {**EVENT, "data": {"title": "once"}}
    first, again = post(admin, event), post(admin, event)
    assert (first.json(), again.headers["Idempotency-Replayed"]) == (again.json(), "true")
    other_id = post(admin, {**event, "id": "e2"})
    other_source = post(admin, {**event, "source": "/cd"})
    assert len({one.json()["id"] for one in (first, other_id, other_source)}) == 3


def test_binary_mode(admin: httpx.Client) -> None:
    headers = {f"ce-{name}": value for name, value in EVENT.items()} | {"ce-subject": "%E8%AE%AD%E7%BB%83"}
    answer = admin.post("/alerts", json={"title": "binary"}, headers=headers)
    again = admin.post("/alerts", json={"title": "binary"}, headers=headers)
    assert (answer.status_code, again.json()) == (202, answer.json())
    bare = admin.post("/alerts", headers={**headers, "ce-id": "e9"})
    assert bare.status_code == 202
    assert admin.get(f"/alerts/{bare.json()['id']}").json()["title"] == "com.example.build.failed: 训练"


@pytest.mark.parametrize("written", [to_structured_event, to_binary_event])
def test_what_the_cloudevents_library_writes(
    admin: httpx.Client, written: Callable[[CloudEvent], HTTPMessage]
) -> None:
    attributes = {**EVENT, "subject": "主 分支", "time": datetime.now(UTC), "severity": "info"}
    attributes |= {"datacontenttype": "application/json"}
    message = written(CloudEvent(attributes, {"what": "训练 🔥"}))
    answer = admin.post("/alerts", content=message.body, headers=message.headers)
    assert answer.status_code == 202, answer.text
    alert = admin.get(f"/alerts/{answer.json()['id']}").json()
    assert (alert["title"], alert["severity"]) == ("com.example.build.failed: 主 分支", "info")
    assert "训练 🔥" in alert["text"]


STRANGERS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "nothing but a type": ({}, {"title": "com.example.build.failed", "text": ""}),
    "a subject": ({"subject": "main"}, {"title": "com.example.build.failed: main"}),
    "words of its own": (
        {"data": {"summary": "build 7 failed", "description": "at step 3", "severity": "warn", "n": 7}},
        {"title": "build 7 failed", "text": "at step 3", "severity": "warning"},
    ),
    "other data": ({"data": {"n": [1]}}, {"text": '{\n "n": [\n  1\n ]\n}'}),
    "a text": ({"data": "plain", "datacontenttype": "text/plain"}, {"text": "plain"}),
    "bytes": ({"data_base64": base64.b64encode(b"\xff\0").decode()}, {"text": "(2 bytes)"}),
    "a text in base64": ({"data_base64": base64.b64encode("训".encode()).decode()}, {"text": "训"}),
    "extensions": (
        {"severity": "info", "traceparent": "00-1", "n": 3, "sampled": True},
        {"severity": "info", "labels": {"type": EVENT["type"], "severity": "info", "traceparent": "00-1",
                                        "n": "3", "sampled": "true"}},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("given", "expected"), STRANGERS.values(), ids=STRANGERS)
def test_events_of_strangers(admin: httpx.Client, given: dict[str, Any], expected: dict[str, Any]) -> None:
    alert = told(admin, {**EVENT, **given})
    assert {name: alert[name] for name in expected} == expected


def test_what_another_faultcast_tells_is_one_alert_from_alarm_to_end(admin: httpx.Client) -> None:
    data = {
        "version": "1", "id": "alr_1", "delivery_id": "dlv_1", "item": "jobFT",
        "severity": "warning", "status": "firing", "title": "🟠 rank 3", "text": "…", "job": {"name": "llm"},
        "event": None, "labels": {"team": "nlp"}, "links": {},
    }  # fmt: skip
    alarm = {**EVENT, "source": "/faultcast", "type": "io.faultcast.jobFT", "data": data}
    first = told(admin, alarm)
    assert first["labels"] == {"team": "nlp", "item": "jobFT", "job": "llm"}
    end = {**alarm, "id": "dlv_2", "type": "io.faultcast.jobRecovered"}
    over = told(admin, {**end, "data": {**data, "item": "jobRecovered", "status": "resolved"}})
    assert (over["id"], over["status"]) == (first["id"], "resolved")


REFUSED: dict[str, tuple[Any, str]] = {
    "no version": ({**EVENT, "specversion": None}, "specversion"),
    "another version": ({**EVENT, "specversion": "0.3"}, "specversion"),
    "no id": ({**EVENT, "id": ""}, "id"),
    "a number for an id": ({**EVENT, "id": 1}, "id"),
    "an object for a source": ({**EVENT, "source": {}}, "source"),
    "no type": ({name: EVENT[name] for name in EVENT if name != "type"}, "type"),
    "a list for an extension": ({**EVENT, "more": []}, "more"),
    "a name that no attribute has": ({**EVENT, "Foo_Ext": "x"}, "Foo_Ext"),
    "whom there is not": ({**EVENT, "data": {"channels": ["wa"]}}, "channels.0"),
    "no time": ({**EVENT, "time": "soon"}, "time"),
    "both kinds of data": ({**EVENT, "data": 1, "data_base64": "AA=="}, "data_base64"),
    "no base64": ({**EVENT, "data_base64": "?"}, "data_base64"),
    "an alert that is none": ({**EVENT, "type": "io.faultcast.alert", "data": [1]}, "data"),
    "a field that is none": (
        {**EVENT, "type": "io.faultcast.alert", "data": {"title": "t", "severty": "info"}},
        "data.severty",
    ),
    "a severity that is none": ({**EVENT, "data": {"title": "t", "severity": "dire"}}, "data.severity"),
}


@pytest.mark.parametrize("engine_name", ["sqlite"], indirect=True)
@pytest.mark.parametrize(("given", "field"), REFUSED.values(), ids=REFUSED)
def test_what_is_refused(admin: httpx.Client, given: Any, field: str) -> None:
    answer = post(admin, given)
    assert (answer.status_code, list(faults(answer))) == (422, [field])


def test_data_that_say_only_whom_to_tell(admin: httpx.Client) -> None:
    url = "http://127.0.0.1:9/cgi-bin/webhook/send?key=k"
    made = admin.post("/channels", json={"name": "wa", "kind": "wecom", "config": {"webhook_url": url}})
    assert made.status_code == 201, made.text
    alert = told(admin, {**EVENT, "subject": "main", "data": {"channels": ["wa"]}})
    assert (alert["title"], len(alert["deliveries"])) == ("com.example.build.failed: main", 1)
    untitled = {**EVENT, "type": "io.faultcast.alert", "data": {"channels": ["wa"]}}
    assert faults(post(admin, untitled)).keys() == {"title"}


def test_a_name_of_a_header_that_no_attribute_has(admin: httpx.Client) -> None:
    headers = {f"ce-{name}": value for name, value in {**EVENT, "foo-ext": "x"}.items()}
    assert faults(admin.post("/alerts", json={"title": "t"}, headers=headers)).keys() == {"foo-ext"}


def test_what_no_event_is(admin: httpx.Client) -> None:
    assert post(admin, [EVENT]).status_code == 422
    batch = {"Content-Type": "application/cloudevents-batch+json"}
    assert admin.post("/alerts", json=[EVENT], headers=batch).status_code == 415
    binary = {f"ce-{name}": value for name, value in EVENT.items()}
    nul = admin.post("/alerts", json={"title": "t"}, headers={**binary, "ce-id": "a%00b"})
    assert list(faults(nul)) == ["ce-id"]
    plain = admin.post("/alerts", content=b"text", headers={**binary, "Content-Type": "text/plain"})
    assert plain.status_code == 415


def test_who_may_not_publish_may_not_send_events(as_: As) -> None:
    assert post(as_("viewer"), {**EVENT, "data": {"title": "t"}}).status_code == 403
