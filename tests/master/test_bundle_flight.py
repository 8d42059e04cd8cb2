"""Dumps of PyTorch's flight recorder beside a dead job's logs, by a real gloo job; and hostile ones."""

import gzip
import json
import os
import pickle
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

from master.bundle import BundleError, answer, parse, read_paths

# Rank 1 never comes to the fourth collective, or calls another one there.
JOB = """
import glob, json, os, sys, threading, time
import torch
import torch.distributed as dist
from torch._C._distributed_c10d import _dump_fr_trace, _dump_fr_trace_json

rank, folder, how = int(sys.argv[1]), sys.argv[2], sys.argv[3]
dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=3)
dist.new_group([0, 2])
for _ in range(3):
    dist.all_reduce(torch.ones(4))
if rank != 1:
    threading.Thread(target=lambda: dist.all_reduce(torch.ones(4)), daemon=True).start()
elif how == "another":
    threading.Thread(target=lambda: dist.broadcast(torch.ones(4), 0), daemon=True).start()


def until(true):
    deadline = time.monotonic() + 30
    while not true() and time.monotonic() < deadline:
        time.sleep(0.05)


def told():
    status = json.loads(_dump_fr_trace_json())["pg_status"]["0"]
    return int(status["last_enqueued_collective"]), int(status["last_completed_collective"])


until(lambda: told() == (3 if rank == 1 and how == "never" else 4, 3))
for name, write in (("fr", _dump_fr_trace), ("json", _dump_fr_trace_json)):
    with open(f"{folder}/{name}/nccl_trace_rank_{rank}", "wb") as file:
        file.write(write())
until(lambda: len(glob.glob(f"{folder}/*/nccl_trace_rank_*")) == 6)  # who goes ends others' calls
os._exit(0)
"""
TIMED_OUT = (
    "[rank{rank}]:[E1130 11:38:00.1 ProcessGroupNCCL.cpp:684] [Rank {rank}] Watchdog caught collective "
    "operation timeout: WorkNCCL(SeqNum=4, OpType=ALLREDUCE, NumelIn=4, NumelOut=4, Timeout(ms)=600000) ran "
    "for 600010 milliseconds before timing out."
)


def job(folder: Path, how: str) -> Path:
    for name in ("fr", "json"):
        (folder / name).mkdir(parents=True)
    (folder / "train.py").write_text(JOB)
    env = os.environ | {"TORCH_FR_BUFFER_SIZE": "100", "GLOO_SOCKET_IFNAME": "lo"}
    ranks = [
        subprocess.Popen(
            [sys.executable, str(folder / "train.py"), str(rank), str(folder), how],
            env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )
        for rank in (0, 1, 2)
    ]  # fmt: skip
    assert [one.wait(timeout=60) for one in ranks] == [0, 0, 0]
    aged(folder)
    return folder


def aged(folder: Path, seconds: float = 600) -> None:
    """As if a watchdog had written them when its collective timed out."""
    for path in folder.rglob("*_rank_*"):
        moment = path.stat().st_mtime + seconds
        os.utime(path, (moment, moment))


@pytest.fixture(scope="module")
def left_out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return job(tmp_path_factory.mktemp("left"), "never")


@pytest.fixture(scope="module")
def another_call(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return job(tmp_path_factory.mktemp("another"), "another")


def said(*paths: Path, notes: list[str] | None = None) -> dict[str, Any] | None:
    """The first fault."""
    (bundle,) = read_paths(list(paths), (lambda _: None) if notes is None else notes.append)
    faults: list[dict[str, Any]] = answer(bundle, "en")["faults"]
    return faults[0] if faults else None


def brief(fault: dict[str, Any] | None) -> tuple[Any, ...] | None:
    return (
        None
        if fault is None
        else (fault["cause"], fault["culprit"]["rank"], fault["hardware"], fault["action"])
    )


def packed(folder: Path, path: Path) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        archive.add(folder, "job")
    return path


NEVER_CAME = ("hang", 1, False, "restart_job")
WORDS = "flight recorder: group 0: rank 1 called 3 collectives, the others wait in number 4 (gloo:all_reduce)"


@pytest.mark.e2e
@pytest.mark.parametrize("form", ["fr", "json"])
def test_dumps_alone_name_who_never_came(left_out: Path, form: str) -> None:
    fault = said(left_out / form)
    assert brief(fault) == NEVER_CAME
    assert fault is not None
    (evidence,) = fault["evidence"]
    assert (evidence["file"], evidence["line_no"]) == (str(left_out / form / "nccl_trace_rank_1"), None)
    assert evidence["text"] == WORDS


@pytest.mark.e2e
def test_dumps_by_their_names_in_an_archive_and_packed(left_out: Path, tmp_path: Path) -> None:
    assert brief(said(packed(left_out / "fr", tmp_path / "job.tar.gz"))) == NEVER_CAME
    for rank in (0, 1, 2):
        content = (left_out / f"json/nccl_trace_rank_{rank}").read_bytes()
        (tmp_path / f"trace_{rank}.json").write_bytes(content)
        (tmp_path / f"fr-rank{rank}.gz").write_bytes(gzip.compress(content))
    aged(tmp_path)
    assert brief(said(*sorted(tmp_path.glob("*.json")))) is None  # written just now: may be a job that runs
    for path in tmp_path.glob("*.*"):
        os.utime(path, (4e9, 4e9))
    assert brief(said(*sorted(tmp_path.glob("*.json")))) == NEVER_CAME
    assert brief(said(*sorted(tmp_path.glob("*.gz"))[:3])) == NEVER_CAME


@pytest.mark.e2e
def test_a_bundle_may_hold_them(left_out: Path) -> None:
    dumps = {rank: json.loads((left_out / f"json/nccl_trace_rank_{rank}").read_text()) for rank in "012"}
    (fault,) = answer(parse(json.dumps({"log": [], "flight": dumps}), "case.json"), "en")["faults"]
    assert brief(fault) == NEVER_CAME


def log(folder: Path, rank: int, *lines: str) -> None:
    (folder / f"rank{rank}.log").write_text("".join(f"{line}\n" for line in lines))


@pytest.fixture
def beside(left_out: Path, tmp_path: Path) -> Path:
    """Dumps in a folder of their own, logs to be put beside it."""
    (tmp_path / "fr").mkdir()
    for path in (left_out / "fr").iterdir():
        (tmp_path / "fr" / path.name).write_bytes(path.read_bytes())
    aged(tmp_path)
    return tmp_path


@pytest.mark.e2e
def test_they_name_whom_a_chorus_of_time_outs_cannot(beside: Path) -> None:
    for rank in (0, 1, 2):
        log(beside, rank, "step 3 | loss 2.0", TIMED_OUT.format(rank=rank))
    assert brief(said(beside)) == ("nccl_timeout", 1, False, "restart_job")
    for path in (beside / "fr").iterdir():
        path.unlink()
    (beside / "fr").rmdir()
    assert brief(said(beside)) == ("nccl_timeout", None, False, "restart_job")


@pytest.mark.e2e
def test_a_root_cause_beats_them(beside: Path) -> None:
    log(beside, 2, "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.")
    assert brief(said(beside)) == ("cuda_oom", 2, False, "fail_job")


@pytest.mark.e2e
def test_training_that_went_on_afterwards_is_no_standstill(beside: Path) -> None:
    log(beside, 0, *(f"2036-01-01 00:00:{n:02} INFO step {n} | loss 2.0" for n in range(0, 50, 5)))
    notes: list[str] = []
    assert said(beside, notes=notes) is None
    assert sum("in another run" in one for one in notes) == 3
    log(beside, 0, *(f"step {n} | loss 2.0" for n in range(9)))
    assert brief(said(beside)) == NEVER_CAME  # a log without dates that ends where they do


@pytest.mark.e2e
def test_another_call_is_the_programs_own(another_call: Path) -> None:
    fault = said(another_call / "fr")
    assert brief(fault) == ("desync", 1, False, "fail_job")
    assert fault is not None
    assert "rank 1 called gloo:broadcast, the others gloo:all_reduce" in fault["evidence"][0]["text"]


class Evil:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ("touch /tmp/never",)


@pytest.mark.parametrize(
    "content",
    [
        pickle.dumps({"entries": [Evil()]}, protocol=2),
        pickle.dumps({"entries": [1] * 100}, protocol=2)[:-1],
        pickle.dumps({"entries": b"x" * (17 << 20)}, protocol=4),
        b'{"entries": ' + b"[" * 100_000,
        b'{"entries": [] ',
    ],
    ids=["code", "cut", "large", "deep", "cut json"],
)
def test_what_is_no_dump_is_left_out_or_refused_by_name(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "nccl_trace_rank_0"
    path.write_bytes(content)
    with pytest.raises(BundleError, match=r"nccl_trace_rank_0: .*leave it out"):
        list(read_paths([path]))
    log(tmp_path, 1, "KeyError: 'x'")
    notes: list[str] = []
    assert brief(said(tmp_path, notes=notes)) == ("user_code_error", 1, False, "fail_job")
    assert ["left out" in note for note in notes] == [True]


@pytest.mark.parametrize(
    "told", [5, {"x": {}}, {"-1": {}}, {"1": []}, {"1": {}}, {"9" * 5000: {"entries": []}}]
)
def test_a_bundles_dumps_are_checked_by_field(told: object) -> None:
    with pytest.raises(BundleError, match="flight"):
        parse(json.dumps({"log": [], "flight": told}), "case")


def test_a_rotated_log_is_no_dump(tmp_path: Path) -> None:
    (tmp_path / "rank0.log.1").write_text('{"level": "error", "time": 1, "message": "KeyError: 1"}\n')
    assert brief(said(tmp_path)) == ("user_code_error", 0, False, "fail_job")


def entry(name: str, content: bytes = b"", **facts: Any) -> bytes:
    info = tarfile.TarInfo(name)
    info.size = len(content)
    for key, value in facts.items():
        setattr(info, key, value)
    padding = b"\0" * (-len(content) % 512)
    return info.tobuf(tarfile.GNU_FORMAT) + content + padding


OOM = entry(
    "../../rank3.log", b"step 1\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB.\n"
)
END = b"\0" * 1024


def test_an_archive_is_read_as_a_folder(tmp_path: Path) -> None:
    link = entry("rank4.log", type=tarfile.SYMTYPE, linkname="/etc/passwd")
    inner = entry("more.tar", entry("rank5.log", b"KeyError: 'x'\n") + END)
    (tmp_path / "job.tar").write_bytes(link + inner + entry(".hidden", b"x") + OOM + END)
    fault = said(tmp_path / "job.tar")
    assert brief(fault) == ("cuda_oom", 3, False, "fail_job")
    assert fault is not None
    assert fault["evidence"][0]["file"] == f"{tmp_path}/job.tar/rank3.log"
    assert brief(said(tmp_path)) == brief(fault)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (OOM[:700], "no tar archive"),
        (b"step 1\n" * 200, "no tar archive"),
        (entry("x", type=tarfile.GNUTYPE_LONGNAME, size=1 << 40) + END, "no tar archive"),
        (entry("a", type=tarfile.XGLTYPE, size=0) * 5000 + OOM + END, "no tar archive"),
        (entry("a", b"x") * 10_001 + END, "more than 10000 files"),
        (entry("a", type=tarfile.GNUTYPE_SPARSE, size=1 << 50) + OOM + END, "no tar archive"),
        (END, "holds no text log"),
    ],
    ids=["cut", "a log", "a header of a terabyte", "headers without end", "many", "sparse", "empty"],
)
def test_a_hostile_archive_is_refused_by_name(tmp_path: Path, content: bytes, why: str) -> None:
    (tmp_path / "job.tar.gz").write_bytes(gzip.compress(content, 1))
    with pytest.raises(BundleError) as refusal:
        said(tmp_path / "job.tar.gz")
    assert str(refusal.value).startswith(f"{tmp_path}/job.tar.gz")
    assert why in str(refusal.value)
    assert "\n" not in str(refusal.value)
