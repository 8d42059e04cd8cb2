"""Planning at a glance: what stands by itself is sent, and whatever does not is left to the plan."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from notifier.plan import RELEASED
from notifier.rules import QUIET
from notifier.singles import chosen_of
from notifier.waiting import WAITS

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)


def row(name: str, key: str = "", *, due_s: float = -1, lives_s: float = 60, **more: Any) -> Any:
    found = {
        "id": name,
        "order_key": key or name,
        "next_attempt_at": NOW + timedelta(seconds=due_s),
        "expires_at": NOW + timedelta(seconds=lives_s),
        "is_digest": False,
        "why": "",
    }
    return SimpleNamespace(**{**found, **more})


TABLE = {
    "nothing": ([], set(), []),
    "all that is due, in its order": ([row("a"), row("b")], set(), ["a", "b"]),
    "not what is due later": ([row("a", due_s=5), row("b")], set(), ["b"]),
    "not what waits for one on its way": ([row("a", "k"), row("b")], {"k"}, ["b"]),
    "not both of a key that is on its way": ([row("a", "k"), row("b", "k")], {"k"}, []),
    "two of a key belong together": ([row("a", "k"), row("b", "k")], set(), None),
    "also if one of them is due later": ([row("a", "k", due_s=5), row("b", "k")], set(), None),
    "what is too old has to be told so": ([row("a", lives_s=0)], set(), None),
    "a digest": ([row("a", is_digest=True)], set(), None),
    "what waits for its turn": ([row("a", due_s=5, why=WAITS)], set(), None),
    "what was held": ([row("a", why=RELEASED)], set(), None),
    "what quiet hours kept": ([row("a", why=QUIET.format(until="08:00"))], set(), None),
    "in place of another": ([row("a", why="in place of dlv_x")], set(), ["a"]),
    "without a moment it is due": ([row("a", next_attempt_at=None)], set(), ["a"]),
}


@pytest.mark.parametrize(("rows", "busy", "chosen"), TABLE.values(), ids=TABLE)
def test_chosen(rows: list[Any], busy: set[str], chosen: list[str] | None) -> None:
    assert chosen_of(rows, busy, NOW) == chosen
