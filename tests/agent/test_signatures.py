"""Which lines mean what, and which mean nothing."""

import time
from pathlib import Path

import pytest

from agent.signatures import SIGNATURES, Role, Scanner, check_pattern, signature
from agent.signatures import scanner as scanning
from master.casefile import Cause
from master.diagnosis.world import as_int

SCANNER = Scanner()
DATA = Path(__file__).parent / "data"


def table(name: str) -> list[tuple[str, str]]:
    """Rows of "signature, tab, line"."""
    rows = (DATA / name).read_text(encoding="utf-8").splitlines()
    return [(row.partition("\t")[0], row.partition("\t")[2]) for row in rows if not row.startswith("#")]


LOG = table("log_lines.tsv")
KERNEL = table("kernel_lines.tsv")
BENIGN = (DATA / "benign_lines.txt").read_text(encoding="utf-8").splitlines()[1:]


PREFIXES = [
    "",
    "[default2]: ",
    "[1,3]<stderr>:",
    "(RayWorkerWrapper pid=7) ",
    "\x1b[31m",
    "2026-01-12T03:00:04.123456789Z stderr F ",
    "2026-01-12 03:00:04,123 ",
    "2026-01-12 03:00:04,123 - ERROR - ",
    "[rank7]: ",
    "2026-01-12 03:00:04.123 | ERROR    | trainer.loop:run:88 - ",
    "ERROR 2026-01-12 03:00:04,123 trainer.py:12] ",
    "ERROR:root:",
    "[2026-01-12 03:00:04,123][trainer][ERROR] - ",
    "2026-01-12 03:00:04,123 - trainer - ERROR - ",
    "[03:00:04] ",
    "3: ",
    "node-a01: ",
    "worker-3  | ",
    "[rank: 3] ",
    "Jan 12 03:00:04 node-a python[123]: ",
    "[default3]:[rank3]: ",
    "    | ",
]
ALSO = {
    "cuda.env": "[rank8]: RuntimeError: The NVIDIA driver on your system is too old (found version 12020).",
    "shm.full": "RuntimeError: unable to write to file </torch_4411_77>: No space left on device (28)",
    "python.exception": '{"level":"error","ts":1768186804.5,"msg":"ValueError: bad batch"}',
    "cuda.oom": '{"log":"[rank1]: CUDA out of memory. Tried\\n","stream":"stderr"}',
    "storage.full": 'time="2026-01-12T03:00:04Z" level=error msg="write x: No space left on device"',
}
UNUSABLE = ["re:(", "re:a(?=b)", "re:a{1000}{1000}", "", "re:", "re:x*", "   ", "x" * 2000]


@pytest.mark.parametrize(("name", "line"), LOG, ids=[name for name, _ in LOG])
def test_log_lines(name: str, line: str) -> None:
    found = SCANNER.scan(line)
    assert found is not None
    assert (found.signature, found.line) == (name, line)


@pytest.mark.parametrize(("name", "line"), KERNEL, ids=[name for name, _ in KERNEL])
def test_kernel_lines(name: str, line: str) -> None:
    found = SCANNER.scan(line, "kernel")
    assert found is not None
    assert found.signature == name


@pytest.mark.parametrize("line", BENIGN, ids=[line[:60] for line in BENIGN])
def test_lines_that_mean_nothing(line: str) -> None:
    assert SCANNER.scan(line) is None


CAPTURED = {
    "nccl.peer_closed": {"peer": "node-b", "line_host": "node-a", "line_pid": "421"},
    "nccl.ib_completion": {"peer": "10.2.0.5", "status": "12"},
    "c10d.watchdog_timeout": {"seq": "6075", "op": "_ALLGATHER_BASE", "line_rank": "3"},
    "c10d.work_counters": {"enqueued": "6139", "completed": "6074"},
    "c10d.desync": {"ranks": "1"},
    "c10d.monitored_barrier": {"ranks": "4, 5"},
    "c10d.store_unreachable": {"peer": "192.0.2.11", "port": "29400"},
    "gloo.peer_lost": {"peer": "127.0.0.1", "line_rank": "0"},
    "elastic.failed": {"exitcode": "-9", "local_rank": "1", "pid": "24104"},
    "python.exception": {"type": "KeyError", "line_rank": "6"},
}


@pytest.mark.parametrize(("name", "expected"), CAPTURED.items(), ids=CAPTURED.keys())
def test_what_a_line_names(name: str, expected: dict[str, str]) -> None:
    found = SCANNER.scan(dict(LOG)[name])
    assert found is not None
    assert expected.items() <= found.captured.items()


def test_device_and_process_of_an_xid() -> None:
    found = SCANNER.scan(dict(KERNEL)["xid.48"], "kernel")
    assert found is not None
    assert found.captured == {"device": "0000:4e:00", "pid": "22410"}


@pytest.mark.parametrize(("name", "line"), ALSO.items(), ids=ALSO.keys())
def test_other_forms_of_a_line(name: str, line: str) -> None:
    found = SCANNER.scan(line)
    assert found is not None
    assert found.signature == name


@pytest.mark.parametrize(
    "line",
    ['{"text": "ValueError: bad batch"}', '{"level":"info","msg":"ValueError: bad batch"}',
     "INFO:root:ValueError: bad batch", "Exception ignored in: <function f>", "KeyError: skipped a sample"],
)  # fmt: skip
def test_narration_and_data_mean_nothing(line: str) -> None:
    assert SCANNER.scan(line) is None


@pytest.mark.parametrize("prefix", PREFIXES)
def test_framings_do_not_hide_a_line(prefix: str) -> None:
    found = SCANNER.scan(prefix + "RuntimeError: CUDA error: device-side assert triggered")
    assert found is not None
    assert found.signature == "cuda.assert"


def test_the_table_is_sound() -> None:
    ids = [one.id for one in SIGNATURES]
    assert len(ids) == len(set(ids))
    assert len(ids) >= 100
    for one in SIGNATURES:
        assert not one.cause or Cause(one.cause)
        assert one.source
        assert signature(one.id) is one
        assert not one.hardware or one.role is not Role.BENIGN


@pytest.mark.parametrize("pattern", UNUSABLE, ids=range(len(UNUSABLE)))
def test_patterns_that_cannot_be_used_are_named(pattern: str) -> None:
    with pytest.raises(ValueError, match="log pattern"):
        check_pattern(pattern)


def test_custom_patterns_are_literal_unless_marked() -> None:
    scanner = Scanner(("Loss nan", "re:timeout [0-9]+ms"))
    literal, expression = scanner.scan("step 3 Loss nan"), scanner.scan("read timeout 600ms")
    assert literal is not None
    assert (literal.signature, literal.captured["pattern"]) == ("custom", "Loss nan")
    assert expression is not None
    assert Scanner(("a.c",)).scan("abc") is None
    assert scanner.scan("kernel: Loss nan", "kernel") is None


@pytest.mark.parametrize(
    "line",
    ["\udc80 CUDA error: x \x00", "[" * 9000, "1" * 9000 + "]", "[E" + "1" * 9000, "a" * 9000 + "Error: x",
     "[rank" * 2000, "NCCL WARN " * 900, "é" * 9000],
    ids=range(8),
)  # fmt: skip
def test_hostile_lines_are_quick_and_harmless(line: str) -> None:
    began = time.perf_counter()
    for source in ("log", "kernel"):
        SCANNER.scan(line, source)
    assert time.perf_counter() - began < 0.2


def test_ordinary_lines_cost_microseconds() -> None:
    line = (
        "[rank0]: step 9118 | loss 2.3100 | lr 1.2e-4 | 2716 tok/s | elapsed time per iteration (ms): 4037.0"
    )
    SCANNER.scan(line)
    assert [scanning._suspects(line, source) for source in ("log", "kernel")] == [[], []]
    began = time.perf_counter()
    for _ in range(2000):
        SCANNER.scan(line)
    assert (time.perf_counter() - began) / 2000 < 100e-6


def test_numbers_out_of_captures() -> None:
    assert [as_int(text) for text in ("7", "-9", "x", "", "٣", "9" * 30, None, True)] == [
        7, -9, None, None, None, None, None, None,
    ]  # fmt: skip
