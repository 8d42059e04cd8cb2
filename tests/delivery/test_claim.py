"""Claims, leases and pace in the database: who gets what, when, and what becomes of a lost worker's."""

import threading
import time
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import select, update

from channels.base import Answer, Outcome
from channels.registry import ADAPTERS
from notifier import meters
from notifier.attempts import Intent, complete, intend
from notifier.claim import Claim, Claiming, due_shards
from notifier.clock import utcnow
from notifier.leases import LEASE, Leases, Slots, renew
from notifier.model import Alert, Attempt, Channel, Delivery, Shard
from notifier.reaper import reap

if TYPE_CHECKING:
    from tests.delivery.conftest import House

pytestmark = pytest.mark.timeout(60)
LATER = LEASE + timedelta(seconds=1)


def claim(house: "House", *, at: datetime | None = None, worker: str = "w1", slots: int = 400) -> Claim:
    """All that is due, as one worker would claim it at that moment."""
    whole = Claim(worker)
    with house.store.write() as session:
        now = at or house.store.now(session)
        for shard in due_shards(session, now):
            part = Claiming(session, worker, Slots(slots), now).shards([shard])
            whole.rows += part.rows
            whole.again_at = part.again_at or whole.again_at
            whole.is_starved |= part.is_starved
    return whole


def ids(claim: Claim) -> list[str]:
    return [row.id for row in claim.rows]


def begin(house: "House", delivery: str, *, worker: str = "w1", parts: int = 1, part: int = 1) -> int | None:
    """The intent to send a part of it."""
    row = house.row(delivery)
    with house.store.write() as session:
        (meter,) = meters.of(session, [row.channel_id])[row.channel_id]
        intent = Intent(
            delivery_id=delivery, channel_id=row.channel_id, token=worker, n=row.attempt_count + (part == 1),
            part=part, parts=parts, trigger="alert", possible_duplicate=False, meters={"": meter},
            limits={meter: ADAPTERS[row.kind].limits},
        )  # fmt: skip
        return intend(session, intent, house.store.now(session)).attempt_id


def end(house: "House", attempt: int | None, outcome: Outcome = Outcome.DELIVERED) -> None:
    assert attempt is not None
    with house.store.write() as session:
        complete(session, attempt, Answer(outcome), house.store.now(session))


def sent(house: "House", channel: str, count: int, *, ago_s: float) -> None:
    """Sends in the past."""
    moment = utcnow() - timedelta(seconds=ago_s)
    (one,) = house.alert(channel)
    house.edit(one, state="delivered", next_attempt_at=None)
    with house.store.write() as session:
        attempts = [
            Attempt(
                delivery_id=one, channel_id=channel, n=1, part=1, parts=1, trigger="alert", lease_token="old",
                started_at=moment, finished_at=moment, outcome="delivered", recipients=[],
            )
            for _ in range(count)
        ]  # fmt: skip
        session.add_all(attempts)
        session.flush()
        for attempt in attempts:
            meters.use(session, meters.of(session, [channel])[channel], attempt.id, moment)


def test_what_is_claimed_is_nobody_elses(house: "House") -> None:
    channel = house.channel()
    wanted = [house.alert(channel)[0] for _ in range(3)]
    assert ids(claim(house)) == wanted
    assert ids(claim(house, worker="w2")) == []
    assert house.states(wanted) == ["sending"] * 3


def test_two_workers_at_once_never_claim_the_same(house: "House") -> None:
    channels = [house.channel(f"c{n}") for n in range(8)]
    wanted = [one for channel in channels for _ in range(10) for one in house.alert(channel)]
    got: dict[str, list[str]] = {"w1": [], "w2": [], "w3": []}

    def work(token: str) -> None:
        deadline = time.monotonic() + 60
        while sum(map(len, got.values())) < len(wanted) and time.monotonic() < deadline:
            got[token] += ids(claim(house, worker=token, slots=8))

    threads = [threading.Thread(target=work, args=(token,)) for token in got]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    everything = [one for found in got.values() for one in found]
    assert sorted(everything) == sorted(wanted)
    assert ids(claim(house)) == []
    assert {house.row(one).lease_token for one in got["w2"]} <= {"w2"}


def test_each_claim_gives_the_next_bell_another_name(house: "House") -> None:
    channel = house.channel()
    generations = []
    for _ in range(3):
        house.alert(channel)
        claim(house)
        with house.store.read() as session:
            generations.append(session.scalars(select(Shard.generation)).one())
    assert generations == [1, 2, 3]


def test_no_more_than_a_share_and_what_is_left_stays_due(house: "House") -> None:
    channel = house.channel()
    wanted = [house.alert(channel)[0] for _ in range(12)]
    first = claim(house, slots=16)
    assert ids(first) == wanted[:4]
    assert first.is_starved
    assert ids(claim(house, slots=16)) == wanted[4:8]


def test_nothing_is_claimed_that_has_to_wait_for_its_turn(house: "House") -> None:
    ding = house.channel("ding", "dingtalk")
    sent(house, ding, 10, ago_s=40)
    wanted = [house.alert(ding)[0] for _ in range(4)]
    found = claim(house)
    assert ids(found) == wanted[:2]  # twelve of twenty places are for single alerts that are not critical
    assert house.states(wanted) == ["sending", "sending", "pending", "pending"]
    wait = house.row(wanted[2]).next_attempt_at - utcnow()
    assert 19 < wait.total_seconds() < 22
    assert found.again_at == house.row(wanted[2]).next_attempt_at
    assert house.row(wanted[2]).why == "waits for its turn"
    assert ids(claim(house, at=utcnow() + timedelta(seconds=22), worker="w2"))[-1] in wanted[2:]


def test_claims_that_have_not_sent_yet_count_against_the_limit(house: "House") -> None:
    ding = house.channel("ding", "dingtalk")
    for _ in range(21):
        house.alert(ding)
    assert len(claim(house).rows) == 12
    assert claim(house, worker="w2").rows == []


def test_what_would_wait_too_long_is_claimed_as_one_digest(house: "House") -> None:
    ding = house.channel("ding", "dingtalk")
    wanted = [house.alert(ding, job=f"j{n}")[0] for n in range(40)]
    assert ids(claim(house)) == wanted[:12]
    late = house.row(wanted[12]).next_attempt_at
    assert 4 < (late - house.row(wanted[12]).created_at).total_seconds() < 6
    (another,) = house.alert(ding)
    (digest,) = claim(house, at=late, worker="w2").rows
    assert digest.is_digest
    assert {house.row(one).merged_into for one in (*wanted[12:], another)} == {digest.id}


def test_critical_ones_beyond_their_share_are_told_in_the_next_digest(house: "House") -> None:
    ding = house.channel("ding", "dingtalk")
    sent(house, ding, 16, ago_s=1)
    wanted = [house.alert(ding, severity="critical")[0] for _ in range(6)]
    normal = [house.alert(ding)[0] for _ in range(2)]
    assert claim(house, slots=4000).rows == []
    (digest,) = claim(house, at=utcnow() + timedelta(seconds=3), worker="w2").rows
    assert {house.row(one).merged_into for one in wanted} == {digest.id}
    assert digest.severity == "critical"
    assert house.states(normal) == ["pending", "pending"]


def test_channels_to_one_robot_share_its_limit(house: "House") -> None:
    robot = house.providers.robot("dingtalk").url
    one, two = (house.channel(name, "dingtalk", webhook_url=robot) for name in ("one", "two"))
    for _ in range(10):
        house.alert(one, two)
    assert len(claim(house).rows) == 12
    assert claim(house, worker="w2").rows == []


def test_a_channel_made_anew_remembers_what_its_robot_was_sent(house: "House") -> None:
    robot = house.providers.robot("dingtalk").url
    old = house.channel("ding", "dingtalk", webhook_url=robot)
    sent(house, old, 20, ago_s=1)
    with house.store.write() as session:
        session.delete(session.get_one(Channel, old))
    house.alert(house.channel("ding", "dingtalk", webhook_url=robot))
    assert claim(house).rows == []


def test_parts_under_way_count_each(house: "House") -> None:
    ding = house.channel("ding", "dingtalk")
    sent(house, ding, 8, ago_s=1)
    (long,) = house.alert(ding)
    claim(house)
    end(house, begin(house, long, parts=3))
    wanted = [house.alert(ding)[0] for _ in range(3)]
    assert ids(claim(house, worker="w2")) == wanted[:1]  # 8 sent, 1 part told, 2 parts promised


def test_an_answer_that_took_long_keeps_its_place_long(house: "House") -> None:
    ding = house.channel("ding", "dingtalk")
    sent(house, ding, 20, ago_s=70)
    with house.store.write() as session:
        session.execute(update(Attempt).values(finished_at=utcnow() - timedelta(seconds=50)))
    house.alert(ding)
    assert claim(house).rows == []


def test_a_paused_channel_is_left_alone(house: "House") -> None:
    ding, other = house.channel("ding", "dingtalk"), house.channel()
    pause = utcnow() + timedelta(seconds=600)
    house.edit_channel(ding, paused_until=pause)
    (waits,), (goes,) = house.alert(ding), house.alert(other)
    assert ids(claim(house)) == [goes]
    assert house.row(waits).next_attempt_at == pause


def test_critical_goes_first_when_there_is_one_turn(house: "House") -> None:
    ding = house.channel("ding", "dingtalk")
    sent(house, ding, 11, ago_s=1)
    (normal,) = house.alert(ding)
    (critical,) = house.alert(ding, severity="critical")
    assert ids(claim(house)) == [critical, normal]


def test_a_share_is_kept_for_what_is_critical(house: "House") -> None:
    ding = house.channel("ding", "dingtalk")
    sent(house, ding, 12, ago_s=1)
    house.alert(ding)
    wanted = [house.alert(ding, severity="critical")[0] for _ in range(4)]
    assert ids(claim(house, slots=4000)) == wanted


def test_a_lease_that_ran_out_before_anything_was_sent_costs_nothing(house: "House") -> None:
    (one,) = house.alert(house.channel())
    claim(house)
    again = claim(house, at=utcnow() + LATER, worker="w2")
    assert ids(again) == [one]
    row = house.row(one)
    assert (row.tries, row.attempt_count, house.attempts(one)) == (0, 0, [])


def test_a_lease_that_ran_out_after_the_intent_leaves_a_doubt(house: "House") -> None:
    (one,) = house.alert(house.channel())
    claim(house)
    begin(house, one)
    again = claim(house, at=utcnow() + LATER, worker="w2")
    (attempt,) = house.attempts(one)
    assert ids(again) == [one]
    assert (attempt.outcome, attempt.provider_code) == ("ambiguous", "worker_lost")
    assert (house.row(one).tries, house.row(one).lease_token) == (1, "w2")


def test_a_message_that_keeps_killing_workers_waits_longer(house: "House") -> None:
    (one,) = house.alert(house.channel())
    moment = utcnow()
    for token in ("w1", "w2"):
        claim(house, at=moment, worker=token)
        begin(house, one, worker=token)
        moment += LATER
    assert claim(house, at=moment, worker="w3").rows == []
    assert house.row(one).next_attempt_at > moment


def test_an_old_worker_can_neither_begin_nor_end_what_is_not_its_own(house: "House") -> None:
    (one,) = house.alert(house.channel())
    claim(house)
    attempt = begin(house, one)
    claim(house, at=utcnow() + LATER, worker="w2")
    assert begin(house, one, worker="w1") is None
    end(house, attempt)  # a late outcome is kept on its attempt
    assert house.attempts(one)[0].outcome == "delivered"
    assert house.states([one]) == ["sending"]


def test_a_renewed_lease_is_kept_and_a_lost_one_is_noticed(house: "House") -> None:
    kept, lost = house.alert(house.channel())[0], house.alert(house.channel("other"))[0]
    claim(house)
    leases = Leases()
    leases.hold([kept, lost], "w1", since=0.0)
    house.edit(lost, lease_token="w2")
    held = leases.snapshot()
    with house.store.write() as session:
        renewed = renew(session, held, utcnow() + LATER)
    assert renewed == {kept: "w1"}
    assert leases.renewed(renewed, held, since=1e12) == []  # it may have been settled just now
    assert leases.renewed(renewed, held, since=1e12) == [lost]
    assert leases.is_ours(kept, "w1")
    assert not leases.is_ours(lost, "w1")
    assert ids(claim(house, at=utcnow() + LATER, worker="w3")) == [lost]


def test_deliveries_of_a_disabled_channel_are_closed_with_a_reason(house: "House") -> None:
    channel = house.channel()
    (one,) = house.alert(channel)
    house.edit_channel(channel, enabled=False)
    assert claim(house).rows == []
    assert (house.row(one).state, bool(house.row(one).why)) == ("suppressed", True)


def test_what_was_on_its_way_on_a_deleted_channel_is_closed(house: "House") -> None:
    channel = house.channel()
    (one,) = house.alert(channel)
    claim(house)
    begin(house, one)
    with house.store.write() as session:
        session.delete(session.get_one(Channel, channel))
    with house.store.write() as session:
        reap(session, utcnow() + LATER)
    assert (house.row(one).state, house.attempts(one)[0].outcome) == ("failed", "ambiguous")


def test_held_deliveries_grow_too_old(house: "House") -> None:
    (one,) = house.alert(house.channel())
    house.edit(one, state="held", next_attempt_at=None, expires_at=utcnow())
    with house.store.write() as session:
        reap(session, utcnow())
    assert house.states([one]) == ["expired"]


def test_a_poll_of_many_finished_deliveries_finds_the_few_due_ones(house: "House") -> None:
    channel = house.channel()
    wanted: Sequence[str] = house.alert(channel)
    with house.store.write() as session:
        row = house.row(wanted[0])
        copy = {c.name: getattr(row, c.name) for c in Delivery.__table__.columns}
        rows = [{**copy, "id": f"dlv_{n:06}", "state": "delivered"} for n in range(2000)]
        session.execute(Delivery.__table__.insert(), rows)  # type: ignore[attr-defined]
    assert ids(claim(house)) == wanted


def test_an_alert_that_nobody_repeats_is_closed(house: "House") -> None:
    (one,) = house.alert(house.channel())
    alert_id = house.row(one).alert_id
    ended = utcnow()
    with house.store.write() as session:
        alert = session.get_one(Alert, alert_id)
        alert.dedup_key, alert.expires_at = "k", ended
    with house.store.write() as session:
        reap(session, ended)
    with house.store.read() as session:
        alert = session.get_one(Alert, alert_id)
    assert (alert.status, alert.resolved_at) == ("resolved", ended)


def test_more_channels_than_one_claim_looks_at_are_all_served(house: "House") -> None:
    shard = 5
    channels = [house.channel(f"c{n}") for n in range(60)]
    for channel in channels:
        house.edit_channel(channel, shard=shard)
    wanted = house.alert(*channels)
    with house.working(concurrency=64):
        house.told(*wanted)


def test_trouble_with_one_channel_leaves_the_others_alone(house: "House") -> None:
    bad, good = house.channel("bad"), house.channel("good")
    for channel in (bad, good):
        house.edit_channel(channel, shard=5)
    stuck, fine = house.alert(bad, good)
    house.edit(stuck, recipients=None, severity="no such severity", order_key="k")
    house.edit(house.alert(bad)[0], severity="no such severity", order_key="k")
    with house.working():
        house.told(fine)
    assert house.states([stuck]) == ["pending"]


def test_sends_that_a_lost_worker_began_do_not_keep_the_others_digest(house: "House") -> None:
    """Twelve wait for a place of their own again; the others are told together within seconds."""
    ding = house.channel("ding", "dingtalk")
    wanted = [house.alert(ding, job=f"j{n}", title=f"{n}")[0] for n in range(60)]
    for one in ids(claim(house)):
        begin(house, one)
    house.lapse()
    with house.working() as engine:
        engine.wake(house.shards)
        house.told(*wanted[12:], state="merged", timeout_s=12)
    assert house.states(wanted[:12]) == ["retrying"] * 12
    assert len(house.providers.messages("dingtalk", accepted=True)) == 1


def test_a_claim_promises_a_turn_for_the_message_that_calls_people_too(house: "House") -> None:
    """Twelve of WeCom's places are for single alerts: six of those that call phone numbers."""
    robot = house.providers.robot("wecom")
    known = {"webhook_url": robot.url, "mentioned_mobiles": ["13800001111"]}
    one, two = (house.channel(name, "wecom", **known) for name in ("one", "two"))
    first = [house.alert(one)[0] for _ in range(4)]
    quiet = [house.alert(one, severity="warning")[0], house.alert(one, status="resolved")[0]]
    assert ids(claim(house)) == [*first, *quiet]  # ten places
    begin(house, first[0], parts=2)
    later = [house.alert(two)[0] for _ in range(3)]
    assert ids(claim(house, worker="w2")) == later[:1]
