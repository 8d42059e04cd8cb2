"""A test-send to people by number: who gets it, what the provider said, and quotas."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from channels import registry
from notifier.api.deps import Services
from notifier.attempts import RECEIPT
from notifier.engine import Engine
from notifier.leases import Leases
from notifier.network import network_of
from notifier.tools import Tools
from notifier.writer import Writer
from tests.conftest import wait_for
from tests.delivery.exchange import CLASSES, Exchange

ANN, BEN = "+8613800000001", "+8613800000002"


@pytest.fixture(autouse=True)
def kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_CLASSES", {**registry._CLASSES, **CLASSES})


@pytest.fixture
def exchange() -> Iterator[Exchange]:
    with Exchange() as found:
        yield found


def channel(client: httpx.Client, exchange: Exchange, kind: str, **config: Any) -> None:
    config = {"url": exchange.url, "to": [ANN, BEN], **config}
    answer = client.post("/channels", json={"name": "c", "kind": kind, "config": config, "language": "en"})
    assert answer.status_code == 201, answer.text


def tried(client: httpx.Client) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the test answered, and its delivery."""
    answer = client.post("/channels/c/test")
    assert answer.status_code == 200, answer.text
    document: dict[str, Any] = answer.json()
    return document, client.get(f"/deliveries/{document['delivery_id']}").json()


def test_a_text_goes_to_every_number(admin: httpx.Client, exchange: Exchange) -> None:
    channel(admin, exchange, "played_sms", params={"what": "{{ title }}"})
    document, logged = tried(admin)
    assert (document["outcome"], document["provider_code"], document["provider_message"]) == (
        "accepted",
        "OK",
        "said so",
    )
    assert exchange.called() == [ANN, BEN]
    assert [(one["to"], one["outcome"], one["message_id"]) for one in logged["recipients"]] == [
        (ANN, "accepted", "biz-1"),
        (BEN, "accepted", "biz-2"),
    ]
    assert logged["message"]["params"] == dict(exchange.taken[0].params)
    assert logged["message"]["params"]["what"]
    assert admin.get("/channels/c").json()["health"] == "ok"


def test_only_the_first_number_is_called(admin: httpx.Client, exchange: Exchange) -> None:
    channel(admin, exchange, "played_phone")
    document, logged = tried(admin)
    assert (document["outcome"], logged["state"], exchange.called()) == ("accepted", "accepted", [ANN])


def test_a_call_that_is_refused_says_why_and_calls_nobody_else(
    admin: httpx.Client, exchange: Exchange
) -> None:
    exchange.codes[ANN].append("ILLEGAL")
    channel(admin, exchange, "played_phone")
    document, logged = tried(admin)
    assert (document["outcome"], document["provider_code"], logged["state"]) == (
        "refused",
        "ILLEGAL",
        "failed",
    )
    assert exchange.called() == []


def test_a_number_without_quota_is_a_429(admin: httpx.Client, exchange: Exchange) -> None:
    channel(admin, exchange, "played_phone", quota="1/60")
    tried(admin)
    again = admin.post("/channels/c/test")
    assert again.status_code == 429
    assert 55 <= int(again.headers["retry-after"]) <= 62
    assert len(admin.get("/deliveries").json()["items"]) == 1
    assert exchange.called() == [ANN]


def test_a_lost_answer_is_told_as_such(admin: httpx.Client, exchange: Exchange) -> None:
    exchange.lost.append(True)
    channel(admin, exchange, "played_sms", asks=False)
    document, logged = tried(admin)
    assert (document["outcome"], logged["state"]) == ("ambiguous", "unknown")
    assert exchange.called() == [ANN, BEN]


def test_a_receipt_tells_how_a_test_ended(
    admin: httpx.Client, exchange: Exchange, services: Services
) -> None:
    """Nobody else is called when the first one does not answer."""
    exchange.fates |= {ANN: "no_answer"}
    channel(admin, exchange, "played_phone")
    _, logged = tried(admin)
    writer = Writer(services.store)
    tools = Tools(
        services.store, writer, Leases(), services.box, network_of(services.settings), services.settings
    )
    engine = Engine(tools, 4)
    engine.start()
    try:
        wait_for(lambda: admin.get(f"/deliveries/{logged['id']}").json()["state"] == "failed", timeout_s=15)
    finally:
        engine.stop()
    shown = admin.get(f"/deliveries/{logged['id']}").json()
    assert shown["why"] == f"nobody answered: {ANN} (no_answer)"
    assert [one["trigger"] for one in shown["attempts"]] == ["test", RECEIPT]
    assert exchange.called() == [ANN]
