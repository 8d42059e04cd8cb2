"""Graceful restarts under load: nothing is lost, and there is no excuse for a copy."""

import os
import signal
import threading
import time
from typing import TYPE_CHECKING

import pytest

from channels.standin import Scripted
from tests.delivery.breaking import Producer, balance, free_port

if TYPE_CHECKING:
    from tests.delivery.conftest import House, Processes

pytestmark = pytest.mark.timeout(150)
ROUNDS = 2
CHANNELS = ("one", "two", "three")


def test_server_and_workers_are_restarted_one_by_one(house: "House", processes: "Processes") -> None:
    """`bench/chaos.py --restarts` does it for longer."""
    house.providers.script("webhook", *[Scripted(delay_s=0.1), Scripted(), Scripted(delay_s=0.3)] * 500)
    for name in CHANNELS:
        house.channel(name)
    port = free_port()
    server, workers = processes.server(port), [processes.worker(), processes.worker()]
    producer = Producer.of(house, f"http://127.0.0.1:{port}")
    stop = threading.Event()

    def produce() -> None:
        count = 0
        while not stop.wait(0.05):
            count += 1
            producer.publish(f"alert {count}", *CHANNELS)

    load = threading.Thread(target=produce)
    load.start()
    for _ in range(ROUNDS):
        for n in range(len(workers)):
            assert processes.term(workers[n]) == 0
            workers[n] = processes.worker()
        assert processes.term(server) == 0
        server = processes.server(port)
    stop.set()
    load.join()
    told = [one for ids in producer.accepted.values() for one in ids]
    house.told(*told, timeout_s=30)
    assert balance(house, told) == 0
    assert len(house.rows()) == len(told)
    assert not any(attempt.possible_duplicate for one in told for attempt in house.attempts(one))


def test_all_at_once_in_the_middle_of_sends(house: "House", processes: "Processes") -> None:
    house.providers.script("webhook", *[Scripted(delay_s=1)] * 12)
    channels = [house.channel(f"c{n}") for n in range(6)]
    leaving = [processes.worker(), processes.worker()]
    told = [one for _ in range(2) for one in house.alert(*channels)]
    house.providers.wait(6)
    for pid in leaving:
        os.kill(pid, signal.SIGTERM)
    began = time.monotonic()
    assert [processes.exit_code(pid) for pid in leaving] == [0, 0]
    assert time.monotonic() - began < 10
    with house.working():
        house.told(*told)
    assert balance(house, told) == 0
