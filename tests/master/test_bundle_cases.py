"""Faults and harmless logs in forms that the shared cases do not hold (data/field_cases.txt)."""

import re
from pathlib import Path
from typing import Any

import pytest

from master.bundle import answer, from_document

WORLD = {
    "job_start": "2026-01-12T03:00:00Z",
    "nodes": [
        {"name": "node-a", "ip": "10.0.0.1", "ranks": [0, 1, 2, 3]},
        {"name": "node-b", "ip": "10.0.0.2", "ranks": [4, 5, 6, 7]},
        {"name": "node-c", "ip": "10.0.0.3", "ranks": [8, 9, 10, 11]},
    ],
}
STEPS = [f"{second} a 0 out | step {100 + second} | loss 2.1" for second in range(0, 20, 4)]
SOURCES = {"out": "stdout", "err": "stderr"}
LINE = re.compile(r"(\d+) ([abc]) (\d+|-) (\w+) \| (.*)")


def stories() -> dict[str, tuple[str, list[str]]]:
    """Name → what is expected, lines."""
    text = (Path(__file__).parent / "data/field_cases.txt").read_text(encoding="utf-8")
    blocks = [block.splitlines() for block in text.split("\n== ")[1:]]
    return {block[0]: (block[1], [row for row in block[2:] if row]) for block in blocks}


def entry(row: str) -> dict[str, Any]:
    found = LINE.fullmatch(row)
    assert found is not None, row
    second, node, rank, source, text = found.groups()
    return {
        "t": f"2026-01-12T03:{int(second) // 60:02}:{int(second) % 60:02}Z",
        "node": f"node-{node}",
        "rank": None if rank == "-" else int(rank),
        "src": SOURCES.get(source, source),
        "line": text,
    }


def told(rows: list[str]) -> str:
    log = sorted((entry(row) for row in [*STEPS, *rows]), key=lambda line: str(line["t"]))
    faults = answer(from_document({"world": WORLD, "log": log}, "story"))["faults"]
    if not faults:
        return "none"
    fault = faults[0]
    rank, node = fault["culprit"]["rank"], fault["culprit"]["node"]
    words = (
        fault["cause"],
        f"rank={rank}" if rank is not None else "",
        f"node={node}" if node else "",
        "hardware" if fault["hardware"] else "",
        "retryable" if fault["retryable"] else "",
    )
    return " ".join(word for word in words if word)


@pytest.mark.parametrize(("expected", "rows"), stories().values(), ids=stories().keys())
def test_field_cases(expected: str, rows: list[str]) -> None:
    assert told(rows) == expected
