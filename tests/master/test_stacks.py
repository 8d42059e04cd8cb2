"""The stacks of all ranks as one tree."""

import pytest

from master.stacks import merged, ranges


@pytest.mark.parametrize(
    ("ranks", "text"),
    [
        ([], ""),
        ([3], "3"),
        ([0, 1, 2], "0-2"),
        ([0, 1, 2, 3, 4, 5, 7], "0-5/7"),
        ([60, 61, 62, 65], "60-62/65"),
    ],
)
def test_ranges(ranks: list[int], text: str) -> None:
    assert ranges(ranks) == text


def test_the_odd_rank_stands_out() -> None:
    waits = ["all_reduce (c10d.py:1)", "step (train.py:9)", "main (train.py:3)"]
    spins = ["spin (train.py:77)", "step (train.py:9)", "main (train.py:3)"]
    [main] = merged({0: waits, 1: spins, 2: waits})
    [step] = main["children"]
    assert (main["name"], main["ranks_in"], main["ranks_not_in"]) == ("main (train.py:3)", "0-2", "")
    assert [(child["name"], child["ranks_in"], child["ranks_not_in"]) for child in step["children"]] == [
        ("all_reduce (c10d.py:1)", "0/2", "1"),
        ("spin (train.py:77)", "1", "0/2"),
    ]


def test_no_stacks_no_tree() -> None:
    assert merged({}) == []


def test_recursion_is_no_loop() -> None:
    [outer] = merged({0: ["f (a.py:1)", "f (a.py:1)"]})
    assert outer["children"][0]["name"] == "f (a.py:1)"
    assert outer["children"][0]["children"] == []
