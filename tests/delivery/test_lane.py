"""The quick way: what is plain is sent by one thread, and no receiver, adapter or end of it is another's
trouble."""

import threading
from typing import TYPE_CHECKING

import pytest

from channels import registry
from notifier.engine import Engine
from tests.channels.sockets import Server
from tests.delivery.odd import CLASSES

if TYPE_CHECKING:
    from tests.delivery.conftest import House

pytestmark = pytest.mark.timeout(60)


@pytest.fixture
def server() -> Server:
    return Server().gated()


def test_many_wait_for_a_slow_receiver_at_once_and_no_other_for_it(house: "House", server: Server) -> None:
    with server.running() as url, house.working(64) as engine:
        slow, quick = house.channel("slow", url=url), house.channel("quick")
        many = [house.alert(slow)[0] for _ in range(20)]
        engine.wake(house.shards)
        house.until(lambda: sum(server.asked.values()) == 16)  # a fourth of the senders
        house.told(*house.alert(quick))
        assert sum(server.asked.values()) == 16
        server.gate.release(20)
        house.told(*many)
    assert sum(server.asked.values()) == 20


def test_a_stop_waits_for_the_answer(house: "House", server: Server) -> None:
    with server.running() as url:
        engine = Engine(house.tools(), 16)
        engine.start()
        (one,) = house.alert(house.channel(url=url))
        house.until(lambda: server.asked)
        stop = threading.Thread(target=engine.stop)
        stop.start()
        (later,) = house.alert(house.channel("later"))
        stop.join(0.2)
        assert stop.is_alive()
        server.gate.release()
        stop.join(20)
        house.told(one)
    assert (house.row(later).state, house.attempts(one)[0].outcome) == ("pending", "delivered")


@pytest.mark.parametrize(("kind", "arrived"), [("unwritable", 0), ("unreadable", 2)])
def test_a_fault_of_an_adapter_is_its_own(
    house: "House", kind: str, arrived: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "_CLASSES", {**registry._CLASSES, **CLASSES})
    odd = house.channel("odd", kind, url=house.providers.robot("webhook").url)
    channels = [house.channel("a"), odd, house.channel("b")]
    with house.working() as engine:
        first, ill, last = house.alert(*channels)
        house.told(first, last)
        house.until(lambda: house.row(ill).state == "retrying")
        (attempt,) = house.attempts(ill)
        assert (attempt.outcome, attempt.provider_code) == ("ambiguous", "internal_error")
        assert "secret" not in str(attempt.provider_message)
        house.hasten(ill)
        engine.wake(house.shards)
        house.until(lambda: house.row(ill).attempt_count == 2)
        house.told(*house.alert(channels[0]))
    assert sum(one.id == ill for one in house.providers.messages()) == arrived


def test_a_fault_once_there_is_an_answer_gives_all_back(
    house: "House", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "_CLASSES", {**registry._CLASSES, **CLASSES})
    channel = house.channel("odd", "uncertain", url=house.providers.robot("webhook").url)
    with house.working() as engine:
        (ill,) = house.alert(channel)
        house.until(lambda: house.row(ill).state == "retrying")
        house.until(lambda: not engine._slots.busy)
        assert not engine._tools.leases
    assert [one.outcome for one in house.attempts(ill)] == ["ambiguous"]
