"""A test-send is a real message: the provider's word is answered, logged, and mends what it proves well."""

from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from sqlalchemy import select

from channels.registry import ADAPTERS
from channels.standin.providers import StandIn
from channels.standin.server import Scripted
from notifier import failing
from notifier.api.deps import Services
from notifier.clock import utcnow
from notifier.model import Channel, Delivery
from notifier.rendering import render
from notifier.settle import break_channel
from notifier.tasks import load

As = Callable[..., httpx.Client]
Put = Callable[..., str]


@pytest.fixture
def standin() -> Iterator[StandIn]:
    with StandIn() as running:
        yield running


def channel(client: httpx.Client, kind: str, config: dict[str, Any], name: str = "c") -> dict[str, Any]:
    answer = client.post("/channels", json={"name": name, "kind": kind, "config": config, "language": "en"})
    assert answer.status_code == 201, answer.text
    document: dict[str, Any] = answer.json()
    return document


def test_the_provider_gets_it_and_its_word_is_answered_and_logged(
    admin: httpx.Client, standin: StandIn
) -> None:
    robot = standin.robot("dingtalk", "CANARYtoken", secret="SECCANARYsecret")
    channel(admin, "dingtalk", {"webhook_url": robot.url, "secret": "SECCANARYsecret"})
    answer = admin.post("/channels/c/test")
    assert answer.status_code == 200, answer.text
    document = answer.json()
    assert (document["outcome"], document["http_status"], document["provider_code"]) == (
        "delivered",
        200,
        "0",
    )
    assert 0 < document["latency_s"] < 5
    (message,) = standin.messages("dingtalk", accepted=True)
    logged = admin.get(f"/deliveries/{document['delivery_id']}").json()
    assert (logged["state"], logged["trigger"], logged["attempt_count"]) == ("delivered", "test", 1)
    assert logged["message"]["title"] in message.text + message.title
    (attempt,) = logged["attempts"]
    assert (attempt["outcome"], attempt["trigger"], attempt["provider_code"]) == ("delivered", "test", "0")
    assert "CANARY" not in str(logged)
    assert admin.get("/channels/c").json()["health"] == "ok"


def test_a_wrong_key_breaks_the_channel_and_is_told_to_the_pool(
    admin: httpx.Client, standin: StandIn
) -> None:
    robot = standin.robot("wecom", "rightkey")
    channel(admin, "wecom", {"webhook_url": robot.url.replace("rightkey", "wrongkey")})
    document = admin.post("/channels/c/test").json()
    assert document["outcome"] == "channel_broken"
    assert admin.get("/channels/c").json()["health"] == "broken"
    (failing,) = admin.get("/alerts", params={"item": "channelFailing"}).json()["items"]
    assert "no rules" in failing["why"]


PUT = {"config": {"url": "http://127.0.0.1:9/changed"}}
ENDS: dict[str, tuple[Callable[[httpx.Client], httpx.Response], str]] = {
    "it was changed": (lambda admin: admin.put("/channels/hook", json=PUT), "CHANGED"),
    "it was disabled": (
        lambda admin: admin.put("/channels/hook", json={**PUT, "enabled": False}),
        "DISABLED",
    ),
    "it was deleted": (lambda admin: admin.delete("/channels/hook"), "DELETED"),
}


@pytest.mark.parametrize(("ends", "said"), ENDS.values(), ids=ENDS)
def test_whoever_was_told_that_it_fails_hears_of_the_end(
    admin: httpx.Client,
    services: Services,
    standin: StandIn,
    ends: Callable[[httpx.Client], httpx.Response],
    said: str,
) -> None:
    channel(admin, "wecom", {"webhook_url": standin.robot("wecom").url})
    made = channel(admin, "webhook", {"url": "http://127.0.0.1:9/hook"}, "hook")
    rules = {"rules": [{"channels": ["hook", "c"], "items": ["channelFailing"]}]}
    assert admin.put("/pools/default/alerts", json=rules).status_code == 200
    with services.store.write() as session:
        break_channel(session, session.get_one(Channel, made["id"]), "the secret is wrong", utcnow())
    assert ends(admin).is_success
    with services.store.read() as session:
        rows = session.scalars(select(Delivery).order_by(Delivery.id)).all()
        assert [(row.channel, row.status) for row in rows] == [("c", "firing"), ("c", "resolved")]
        channels = {row.id: row for row in session.scalars(select(Channel))}
        view = load(session, rows, channels, "t")[1].views[0]
    message = render(view, ADAPTERS["wecom"], "en", "UTC", None).message
    assert message.title == "🟢 Resolved: Alert channel failing · hook"
    assert message.text.startswith(f"**{getattr(failing, said)['en']}")


def test_passing_mends_and_releases_what_was_held(
    admin: httpx.Client, standin: StandIn, services: Services
) -> None:
    robot = standin.robot("wecom")
    made = channel(admin, "wecom", {"webhook_url": robot.url})
    with services.store.write() as session:
        session.get_one(Channel, made["id"]).health = "broken"
    body = {"title": "disk full", "channels": ["c"]}
    (held,) = admin.post("/alerts", json=body).json()["deliveries"]
    assert admin.get(f"/deliveries/{held}").json()["state"] == "held"
    assert admin.post("/channels/c/test").json()["outcome"] == "delivered"
    assert admin.get(f"/deliveries/{held}").json()["state"] == "pending"
    assert admin.get("/channels/c").json()["health"] == "ok"


OUTCOMES = {
    "busy": (Scripted(200, {"errcode": -1, "errmsg": "system busy"}), "temporary", "failed"),
    "too fast": (Scripted(200, {"errcode": 45009, "errmsg": "api freq out of limit"}), "throttled", "failed"),
    "unknown code": (Scripted(200, {"errcode": 77777, "errmsg": "?"}), "temporary", "failed"),
    "a server error": (Scripted(500, "oops"), "temporary", "failed"),
    "no answer": (Scripted(close="before"), "ambiguous", "failed"),
    "half an answer": (Scripted(close="middle"), "ambiguous", "failed"),
}


@pytest.mark.parametrize(("scripted", "outcome", "state"), OUTCOMES.values(), ids=OUTCOMES)
def test_a_test_that_fails_is_final(
    admin: httpx.Client, standin: StandIn, scripted: Scripted, outcome: str, state: str
) -> None:
    channel(admin, "wecom", {"webhook_url": standin.robot("wecom").url})
    standin.script("wecom", scripted)
    document = admin.post("/channels/c/test").json()
    logged = admin.get(f"/deliveries/{document['delivery_id']}").json()
    assert (document["outcome"], logged["state"], logged["next_attempt_at"]) == (outcome, state, None)
    assert logged["error"]["message"]


def test_nothing_is_sent_where_the_providers_limit_leaves_no_room(
    admin: httpx.Client, standin: StandIn, services: Services
) -> None:
    made = channel(admin, "wecom", {"webhook_url": standin.robot("wecom").url})
    codes = [admin.post("/channels/c/test").status_code for _ in range(21)]
    last = admin.post("/channels/c/test")
    passed = codes.count(200)  # of 20 a minute, some are kept for digests
    assert (codes, last.status_code) == ([200] * passed + [429] * (21 - passed), 429)
    assert 10 <= passed <= 20
    assert int(last.headers["retry-after"]) > 0
    assert len(standin.messages("wecom")) == passed
    assert len(admin.get("/deliveries", params={"limit": 100}).json()["items"]) == passed
    with services.store.write() as session:
        row = session.get_one(Channel, made["id"])
        row.paused_until = utcnow().replace(year=2999)
    assert admin.post("/channels/c/test").status_code == 429


def test_mail_goes_out_by_the_operators_server(
    admin: httpx.Client, standin: StandIn, services: Services
) -> None:
    config = {"to": ["a@example.org", "b@example.org"], "smtp_url": standin.smtp_url}
    channel(admin, "email", config)
    document = admin.post("/channels/c/test").json()
    logged = admin.get(f"/deliveries/{document['delivery_id']}").json()
    assert document["outcome"] == "delivered"
    assert {one["to"]: one["outcome"] for one in logged["recipients"]} == dict.fromkeys(
        config["to"], "delivered"
    )


def test_only_operators_test_and_only_their_own(as_: As, admin: httpx.Client, standin: StandIn) -> None:
    channel(admin, "wecom", {"webhook_url": standin.robot("wecom").url})
    assert as_("viewer").post("/channels/c/test").status_code == 403
    assert as_("operator", "elsewhere").post("/channels/c/test").status_code == 404
    assert not standin.messages()
