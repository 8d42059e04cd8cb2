"""Channels over the API: secrets go in and never come out, names are unique in a scope, edits mend."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import httpx
import pytest
from sqlalchemy import select, text

from notifier.api.deps import Services
from notifier.channels import load_config
from notifier.clock import utcnow
from notifier.ids import new_id
from notifier.model import Channel, Delivery
from notifier.plan import RELEASED

As = Callable[..., httpx.Client]
URL = "http://127.0.0.1:9/robot/send?access_token=CANARY-token"  # nobody is there
SECRET = "SECCANARY-secret"


def ding(name: str = "ding", **changes: Any) -> dict[str, Any]:
    return {"name": name, "kind": "dingtalk", "config": {"webhook_url": URL, "secret": SECRET}, **changes}


def created(client: httpx.Client, name: str = "ding", **changes: Any) -> dict[str, Any]:
    answer = client.post("/channels", json=ding(name, **changes))
    assert answer.status_code == 201, answer.text
    document: dict[str, Any] = answer.json()
    return document


def add_delivery(services: Services, channel_id: str, state: str, **changes: Any) -> str:
    """A delivery of that channel, as the log would hold it."""
    now = utcnow()
    with services.store.write() as session:
        row = session.get_one(Channel, channel_id)
        values: dict[str, Any] = {
            "id": new_id("dlv", now),
            "alert_id": None,
            "pool": row.pool,
            "queue": row.queue,
            "channel_id": row.id,
            "channel": row.name,
            "kind": row.kind,
            "item": "custom",
            "items": [],
            "severity": "error",
            "language": "zh",
            "timezone": "UTC",
            "fallback": [],
            "state": state,
            "order_key": "alert:1",
            "shard": row.shard,
            "created_at": now,
            "next_attempt_at": None,
            "expires_at": now + timedelta(hours=1),
            "mends": [],
            "recipients": [],
            **changes,
        }
        session.add(Delivery(**values))
        return str(values["id"])


def delivery(client: httpx.Client, delivery_id: str) -> dict[str, Any]:
    document: dict[str, Any] = client.get(f"/deliveries/{delivery_id}").json()
    return document


def test_a_channel_is_answered_with_masks_and_kept_encrypted(admin: httpx.Client, services: Services) -> None:
    document = created(admin)
    assert document["config"]["webhook_url"] == "http://127.0.0.1:9/***"
    assert document["config"]["secret"] == "***"
    assert document["scope"] == "default"
    assert (document["health"], document["enabled"]) == ("unknown", True)
    assert "host" in document["warnings"][0]  # an unusual host warns and is not refused
    with services.store.read() as session:
        kept = session.execute(text("select config, secrets from channels")).one()
        config: Any = load_config(session.scalars(select(Channel)).one(), services.box)
    assert "CANARY" not in str(kept)
    assert config.webhook_url.get_secret_value() == URL


def test_no_answer_shows_a_secret(admin: httpx.Client) -> None:
    created(admin)
    shown = [admin.get("/channels"), admin.get("/channels/ding"), admin.post("/channels", json=ding())]
    changed = admin.get("/channels/ding").json() | {
        "config": {"webhook_url": f"{URL}x", "secret": "CANARY", "x": 1}
    }
    shown += [admin.put("/channels/ding", json=changed), admin.get("/deliveries"), admin.get("/tokens")]
    assert [answer.status_code for answer in shown] == [200, 200, 409, 422, 200, 200]
    assert not [answer.text for answer in shown if "CANARY" in answer.text]


def test_what_was_read_may_be_written_back_and_masks_keep_the_secrets(
    admin: httpx.Client, services: Services
) -> None:
    document = created(admin)
    answer = admin.put("/channels/ding", json=document | {"language": "en", "timezone": "UTC"})
    assert (answer.status_code, answer.json()["language"]) == (200, "en")
    with services.store.read() as session:
        config: Any = load_config(session.scalars(select(Channel)).one(), services.box)
    assert (config.webhook_url.get_secret_value(), config.secret.get_secret_value()) == (URL, SECRET)


@pytest.mark.parametrize("field", ["name", "scope", "kind"])
def test_what_cannot_change_is_refused_by_name(admin: httpx.Client, field: str) -> None:
    answer = admin.put("/channels/ding", json=created(admin) | {field: "other"})
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"] == field


def test_names_are_unique_in_a_scope_and_free_in_another(admin: httpx.Client) -> None:
    created(admin)
    created(admin, scope="default/q1")
    again = admin.post("/channels", json=ding(scope="default/q1"))
    assert (again.status_code, "take another name" in again.json()["detail"]) == (409, True)


def test_of_several_scopes_one_must_be_named(admin: httpx.Client) -> None:
    created(admin)
    created(admin, scope="default/q1")
    assert admin.get("/channels/ding").status_code == 409
    assert admin.get("/channels/ding", params={"scope": "default/q1"}).json()["scope"] == "default/q1"
    assert admin.get("/channels/ding", params={"scope": "default"}).json()["scope"] == "default"


def test_only_the_version_that_was_read_is_changed(admin: httpx.Client) -> None:
    document = created(admin)
    tag = admin.get("/channels/ding").headers["etag"]
    first = admin.put("/channels/ding", json=document, headers={"If-Match": tag})
    late = admin.put("/channels/ding", json=document, headers={"If-Match": tag})
    gone = admin.delete("/channels/ding", headers={"If-Match": tag})
    assert [first.status_code, late.status_code, gone.status_code] == [200, 412, 412]
    assert admin.delete("/channels/ding", headers={"If-Match": first.headers["etag"]}).status_code == 204


def test_a_keyed_creation_is_done_once(admin: httpx.Client) -> None:
    key = {"Idempotency-Key": "k1"}
    first, again = (admin.post("/channels", json=ding(), headers=key) for _ in range(2))
    other = admin.post("/channels", json=ding("ding2"), headers=key)
    assert (first.status_code, again.status_code) == (201, 201)
    assert first.json() == again.json()
    assert (again.headers["idempotency-replayed"], again.headers["etag"]) == ("true", first.headers["etag"])
    assert (other.status_code, other.json()["errors"][0]["field"]) == (422, "Idempotency-Key")
    assert len(admin.get("/channels").json()["items"]) == 1


def test_a_list_comes_newest_first_in_pages(admin: httpx.Client) -> None:
    for name in ("a", "b", "c"):
        created(admin, name)
    first = admin.get("/channels", params={"limit": 2}).json()
    rest = admin.get("/channels", params={"limit": 2, "cursor": first["next_cursor"]}).json()
    assert [item["name"] for item in first["items"] + rest["items"]] == ["c", "b", "a"]
    assert rest["next_cursor"] is None


def test_deleting_fails_what_is_unsent_and_keeps_the_log(admin: httpx.Client, services: Services) -> None:
    channel = created(admin)
    states = ("pending", "retrying", "held", "sending", "delivered")
    ids = {state: add_delivery(services, channel["id"], state) for state in states}
    assert admin.delete("/channels/ding").status_code == 204
    after = {state: delivery(admin, ids[state]) for state in states}
    assert {state: document["state"] for state, document in after.items()} == {
        "pending": "failed",
        "retrying": "failed",
        "held": "failed",
        "sending": "sending",
        "delivered": "delivered",
    }
    assert after["held"]["error"]["permanent"]
    assert "channel was deleted" in after["held"]["why"]


def test_an_edit_releases_what_was_held(admin: httpx.Client, services: Services) -> None:
    channel = created(admin)
    held = add_delivery(services, channel["id"], "held")
    late = add_delivery(services, channel["id"], "held", expires_at=utcnow())
    told = add_delivery(services, channel["id"], "held", alert_id="alr_1")
    add_delivery(services, channel["id"], "delivered", alert_id="alr_1", trigger="fallback")
    assert admin.put("/channels/ding", json=channel).json()["health"] == "unknown"
    states = [delivery(admin, one)["state"] for one in (held, late, told)]
    assert states == ["pending", "expired", "suppressed"]
    assert delivery(admin, held)["why"] == RELEASED
    assert "fallback" in delivery(admin, told)["why"]


def test_a_channel_that_is_switched_off_sends_nothing_more(admin: httpx.Client, services: Services) -> None:
    channel = created(admin)
    waiting = add_delivery(services, channel["id"], "pending", next_attempt_at=utcnow())
    admin.put("/channels/ding", json=channel | {"enabled": False})
    document = delivery(admin, waiting)
    assert (document["state"], document["next_attempt_at"]) == ("suppressed", None)
    assert "disabled" in document["why"]


def test_a_config_that_cannot_be_read_any_more_hides_no_other_and_is_mended(
    admin: httpx.Client, services: Services
) -> None:
    """As after an SDK was uninstalled, or Apprise gave up a service."""
    created(admin, "other")
    channel_id = created(admin)["id"]
    with services.store.write() as session:
        session.get_one(Channel, channel_id).config = {"no_such_field": 1}
    shown = {one["name"]: one for one in admin.get("/channels").json()["items"]}
    assert shown["ding"]["config"] == {}
    assert shown["other"]["config"] != {}
    assert admin.get("/channels/ding").status_code == 200
    masked = {"config": {"webhook_url": "http://127.0.0.1:9/***"}}
    assert admin.put("/channels/ding", json=masked).status_code == 422
    assert admin.put("/channels/ding", json={"config": {"webhook_url": URL}}).status_code == 200
    assert admin.get("/channels/ding").json()["config"] != {}


def test_a_dry_run_of_a_new_one_says_what_would_be_refused_and_creates_nothing(admin: httpx.Client) -> None:
    body = {"name": "dry", "kind": "wecom", "config": {"webhook_url": "http://127.0.0.1:9/send?key=k"}}
    well = admin.post("/channels", json=body, params={"dry_run": "true"})
    assert (well.status_code, well.json()["id"], well.json()["name"]) == (200, "", "dry")
    assert well.json()["warnings"]
    assert admin.get("/channels").json()["items"] == []
    assert admin.post("/channels", json=body).status_code == 201
    taken = admin.post("/channels", json=body, params={"dry_run": "true"})
    assert taken.status_code == 409
    forbidden = {**body, "name": "far", "config": {"webhook_url": "http://10.1.2.3/send?key=k"}}
    assert admin.post("/channels", json=forbidden, params={"dry_run": "true"}).status_code == 422
