"""A package that brought a kind is uninstalled: its channels fail aloud, and nobody else suffers."""

from typing import TYPE_CHECKING

import pytest

from notifier.clock import utcnow
from notifier.mending import mended
from notifier.model import Channel

if TYPE_CHECKING:
    from tests.delivery.conftest import House

pytestmark = [
    pytest.mark.timeout(60),
    pytest.mark.parametrize("engine_name", ["sqlite"], indirect=True),
]


def test_its_channel_is_broken_its_fallback_is_told_and_others_go_on(house: "House") -> None:
    gone, there, other = house.channel("gone"), house.channel("there"), house.channel("other")
    house.edit_channel(gone, kind="fax")
    (lost,) = house.alert(gone, fallback=["there"], title="by fax")
    (fine,) = house.alert(other, title="by webhook")
    with house.working():
        house.told(fine)
        house.told(house.fallback_of(lost, there))
    assert sorted(house.arrived()) == ["by fax", "by webhook"]
    assert (house.row(lost).state, house.row(lost).error_code) == ("failed", "no_adapter")
    assert house.get_channel(gone).health == "broken"


def test_what_was_held_is_told_once_the_package_is_back(house: "House") -> None:
    gone = house.channel("gone")
    house.edit_channel(gone, kind="fax")
    (first,) = house.alert(gone, title="first")
    with house.working() as engine:
        house.told(first, state="failed")
        (second,) = house.alert(gone, title="second")
        engine.wake(house.shards)
        house.told(second, state="held")
        house.edit_channel(gone, kind="webhook")
        with house.store.write() as session:
            mended(session, session.get_one(Channel, gone), utcnow())
        engine.wake(house.shards)
        house.told(second)
    assert house.arrived() == ["second"]
