"""Whole bursts played against one robot with two channels, by the planner alone: no window holds more than
allowed, everybody is told, and what is critical is told soon. Time is made up."""

import random
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from channels.base import Limit
from notifier.pace import Book, Lane, Pace, Send, lane_of
from notifier.plan import Candidate, plan

NOW = datetime(2026, 11, 29, 3, 0, tzinfo=UTC)
WINDOW = timedelta(seconds=60)
CAPACITY = (37, 94, 150)
DAY = timedelta(hours=24)


@dataclass
class Under:
    """A message on its way: its parts leave one after the other."""

    channel: str
    row: Candidate
    members: tuple[str, ...]
    lane: Lane
    answers: list[datetime]


@dataclass
class Robot:
    """A limit, two channels, and all that comes of it."""

    limit: Limit
    chance: random.Random
    calls: int = 0
    open: dict[str, dict[str, Candidate]] = field(default_factory=lambda: {"a": {}, "b": {}})
    digests: dict[str, tuple[str, ...]] = field(default_factory=dict)
    under_way: list[Under] = field(default_factory=list)
    sends: list[Send] = field(default_factory=list)
    seen: list[datetime] = field(default_factory=list)
    told: dict[str, datetime] = field(default_factory=dict)

    @property
    def capacity(self) -> tuple[int, ...]:
        return CAPACITY[: len(CAPACITY) - self.calls]

    def publish(self, name: str, channel: str, severity: str, now: datetime) -> None:
        row = Candidate(name, frozenset({name}), severity, now, now + DAY, now)
        self.open[channel][name] = replace(row, sends=1 + self.calls, calls=self.calls)

    def work(self, now: datetime) -> None:
        for one in [one for one in self.under_way if one.answers[-1] <= now]:
            self.under_way.remove(one)
            self.sends += [Send(one.lane, answer) for answer in one.answers]
            self.told.update(dict.fromkeys(one.members, one.answers[-1]))
            del self.open[one.channel][one.row.id]
        for channel, rows in self.open.items():
            self._claim(channel, rows, now)

    def next_after(self, now: datetime) -> datetime | None:
        waits = [row.due_at for rows in self.open.values() for row in rows.values() if not row.is_in_flight]
        moments = [*waits, *(one.answers[-1] for one in self.under_way)]
        return min((moment for moment in moments if moment > now), default=None)

    def _book(self, now: datetime) -> Book:
        pending = [Send(one.lane, None) for one in self.under_way for answer in one.answers if answer > now]
        done = [Send(one.lane, at) for one in self.under_way for at in one.answers if at <= now]
        return Book([self.limit], [*self.sends, *done, *pending], now)

    def _claim(self, channel: str, rows: dict[str, Candidate], now: datetime) -> None:
        if not any(row.due_at <= now and not row.is_in_flight for row in rows.values()):
            return
        pace = Pace({"m": self._book(now)}, now)
        decided = plan(list(rows.values()), pace, self.chance.randint(1, 16), now, self.capacity)
        for name, moment in decided.waits.items():
            rows[name] = replace(rows[name], due_at=moment, is_waiting=True)
        for name in decided.sends:
            self._begin(channel, rows[name], now)
        for merge in decided.merges:
            members = [rows.pop(name) for name in merge.members]
            name = f"digest-{len(self.digests)}"
            self.digests[name] = tuple(row.id for row in members)
            worst = "critical" if any(row.severity == "critical" for row in members) else "error"
            keys = frozenset({f"digest:{name}", *self.digests[name]})
            size = len(members)
            rows[name] = Candidate(name, keys, worst, now, now + DAY, now, size=size, is_digest=True)
            rows[name] = replace(rows[name], calls=self.calls)
            self._begin(channel, rows[name], now)

    def _begin(self, channel: str, row: Candidate, now: datetime) -> None:
        """As `intend` does: all parts at once, or not yet; the claim has turns for what is expected."""
        parts = next(n for n, most in enumerate(self.capacity, 1) if row.size <= most) + self.calls
        lane = lane_of(row.severity, f"digest:{row.id}" if row.is_digest else row.id)
        turn = self._book(now).turn(lane, parts)
        if parts > 1 + self.calls and turn > now:
            self.open[channel][row.id] = replace(row, due_at=turn, is_waiting=True)
            return
        answers, moment = [], now
        for _ in range(parts):
            answer = moment + timedelta(seconds=self.chance.uniform(0.05, 1.5))
            self.seen.append(moment + (answer - moment) * self.chance.random())
            answers.append(answer)
            moment = answer
        members = self.digests.get(row.id, (row.id,))
        self.open[channel][row.id] = replace(row, is_in_flight=True)
        self.under_way.append(Under(channel, row, members, lane, answers))


def play(
    limit: Limit, story: list[tuple[float, str, str]], seed: int, calls: int = 0
) -> tuple[Robot, dict[str, datetime]]:
    """Publishes all of (second, channel, severity), and works until nothing is left."""
    robot = Robot(limit, random.Random(seed), calls)  # noqa: S311  so that a failure can be played again
    coming = [
        (NOW + timedelta(seconds=second), f"{n:04}", channel, severity)
        for n, (second, channel, severity) in enumerate(sorted(story))
    ]
    born = {name: at for at, name, _, _ in coming}
    now = NOW
    for _ in range(20_000):
        while coming and coming[0][0] <= now:
            _, name, channel, severity = coming.pop(0)
            robot.publish(name, channel, severity, now)
        robot.work(now)
        moments = [moment for moment in (robot.next_after(now), coming[0][0] if coming else None) if moment]
        rows = [row for rows in robot.open.values() for row in rows.values()]
        due = any(row.due_at <= now and not row.is_in_flight for row in rows)
        if not moments and not due:
            return robot, born
        now = min([*moments, *([now + timedelta(milliseconds=20)] if due else [])])
    raise AssertionError(f"still {robot.open}")


def most_in_a_window(robot: Robot) -> int:
    seen = sorted(robot.seen)
    return max((sum(1 for one in seen if at <= one < at + WINDOW) for at in seen), default=0)


EVENT = st.tuples(
    st.floats(0, 90), st.sampled_from("ab"), st.sampled_from(["critical", "error", "error", "warning"])
)


@given(
    story=st.lists(EVENT, max_size=120),
    count=st.sampled_from([3, 5, 20, 100]),
    seed=st.integers(0, 99),
    calls=st.integers(0, 1),
)
@settings(max_examples=60, deadline=None)
def test_no_window_is_overfull_and_everybody_is_told(
    story: list[tuple[float, str, str]], count: int, seed: int, calls: int
) -> None:
    robot, born = play(Limit(count, WINDOW), story, seed, calls)
    assert most_in_a_window(robot) <= count
    assert set(robot.told) == set(born)


@given(
    quiet=st.lists(st.tuples(st.floats(0, 120), st.sampled_from("ab"), st.just("error")), max_size=200),
    grave=st.lists(st.tuples(st.floats(0, 120), st.sampled_from("ab"), st.just("critical")), max_size=30),
    seed=st.integers(0, 99),
)
@settings(max_examples=60, deadline=None)
def test_what_is_critical_never_waits_behind_the_rest(
    quiet: list[tuple[float, str, str]], grave: list[tuple[float, str, str]], seed: int
) -> None:
    """With the others it waits no longer than a window, a digest's distance and its answers."""
    robot, born = play(Limit(20, WINDOW), [*quiet, *grave], seed)
    critical = {n for n, one in enumerate(sorted([*quiet, *grave])) if one[2] == "critical"}
    waits = [(robot.told[name] - born[name]).total_seconds() for name in born if int(name) in critical]
    assert max(waits, default=0) < 61 + 15 + 2 + 5


def test_who_is_called_in_a_message_of_its_own_is_told_in_time() -> None:
    """Six of forty alone, the others in one digest."""
    robot, born = play(Limit(20, WINDOW), [(n / 100, "a", "error") for n in range(40)], 1, calls=1)
    assert max(robot.told[name] - born[name] for name in born) < timedelta(seconds=10)
    assert len(robot.seen) == 14
    assert most_in_a_window(robot) <= 20


def test_a_few_critical_ones_in_a_great_burst_are_told_at_once() -> None:
    story = [(n / 200, "a", "critical" if n % 125 == 60 else "error") for n in range(500)]
    robot, born = play(Limit(20, WINDOW), story, 1)
    waits = sorted((robot.told[name] - born[name]).total_seconds() for name in born if int(name) % 125 == 60)
    assert waits[-1] < 3
    assert max(robot.told.values()) - NOW < timedelta(seconds=140)  # 150 are told in one digest
    assert most_in_a_window(robot) <= 20
