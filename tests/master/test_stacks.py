"""The stacks of all ranks as one tree."""

from typing import Any

import pytest

from master.stacks import document, merged, process_type, ranges

MAIN = ("main (train.py:30)",)
WAITS = ["all_reduce (torch/distributed/distributed_c10d.py:2806)", "wrapper (c10d_logger.py:83)", *MAIN]
SPINS = ["spin (train.py:77)", *MAIN]
WORKER = [
    "get (multiprocessing/queues.py:103)",
    "_worker_loop (torch/utils/data/_utils/worker.py:275)",
    *MAIN,
]


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


def told(frames: list[str], *children: list[str], **more: Any) -> dict[str, Any]:
    below = [
        {"pid": 50 + n, "cmd": "python train.py", "frames": one, "error": None}
        for n, one in enumerate(children)
    ]
    return {"frames": frames, "error": None, "children": below, "state": "R"} | more


def test_children_stand_under_their_rank_with_their_type_and_have_a_tree_of_their_own() -> None:
    shown = document(
        {0: told(WAITS, WORKER, WORKER), 1: told(SPINS, ["load (data.py:9)", *WORKER[1:]]), 2: told(WAITS)}
    )
    assert [child["type"] for child in shown["children"]["0"]] == ["dataloader", "dataloader"]
    assert sorted(shown["children"]) == ["0", "1"]
    [outer] = shown["child_frames"]["dataloader"]
    [loop] = outer["children"]
    assert (loop["name"], loop["ranks_in"]) == (WORKER[1], "0-1")
    assert [(one["name"], one["ranks_in"], one["ranks_not_in"]) for one in loop["children"]] == [
        (WORKER[0], "0", "1"),
        ("load (data.py:9)", "1", "0"),
    ]


@pytest.mark.parametrize(
    ("command", "frames", "kind"),
    [
        ("python train.py", WORKER, "dataloader"),
        ("python compile_worker.py", ["main (torch/_inductor/compile_worker.py:30)"], "compiler"),
        ("/usr/local/cuda/bin/ptxas -arch=sm_90", [], "compiler"),
        ("python -c from multiprocessing.resource_tracker import main", [], "helper"),
        ("wandb-core", [], "other"),
    ],
)  # fmt: skip
def test_what_a_child_is(command: str, frames: list[str], kind: str) -> None:
    assert process_type(command, frames) == kind


LINE = "train_step (train.py:57)"
HOST = [
    LINE,
    *MAIN,
]  # `loss.item()` of a rank whose kernels wait for another rank: no native frame, and it spins
FREE, HELD = {"gil": False}, {"gil": True}  # Python's lock
DEV = (HOST, FREE)
STOPPED = (HOST, {"gil": False, "state": "D"})
SYNC = ["synchronize (torch/cuda/__init__.py:1085)", *HOST]
BACKWARD = ["_engine_run_backward (torch/autograd/graph.py:865)", "backward (torch/_tensor.py:625)", *HOST]
FARTHER = ["train_step (train.py:60)", *MAIN]
CLIP = ["clip (train.py:61)", *MAIN]
LOADS = [
    "_try_get_data (torch/utils/data/dataloader.py:1275)",
    "__next__ (torch/utils/data/dataloader.py:732)",
    *MAIN,
]


@pytest.mark.parametrize(
    ("ranks", "odd"),
    [
        pytest.param([WAITS, WAITS, SPINS, WAITS], "2", id="one is not in the collective"),
        pytest.param([WAITS] * 4, "", id="all are"),
        pytest.param([DEV, (SPINS, HELD), DEV, (SYNC, FREE)], "1", id="hosts spin, one computes"),
        pytest.param([DEV, (CLIP, FREE), DEV, (BACKWARD, FREE)], "", id="hosts spin at several places"),
        pytest.param([DEV] * 4, "", id="hosts spin at one place"),
        pytest.param([DEV, DEV, (LOADS, FREE), DEV], "2", id="hosts spin, one loads"),
        pytest.param([HOST, HOST, SPINS, HOST], "2", id="no word of Python's lock: most at one place"),
        pytest.param([HOST, HOST, FARTHER, HOST], "", id="a line farther on is no sign"),
        pytest.param([DEV, DEV, STOPPED, DEV], "2", id="hosts spin, one uses no CPU at the same line"),
        pytest.param([WAITS, SPINS, SPINS, WAITS], "", id="half and half"),
    ],
)  # fmt: skip
def test_the_odd_one_is_named_by_python_frames_alone(ranks: list[Any], odd: str) -> None:
    looks = {
        n: told(one[0], **one[1]) if isinstance(one, tuple) else told(one) for n, one in enumerate(ranks)
    }
    assert document(looks)["odd"] == odd
