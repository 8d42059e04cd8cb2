"""A text and a call through a real server: from the channel's creation to the provider's receipt."""

from typing import Any

import pytest

from channels.standin import Account, Fate
from tests.e2e.conftest import System, until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]
ALICE, BOB = "+8613800001111", "+8613900002222"


def account(system: System, **settings: Any) -> Account:
    templates = {"SMS_1": "任务告警：${title}", "TTS_1": "任务告警：${title}"}
    return system.providers.account("aliyun", signs=frozenset({"故障通"}), templates=templates, **settings)


def channel(system: System, name: str, kind: str, customer: Account, **config: Any) -> dict[str, Any]:
    given = {
        "provider": "aliyun", "to": [ALICE, BOB], "endpoint": customer.endpoint,
        "params": {"title": "{{ title }}"},
        "credentials": {"access_key_id": customer.key, "access_key_secret": customer.secret}, **config,
    }  # fmt: skip
    made: dict[str, Any] = system.client.post("/channels", {"name": name, "kind": kind, "config": given})
    return made


def delivery(system: System, name: str, state: str) -> dict[str, Any]:
    body = {"severity": "critical", "title": "训练 llm 挂起 http://10.0.0.1/x", "channels": [name]}
    (one,) = system.client.post("/alerts", body)["deliveries"]

    def reached() -> dict[str, Any] | None:
        found: dict[str, Any] = system.client.get(f"/deliveries/{one}")
        return found if found["state"] == state else None

    return until(reached, f"{state} of {one}")


def test_a_text_is_delivered_when_its_receipts_say_so(system: System) -> None:
    customer = account(system)
    made = channel(system, "oncall-sms", "sms", customer, template_id="SMS_1", sign_name="故障通")
    assert made["config"]["credentials"] == {"access_key_id": "***", "access_key_secret": "***"}
    told = delivery(system, "oncall-sms", "delivered")
    assert [(one["to"], one["outcome"]) for one in told["recipients"]] == [
        (ALICE, "delivered"), (BOB, "delivered")
    ]  # fmt: skip
    assert {("alert", "accepted"), ("receipt", "delivered")} == {
        (one["trigger"], one["outcome"]) for one in told["attempts"]
    }
    (read,) = system.providers.messages("sms", accepted=True)
    assert read.text == "【故障通】任务告警：训练 llm 挂起"
    assert set(read.called) == {ALICE, BOB}
    assert customer.secret not in str(told)
    assert customer.key not in str(told)


def test_a_text_that_no_handset_got_is_failed(system: System) -> None:
    customer = account(system, fates={ALICE: Fate.FAILED})
    channel(system, "lost-sms", "sms", customer, template_id="SMS_1", sign_name="故障通", to=[ALICE])
    told = delivery(system, "lost-sms", "failed")
    assert [(one["outcome"], one["code"]) for one in told["recipients"]] == [("refused", "MK:0001")]


def test_the_next_one_is_called_when_nobody_answers(system: System) -> None:
    customer = account(system, fates={ALICE: Fate.NO_ANSWER})
    channel(system, "oncall-phone", "phone", customer, template_id="TTS_1")
    told = delivery(system, "oncall-phone", "delivered")
    calls = [one.called for one in system.providers.messages("phone", accepted=True)]
    assert calls == [(ALICE,), (BOB,)]
    assert {one["to"]: one["outcome"] for one in told["recipients"]} == {ALICE: "refused", BOB: "delivered"}
