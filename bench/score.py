"""Marks diagnosis on written-down cases (docs/diagnosis.md) and sets it beside two simple baselines.

python bench/score.py [FILE…] [--cases]
"""

import argparse
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from master.bundle import answer, from_document

DATA = Path(__file__).parent.parent / "tests/master/data"
DEFAULT = [
    DATA / f"{name}.jsonl"
    for name in (
        "training_faults",
        "reviewed_cases",
        "reviewed_cases_2",
        "reviewed_cases_3",
        "reviewed_cases_4",
    )
]
MARKS = ("detected", "category", "culprit", "hardware", "retryable")
Case = dict[str, Any]
Answer = dict[str, Any] | None  # category, rank, node, hardware, retryable; None: no fault

KEYWORDS = (
    ("out of memory", "cuda_oom"),
    ("xid", "gpu_hardware"),
    ("ecc", "gpu_hardware"),
    ("nccl", "nccl_timeout"),
    ("timeout", "nccl_timeout"),
    ("connection", "network_tcp"),
    ("killed", "host_oom"),
    ("segfault", "segfault"),
    ("evict", "pod_evicted"),
    ("no space left", "storage_error"),
    ("heartbeat", "heartbeat_lost"),
    ("error", "user_code_error"),
    ("fail", "user_code_error"),
)
ERROR = re.compile(r"error|fail|exception|timeout|killed|fatal|xid|abort|evict|missing", re.IGNORECASE)


@dataclass(frozen=True)
class Mark:
    """Points of one case, and how many it could have had."""

    points: dict[str, float]
    possible: dict[str, int]
    cried_wolf: bool
    wrong_name: bool


def ours(case: Case) -> Answer:
    """What diagnosis says of a case."""
    return brief(answer(from_document({"world": case["world"], "log": case["log"]}, case["id"])))


def brief(document: dict[str, Any]) -> Answer:
    """The first fault of an answer (CONTRACT 6)."""
    if not document["faults"]:
        return None
    first = document["faults"][0]
    return {
        "category": first["cause"],
        "rank": first["culprit"]["rank"],
        "node": first["culprit"]["node"],
        "hardware": first["hardware"],
        "retryable": first["retryable"],
    }


def earliest_error_line(case: Case) -> Answer:
    """Whoever prints the first error line is to blame (torchelastic's own rule)."""
    for line in case["log"]:
        if ERROR.search(line["line"]):
            return _guess(line, _category(line["line"]))
    return None


def keywords(case: Case) -> Answer:
    """The commonest keyword of all lines decides, its first line names the rank."""
    counts: dict[str, int] = {}
    first: dict[str, dict[str, Any]] = {}
    for line in case["log"]:
        if ERROR.search(line["line"]):
            category = _category(line["line"])
            counts[category] = counts.get(category, 0) + 1
            first.setdefault(category, line)
    if not counts:
        return None
    winner = max(counts, key=lambda category: counts[category])
    return _guess(first[winner], winner)


def _category(text: str) -> str:
    return next((category for word, category in KEYWORDS if word in text.lower()), "user_code_error")


def _guess(line: dict[str, Any], category: str) -> Answer:
    hardware = category in ("gpu_hardware", "network_ib")
    retryable = category not in ("user_code_error", "cuda_oom", "host_oom", "storage_error")
    return {
        "category": category,
        "rank": line["rank"],
        "node": line["node"],
        "hardware": hardware,
        "retryable": retryable,
    }


def mark(case: Case, said: Answer) -> Mark:
    """cases/README.md: a point each; the culprit exact 1, null 0, a wrong name -1."""
    expected = case["expected"]
    fault = case["kind"] == "fault"
    if not fault:
        return Mark({"detected": float(said is None)}, {"detected": 1}, said is not None, wrong_name=False)
    points = dict.fromkeys(MARKS, 0.0)
    possible = dict.fromkeys(MARKS, 1)
    if said is None:
        return Mark(points, possible, cried_wolf=False, wrong_name=False)
    points["detected"] = 1.0
    points["category"] = float(said["category"] in (expected["category"], *expected["also_ok"]))
    points["culprit"] = _culprit(expected, said)
    points["hardware"] = float(said["hardware"] == expected["hardware"])
    points["retryable"] = float(said["retryable"] == expected["retryable"])
    return Mark(points, possible, cried_wolf=False, wrong_name=points["culprit"] < 0)


def _culprit(expected: dict[str, Any], said: dict[str, Any]) -> float:
    wanted = (expected["culprit_rank"], expected["culprit_node"])
    named = (said["rank"], said["node"])
    if named == wanted:
        return 1.0
    wrong_rank = named[0] is not None and named[0] != wanted[0]
    wrong_node = named[1] is not None and named[1] != wanted[1]
    return -1.0 if wrong_rank or wrong_node else 0.0


def score(cases: list[Case], judge: Callable[[Case], Answer]) -> dict[str, Any]:
    """All marks of one judge."""
    marks = [(case, mark(case, judge(case))) for case in cases]
    got = {name: sum(one.points.get(name, 0) for _, one in marks) for name in MARKS}
    could = {name: sum(one.possible.get(name, 0) for _, one in marks) for name in MARKS}
    return {
        "got": got,
        "could": could,
        "share": sum(got.values()) / sum(could.values()),
        "wolf": sum(one.cried_wolf for _, one in marks),
        "wrong": sum(one.wrong_name for _, one in marks),
        "lost": {case["id"]: one.points for case, one in marks if sum(one.points.values()) < len(one.points)},
    }


JUDGES: dict[str, Callable[[Case], Answer]] = {
    "faultcast": ours,
    "earliest error line": earliest_error_line,
    "keywords": keywords,
}


def load(path: Path) -> list[Case]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("paths", nargs="*", type=Path, default=DEFAULT)
    parser.add_argument("--cases", action="store_true", help="show each case that lost points")
    options = parser.parse_args()
    for path in options.paths:
        show(path, with_cases=options.cases)


def show(path: Path, *, with_cases: bool) -> None:
    """The table of one file of cases."""
    cases = load(path)
    faults = sum(case["kind"] == "fault" for case in cases)
    print(f"\n{path.name}: {faults} faults, {len(cases) - faults} harmless\n")
    print("| judge | " + " | ".join(MARKS) + " | points | false alarms | wrong names |")
    print("| --- |" + " --- |" * (len(MARKS) + 3))
    for name, judge in JUDGES.items():
        found = score(cases, judge)
        cells = [f"{found['got'][one]:g}/{found['could'][one]}" for one in MARKS]
        tail = f"{found['share']:.1%} | {found['wolf']} | {found['wrong']} |"
        print(f"| {name} | " + " | ".join(cells) + f" | {tail}")
    for case_id, points in score(cases, ours)["lost"].items() if with_cases else ():
        print(case_id, points)


if __name__ == "__main__":
    main()
