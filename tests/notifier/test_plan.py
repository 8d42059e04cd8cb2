"""Who is sent now, who is told together, who waits: as one reads it off a list of open deliveries."""

from datetime import UTC, datetime, timedelta

import pytest

from notifier.plan import Candidate, Merge, Plan, plan

NOW = datetime(2026, 11, 29, 3, 0, tzinfo=UTC)
LATER = NOW + timedelta(seconds=40)
DAY = timedelta(hours=24)


def new(name: str, key: str = "", **what: object) -> Candidate:
    """An unsent delivery that is due; without a key it is alone with its own."""
    known = {"keys": frozenset({key or name}), "severity": "error", "due_at": NOW, "expires_at": NOW + DAY}
    return Candidate(name, **{**known, **what})  # type: ignore[arg-type]


def between_tries(name: str, key: str = "", **what: object) -> Candidate:
    return new(name, key, **{"due_at": LATER, "is_tried": True, **what})  # type: ignore[arg-type]


def in_flight(name: str, key: str = "", **what: object) -> Candidate:
    return new(name, key, is_in_flight=True, **what)


def digest(name: str, *keys: str, **what: object) -> Candidate:
    return new(name, **{"keys": frozenset(keys), "is_digest": True, **what})  # type: ignore[arg-type]


def critical(name: str, key: str = "", **what: object) -> Candidate:
    return new(name, key, severity="critical", **what)


def planned(*rows: Candidate, turns: tuple[datetime, ...] = (), room: int = 100) -> Plan:
    return plan(rows, turns, room, NOW)


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
    plan = planned(*rows, turns=(NOW, LATER, LATER + DAY))
    assert plan == Plan(sends=("c",), waits={"a": LATER, "b": NOW + DAY})


def test_what_is_told_together_takes_one_turn() -> None:
    rows = (new("a", "k"), new("b", "k"), new("c"))
    assert planned(*rows, turns=(NOW, LATER, LATER)) == Plan(
        merges=(Merge(None, ("a", "b")),), waits={"c": LATER}
    )


def test_a_full_house_takes_no_turn_from_anybody() -> None:
    assert planned(new("a"), new("b"), turns=(NOW, NOW), room=1) == Plan(sends=("a",))
