"""Words for tests of texts and calls: who is on a channel, and what became of each."""

from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import select

from notifier.model import Receipt
from tests.delivery.exchange import Exchange

if TYPE_CHECKING:
    from tests.delivery.conftest import House

ANN, BEN, CAT = "+8613800000001", "+8613800000002", "+8613800000003"
on_sqlite = pytest.mark.parametrize("engine_name", ["sqlite"], indirect=True)


def sms(house: "House", exchange: Exchange, *to: str, name: str = "sms", **config: Any) -> str:
    return house.channel(name, "played_sms", url=exchange.url, to=to or (ANN,), **config)


def phone(house: "House", exchange: Exchange, *to: str, name: str = "phone", **config: Any) -> str:
    return house.channel(name, "played_phone", url=exchange.url, to=to or (ANN, BEN), **config)


def outcomes(house: "House", delivery: str) -> dict[str, tuple[str, str | None]]:
    return {one["to"]: (one["outcome"], one["code"]) for one in house.row(delivery).recipients}


def story(house: "House", delivery: str) -> list[tuple[int, str, str | None]]:
    return [(one.n, one.trigger, one.outcome) for one in house.attempts(delivery)]


def questions(house: "House") -> list[Receipt]:
    with house.store.read() as session:
        return list(session.scalars(select(Receipt)))
