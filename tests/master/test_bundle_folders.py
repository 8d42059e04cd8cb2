"""The written-down cases as what people have on disk: a folder of log files, by rank, node and kind."""

from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from bench.score import Case, brief, load, score
from master.bundle import answer, read_paths

DATA = Path(__file__).parent / "data"
NAMES = ("training_faults", "reviewed_cases", "reviewed_cases_2", "reviewed_cases_3", "reviewed_cases_4")
KINDS = {"kernel": "dmesg", "k8s": "events"}


def written(case: Case, folder: Path, *, by_rank: bool) -> Path:
    """A file for each rank, or one for all of a node that does not tell them apart, one for each kind of log
    that its node has. Lines get a collector's stamp."""
    files: dict[str, list[str]] = defaultdict(list)
    start = case["world"].get("job_start") or case["log"][0]["t"]
    for node in case["world"]["nodes"] if by_rank else ():
        for rank in node["ranks"]:
            files[f"node-{node['name']}_rank{rank}.log"].append(f"{start} starting")
    for one in case["log"]:
        name = f"node-{one['node']}"
        if by_rank and one["rank"] is not None:
            name += f"_rank{one['rank']}"
        if one["src"] not in ("stdout", "stderr"):
            name += f"_{KINDS.get(one['src'], one['src'])}"
        files[f"{name}.log"].append(f"{one['t']} {one['line']}")
    folder.mkdir()
    for name, lines in files.items():
        (folder / name).write_text("".join(f"{line}\n" for line in lines))
    return folder


def marked(name: str, folder: Path, *, by_rank: bool) -> dict[str, Any]:
    def ours(case: Case) -> dict[str, Any] | None:
        (bundle,) = read_paths([written(case, folder / case["id"], by_rank=by_rank)])
        return brief(answer(bundle))

    return score(load(DATA / f"{name}.jsonl"), ours)


@pytest.mark.parametrize("name", NAMES)
def test_a_file_for_each_rank_tells_as_much(tmp_path: Path, name: str) -> None:
    marks = marked(name, tmp_path, by_rank=True)
    assert marks["share"] >= 0.98, marks["lost"]
    assert (marks["wrong"], marks["wolf"] <= 1) == (0, True)


@pytest.mark.parametrize("name", NAMES)
def test_a_file_for_each_node_names_hardly_anybody_wrongly(tmp_path: Path, name: str) -> None:
    marks = marked(name, tmp_path, by_rank=False)
    assert marks["share"] >= 0.91, marks["lost"]
    assert (marks["wrong"] <= 1, marks["wolf"] <= 1) == (True, True)
