"""Slots: a slow channel keeps what it has and never gets what others need."""

import pytest

from notifier.leases import Slots


def busy(total: int, **channels: int) -> Slots:
    slots = Slots(total)
    for channel, count in channels.items():
        slots.take(channel, count)
    return slots


TABLE = {
    "an idle channel may take its share": (busy(64), 16),
    "a channel never gets more than its share": (busy(64, a=16), 0),
    "what it has counts": (busy(64, a=10), 6),
    "up to the reserve": (busy(64, b=16, c=16, d=14), 2),
    "one of the reserve to a channel that has none": (busy(64, b=16, c=16, d=16), 1),
    "none of the reserve to one that has some": (busy(64, a=1, b=16, c=16, d=16), 0),
    "the last one goes to a channel that has none": (busy(64, b=63), 1),
    "the last one goes to nobody who has one": (busy(64, a=1, b=62), 0),
    "none is free": (busy(64, b=64), 0),
    "one sender in all": (busy(1), 1),
    "two senders": (busy(2), 1),
}


@pytest.mark.parametrize(("slots", "room"), TABLE.values(), ids=TABLE)
def test_room(slots: Slots, room: int) -> None:
    assert slots.room("a") == room


def test_what_is_promised_in_the_same_claim_is_not_free() -> None:
    assert busy(16, b=4).room("a", 6) == 2


def test_however_many_providers_hang_the_next_channel_finds_a_sender() -> None:
    slots = Slots(64)
    for n in range(19):
        room = slots.room(f"hangs-{n}")
        assert room >= 1
        slots.take(f"hangs-{n}", room)


def test_given_back_is_free_again() -> None:
    slots = busy(4, a=1, b=2)
    slots.give_back(["a"])
    slots.give_back(["b", "b"])
    assert slots.busy == 0
