"""PyTorch's flight recorder: read without ever being unpickled."""

import json
import os
import pickle
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from agent import dumps, flight, plainpickle

ENTRY = {
    "collective_seq_id": 5, "is_p2p": False, "process_group": ("0", "default_pg"),
    "profiling_name": "gloo:all_reduce", "input_sizes": [[4, 2], [8]], "state": "scheduled",
    "retired": False, "duration_ms": 1.5, "big": 1 << 60,
}  # fmt: skip
DUMP = {
    "version": "2.10",
    "pg_config": {"": {"name": "", "desc": "", "ranks": "[0, 1]"}},
    "pg_status": {"0": {"last_enqueued_collective": 5, "last_completed_collective": 4}},
    "entries": [ENTRY | {"collective_seq_id": 4}, ENTRY],
}  # fmt: skip
TOLD = [
    {
        "group": "0",
        "ranks": [0, 1],
        "enqueued": 5,
        "completed": 4,
        "calls": [{"number": 5, "op": "gloo:all_reduce", "sizes": "4x2,8"}],
    }
]
JOB = """
import os, sys, threading, time
import torch
import torch.distributed as dist
from torch._C._distributed_c10d import _dump_fr_trace, _dump_fr_trace_json

rank, folder = int(sys.argv[1]), sys.argv[2]
dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
for _ in range(3):
    dist.all_reduce(torch.ones(4))
if rank == 0:
    threading.Thread(target=lambda: dist.all_reduce(torch.ones(4)), daemon=True).start()
time.sleep(1)  # the recorder hears from other threads what was completed
for name, write in (("trace_", _dump_fr_trace), ("json/", _dump_fr_trace_json)):
    with open(f"{folder}/{name}{rank}", "wb") as file:
        file.write(write())
print("dumped", flush=True)
sys.stdin.read()
os._exit(0)
"""


def as_torch_writes(value: Any) -> bytes:
    """Protocol 2 without what newer protocols add."""
    return pickle.dumps(value, protocol=2)


@pytest.mark.parametrize(
    "write", [as_torch_writes, lambda dump: json.dumps(dump).encode()], ids=["pickle", "json"]
)
def test_both_forms_tell_the_same(write: Any) -> None:
    assert flight.groups(flight.parse(write(DUMP))) == TOLD


class Evil:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ("touch /tmp/never",)


@pytest.mark.parametrize(
    "content",
    [
        as_torch_writes({"entries": [Evil()]}),
        pickle.dumps({"entries": [Evil()]}, protocol=5),
        as_torch_writes(DUMP)[:-1],
        as_torch_writes([1, 2]),
        b"\x80\x02r\xff\xff\xff\x7f.",  # a memo of two thousand million places
        b"\x80\x05\x96\xff\xff\xff\xff\xff\x00\x00\x00.",  # bytes that are not there
        b"\x80\x02(((((((u.",
        b"\x80\x02]a.",
        b"\x80\x02}(]Ku.",
        b"",
        b"{",
        b'{"entries": ' + b"[" * 100_000,
        b'{"a": 1}',
        os.urandom(4096),
    ],
)
def test_anything_else_is_refused(content: bytes) -> None:
    with pytest.raises(flight.NoDumpError):
        flight.parse(content)


@pytest.mark.parametrize(
    "dump",
    [
        {"entries": 5, "pg_status": 7, "pg_config": []},
        {"entries": [5, None, {}, {"process_group": 3}, {"process_group": []}]},
        {"entries": [], "pg_status": {"0": {"last_enqueued_collective": "x"}}},
        {"entries": [], "pg_status": {"0": {"last_enqueued_collective": True}}},
        {"entries": [{"process_group": ["0"], "collective_seq_id": "9" * 5000}]},
    ],
)
def test_odd_contents_tell_nothing(dump: dict[str, Any]) -> None:
    assert flight.groups(dump) == []


def test_a_list_that_holds_itself_has_an_end() -> None:
    sizes: list[Any] = []
    for _ in range(30):  # each in words a thousand million times as long
        sizes = [sizes, sizes]
    sizes.append(sizes)
    dump = flight.parse(
        as_torch_writes(DUMP | {"entries": [ENTRY | {"input_sizes": sizes, "profiling_name": sizes}]})
    )
    [group] = flight.groups(dump)
    assert (group["calls"][0]["op"], len(json.dumps(group)) < 500) == ("", True)


def test_plain_data_comes_back_as_it_was() -> None:
    shared = [1, -1, 1 << 40, 2.5, None, True, "ü", ("a", 1)]
    value = {"x": shared, "y": shared, "z": {}}
    assert plainpickle.load(as_torch_writes(value)) == value


def test_the_newest_call_is_the_moment_of_a_dump() -> None:
    calls = [
        ENTRY | {"time_created_ns": at} for at in (1_768_186_804_500_000_000, "1768186805000000000", None)
    ]
    assert flight.newest({"entries": calls}) == datetime(2026, 1, 12, 3, 0, 5, 0, UTC)
    assert flight.newest({"entries": [ENTRY, {"time_created_ns": -5}]}) is None
    assert flight.newest({"entries": [{"time_created_ns": 1 << 61}]}) == datetime(
        2043, 1, 25, 23, 56, 49, 213694, UTC
    )


@pytest.mark.e2e
def test_a_real_gloo_jobs_dumps(tmp_path: Path) -> None:
    (tmp_path / "json").mkdir()
    (tmp_path / "old0").write_bytes(as_torch_writes(DUMP))
    os.utime(tmp_path / "old0", (1e9, 1e9))
    script = tmp_path / "train.py"
    script.write_text(JOB)
    env = os.environ | {"TORCH_FR_BUFFER_SIZE": "100", "GLOO_SOCKET_IFNAME": "lo"}
    env |= dict(zip(dumps.PREFIXES, (str(tmp_path / "old"), str(tmp_path / "trace_")), strict=True))
    ranks = [
        subprocess.Popen(
            [sys.executable, str(script), str(rank), str(tmp_path)],
            env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )
        for rank in (0, 1)
    ]  # fmt: skip
    try:
        assert [one.stdout.readline() for one in ranks if one.stdout] == ["dumped\n"] * 2
        told = {rank: dumps.of_process(one.pid, rank) for rank, one in enumerate(ranks)}
        assert [told[rank][0]["enqueued"] for rank in (0, 1)] == [4, 3]
        assert told[0][0]["ranks"] == [0, 1]
        assert all(told[rank][0]["completed"] in (2, 3) for rank in (0, 1))
        for rank in (0, 1):
            assert flight.groups(flight.parse((tmp_path / f"json/{rank}").read_bytes())) == told[rank]
    finally:
        for one in ranks:
            one.communicate("", timeout=20)
