"""Which lines mean what, and which mean nothing."""

import time

import pytest

from agent.signatures import SIGNATURES, Role, Scanner, check_pattern, signature
from master.casefile import Cause
from master.diagnosis.world import as_int

SCANNER = Scanner()
NCCL = "node-a:421:721 [5] "
C10D = "[rank3]:[E901 05:20:03.445217639 ProcessGroupNCCL.cpp:684] [PG ID 0 PG GUID 0(default_pg) Rank 3] "

LOG = {
    "nccl.peer_closed": NCCL + "misc/socket.cc:538 NCCL WARN Net : Connection closed by remote peer node-b<42830>",
    "nccl.ib_completion": NCCL + "transport/net_ib.cc:1 NCCL WARN NET/IB : Got completion from peer 10.2.0.5<33092> "
    "with error 12, opcode 0, len 0, vendor err 129 (Recv)",
    "nccl.ib_completion_flush": NCCL + "NCCL WARN NET/IB: Got completion from peer 10.2.0.5<1> with "
    "status=IBV_WC_WR_FLUSH_ERR(5) opcode=0",
    "nccl.ib_async_fatal": NCCL + "transport/net_ib.cc:93 NCCL WARN NET/IB : Got async event : port error",
    "nccl.no_interface": NCCL + "misc/socket.cc:426 NCCL WARN Bootstrap : no socket interface found",
    "nccl.shm": NCCL + "NCCL WARN Error while creating shared memory segment /dev/shm/nccl-AbC (size 9637888), "
    "error: No space left on device (28)",
    "nccl.version_mismatch": NCCL + "NCCL WARN Mismatched NCCL version detected : rank 0 version 21805 rank 9 version 22005",
    "nccl.ecc": NCCL + "NCCL WARN Cuda failure 'uncorrectable ECC error encountered'",
    "c10d.watchdog_timeout": C10D + "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=6075, "
    "OpType=_ALLGATHER_BASE, NumelIn=1, NumelOut=8, Timeout(ms)=1800000) ran for 2954391 milliseconds before timing out.",
    "c10d.work_counters": C10D + "Timeout at NCCL work: 6075, last enqueued NCCL work: 6139, last completed NCCL work: 6074.",
    "c10d.desync": C10D + "To our best knowledge, the lagging/dead/mismatched ranks that caused the desync are: "
    "[1] finished collective #2, but didn't join collective #3",
    "c10d.monitored_barrier": "[rank0]: RuntimeError: [Rank 0]: Ranks 4, 5 failed to pass monitoredBarrier in 1800000 ms",
    "c10d.nccl_remote": "[rank14]: ncclRemoteError: A call failed possibly due to a network error or a remote process "
    "exiting prematurely.",
    "c10d.store_unreachable": "[E socket.cpp:860] [c10d] The client socket has timed out after 60s while trying to "
    "connect to (192.0.2.11, 29400).",
    "c10d.port_taken": "torch.distributed.DistNetworkError: The server socket has failed to listen on any local network "
    "address. port: 29500, useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use",
    "c10d.store_lost": "[rank4]:[W901 05:20:03.4 TCPStore.cpp:125] [c10d] recvValue failed on SocketImpl(fd=102): Failed "
    "to recv, got 0 bytes. Connection was likely closed. Did the remote server shutdown or crash?",
    "gloo.peer_lost": "[rank0]: RuntimeError: [/__w/pytorch/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:553] "
    "Connection closed by peer [127.0.0.1]:24791. This is typically caused by a remote worker crashing.",
    "gloo.timeout": "RuntimeError: [../third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting "
    "1800000ms for recv operation to complete",
    "cuda.ecc": "[rank11]: RuntimeError: CUDA error: uncorrectable ECC error encountered",
    "cuda.oom": "[rank2]: torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 512.00 MiB.",
    "cuda.assert": "RuntimeError: CUDA error: device-side assert triggered",
    "cuda.illegal_access": "what():  CUDA error: an illegal memory access was encountered",
    "cuda.container": "Failed to initialize NVML: Unknown Error",
    "shm.bus_error": "ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient shared "
    "memory (shm).",
    "storage.full": "[rank0]: OSError: [Errno 28] No space left on device: '/mnt/ckpt/x.distcp'",
    "storage.transient": "OSError: [Errno 116] Stale file handle",
    "checkpoint.write": "RuntimeError: [enforce fail at inline_container.cc:603] . PytorchStreamWriter failed writing "
    "file data/117: file write failed",
    "crash.segfault": "Fatal Python error: Segmentation fault",
    "elastic.failed": "E1129 15:58:00.8 19613 torch/distributed/elastic/multiprocessing/api.py:1002] failed "
    "(exitcode: -9) local_rank: 1 (pid: 24104) of binary: /usr/bin/python3",
    "elastic.death_signal": "WARNING torch.distributed.elastic.agent.server.api:Received 1 death signal, shutting down workers",
    "python.exception": "[rank6]: KeyError: 'shard-00417'",
    "python.import": "ModuleNotFoundError: No module named 'apex'",
}  # fmt: skip

KERNEL = {
    "xid.79": "[99812.0] NVRM: Xid (PCI:0000:9d:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
    "xid.48": "3,842,1843308145,-;NVRM: Xid (PCI:0000:4e:00): 48, pid=22410, name=python, DBE (double bit error)",
    "xid.119": "Jan 12 03:00:49 node-a kernel: [7.1] NVRM: Xid (PCI:0000:9b:00): 119, pid=5, name=python, Timeout after 45s",
    "xid.63": "[1.2] NVRM: Xid (PCI:0000:19:00): 63, pid=331, name=python, Row Remapper: New row marked",
    "xid.nvlink5": "[1.2] NVRM: Xid (PCI:0000:19:00): 149, NETIR_LINK_EVT Fatal XC0 i0 Link 09 (0x000045c6)",
    "xid.other": "[1.2] NVRM: Xid (PCI:0000:19:00): 149, NETIR_LINK_EVT Nonfatal XC0 i0 Link 09 (0x000045c6)",
    "xid.action": "[1.2] NVRM: Xid (PCI:0000:19:00): 154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)",
    "gpu.off_bus": "               NVRM: fallen off the bus and is not responding to commands.",
    "nvswitch.fatal": "[1.2] nvidia-nvswitch0: SXid (PCI:0000:83:00.0): 20034, Fatal, Link 30 LTSSM Fault Up",
    "nvswitch.nonfatal": "[1.2] nvidia-nvswitch0: SXid (PCI:0000:83:00.0): 12028, Non-fatal, Link 32 egress non-posted",
    "memory.killed": "[3.4] Memory cgroup out of memory: Killed process 4242 (python) total-vm:1kB, anon-rss:1kB",
    "link.down": "[812345.117] mlx5_core 0000:c1:00.0 ens5np0: Link down",
    "nic.module": "[1.2] mlx5_core 0000:5d:00.0: Port module event[error]: module 0, Cable error, High Temperature",
    "disk.error": "[1.2] blk_update_request: I/O error, dev nvme0n1, sector 12 op 0x0:(READ)",
    "crash.kernel_segfault": "[81123.6] python[6632]: segfault at 0 ip 00007f sp 00007f error 4 in libtorch_cpu.so",
    "kernel.blocked_task": "[1.2] INFO: task python:123 blocked for more than 120 seconds.",
}  # fmt: skip

BENIGN = [
    NCCL + "NCCL INFO NET/IB : Using [0]mlx5_0:1/RoCE; OOB eth0:10.0.0.1<0>",
    NCCL + "NCCL INFO NCCL_IB_TIMEOUT set by environment to 22.",
    NCCL + "NCCL INFO Call to connect returned Connection refused, retrying",
    NCCL + "NCCL INFO Call to ibv_modify_qp failed with 22, retrying 1/10 after 100 msec of sleep",
    NCCL + "NCCL INFO comm 0x55d0 rank 0 nranks 8 - Abort COMPLETE",
    NCCL + "NCCL INFO Failed to open libibverbs.so[.1]",
    NCCL + "NCCL INFO NET/Plugin: Plugin load returned 2 : libnccl-net.so: cannot open shared object file: No such file",
    NCCL + "NCCL INFO HINT: In many cases this error occurs when NCCL error is a network error",
    NCCL + "misc/socket.cc:483 NCCL INFO socketStartConnect: Connect to 192.0.2.11<45011> returned Connection refused, retrying",
    "TORCH_NCCL_ASYNC_ERROR_HANDLING=1 NCCL_BLOCKING_WAIT: 0, TIMEOUT(ms): 600000",
    "step 100 | loss 2.31 | error_rate=0.01",
    "train/mean_squared_error: 0.02 val_error 0.13 timeout=600 nan_count=0 oom_retries=0",
    "CUDA error checking enabled, CUDA_LAUNCH_BLOCKING=0",
    "[rank1]: CUDA kernel errors might be asynchronously reported at some other API call",
    "For debugging consider passing CUDA_LAUNCH_BLOCKING=1",
    "W0112 03:00:01.1 41 torch/distributed/run.py:793] Setting OMP_NUM_THREADS environment variable to avoid overloading",
    "[rank0]:[W515 07:06:42.8 ProcessGroupNCCL.cpp:1117] WARNING: process group has NOT been destroyed before it is destructed",
    "[rank0]:[W515 07:06:42.8 ProcessGroupNCCL.cpp:1] Using GPU 0. This can potentially cause a hang if this mapping is incorrect.",
    "resuming after failure: attempt 2/3, previous run failed with CUDA out of memory, batch size halved",
    "retrying S3 request (attempt 1): Connection reset by peer",
    "OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 65536, reducing to 32768",
    "number of skipped iterations:   0 | number of nan iterations:   0 |",
    "0 errors, errors=0, Failed: 0",
    "Downloading https://example.org/error_analysis.json",
    'sample 17 | prompt: How do I fix "RuntimeError: CUDA error: device-side assert triggered" in PyTorch?',
    "sample 18 | completion: terminate called after throwing an instance of 'c10::Error'",
    '{"nccl_timeout": 1800, "on_error": "raise", "fault_tolerance": true}',
    "xid=123 at /data/Xid/79.bin",
    "ECC Errors  SRAM Uncorrectable : 0",
    "args: Namespace(error_file=None, fail_fast=True, timeout_ms=600000, on_cuda_error='abort')",
    "class TimeoutError(Exception): ...",
    "WARNING: Failed to load flash_attn, falling back to sdpa: ImportError: libcudart.so",
    "[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB (caught by auto_find_batch_size)",
    "Some weights of the model checkpoint were not used. Missing keys: []",
    "NVRM: Xid (PCI:0000:9d:00): 79, pid=1, GPU has fallen off the bus.",
]  # fmt: skip


@pytest.mark.parametrize(("name", "line"), LOG.items(), ids=LOG.keys())
def test_log_lines(name: str, line: str) -> None:
    found = SCANNER.scan(line)
    assert found is not None
    assert (found.signature, found.line) == (name, line)


@pytest.mark.parametrize(("name", "line"), KERNEL.items(), ids=KERNEL.keys())
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
    found = SCANNER.scan(LOG[name])
    assert found is not None
    assert expected.items() <= found.captured.items()


def test_device_and_process_of_an_xid() -> None:
    found = SCANNER.scan(KERNEL["xid.48"], "kernel")
    assert found is not None
    assert found.captured == {"device": "0000:4e:00", "pid": "22410"}


@pytest.mark.parametrize("prefix", ["", "[default2]: ", "[1,3]<stderr>:", "(RayWorkerWrapper pid=7) ", "\x1b[31m",
                                    "2026-01-12T03:00:04.123456789Z stderr F ", "2026-01-12 03:00:04,123 ",
                                    "2026-01-12 03:00:04,123 - ERROR - ", "[rank7]: "])  # fmt: skip
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


@pytest.mark.parametrize("pattern", ["(", "re:(", "re:a(?=b)", "re:a{1000}{1000}", "", "re:", "re:x*", "   ", "x" * 2000],
                         ids=range(9))  # fmt: skip
def test_patterns_that_cannot_be_used_are_named(pattern: str) -> None:
    if pattern == "(":  # a literal bracket is fine
        check_pattern(pattern)
        return
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
    began = time.perf_counter()
    for _ in range(2000):
        SCANNER.scan(line)
    assert (time.perf_counter() - began) / 2000 < 100e-6


def test_numbers_out_of_captures() -> None:
    assert [as_int(text) for text in ("7", "-9", "x", "", "٣", "9" * 30, None, True)] == [
        7, -9, None, None, None, None, None, None,
    ]  # fmt: skip
