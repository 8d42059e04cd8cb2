"""One log file as a stream: blocks, bars, lines without end, and what was wrong while others trained on."""

import io
import tracemalloc
from pathlib import Path, PurePath

import pytest

from master.bundle import read_paths
from master.bundlelogs import CHUNK, LONGEST, LogReader, blocks
from master.bundlenames import named
from tests.master.test_bundle_files import OOM, said, write


@pytest.mark.parametrize("steps", [40, 400, 4000])
@pytest.mark.parametrize(("left", "expected"), [(0, ["cuda_oom"]), (9, []), (30, []), (300, [])])
def test_what_others_trained_on_after_is_no_fault(
    tmp_path: Path, steps: int, left: int, expected: list[str]
) -> None:
    def at(second: int) -> str:
        return f"2026-01-12 {3 + second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}"

    write(
        tmp_path,
        rank0=[f"{at(second)} INFO step {second} | loss 2.3 | lr 3.0e-04" for second in range(steps)],
        rank3=[f"{at(max(0, steps - 1 - left))} ERROR {OOM}", f"{at(steps)} INFO batch skipped"],
    )
    assert [fault["cause"] for fault in said(tmp_path)["faults"]] == expected


def test_progress_bars_are_lines_of_one_number() -> None:
    log = LogReader("x", named(PurePath("rank0.log")))
    found = log.read(
        io.BytesIO(b"one\n" + b"\r".join(b"step %d" % n for n in range(5)) + b"\rKeyError: 'x'\n")
    )
    assert [(entry.number, entry.text) for entry in found.entries] == [(2, "KeyError: 'x'")]


def test_blocks_are_whole_lines_with_their_numbers() -> None:
    lines = [b"x" * (n % 3000) for n in range(400)]
    told = list(blocks(io.BytesIO(b"\n".join(lines))))
    assert b"".join(block for _, block in told) == b"\n".join(lines)
    number = 1
    for first, block in told:
        assert first == number
        number += block.count(b"\n")


class Endless(io.RawIOBase):
    """A line without an end, of a size that no machine's memory holds twice."""

    def __init__(self, size: int, end: bytes) -> None:
        self._left, self._end = size, end

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        if self._left <= 0:
            end, self._end = self._end, b""
            return end
        self._left -= size
        return b"x" * size


def test_an_endless_line_is_read_in_little_memory() -> None:
    tracemalloc.start()
    try:
        found = LogReader("x", named(PurePath("rank0.log"))).read(Endless(256 << 20, b"\nKeyError: 'x'\n"))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert [entry.number for entry in found.entries] == [2]
    assert peak < 10 * (CHUNK + LONGEST)


def test_a_line_repeated_without_end_is_kept_in_part(tmp_path: Path) -> None:
    write(tmp_path, rank0=["2026-01-12 03:00:01 INFO step 1", *(["[rank0]: KeyError: 'x'"] * 20_000), OOM])
    (bundle,) = read_paths([tmp_path])
    assert len(bundle.case.seen) <= 102
    assert bundle.case.seen[-1].data["line_no"] == 20_002


FAILED = (
    "E1129 10:00:14.6 29471 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: {code}) "
)
FAILED += "local_rank: {rank} (pid: 2644{rank}) of binary: /usr/bin/python"


def ended(code: int, *ranks: int) -> list[str]:
    return [FAILED.format(code=code, rank=rank) for rank in ranks]


@pytest.mark.parametrize(
    ("lines", "rank"),
    [
        pytest.param(["ValueError: bad shard", *ended(1, 3)], 3, id="torchrun says who"),
        pytest.param(["ValueError: bad shard", *ended(1, 3, 5)], None, id="two ended by themselves"),
        pytest.param(ended(-9, 5), 5, id="killed"),
        pytest.param(["ValueError: bad shard"], 0, id="nobody tells of several ranks"),
    ],
)
def test_one_log_of_ranks_that_it_does_not_tell_apart(
    tmp_path: Path, lines: list[str], rank: int | None
) -> None:
    write(tmp_path, train=["2026-11-29 10:00:00,0 INFO step 1 | loss 2.3", *lines])
    (fault,) = said(tmp_path)["faults"]
    assert fault["culprit"]["rank"] == rank
