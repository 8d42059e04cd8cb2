"""Texts and calls through every provider's own SDK, from the alert to the provider's last word."""

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import select

from channels.standin import Account, Fate, Scripted
from notifier.clock import rfc3339
from notifier.model import Receipt

if TYPE_CHECKING:
    from tests.delivery.conftest import House

pytestmark = pytest.mark.timeout(120)
ANN, BEN = "+8613800000001", "+8613800000002"
on_sqlite = pytest.mark.parametrize("engine_name", ["sqlite"], indirect=True)
TEXT, COUNTED = "任务${job}故障", "任务{1}故障"
FROM = "+14155550100"


def account(house: "House", provider: str) -> Account:
    text = COUNTED if provider == "tencent" else TEXT
    made: Account = house.providers.account(
        provider,
        signs=frozenset({"故障通"}),
        templates={"T1": text, "101": text},
        senders=frozenset({FROM}),
        app_id="1400",
    )
    return made


def channel(house: "House", kind: str, customer: Account, **config: Any) -> str:
    """A channel of that customer, to two people."""
    key, secret, more = CONFIGS[customer.provider]
    more = {name: value for name, value in more.items() if kind == "sms" or name != "sign_name"}
    credentials = {key: customer.key, secret: customer.secret}
    given = {
        "provider": customer.provider, "to": [ANN, BEN], "credentials": credentials,
        "endpoint": customer.endpoint, **more, **config,
    }  # fmt: skip
    return house.channel(kind, kind, **given)


ALIYUN = {"template_id": "T1", "params": {"job": "{{ title }}"}, "sign_name": "故障通"}
CONFIGS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "aliyun": ("access_key_id", "access_key_secret", ALIYUN),
    "baidu": ("access_key_id", "access_key_secret", ALIYUN),
    "tencent": (
        "secret_id", "secret_key",
        {"template_id": "101", "params": ["{{ title }}"], "sign_name": "故障通", "app_id": "1400"},
    ),
    "twilio": ("account_sid", "auth_token", {"from": FROM}),
}  # fmt: skip


def hasten(house: "House") -> None:
    """Two minutes pass for what the provider is asked about, and it is asked now."""
    with house.store.write() as session:
        for row in session.scalars(select(Receipt)):
            row.due_at -= timedelta(hours=2)
            row.sent = [
                {**one, "at": rfc3339(datetime.fromisoformat(one["at"]) - timedelta(minutes=2))}
                for one in row.sent
            ]


def outcomes(house: "House", delivery: str) -> dict[str, str]:
    return {one["to"]: one["outcome"] for one in house.row(delivery).recipients}


@pytest.mark.parametrize("provider", ["aliyun", "tencent", "twilio", "baidu"])
@on_sqlite
def test_a_text_is_what_its_receipts_say(provider: str, house: "House") -> None:
    customer = account(house, provider)
    customer.fates = {BEN: Fate.FAILED}
    (one,) = house.alert(channel(house, "sms", customer), title="disk full")
    with house.working():
        house.until(lambda: house.row(one).state == "accepted")
        assert outcomes(house, one) == {ANN: "accepted", BEN: "accepted"}
        if provider != "baidu":
            hasten(house)
            house.told(one, state="failed")
            assert outcomes(house, one) == {ANN: "delivered", BEN: "refused"}
    read = house.providers.messages("sms", accepted=True)
    assert sorted(to for message in read for to in message.called) == [ANN, BEN]
    assert all("disk full" in message.text for message in read)


@pytest.mark.parametrize("provider", ["aliyun", "tencent", "twilio"])
@on_sqlite
def test_a_text_whose_answer_was_lost_is_asked_for(provider: str, house: "House") -> None:
    customer = account(house, provider)
    house.providers.script(provider, Scripted(close="before"))
    (one,) = house.alert(channel(house, "sms", customer, to=[ANN]))
    with house.working():
        house.told(one, state="unknown")
        hasten(house)
        house.told(one)
    assert len(house.providers.messages("sms", accepted=True)) == 1
    assert [attempt.trigger for attempt in house.attempts(one)] == ["alert", "receipt"]


@pytest.mark.parametrize("provider", ["aliyun", "twilio"])
@on_sqlite
def test_the_next_one_is_called_when_nobody_answers(provider: str, house: "House") -> None:
    customer = account(house, provider)
    customer.fates = {ANN: Fate.NO_ANSWER}
    (one,) = house.alert(channel(house, "phone", customer))
    with house.working():
        house.told(one, state="accepted")
        hasten(house)
        house.until(lambda: outcomes(house, one) == {ANN: "refused", BEN: "accepted"})
        hasten(house)
        house.told(one)
    called = [message.called for message in house.providers.messages("phone", accepted=True)]
    assert called == [(ANN,), (BEN,)]


@on_sqlite
def test_a_number_is_not_called_oftener_than_the_provider_allows(house: "House") -> None:
    """Aliyun: once a minute. The second alert calls the next person instead; nothing is refused."""
    phone = channel(house, "phone", account(house, "aliyun"))
    with house.working() as engine:
        for _ in range(2):
            (one,) = house.alert(phone, severity="critical")
            engine.wake(house.shards)
            house.told(one, state="accepted")
    assert [message.called for message in house.providers.messages("phone")] == [(ANN,), (BEN,)]
