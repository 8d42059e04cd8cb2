"""Who lags and who called something else, by the ranks' own counters of collectives."""

from collections import Counter
from collections.abc import Iterable, Sequence

from master.diagnosis.signs import Sign
from master.diagnosis.world import as_int


def _numbers(signs: Iterable[Sign], name: str, key: str) -> dict[int, int]:
    found: dict[int, int] = {}
    for sign in signs:
        number = as_int(sign.captured.get(key))
        if sign.is_a(name) and sign.rank is not None and number is not None:
            found.setdefault(sign.rank, number)
    return found


def lagging(signs: Sequence[Sign]) -> int | None:
    """The rank that waits for an earlier collective than all others, or enqueued fewer."""
    waiting = _behind(_numbers(signs, "c10d.watchdog_timeout", "seq"))
    return waiting if waiting is not None else _behind(_numbers(signs, "c10d.work_counters", "enqueued"))


def _behind(numbers: dict[int, int]) -> int | None:
    """The one rank that stands behind all others, which must agree by and large."""
    if len(numbers) < 2:
        return None
    lowest = min(numbers.values())
    behind = [rank for rank, number in numbers.items() if number == lowest]
    # Process groups count apart: numbers that scatter are not one group's and say nothing.
    others = Counter(number for number in numbers.values() if number != lowest)
    agree = bool(others) and max(others.values()) * 2 >= sum(others.values())
    return behind[0] if len(behind) == 1 and agree else None


def odd_call(signs: Sequence[Sign]) -> list[int]:
    """Ranks that called another collective than most at the same number: the program's own divergence."""
    calls = {
        sign.rank: (sign.captured.get("op"), sign.captured.get("numel"))
        for sign in signs
        if sign.name == "c10d.watchdog_timeout" and sign.rank is not None and "numel" in sign.captured
    }
    numbers = {sign.captured.get("seq") for sign in signs if sign.name == "c10d.watchdog_timeout"}
    kinds = Counter(calls.values()).most_common()
    if len(kinds) < 2 or len(numbers) != 1:
        return []
    usual = kinds[0][0]
    return (
        [rank for rank, call in calls.items() if call != usual] if kinds[0][1] > kinds[1][1] else list(calls)
    )
