"""Who is sent now, who is told together, who waits: as one reads it off a list of open deliveries."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest

from channels.base import Limit
from notifier.pace import Book, Lane, Pace, Send
from notifier.plan import Candidate, Merge, Plan, plan
from notifier.waiting import waited_for, waits_for

NOW = datetime(2026, 11, 29, 3, 0, tzinfo=UTC)
LATER = NOW + timedelta(seconds=40)
DAY = timedelta(hours=24)


def new(name: str, key: str = "", **what: object) -> Candidate:
    """An unsent delivery that is due; without a key it is alone with its own."""
    known = {"keys": frozenset({key or name}), "severity": "error", "due_at": NOW, "expires_at": NOW + DAY}
    known["created_at"] = NOW
    return Candidate(name, **{**known, **what})  # type: ignore[arg-type]


def between_tries(name: str, key: str = "", **what: object) -> Candidate:
    return new(name, key, **{"due_at": LATER, "is_tried": True, **what})  # type: ignore[arg-type]


def in_flight(name: str, key: str = "", **what: object) -> Candidate:
    return new(name, key, is_in_flight=True, **what)


def digest(name: str, *keys: str, **what: object) -> Candidate:
    return new(name, **{"keys": frozenset(keys), "is_digest": True, **what})  # type: ignore[arg-type]


def critical(name: str, key: str = "", **what: object) -> Candidate:
    return new(name, key, severity="critical", **what)


def planned(*rows: Candidate, room: int = 100) -> Plan:
    return plan(rows, Pace({}, NOW), room, NOW)


def robot(*sends: Send, start: datetime = NOW) -> Pace:
    """Twenty a minute: twelve for single alerts, four for digests, four for what is critical."""
    return Pace({"m": Book([Limit(20, timedelta(seconds=60))], sends, start)}, start)


def sent(count: int, *, ago_s: float, lane: Lane = Lane.SINGLE) -> list[Send]:
    return [Send(lane, NOW - timedelta(seconds=ago_s))] * count


def many(count: int, *, ago_s: float = 0, **what: object) -> list[Candidate]:
    moment = NOW - timedelta(seconds=ago_s)
    return [new(f"n{n:03}", created_at=moment, **what) for n in range(count)]


def names(rows: Sequence[Candidate]) -> tuple[str, ...]:
    return tuple(row.id for row in rows)


def in_s(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


TABLE: dict[str, tuple[tuple[Candidate, ...], Plan]] = {
    "nothing": ((), Plan()),
    "one": ((new("a"),), Plan(sends=("a",))),
    "two of different keys go apart": ((new("b"), new("a")), Plan(sends=("a", "b"))),
    "two of one key are told together": (
        (new("a", "k"), new("b", "k")),
        Plan(merges=(Merge(None, ("a", "b")),)),
    ),
    "a later one waits for one on its way": ((in_flight("a", "k"), new("b", "k")), Plan()),
    "one on its way blocks its own key only": ((in_flight("a", "k"), new("b")), Plan(sends=("b",))),
    "a later one waits for the next try": (
        (between_tries("a", "k"), new("b", "k")),
        Plan(waits={"b": LATER}),
    ),
    "the next try tells both": (
        (between_tries("a", "k", due_at=NOW), new("b", "k", due_at=NOW)),
        Plan(merges=(Merge(None, ("a", "b")),)),
    ),
    "a newcomer joins a digest whose time has come": (
        (digest("d", "k", due_at=NOW, is_tried=True), new("c", "k")),
        Plan(merges=(Merge("d", ("c",)),)),
    ),
    "a newcomer waits with a digest between tries": (
        (digest("d", "k", due_at=LATER, is_tried=True), new("c", "k")),
        Plan(waits={"c": LATER}),
    ),
    "a digest alone is sent as it is": ((digest("d", "k"),), Plan(sends=("d",))),
    "a digest blocks every key it tells of": (
        (digest("d", "k", "l", is_in_flight=True), new("a", "k"), new("b", "l"), new("c", "m")),
        Plan(sends=("c",)),
    ),
    "a digest with an older id than its members' followers still comes first": (
        (digest("z", "k", due_at=LATER, is_tried=True), new("a", "k")),
        Plan(waits={"a": LATER}),
    ),
    "critical does not wait for the next try of another": (
        (between_tries("a", "k"), critical("b", "k")),
        Plan(merges=(Merge(None, ("a", "b")),)),
    ),
    "critical that was tried waits like all": ((between_tries("a", "k", severity="critical"),), Plan()),
    "critical waits for one on its way": ((in_flight("a", "k"), critical("b", "k")), Plan()),
    "one that is held back until later is told with what comes sooner": (
        (new("a", "k", due_at=LATER), new("b", "k")),
        Plan(merges=(Merge(None, ("a", "b")),)),
    ),
    "one that is held back until later waits": ((new("a", due_at=LATER),), Plan()),
    "critical goes first": ((new("a"), critical("b")), Plan(sends=("b", "a"))),
    "too old": ((new("a", expires_at=NOW), new("b")), Plan(sends=("b",), expired=("a",))),
    "what is too old does not block": (
        (between_tries("a", "k", expires_at=NOW), new("b", "k")),
        Plan(sends=("b",), expired=("a",)),
    ),
    "on its way is never too old": ((in_flight("a", expires_at=NOW),), Plan()),
    "not due": ((between_tries("a"),), Plan()),
    "released ones are told in one digest, whatever their keys": (
        (new("a", released=True), new("b", released=True), new("c")),
        Plan(sends=("c",), merges=(Merge(None, ("a", "b")),)),
    ),
    "a newcomer joins what was released with its key": (
        (new("a", "k", released=True), new("b", "l", released=True), new("c", "l")),
        Plan(merges=(Merge(None, ("a", "b", "c")),)),
    ),
    "released digests and rows come together": (
        (digest("d", "k", "l", released=True), new("a", "m", released=True), digest("e", "n", released=True)),
        Plan(merges=(Merge("d", ("e", "a")),)),
    ),
}


@pytest.mark.parametrize(("rows", "expected"), TABLE.values(), ids=TABLE)
def test_plan(rows: tuple[Candidate, ...], expected: Plan) -> None:
    assert planned(*rows) == expected
    assert planned(*reversed(rows)) == expected


def test_no_more_than_there_is_room_for_and_the_rest_stays_due() -> None:
    assert planned(new("a"), new("b"), new("c"), room=2) == Plan(sends=("a", "b"))


def test_without_a_turn_it_waits_for_its_own() -> None:
    rows = (new("a"), new("b"), critical("c"))
    decided = plan(rows, robot(*sent(11, ago_s=40)), 100, NOW)
    assert decided == Plan(sends=("c", "a"), waits={"b": in_s(21)})


def test_what_is_told_together_takes_one_turn() -> None:
    rows = (new("a", "k"), new("b", "k"), new("c"))
    decided = plan(rows, robot(*sent(11, ago_s=40)), 100, NOW)
    assert decided == Plan(merges=(Merge(None, ("a", "b")),), waits={"c": in_s(21)})


def test_a_full_house_takes_no_turn_from_anybody() -> None:
    assert plan((new("a"), new("b")), robot(*sent(10, ago_s=1)), 1, NOW) == Plan(sends=("a",))


def test_what_would_wait_too_long_waits_for_company_first() -> None:
    rows = many(20)
    decided = plan(rows, robot(), 100, NOW)
    assert decided == Plan(sends=names(rows[:12]), waits=dict.fromkeys(names(rows[12:]), in_s(5)))


def test_what_would_wait_too_long_is_told_in_one_digest_with_all_that_joined() -> None:
    rows = [*many(20, ago_s=5, is_waiting=True, due_at=LATER), new("z")]
    decided = plan(rows, robot(*sent(12, ago_s=5)), 100, NOW)
    assert decided == Plan(merges=(Merge(None, names(rows)),))


def test_one_alone_waits_for_company_as_long_as_it_may() -> None:
    full = sent(12, ago_s=1)
    assert plan([new("a")], robot(*full), 100, NOW) == Plan(waits={"a": in_s(30)})
    older = new("a", created_at=in_s(-30))
    assert plan([older], robot(*full), 100, NOW) == Plan(sends=("a",))


def test_digests_of_a_few_are_not_sent_one_after_the_other() -> None:
    full = [*sent(12, ago_s=6), *sent(1, ago_s=1, lane=Lane.DIGEST)]
    rows = many(3, ago_s=5)
    assert plan(rows, robot(*full), 100, NOW) == Plan(waits=dict.fromkeys(names(rows), in_s(10.2)))
    fewer = [*full, *sent(2, ago_s=1, lane=Lane.DIGEST)]  # of four places one is left
    assert plan(rows, robot(*fewer), 100, NOW) == Plan(waits=dict.fromkeys(names(rows), in_s(56 / 3 - 1)))


def test_a_digest_holds_no_more_than_it_can_name_and_full_ones_go_at_once() -> None:
    full = [*sent(12, ago_s=6), *sent(1, ago_s=1, lane=Lane.DIGEST)]
    rows = many(70, ago_s=6)
    decided = plan(rows, robot(*full), 100, NOW, capacity=(10, 20, 30))
    assert decided.merges == (Merge(None, names(rows[:30])),)  # of four places one is used, this takes three
    assert set(decided.waits) == set(names(rows[30:]))


def test_a_digest_takes_only_the_parts_that_it_needs() -> None:
    pace = robot(*sent(12, ago_s=6))
    plan(many(15, ago_s=6), pace, 100, NOW, capacity=(10, 20, 30))
    assert pace.turn(Lane.DIGEST, 2) == NOW
    assert pace.turn(Lane.DIGEST, 3) > NOW


def test_where_there_are_places_for_fewer_parts_the_digest_is_shorter() -> None:
    full = [*sent(12, ago_s=6), *sent(3, ago_s=20, lane=Lane.DIGEST)]
    rows = many(30, ago_s=6)
    decided = plan(rows, robot(*full), 100, NOW, capacity=(10, 20, 30))
    assert decided.merges == (Merge(None, names(rows[:10])),)


def test_critical_ones_do_not_wait_for_the_others_digest() -> None:
    rows = [*many(20), *(critical(f"c{n}") for n in range(3))]
    assert plan(rows, robot(*sent(12, ago_s=1)), 100, NOW).sends == ("c0", "c1", "c2")


def test_critical_ones_without_a_place_are_told_together_soon() -> None:
    full = [*sent(12, ago_s=9), *sent(4, ago_s=3, lane=Lane.CRITICAL)]
    rows = [critical(f"c{n}", created_at=in_s(-n / 10)) for n in range(3)]
    assert set(plan(rows, robot(*full), 100, NOW).waits.values()) == {in_s(2)}
    assert plan(rows, robot(*full), 100, in_s(2)).merges == (Merge(None, names(rows)),)


def test_a_pause_gathers_what_comes_in_it() -> None:
    rows = many(3, ago_s=100)
    assert plan(rows, robot(start=in_s(500)), 100, NOW).waits == dict.fromkeys(names(rows), in_s(500))
    after = many(3, ago_s=100, is_waiting=True)
    assert plan(after, robot(), 100, NOW) == Plan(merges=(Merge(None, names(after)),))


def test_what_is_old_for_another_reason_takes_a_turn_that_is_free() -> None:
    rows = many(3, ago_s=100)
    assert plan(rows, robot(), 100, NOW) == Plan(sends=names(rows))


def test_without_a_limit_nothing_is_late() -> None:
    rows = many(3, ago_s=100)
    assert planned(*rows) == Plan(sends=names(rows))


def test_planned_resends_do_not_keep_a_digest_from_leaving_now() -> None:
    """A worker was lost with twelve sends under way: these wait for a window, the others do not."""
    lost = [between_tries(f"a{n:02}", due_at=NOW, created_at=in_s(-10)) for n in range(12)]
    others = many(48, ago_s=10, is_waiting=True, due_at=LATER)
    decided = plan([*lost, *others], robot(*sent(12, ago_s=1)), 100, NOW)
    assert decided.merges == (Merge(None, names(others)),)
    assert decided.waits == dict.fromkeys(names(lost), in_s(60))


def test_what_takes_two_messages_takes_two_turns() -> None:
    rows = many(8, sends=2, calls=1)
    decided = plan(rows, robot(), 100, NOW)
    assert decided == Plan(sends=names(rows[:6]), waits=dict.fromkeys(names(rows[6:]), in_s(5)))


def test_a_digest_that_calls_people_takes_a_turn_for_that() -> None:
    rows = many(34, ago_s=5, is_waiting=True, due_at=LATER, sends=2, calls=1)
    pace = robot(*sent(12, ago_s=5))
    assert plan(rows, pace, 100, NOW).merges == (Merge(None, names(rows)),)
    assert pace.turn(Lane.DIGEST, 2) == NOW
    assert pace.turn(Lane.DIGEST, 3) > NOW
    full = robot(*sent(12, ago_s=5), *sent(3, ago_s=20, lane=Lane.DIGEST))
    assert plan(rows, full, 100, NOW).merges == ()


def test_a_lonely_one_of_several_messages_waits_until_all_of_them_have_a_place() -> None:
    older = new("a", created_at=in_s(-30), sends=3, is_waiting=True)
    assert plan([older], robot(*sent(14, ago_s=1)), 100, NOW).sends == ()
    assert plan([older], robot(*sent(13, ago_s=1)), 100, NOW).sends == ("a",)


def test_how_many_messages_it_takes_is_read_off_why_it_waits() -> None:
    assert [waited_for(why) for why in (waits_for(1), waits_for(2), f"a note; {waits_for(3)}")] == [1, 2, 3]
    assert waited_for("") == 1


def test_what_was_tried_is_told_again_as_it_was() -> None:
    rows = many(2, ago_s=100, is_tried=True)
    assert plan(rows, robot(), 100, NOW) == Plan(sends=names(rows))


def test_a_turn_that_comes_sooner_is_taken() -> None:
    row = new("a", is_waiting=True, due_at=LATER)
    assert plan([row], robot(), 100, NOW) == Plan(sends=("a",))
    held_back = new("a", due_at=LATER)
    assert plan([held_back], robot(), 100, NOW) == Plan()


def test_what_was_released_fills_as_many_digests_as_can_name_it() -> None:
    rows = [new(f"r{n}", released=True) for n in range(5)]
    decided = plan(rows, Pace({}, NOW), 100, NOW, capacity=(2,))
    assert [merge.members for merge in decided.merges] == [("r0", "r1"), ("r2", "r3")]
    assert decided.sends == ("r4",)


def test_a_number_whose_quota_is_gone_for_long_is_tried_so_that_others_are_told() -> None:
    book = Book([Limit(5, timedelta(hours=1))], sent(5, ago_s=60), NOW)
    assert plan([new("a")], Pace({"m": book}, NOW, is_by_name=True), 100, NOW) == Plan(sends=("a",))
    assert plan([new("a")], Pace({"m": book}, NOW), 100, NOW).sends == ()
