"""Two comparisons that Alertmanager's own tests make: many workers do what one does, and a receiver that
fails is no business of one that does not."""

from collections import Counter
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from channels.standin import Scripted
from tests.delivery.breaking import balance, hurry

if TYPE_CHECKING:
    from tests.delivery.conftest import House, Processes

pytestmark = pytest.mark.timeout(120)
SCRIPT = [(job, title) for title in ("stopped", "hangs", "again", "gave up") for job in ("j1", "j2", None)]


def played(house: "House", workers: int) -> Counter[tuple[str, str]]:
    """What arrived where, of one script of alerts that is always the same."""
    names = {house.channel(f"{workers}-{n}"): f"c{n}" for n in range(4)}
    told = []
    with ExitStack() as stack:
        engines = [stack.enter_context(house.working(8)) for _ in range(workers)]
        for job, title in SCRIPT:
            ids = house.alert(*names, job=job and f"{job}-{workers}", title=f"{job} {title}")
            for engine in engines:
                engine.wake(house.shards)
            house.told(*ids)
            told += ids
    channel_of = {one: names[house.row(one).channel_id] for one in told}
    arrived = [one for one in house.providers.messages(accepted=True) if one.id in channel_of]
    return Counter((channel_of[one.id], one.title) for one in arrived)


def test_three_workers_do_what_one_does(house: "House") -> None:
    alone, together = played(house, 1), played(house, 3)
    assert alone == together
    assert set(alone.values()) == {1}
    assert alone.total() == 4 * len(SCRIPT)


def test_a_receiver_that_fails_is_told_when_it_is_back_and_the_other_once(house: "House") -> None:
    """Alertmanager's TestRetry, and #1494: a retry caused by one receiver is not sent to another."""
    well, ill = house.channel("well"), house.channel("ill", "wecom")
    house.providers.script("wecom", *[Scripted(status=500)] * 3)
    with house.working(), house.working():
        told = house.alert(well, ill)
        hurry(house, told)
    copies = Counter(one.kind for one in house.providers.messages(accepted=True))
    assert copies == {"webhook": 1, "wecom": 1}
    assert [len(house.attempts(one)) for one in told] == [1, 4]


def test_a_burst_is_shared_by_all(house: "House", processes: "Processes") -> None:
    channels = [house.channel(f"c{n}") for n in range(8)]
    for _ in range(2):
        processes.worker()
    with house.working():
        told = [one for n in range(25) for one in house.alert(*channels, title=f"{n}")]
        house.told(*told, timeout_s=30)
    balance(house, told)
    assert len(house.rows()) == len(told)
