"""Log files on disk as one case: order of time, sources, several faults, and what cannot be read."""

import gzip
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path, PurePath
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from master.bundle import BundleError, answer, read_paths
from master.bundlenames import Named, named
from master.bundlestamps import FileClock, Sort, shift, stamp_of

OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
CLOSED = "[rank0]: ncclRemoteError: A call failed possibly due to a network error or a remote process exiting"
XID = "NVRM: Xid (PCI:0000:9d:00): 79, pid=7, name=python, GPU has fallen off the bus."


def said(*paths: Path, language: str = "en") -> dict[str, Any]:
    (bundle,) = read_paths(list(paths))
    return answer(bundle, language)


def write(folder: Path, **files: list[str]) -> Path:
    for name, lines in files.items():
        path = folder / f"{name}.log"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(line + "\n" for line in lines))
    return folder


STAMPS = {
    "iso": ("2026-01-12 03:00:04,250 INFO x", Sort.FULL, datetime(2026, 1, 12, 3, 0, 4, 250000, UTC)),
    "container": ("2026-01-12T11:00:04+08:00 stdout F x", Sort.FULL, datetime(2026, 1, 12, 3, 0, 4, 0, UTC)),
    "slashes": ("[2026/01/12 03:00:04] x", Sort.FULL, datetime(2026, 1, 12, 3, 0, 4, 0, UTC)),
    "dmesg -T": ("[Mon Jan 12 03:00:04 2026] NVRM", Sort.FULL, datetime(2026, 1, 12, 3, 0, 4, 0, UTC)),
    "json": ('{"l":"i","ts":1768186804.5}', Sort.FULL, datetime(2026, 1, 12, 3, 0, 4, 500000, UTC)),
    "milliseconds": ("1768186804500 x", Sort.FULL, datetime(2026, 1, 12, 3, 0, 4, 500000, UTC)),
    "access log": ("12/Jan/2026:03:00:04 +0000 x", Sort.FULL, datetime(2026, 1, 12, 3, 0, 4, 0, UTC)),
    "glog with a year": ("I20260112 03:00:04.5 x", Sort.FULL, datetime(2026, 1, 12, 3, 0, 4, 500000, UTC)),
    "glog": ("E0112 03:00:04.5 7 x.cc:1] x", Sort.YEARLESS, datetime(2000, 1, 12, 3, 0, 4, 500000, UTC)),
    "torch": ("[rank3]:[E901 03:00:04.5 x", Sort.YEARLESS, datetime(2000, 9, 1, 3, 0, 4, 500000, UTC)),
    "syslog": ("Jan 12 03:00:04 node-a kernel: x", Sort.YEARLESS, datetime(2000, 1, 12, 3, 0, 4, 0, UTC)),
    "clock": ("[03:00:04] x", Sort.CLOCK, datetime(2000, 1, 1, 3, 0, 4, 0, UTC)),
    "uptime": ("[  812.5] NVRM", Sort.UPTIME, datetime(2000, 1, 1, 0, 13, 32, 500000, UTC)),
    "kmsg": ("6,12,812500000,-;NVRM", Sort.UPTIME, datetime(2000, 1, 1, 0, 13, 32, 500000, UTC)),
}  # fmt: skip


@pytest.mark.parametrize(("line", "sort", "at"), STAMPS.values(), ids=STAMPS.keys())
def test_stamps_of_any_sort(line: str, sort: Sort, at: datetime) -> None:
    found = stamp_of(line)
    assert found is not None
    assert (found.sort, found.at) == (sort, at)


@pytest.mark.parametrize(
    "line",
    ["", "step 2024 | loss 1", "50%|##| 1/2 [01:00:05<00:02]", "2026-02-31 03:00:00 x",
     "2026-01-12 29:99:99 x",     "10.0.0.1:29500", "step 3: 12:30 left", "tensor([2026, 1, 12])"],
)  # fmt: skip
def test_what_is_no_stamp(line: str) -> None:
    assert stamp_of(line) is None


def test_a_clock_alone_passes_midnight() -> None:
    clock = FileClock()
    for text in ("23:59:58 x", "00:00:02 x", "00:00:01 x"):
        clock.see(stamp_of(text))
    assert clock.at == datetime(2000, 1, 2, 0, 0, 1, tzinfo=UTC)


def test_dates_without_a_year_pass_new_year() -> None:
    clock = FileClock()
    for text in ("Dec 31 23:59:58 a b", "Jan  1 00:00:02 a b"):
        clock.see(stamp_of(text))
    assert clock.at == datetime(2001, 1, 1, 0, 0, 2, tzinfo=UTC)


def test_what_a_file_leaves_open_is_settled_by_the_others() -> None:
    reference = datetime(2026, 1, 12, 3, 0, 0, tzinfo=UTC)
    clock = datetime(2000, 1, 1, 2, 59, 50, tzinfo=UTC)
    assert clock + shift(Sort.CLOCK, clock, reference) == reference - timedelta(seconds=10)
    yearless = datetime(2000, 1, 12, 2, 59, 50, tzinfo=UTC)
    assert yearless + shift(Sort.YEARLESS, yearless, reference) == reference - timedelta(seconds=10)
    assert clock + shift(Sort.UPTIME, clock, reference) == reference


NAMES = {
    "rank3.log": Named(3, "", "log"),
    "job_rank-12.err": Named(12, "", "log"),
    "node-a01_rank7.log": Named(7, "a01", "log"),
    "rank7_node-a01.log": Named(7, "a01", "log"),
    "node-a01.dmesg.log": Named(None, "a01", "kernel"),
    "node-b/rank3/stderr.log": Named(3, "b", "log"),
    "node-k8s-2_rank3.log": Named(3, "k8s-2", "log"),
    "node-k8s-2_events.log": Named(None, "k8s-2", "k8s"),
    "node-a01_dmesg.log": Named(None, "a01", "kernel"),
    "node-a01_k8s_events.log": Named(None, "a01", "k8s"),
    "node-昇腾-2_rank3_stderr.log": Named(3, "昇腾-2", "log"),
    "run/attempt_0/5/stderr.log": Named(5, "", "log"),
    "frank3.log": Named(None, "", "log"),
    "k8s-events.txt": Named(None, "", "k8s"),
    "train.log": Named(None, "", "log"),
}


@pytest.mark.parametrize(("name", "expected"), NAMES.items(), ids=NAMES.keys())
def test_names_tell_the_source(name: str, expected: Named) -> None:
    assert named(PurePath(name)) == expected


def test_stamps_put_files_into_one_order(tmp_path: Path) -> None:
    write(
        tmp_path,
        rank0=["2026-01-12 03:00:09,1 INFO step 2", "2026-01-12 03:00:10,1 ERROR RuntimeError: torn apart"],
        rank1=["Jan 12 03:00:05 h x: y", "[E0112 03:00:06.5 x.cpp:1] note", OOM],
    )
    (fault,) = said(tmp_path)["faults"]
    assert (fault["cause"], fault["culprit"]["rank"]) == ("cuda_oom", 1)
    assert (Path(fault["evidence"][0]["file"]).name, fault["evidence"][0]["line_no"]) == ("rank1.log", 3)


def test_files_without_any_stamp_are_read(tmp_path: Path) -> None:
    write(tmp_path, rank0=[f"step {n} | loss 1" for n in range(50)] + [CLOSED], rank1=["start", OOM])
    (fault,) = said(tmp_path)["faults"]
    assert (fault["cause"], fault["culprit"]["rank"]) == ("cuda_oom", 1)


def test_an_error_that_training_went_on_after_is_none(tmp_path: Path) -> None:
    write(
        tmp_path,
        train=["step 1 | loss 1", "ValueError: bad sample", *(f"step {n} | loss 1" for n in range(2, 9))],
    )
    assert said(tmp_path) == {"faults": [], "symptoms": []}


def test_one_log_of_all_ranks(tmp_path: Path) -> None:
    said_so = "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE, NumelIn=1, "
    said_so += "NumelOut=1, Timeout(ms)=600000) ran for 600005 milliseconds before timing out."
    head = "[rank{n}]:[E0112 03:10:0{n}.1 ProcessGroupNCCL.cpp:607] [Rank {n}] "
    write(tmp_path, train=[head.format(n=n) + said_so for n in (0, 1, 3, 4)])
    (fault,) = said(tmp_path)["faults"]
    assert (fault["cause"], fault["culprit"]["rank"]) == ("nccl_timeout", 2)


def test_several_paths_are_one_case(tmp_path: Path) -> None:
    write(tmp_path / "a", rank0=["2026-01-12 03:00:09 " + CLOSED])
    write(tmp_path / "b", **{"node-b.dmesg": ["[Mon Jan 12 03:00:05 2026] " + XID]})
    (fault,) = said(tmp_path / "a", tmp_path / "b" / "node-b.dmesg.log")["faults"]
    assert (fault["cause"], fault["isolate_node"], fault["action"]) == ("gpu_hardware", "b", "restart_job")


def test_a_file_under_two_names_is_read_once(tmp_path: Path) -> None:
    write(tmp_path, rank1=[OOM])
    (tmp_path / "latest.log").symlink_to(tmp_path / "rank1.log")
    (fault,) = said(tmp_path, tmp_path / "rank1.log")["faults"]
    assert len(fault["evidence"]) == 1


def test_gzip(tmp_path: Path) -> None:
    (tmp_path / "rank4.log.gz").write_bytes(gzip.compress(f"step 1\n{OOM}\n".encode()))
    (fault,) = said(tmp_path / "rank4.log.gz")["faults"]
    assert (fault["culprit"]["rank"], fault["evidence"][0]["line_no"]) == (4, 2)


def test_two_machines_that_broke_are_two_faults(tmp_path: Path) -> None:
    write(
        tmp_path,
        rank0=["2026-01-12 03:00:09 " + CLOSED],
        **{
            "node-a.dmesg": ["[Mon Jan 12 03:00:05 2026] " + XID],
            "node-b.dmesg": ["[Mon Jan 12 03:00:06 2026] " + XID],
        },
    )
    found = said(tmp_path)
    assert [fault["culprit"]["node"] for fault in found["faults"]] == ["a", "b"]
    assert [line["rank"] for line in found["symptoms"]] == [0]


def test_a_second_fault_after_training_was_started_again(tmp_path: Path) -> None:
    first = [f"2026-01-12 03:00:{n:02} step {n} | loss 1" for n in range(10)]
    failed = "2026-01-12 03:00:11 failed (exitcode: -11) local_rank: 0 (pid: 7) of binary: python"
    again = [f"2026-01-12 03:01:{n:02} step {n} | loss 1" for n in range(10)]
    write(tmp_path, train=[*first, failed, *again, "2026-01-12 03:01:11 " + OOM])
    assert [fault["cause"] for fault in said(tmp_path)["faults"]] == ["segfault", "cuda_oom"]


def test_what_is_no_text_is_left_out_of_a_folder_and_said(tmp_path: Path) -> None:
    write(tmp_path, rank1=[OOM])
    (tmp_path / "model.pt").write_bytes(bytes(range(256)) * 10)
    notes: list[str] = []
    assert len(list(read_paths([tmp_path], notes.append))) == 1
    assert [note.partition(": ")[2] for note in notes] == ["left out, it is no text"]


def cut(path: Path) -> None:
    path.write_bytes(gzip.compress(os.urandom(99_999).hex().encode())[:80_000])


REFUSED = {
    "binary": (lambda folder: (folder / "x.log").write_bytes(bytes(range(256))), "x.log", "is no text"),
    "cut gzip": (lambda folder: cut(folder / "x.gz"), "x.gz", "gzip"),
    "empty folder": (lambda folder: (folder / "d").mkdir(), "d", "holds no file"),
    "device": (lambda _: None, "/dev/zero", "is a device"),
    "loop": (lambda folder: (folder / "l").symlink_to("l"), "l", "cannot be read"),
    "missing": (lambda _: None, "gone", "no such file or folder"),
    "a folder of binaries": (
        lambda folder: [(folder / "d").mkdir(), (folder / "d" / "x").write_bytes(bytes(range(256)))],
        "d",
        "holds no text log",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("make", "name", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_what_cannot_be_read_is_refused_by_path(tmp_path: Path, make: Any, name: str, message: str) -> None:
    make(tmp_path)
    with pytest.raises(BundleError) as refusal:
        list(read_paths([tmp_path / name]))
    assert str(refusal.value).startswith(str(tmp_path / name))
    assert message in str(refusal.value)


def test_a_bundle_goes_alone(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"log": []}')
    with pytest.raises(BundleError, match="give it alone"):
        list(read_paths([tmp_path / "a.json", tmp_path]))


def test_local_time_beside_files_that_tell_their_zone(tmp_path: Path) -> None:
    lost = "2026-01-12T03:00:09Z stderr F " + CLOSED
    write(
        tmp_path,
        rank0=[lost],
        rank1=["2026-01-12 11:00:05,1 INFO step 1", "2026-01-12 11:00:07,1 ERROR " + OOM],
    )
    (bundle,) = read_paths([tmp_path], zone=ZoneInfo("Asia/Shanghai"))
    assert [one.at.hour for one in bundle.case.seen] == [3, 3]
    (bundle,) = read_paths([tmp_path], zone=ZoneInfo("UTC"))
    assert [one.at.hour for one in bundle.case.seen] == [3, 11]


def test_what_a_kernel_said_long_before_the_job_is_of_another_time(tmp_path: Path) -> None:
    job = [*(f"2026-01-12 05:00:{second:02} INFO step {second}" for second in range(0, 50, 5))]
    write(tmp_path, rank0=job, rank1=["2026-01-12 05:00:00 start", "2026-01-12 05:00:50 KeyError: 'x'"])
    write(tmp_path, **{"node-a_dmesg": ["[Mon Jan 12 03:00:05 2026] " + XID]})
    assert [fault["cause"] for fault in said(tmp_path)["faults"]] == ["user_code_error"]
    write(tmp_path, **{"node-a_dmesg": ["[Mon Jan 12 05:00:47 2026] " + XID]})
    assert said(tmp_path)["faults"][0]["cause"] == "gpu_hardware"


def test_the_only_rank_whose_log_is_there_need_not_be_the_only_one(tmp_path: Path) -> None:
    write(tmp_path, **{"node-a_rank5": ["2026-01-12 05:00:40 INFO step 7 | loss 2.1"]})
    write(tmp_path, **{"node-a_dmesg": ["[Mon Jan 12 05:00:47 2026] " + XID]})
    (fault,) = said(tmp_path)["faults"]
    assert fault["culprit"] == {"rank": None, "node": "a"}


def test_a_journal_tells_that_the_cloud_takes_its_machine_back(tmp_path: Path) -> None:
    notice = "Jan 12 03:00:05 c aws-node-termination-handler[9]: INF Got event: Kind=SPOT_ITN node=c"
    gone = "2026-01-12 03:00:09 a:1:2 [0] NCCL WARN socketProgress: Connection closed by remote peer c<41>"
    files = {
        "node-a_rank0": ["2026-01-12 03:00:04 step 7 | loss 1.2", gone],
        "node-c_journal": [notice],
        "node-c_events": ["2026-01-12 03:00:30 node/c condition Ready=Unknown reason=NodeStatusUnknown"],
    }
    (fault,) = said(write(tmp_path, **files))["faults"]
    assert (fault["cause"], fault["culprit"]["node"], fault["hardware"]) == ("preempted", "c", False)
