"""The written-down cases told otherwise: framings of lines and clocks that differ change hardly anything."""

import copy
import json
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from bench.score import Case, load, mark, ours

DATA = Path(__file__).parent / "data"
NAMES = ("training_faults", "reviewed_cases", "reviewed_cases_2", "reviewed_cases_3", "reviewed_cases_4")
CASES = [case for name in NAMES for case in load(DATA / f"{name}.jsonl")]
Entry = dict[str, Any]

FRAMES: dict[str, Callable[[Entry], str]] = {
    "container logs": lambda entry: f"{entry['t']} stderr F {entry['line']}",
    "JSON of a logger": lambda entry: json.dumps({"level": "error", "ts": entry["t"], "msg": entry["line"]}),
    "srun --label": lambda entry: f"{entry['rank'] or 0}: {entry['line']}",
    "pdsh": lambda entry: f"{entry['node']}: {entry['line']}",
    "torchrun": lambda entry: f"[default{(entry['rank'] or 0) % 8}]:{entry['line']}",
    "Ray": lambda entry: f"(RayTrainWorker pid=77, ip=10.0.0.1) {entry['line']}",
}


def framed(case: Case, frame: Callable[[Entry], str]) -> Case:
    told = copy.deepcopy(case)
    for entry in told["log"]:
        if entry["src"] in ("stdout", "stderr"):
            entry["line"] = frame(entry)
    return told


def skewed(case: Case, node: str, seconds: int) -> Case:
    told = copy.deepcopy(case)
    for entry in told["log"]:
        if entry["node"] == node:
            entry["t"] = (datetime.fromisoformat(entry["t"]) + timedelta(seconds=seconds)).isoformat()
    return told


def marked(variants: list[Case]) -> tuple[float, int, int]:
    """Share of points, false alarms, wrong names."""
    marks = [mark(case, ours(case)) for case in variants]
    got = sum(sum(one.points.values()) for one in marks)
    could = sum(sum(one.possible.values()) for one in marks)
    return got / could, sum(one.cried_wolf for one in marks), sum(one.wrong_name for one in marks)


@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES.keys())
def test_what_collectors_write_before_a_line(frame: Callable[[Entry], str]) -> None:
    share, wolf, wrong = marked([framed(case, frame) for case in CASES])
    assert share >= 0.99
    assert (wolf, wrong) == (0, 0)


@pytest.mark.parametrize(("seconds", "which"), [(-180, 0), (-30, -1), (30, 0), (180, -1)])
def test_a_node_whose_clock_is_off(seconds: int, which: int) -> None:
    many = [case for case in CASES if len(case["world"]["nodes"]) > 1]
    told = [skewed(case, case["world"]["nodes"][which]["name"], seconds) for case in many]
    share, wolf, wrong = marked(told)
    assert share >= 0.98
    assert (wolf <= 3, wrong <= 1) == (True, True)
