"""What begins and ends together: many plain sends, in the log like any other; one lost lease spoils none."""

import threading
import time
from typing import TYPE_CHECKING

import pytest

from channels.standin import Scripted
from notifier.beginning import Beginner
from notifier.claim import Claiming, due_shards
from notifier.keeping import keep
from notifier.leases import Slots
from notifier.tasks import Task, load
from tests.scarce import no_more_threads

if TYPE_CHECKING:
    from tests.delivery.conftest import House

pytestmark = pytest.mark.timeout(60)


def claimed(house: "House") -> list[Task]:
    found: list[Task] = []
    with house.store.write() as session:
        now = house.store.now(session)
        claim = Claiming(session, "w1", Slots(400), now).shards(due_shards(session, now))
        found += load(session, claim.rows, claim.channels, "w1", now)
    return found


def beginner(house: "House") -> Beginner:
    tools = house.tools()
    return Beginner(tools.store, tools.writer, tools.box, tools.settings)


def test_many_are_told_and_logged_each_by_itself(house: "House") -> None:
    channels = [house.channel(f"c{n}") for n in range(6)]
    ids = [one for n in range(10) for one in house.alert(*channels, title=f"alert {n}")]
    with house.working(64):
        house.told(*ids, timeout_s=30)
    assert len(house.providers.messages(accepted=True)) == 60
    for one in ids:
        row, (attempt,) = house.row(one), house.attempts(one)
        assert (attempt.outcome, attempt.http_status, attempt.n, attempt.trigger) == (
            "delivered", 200, 1, "alert",
        )  # fmt: skip
        assert row.created_at <= attempt.claimed_at <= attempt.started_at <= attempt.finished_at
        assert (row.attempt_count, row.lease_token, row.delivered_at) == (1, None, attempt.finished_at)
        assert row.message["title"]
    assert all(house.get_channel(channel).health == "ok" for channel in channels)


def test_one_whose_lease_is_lost_keeps_the_others_from_nothing(house: "House") -> None:
    channel = house.channel()
    ids = [house.alert(channel)[0] for _ in range(4)]
    tasks = claimed(house)
    house.edit(ids[2], lease_token="another")
    assert beginner(house).begin(tasks) == {}
    assert [len(house.attempts(one)) for one in ids] == [0, 0, 0, 0]
    house.edit(ids[2], lease_token="w1")
    assert set(beginner(house).begin(tasks)) == set(ids)
    assert [len(house.attempts(one)) for one in ids] == [1, 1, 1, 1]


def test_a_fault_of_ours_leaves_them_to_their_senders(house: "House") -> None:
    house.alert(house.channel())
    tasks, one = claimed(house), beginner(house)
    with one.writer.turn, no_more_threads("writer"):  # another has the turn, so a thread is wanted
        assert one.begin(tasks) == {}
    assert len(one.begin(tasks)) == 1


def test_a_fault_of_ours_does_not_end_the_renewing_of_leases(
    house: "House", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("notifier.keeping.RENEW_EVERY_S", 0.05)
    (one,) = house.alert(house.channel())
    claimed(house)
    tools, ended = house.tools(), threading.Event()
    tools.leases.hold([one], "w1", time.monotonic())
    keeper = threading.Thread(target=keep, args=(tools, ended))
    with tools.writer.turn, no_more_threads("writer") as refused:
        keeper.start()
        house.until(lambda: refused)
        before = house.row(one).lease_until
    house.until(lambda: house.row(one).lease_until > before)
    ended.set()
    keeper.join()


def test_what_has_a_limit_or_was_tried_before_begins_by_itself(house: "House") -> None:
    plain, limited = house.channel("plain"), house.channel("ding", "dingtalk")
    (first,) = house.alert(plain)
    (second,) = house.alert(limited)
    (third,) = house.alert(plain, title="tried")
    house.edit(third, attempt_count=1, state="retrying")
    assert set(beginner(house).begin(claimed(house))) == {first}
    assert second != third


def test_bad_news_of_one_among_many_is_settled_as_ever(house: "House") -> None:
    house.providers.script("webhook", Scripted(status=500))
    channel = house.channel()
    ids = [house.alert(channel)[0] for _ in range(8)]
    with house.working():
        house.until(lambda: sorted(house.states(ids)) == ["delivered"] * 7 + ["retrying"])
    (again,) = [house.row(one) for one in ids if house.row(one).state == "retrying"]
    assert (again.tries, again.error_code, again.lease_token) == (1, "500", None)
