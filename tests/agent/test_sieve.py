"""In a flood only what may matter is taken apart: nothing that a line alone would tell is lost by that."""

import json
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.framing import RankMap
from agent.lines import BULK, Splitter
from agent.logprobe import LogProbe
from agent.progress import Progress
from agent.signatures import Scanner, Sieve
from agent.signatures import sieve as sieving

CASES = Path(__file__).parent.parent / "master" / "data"
QUIET = "[rank0]: 2026-11-29 10:11:12,345 INFO trainer: step {n} | loss 2.31 | lr 3.0e-04 | grad_norm 1.02\n"
SIEVE = Sieve()
OOM = "[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"


def lines_of_cases() -> Iterator[str]:
    for path in CASES.glob("*.jsonl"):
        for case in path.read_text().splitlines():
            yield from (one["line"] for one in json.loads(case)["log"] if one["src"] != "kernel")


@pytest.mark.parametrize("kind", [sieving._quickest, sieving._Filter])
def test_what_the_scanner_finds_alone_it_finds_in_a_crowd(
    kind: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sieving, "_quickest", kind)
    scanner, sieve = Scanner(), Sieve()
    before, after = QUIET.format(n=1), QUIET.format(n=2)
    assert not sieve.forms((before + after).encode())
    found = [line for line in lines_of_cases() if "\n" not in line and scanner.scan(line)]
    assert len(found) > 100
    missed = [line for line in found if not sieve.forms(f"{before}{line}\n{after}".encode())]
    assert missed == []


@pytest.mark.parametrize(
    ("pattern", "line"),
    [
        ("Loss nan", "x Loss nan y"),
        ("损失 nan", "第 7 步 损失 nan"),
        (r"re:^ABORT \d+$", "ABORT 77"),
        (r"re:(?i)abort", "Abort"),
        (r"re:\AABORT\z", "ABORT"),
        (r"re:(?-m)^ABORT", "ABORT now"),
    ],
)
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r", "\x1b[0m\n", "\x1b]0;title\x07\n", "\n\x1b]0;title\n"])
def test_a_users_own_pattern_means_the_same_in_a_crowd(pattern: str, line: str, end: str) -> None:
    assert Scanner((pattern,)).scan(line)
    crowd = f"{QUIET.format(n=1)}{line}{end}{QUIET.format(n=2)}".encode()
    assert Sieve((pattern,)).forms(crowd) != []
    assert not Sieve((pattern,)).forms(QUIET.format(n=1).encode())


def read(text: bytes, sieve: Sieve | None, cuts: Sequence[int] = ()) -> list[tuple[str, int | None]]:
    splitter = Splitter(sieve=None if sieve is None else sieve.forms)
    borders = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    chunks = [text[start:end] for start, end in pairwise(borders)]
    lines = [line for chunk in chunks for line in splitter.feed(chunk)] + splitter.rest()
    return [(line.text, line.number) for line in lines]


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.sampled_from(["", QUIET * 99, QUIET * 500, OOM, "\r\n", "x" * 9000, "50%\r"]), max_size=30),
    st.lists(st.integers(0, 900_000), max_size=4),
)
def test_a_flood_is_read_in_order_with_true_numbers(parts: list[str], cuts: list[int]) -> None:
    n = iter(range(10**6))
    text = re.sub(r"\{n\}", lambda _: str(next(n)), "".join(parts)).encode()
    whole, some = read(text, None), read(text, SIEVE, cuts)
    at = iter(whole)
    assert all(line in at for line in some)  # a part of it, in the same order
    assert some[-1:] == whole[-1:]
    if text.count(OOM.encode()) <= 2:
        told = [[line for line in lines if "Memory" in line[0]] for lines in (some, whole)]
        assert told[0] == told[1]


def test_what_matters_comes_with_what_stands_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "pod.log"
    quiet = "".join(QUIET.format(n=n) for n in range(4 * BULK // len(QUIET)))
    trace = "Traceback (most recent call last):\n" + '  File "train.py", line 7, in step\n' * 20
    path.write_text(f"{quiet}{trace}{OOM}{quiet}")
    probe = LogProbe(Scanner(), RankMap(pod_rank=0, nproc=8), Progress(), Sieve())
    probe.follow(path)
    *_, told = probe.tick(60, 0.0)
    probe.close()
    assert told.rank == 3
    assert told.data["line_no"] == quiet.count("\n") + 22
    assert told.data["line"] == OOM.strip()
