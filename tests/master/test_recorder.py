"""Who did not join a collective, by the flight recorder's numbers."""

from typing import Any

import pytest

from master.casefile import Cause
from master.diagnosis.recorder import missing
from tests.master.story import ALL_REDUCE, steady

Group = dict[str, Any]
Told = dict[int, list[Group]]


def group(
    enqueued: int, completed: int, name: str = "0", ranks: tuple[int, ...] = (0, 1, 2)
) -> dict[str, Any]:
    numbers = {"enqueued": enqueued, "completed": completed}
    return {"group": name, "ranks": list(ranks), "calls": calls(completed + 1, enqueued)} | numbers


def calls(first: int, last: int, op: str = "all_reduce", sizes: str = "4") -> list[Group]:
    return [{"number": number, "op": op, "sizes": sizes} for number in range(first, last + 1)]


WAITS, LAGS = group(8, 7), group(7, 7)
GATHERS = group(8, 7) | {"calls": calls(8, 8, "all_gather")}
AHEAD_OF_IT = group(12, 7) | {"calls": calls(8, 8, "all_gather") + calls(9, 12)}
LARGER = group(8, 7) | {"calls": calls(8, 8, sizes="8")}
FORGOT = group(8, 7, ranks=())
EXCHANGES, MORE = (group(8, 7) | {"calls": calls(8, 8, "nccl:all_to_allv", sizes)} for sizes in ("4", "8"))
AHEAD = group(12, 7)
PIPE_WAITS = group(3, 2, "1", (1, 2))
PIPE_LAGS = group(2, 2, "1", (1, 2))


@pytest.mark.parametrize(
    ("told", "ranks"),
    [
        pytest.param({0: [WAITS], 1: [LAGS], 2: [WAITS]}, (1,), id="one never joined"),
        pytest.param({0: [WAITS], 1: [group(5, 5)], 2: [WAITS]}, (1,), id="one is far behind"),
        pytest.param({0: [WAITS], 1: [WAITS], 2: [WAITS]}, None, id="all joined"),
        pytest.param({0: [WAITS], 1: [AHEAD], 2: [AHEAD]}, None, id="hosts run ahead"),
        pytest.param({0: [AHEAD], 1: [LAGS], 2: [WAITS]}, (1,), id="hosts run ahead and one never joined"),
        pytest.param({0: [WAITS], 1: [group(7, 6)], 2: [WAITS]}, (1,), id="what is completed is told late"),
        pytest.param({0: [WAITS], 1: [WAITS]}, None, id="of one no dump is there"),
        pytest.param({0: [LAGS], 1: [LAGS], 2: [LAGS]}, None, id="nobody waits"),
        pytest.param({0: [WAITS], 1: [LAGS], 2: [LAGS]}, None, id="most lag"),
        pytest.param({0: [WAITS], 1: [GATHERS], 2: [WAITS]}, (1,), id="one called another collective"),
        pytest.param({0: [AHEAD], 1: [AHEAD_OF_IT], 2: [WAITS]}, (1,), id="hosts ran ahead of another call"),
        pytest.param({0: [WAITS], 1: [LARGER], 2: [WAITS]}, (1,), id="one called it with more"),
        pytest.param({0: [EXCHANGES], 1: [MORE], 2: [EXCHANGES]}, None, id="lengths that may differ"),
        pytest.param({0: [WAITS], 1: [GATHERS]}, (), id="two called two collectives"),
        pytest.param({0: [FORGOT], 1: [LAGS], 2: [FORGOT]}, (1,), id="only one dump tells the group's ranks"),
        pytest.param({0: [FORGOT], 1: [LAGS]}, None, id="the same, and of one no dump is there"),
        pytest.param({0: [WAITS], 1: [LAGS, PIPE_WAITS], 2: [WAITS, PIPE_LAGS]}, None, id="a ring"),
        pytest.param(
            {0: [WAITS], 1: [LAGS, PIPE_WAITS], 2: [LAGS, PIPE_LAGS]}, (2,), id="missed elsewhere"
        ),
        pytest.param({}, None, id="nothing told"),
        pytest.param({0: [{"enqueued": "x"}], 1: [{}]}, None, id="nonsense"),
    ],
)  # fmt: skip
def test_who_is_missed(told: Told, ranks: tuple[int, ...] | None) -> None:
    found = missing(told)
    assert (found.ranks if found else None) == ranks


def test_the_recorder_names_whom_stacks_cannot() -> None:
    story = steady(pods=3).idle()
    for moment in (35.5, 37.5):
        story.stacks(moment, rank0=ALL_REDUCE, rank1=ALL_REDUCE, rank2=ALL_REDUCE)
    for one, told in zip(story.seen[-3:], (WAITS, WAITS, LAGS), strict=True):
        one.data["flight"] = [told]
    found = story.fault(38)
    assert (found.cause, found.culprit.rank) == (Cause.HANG, 2)
    assert "rank 2 called 7 collectives, the others wait in number 8" in found.evidence[0].text
