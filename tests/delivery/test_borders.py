"""What goes wrong with one delivery of a batch is its own trouble: the others are told, and nothing stays
claimed for ever."""

import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from channels.base import Answer, Outcome
from notifier.finishing import PERSIST_S, Finisher, Told
from notifier.settle import Settlement
from notifier.writer import Writer

if TYPE_CHECKING:
    from tests.delivery.conftest import House

pytestmark = pytest.mark.timeout(60)


def test_a_channel_whose_config_is_garbage_keeps_no_other_from_being_told(house: "House") -> None:
    ill, well = house.channel("ill"), house.channel("well")
    with house.working():
        house.edit_channel(ill, config=["garbage"])
        (stuck, told) = house.alert(ill, well)
        house.told(told)
        house.until(lambda: house.row(stuck).state == "retrying")
    assert house.row(stuck).error_code == "internal_error"


def test_an_outcome_that_the_database_cannot_take_is_settled_by_itself_at_once(house: "House") -> None:
    """Such as an answer that cannot be stored: no reason to wait as for a database that is away."""
    (one,) = house.alert(house.channel())
    settled = threading.Event()
    writer = Writer(house.store)
    finisher = Finisher(house.store, writer, lambda _shards: None)
    finisher.start()
    began = time.monotonic()
    finisher.put(_told(house, one, settled, mends=[object()]))
    assert settled.wait(PERSIST_S / 4)
    assert time.monotonic() - began < PERSIST_S / 4
    finisher.close()
    writer.close()


def _told(house: "House", delivery: str, settled: threading.Event, **done: Any) -> Told:
    row = house.row(delivery)

    def careful() -> frozenset[int]:
        settled.set()
        return frozenset()

    answer = Answer(Outcome.DELIVERED)
    known = {"delivery_id": row.id, "token": "t", "n": 1, "channel_id": row.channel_id, "attempt_id": 1}
    settlement = Settlement(**known, answer=answer, outcome=answer.outcome, **done)
    return Told(settlement, row, is_first=False, careful=careful, after=lambda _settled: None)
