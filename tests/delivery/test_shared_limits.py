"""One robot's limit, kept by all channels to it and by all workers together; and its penalty."""

import threading
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import select, update

from channels import registry
from channels.standin import Scripted
from channels.standin.robots import Meter, Window
from notifier.clock import utcnow
from notifier.model import ChannelMeter, MeterUse
from notifier.reaper import reap
from tests.delivery.hasty import CLASSES, COUNT, SECONDS

if TYPE_CHECKING:
    from tests.delivery.conftest import House, Processes

pytestmark = pytest.mark.timeout(120)
HOUR = timedelta(hours=1)
TOO_FAST = Scripted(status=200, body={"errcode": 130101, "errmsg": "send too fast"})


@pytest.fixture(autouse=True)
def _hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_CLASSES", {**registry._CLASSES, **CLASSES})


def robots(house: "House", kind: str, *names: str) -> list[str]:
    """Channels to one robot."""
    robot = house.providers.robot("dingtalk")
    if kind == "hasty":
        robot.meter = Meter((Window(COUNT, SECONDS, penalty_s=60.0),))
    return [house.channel(name, kind, webhook_url=robot.url) for name in names]


def test_two_workers_and_two_channels_never_exceed_one_robots_limit(
    house: "House", processes: "Processes"
) -> None:
    one, two = robots(house, "hasty", "one", "two")
    for _ in range(2):
        processes.worker()
    ids = [
        delivery
        for n in range(40)
        for delivery in house.alert(one, two, job=f"j{n}", severity="critical" if n % 8 == 0 else "error")
    ]
    house.until(lambda: {row.state for row in house.rows()} <= {"delivered", "merged"})
    assert len(house.rows()) >= len(ids)
    assert house.providers.messages(accepted=False) == []
    assert {attempt.outcome for one in ids for attempt in house.attempts(one)} == {"delivered"}


def test_engines_that_claim_at_the_same_moment_keep_the_limit(house: "House") -> None:
    """Channels of all shards, so that only the meter keeps the claims apart."""
    channels = robots(house, "dingtalk", *(f"c{n}" for n in range(8)))
    for n in range(40):
        house.alert(*channels, job=f"j{n}")
    barrier = threading.Barrier(3)

    def work() -> None:
        with house.working(concurrency=32) as engine:
            barrier.wait()
            engine.wake(house.shards)
            barrier.wait()

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    barrier.wait()
    house.until(lambda: len(house.providers.messages(accepted=True)) >= 12)
    barrier.wait()
    for thread in threads:
        thread.join()
    assert house.providers.messages(accepted=False) == []


def test_channels_that_know_their_robot_by_an_older_name_share_its_limit_from_the_start(
    house: "House",
) -> None:
    robot = house.providers.robot("dingtalk")
    one, _ = (house.channel(f"c{n}", "dingtalk", webhook_url=robot.url + "&" * n) for n in range(2))
    with house.store.write() as session:
        session.execute(update(ChannelMeter).where(ChannelMeter.channel_id == one).values(meter="old"))
    with house.working(), house.store.read() as session:
        (name,) = set(session.scalars(select(ChannelMeter.meter)))
    assert name.startswith("dingtalk:")


def test_a_penalty_is_every_channels_to_that_robot(house: "House") -> None:
    house.providers.script("dingtalk", TOO_FAST)
    (one, two), (other,) = robots(house, "dingtalk", "one", "two"), robots(house, "dingtalk", "other")
    with house.working():
        (first,) = house.alert(one)
        house.told(first, state="retrying")
    paused = house.get_channel(one).paused_until
    assert paused is not None
    assert (house.get_channel(two).paused_until, house.get_channel(other).paused_until) == (paused, None)


def test_a_second_penalty_counts_as_one_whichever_channel_met_the_first(house: "House") -> None:
    house.providers.script("dingtalk", TOO_FAST, TOO_FAST)
    one, two = robots(house, "dingtalk", "one", "two")
    with house.working() as engine:
        house.told(*house.alert(one), state="retrying")
        for channel in (one, two):
            house.edit_channel(channel, paused_until=None)
        (second,) = house.alert(two)
        engine.wake(house.shards)
        house.told(second, state="retrying")
    paused = house.get_channel(one).paused_until
    assert paused is not None
    assert 590 < (paused - utcnow()).total_seconds() <= 601


def test_channels_from_before_there_were_meters_get_theirs_when_a_worker_starts(house: "House") -> None:
    one, two = robots(house, "dingtalk", "one", "two")
    with house.store.write() as session:
        for row in session.scalars(select(ChannelMeter)).all():
            session.delete(row)
    with house.working(), house.store.read() as session:
        found = session.scalars(select(ChannelMeter).order_by(ChannelMeter.channel_id)).all()
    assert [row.channel_id for row in found] == sorted([one, two])
    assert len({row.meter for row in found}) == 1


def test_a_send_that_counts_in_no_window_any_more_is_forgotten(house: "House") -> None:
    (one,) = robots(house, "dingtalk", "one")
    with house.working():
        house.told(*house.alert(one))
    counts = []
    for hours in (23, 26):
        with house.store.write() as session:
            reap(session, utcnow().replace(microsecond=0) + hours * HOUR)
            counts.append(len(session.scalars(select(MeterUse)).all()))
    assert counts == [1, 0]
