"""What diagnose() says of live runs that broke."""

from dataclasses import dataclass

import pytest

from tests.master.story import GLOO, OFF_BUS, TRACEBACK, Story, killed_rank, steady, user_error_on, xid

OOM_KILL = "[  812.4] Memory cgroup out of memory: Killed process 1001 (python) total-vm:21kB, anon-rss:13kB"
CUDA_OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity"
)
BARRIER = "[rank0]: RuntimeError: [Rank 0]: Ranks 3 failed to pass monitoredBarrier in 9 ms"


def ib_error(node: str, peer: int) -> str:
    peer_lost = f"Got completion from peer 10.0.0.{peer}<40034> with error 12, opcode 0"
    return f"{node}:70:71 [0] NCCL WARN NET/IB : {peer_lost}"


def watchdog(rank: int, seq: int, op: str = "ALLREDUCE") -> str:
    return (
        f"[rank{rank}]:[E1129 03:10:18.65 ProcessGroupNCCL.cpp:607] [Rank {rank}] Watchdog caught collective "
        f"operation timeout: WorkNCCL(SeqNum={seq}, OpType={op}, NumelIn=4, NumelOut=4, Timeout(ms)=600000) "
        "ran for 600005 milliseconds before timing out."
    )


def watchdogs(seqs: dict[int, int], ranks: int = 4, ops: dict[int, str] | None = None) -> Story:
    story = steady(pods=ranks)
    for rank, seq in seqs.items():
        story.logged(rank, 630 + rank / 10, watchdog(rank, seq, (ops or {}).get(rank, "ALLREDUCE")))
    return story


def killed_worker_of_torchrun() -> Story:
    """Four ranks in two pods; rank 2 (pod-1) is killed, torchrun ends its sibling, the other pod feels it."""
    story = Story(pods=2, per_pod=2).steps(until=30).exited(2, 30.1, signal=9)
    for rank in (0, 1):
        story.logged(rank, 30.3, f"[rank{rank}]: {GLOO}").exited(rank, 30.5, code=1, said=(*TRACEBACK, GLOO))
    return story.exited(3, 30.6, signal=15).pod_exited(1, 30.9, 1).pod_exited(0, 31, 1)


@dataclass(frozen=True)
class Expect:
    fault_class: str
    cause: str
    rank: int | None = None
    hardware: bool = False
    retryable: bool = True


FAULTS = {
    "a killed rank is named, not the survivor whose connection broke": (
        killed_rank(),
        31.2,
        Expect("process_exit", "external_stop", rank=1),
    ),
    "a killed worker of torchrun, not its siblings": (
        killed_worker_of_torchrun(),
        31.4,
        Expect("process_exit", "external_stop", rank=2),
    ),
    "a rank killed by the kernel for want of memory": (
        killed_rank().kernel("node-b", 30.1, OOM_KILL),
        31.2,
        Expect("process_exit", "host_oom", rank=1, retryable=False),
    ),
    "a pod whose container was killed for want of memory": (
        killed_rank().pod_word(1, 30.2, "pod_oom_killed"),
        31.5,
        Expect("process_exit", "host_oom", rank=1, retryable=False),
    ),
    "an exception in the program of one rank": (
        user_error_on(1, "ValueError: bad sample 17"),
        31.5,
        Expect("process_exit", "user_code_error", rank=1, retryable=False),
    ),
    "an exception whose victims scream first": (
        user_error_on(1, "KeyError: 'x'", story=steady().logged(0, 30.05, f"[rank0]: {GLOO}")),
        31.5,
        Expect("process_exit", "user_code_error", rank=1, retryable=False),
    ),
    "a segmentation fault": (
        steady().exited(1, 30.1, signal=11).exited(0, 30.4, code=1, said=(GLOO,)),
        31.5,
        Expect("process_exit", "segfault", rank=1),
    ),
    "an exit code that nothing explains": (
        steady().exited(1, 30.1, code=3).exited(0, 30.4, code=1, said=(GLOO,)),
        32.5,
        Expect("process_exit", "unknown", rank=1),
    ),
    "GPU memory": (
        user_error_on(1, CUDA_OOM),
        31.5,
        Expect("error_log", "cuda_oom", rank=1, retryable=False),
    ),
    "a full disk": (
        user_error_on(0, "OSError: [Errno 28] No space left on device: '/mnt/ckpt/1.pt'"),
        31.5,
        Expect("error_log", "storage_error", rank=0, retryable=False),
    ),
    "a stale mount": (
        user_error_on(0, "OSError: [Errno 116] Stale file handle"),
        31.5,
        Expect("error_log", "storage_error", rank=0),
    ),
    "an Xid of a dead GPU while processes live on": (
        steady().kernel("node-b", 30.1, OFF_BUS),
        31.2,
        Expect("error_log", "gpu_hardware", rank=1, hardware=True),
    ),
    "a device-side assert is the program's, though Xid 43 follows": (
        user_error_on(1, "RuntimeError: CUDA error: device-side assert triggered").kernel(
            "node-b", 30.4, xid(43, "Ch 00000008")
        ),
        31.5,
        Expect("process_exit", "user_code_error", rank=1, retryable=False),
    ),
    "an illegal access beside Xid 95 is the device's": (
        user_error_on(1, "RuntimeError: CUDA error: an illegal memory access was encountered").kernel(
            "node-b", 30.4, xid(95, "Uncontained: FBHUB.")
        ),
        31.5,
        Expect("error_log", "gpu_hardware", rank=1, hardware=True),
    ),
    "several nodes name one peer over InfiniBand": (
        steady(pods=4)
        .logged(0, 30.1, ib_error("node-a", peer=3))
        .logged(1, 30.4, ib_error("node-b", peer=3)),
        37,
        Expect("error_log", "network_ib", hardware=True),
    ),
    "an NCCL error though the process lives on and prints steps": (
        Story().steps(until=36.4).logged(0, 30.3, ib_error("node-a", peer=2)),
        36.5,
        Expect("error_log", "network_ib"),
    ),
    "a collective timed out though the process lives on": (
        Story().steps(until=36.4).logged(1, 30.3, watchdog(1, 7)),
        36.5,
        Expect("error_log", "nccl_timeout"),
    ),
    "one rank lags behind in a collective": (
        watchdogs({0: 9120, 1: 9120, 2: 9087, 3: 9120}),
        636,
        Expect("error_log", "nccl_timeout", rank=2),
    ),
    "one rank never reported the time-out": (
        watchdogs({0: 9120, 1: 9120, 3: 9120}),
        636,
        Expect("error_log", "nccl_timeout", rank=2),
    ),
    "all ranks joined and it never finished": (
        watchdogs({0: 9120, 1: 9120, 2: 9120, 3: 9120}),
        636,
        Expect("error_log", "nccl_timeout"),
    ),
    "one rank called another collective": (
        watchdogs({0: 7, 1: 7, 2: 7, 3: 7}, ops={2: "BROADCAST"}),
        636,
        Expect("error_log", "desync", rank=2, retryable=False),
    ),
    "a barrier names who is missing": (
        steady(pods=4).logged(0, 30.1, BARRIER),
        32,
        Expect("hang", "hang", rank=3),
    ),
    "a stopped rank": (
        steady().idle().state(1, "T"),
        33.5,
        Expect("heartbeat_lost", "heartbeat_lost", rank=1),
    ),
    "a stopped rank though its peer's connection timed out": (
        steady().idle().state(1, "T").logged(0, 32, f"[rank0]: {GLOO}"),
        33.5,
        Expect("heartbeat_lost", "heartbeat_lost", rank=1),
    ),
    "a rank stuck in the kernel": (
        steady().idle().state(0, "D"),
        151,
        Expect("heartbeat_lost", "heartbeat_lost", rank=0),
    ),
    "a process that vanished without a word": (
        steady().idle().state(1, "gone"),
        40.5,
        Expect("process_exit", "unknown", rank=1),
    ),
    "a deleted pod": (
        steady()
        .pod_word(1, 30.1, "pod_deleted", by="alice")
        .exited(1, 30.3, signal=15)
        .logged(0, 30.4, f"[rank0]: {GLOO}")
        .exited(0, 30.6, code=1, said=(GLOO,)),
        30.7,
        Expect("pod_lost", "pod_deleted"),
    ),
    "a pod evicted for its own use": (
        steady().pod_word(1, 30.1, "pod_evicted", own_fault=True, reason="ephemeral-storage"),
        30.2,
        Expect("pod_lost", "pod_evicted", retryable=False),
    ),
    "a preempted pod": (steady().pod_word(0, 30.1, "pod_preempted"), 30.2, Expect("pod_lost", "preempted")),
    "a lost node explains the broken connections": (
        steady().logged(0, 29.9, f"[rank0]: {GLOO}").pod_word(1, 33, "node_lost", reason="NotReady"),
        33.1,
        Expect("pod_lost", "node_down", hardware=True),
    ),
    "a signal to all from outside": (
        steady()
        .exited(0, 30.1, signal=15)
        .exited(1, 30.2, signal=15)
        .pod_exited(0, 30.3, 143)
        .pod_exited(1, 30.3, 143),
        33.5,
        Expect("process_exit", "external_stop"),
    ),
    "the user's own pattern": (
        steady().logged(1, 30.1, "step 600 | Loss nan", custom=("Loss nan",)),
        31.2,
        Expect("error_log", "custom_pattern", rank=1),
    ),
    "a rank that died before its first heartbeat": (
        Story(pods=1).exited(0, 1, code=1, said=(*TRACEBACK, "ModuleNotFoundError: No module named 'apex'")),
        2.5,
        Expect("process_exit", "user_code_error", rank=0, retryable=False),
    ),
}


@pytest.mark.parametrize(("story", "when", "expected"), FAULTS.values(), ids=FAULTS.keys())
def test_faults(story: Story, when: float, expected: Expect) -> None:
    found = story.fault(when)
    told = Expect(found.fault_class, found.cause, found.culprit.rank, found.hardware, found.retryable)
    assert told == expected
