"""The link by which an alert is taken on: it reaches people, works, and is nowhere in what is kept."""

import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import select

from channels.standin import Scripted
from notifier.acklinks import delivery_of, masked
from notifier.clock import utcnow
from notifier.ends import resolve
from notifier.model import Alert, Attempt, Delivery
from notifier.resending import resend

if TYPE_CHECKING:
    from tests.delivery.conftest import House

PUBLIC = "https://fc.example"
LINK = re.compile(rf"{PUBLIC}/ack/(dlv_\w{{26}}\.[a-z2-7]{{26}})")
KINDS = ("webhook", "dingtalk", "wecom", "feishu", "email")


@pytest.fixture
def public(house: "House") -> "House":
    return replace(house, settings=house.settings.model_copy(update={"public_url": PUBLIC}))


def arrived(house: "House") -> str:
    """All that the provider took."""
    return "\n".join(
        json.dumps([one.body, one.text], default=str) for one in house.providers.messages(accepted=True)
    )


@pytest.mark.parametrize("engine_name", ["sqlite"], indirect=True)
@pytest.mark.parametrize("kind", KINDS)
def test_it_reaches_people_and_is_masked_in_the_log(public: "House", kind: str) -> None:
    (one,) = public.alert(public.channel(kind=kind))
    with public.working():
        public.told(one)
    tokens = set(LINK.findall(arrived(public)))
    assert len(tokens) == 1
    with public.store.read() as session:
        row = delivery_of(session, tokens.pop(), public.box, utcnow())
        assert row is not None
        assert row.id == one
        tables = (Delivery.__table__, Attempt.__table__)
        kept = "".join(str([tuple(row) for row in session.execute(select(table))]) for table in tables)
    assert f"/ack/{one}.***" in kept
    assert not LINK.search(kept)


@pytest.mark.parametrize("engine_name", ["sqlite"], indirect=True)
def test_a_provider_that_repeats_what_it_was_told_gives_nothing_away(public: "House") -> None:
    channel = public.channel()
    (first,) = public.alert(channel)
    with public.working():
        public.told(first)
        said = arrived(public)
        public.providers.script("webhook", Scripted(status=500, body={"error": said}))
        (one,) = public.alert(channel)
        public.told(one, state="retrying")
    (attempt,) = public.attempts(one)
    assert f"{first}.***" in str(attempt.response)
    assert not LINK.search(f"{attempt.response} {attempt.provider_message}")


@pytest.mark.parametrize("engine_name", ["sqlite"], indirect=True)
@pytest.mark.parametrize(
    "what", [{"severity": "warning"}, {"severity": "critical", "status": "resolved"}], ids=["mild", "over"]
)
def test_what_need_not_be_taken_on_has_none(public: "House", what: dict[str, str]) -> None:
    (one,) = public.alert(public.channel(), **what)
    with public.working():
        public.told(one)
    assert arrived(public)
    assert not LINK.search(arrived(public))


def test_nor_has_what_is_sent_again_of_an_alert_that_is_over(public: "House") -> None:
    public.providers.script("webhook", Scripted(status=400))
    (one,) = public.alert(public.channel(kind="webhook"))
    with public.working() as engine:
        public.told(one, state="failed")
        with public.store.write() as session:
            row = session.get_one(Delivery, one)
            resolve(session, alert_id=row.alert_id, now=utcnow(), title="mended")
            new = resend(session, row, utcnow())
        engine.wake([new.shard])
        public.told(new.id)
    (message,) = public.providers.messages(accepted=True)
    assert (message.body["status"], message.body["title"]) == ("resolved", "🟢 Resolved: mended")
    assert message.body["resolved_at"]
    assert not LINK.search(arrived(public))


@pytest.mark.parametrize("engine_name", ["sqlite"], indirect=True)
def test_of_what_nobody_repeated_it_is_said_why_it_counts_as_over(public: "House") -> None:
    public.providers.script("webhook", Scripted(status=400))
    (one,) = public.alert(public.channel(kind="webhook"))
    with public.working() as engine:
        public.told(one, state="failed")
        with public.store.write() as session:
            row = session.get_one(Delivery, one)
            alert = session.get_one(Alert, row.alert_id or "")
            alert.dedup_key, alert.expires_at = "k", utcnow()
            new = resend(session, row, utcnow())
        engine.wake([new.shard])
        public.told(new.id)
    (message,) = public.providers.messages(accepted=True)
    assert (message.body["status"], "not repeated in time" in arrived(public)) == ("resolved", True)


@pytest.mark.parametrize("engine_name", ["sqlite"], indirect=True)
def test_without_an_address_of_ours_there_is_none(house: "House") -> None:
    (one,) = house.alert(house.channel())
    with house.working():
        house.told(one)
    assert "/ack/" not in arrived(house)


@pytest.mark.parametrize("kept", [26, 20, 1])
def test_a_link_that_is_cut_off_is_masked_too(kept: int) -> None:
    token = f"dlv_{'1' * 26}.{'a' * 26}"
    said = f"see https://fc.example/ack/{token[: 31 + kept]}"
    assert masked(said) == f"see https://fc.example/ack/dlv_{'1' * 26}.***"
