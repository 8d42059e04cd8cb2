"""Faults done from outside, to any job: signals, lines in logs, a pod taken away."""

import os
import secrets
import signal
import time
from collections.abc import Callable
from pathlib import Path

import psutil

from master.cli.client import segment
from master.cli.errors import FAILED, CommandError
from master.inject.ground import Pod, Scene
from master.inject.wish import Done, Wish

XID_79 = "NVRM: Xid (PCI:0000:9b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
FLOOD_S = 5.0
FLOOD_LINES_A_S = 100_000  # of about 100 bytes each: 10 MB a second
_FLOOD_TICK_S = 0.05
_MAX_LINE = 16 * 1024

Strike = Callable[[Scene, Wish], Done]


def done(scene: Scene, rank: int, did: str) -> Done:
    pod = scene.pod_of(rank)
    return Done(rank, pod.name, pod.node, did)


def rank_of(scene: Scene, wish: Wish) -> int:
    """The rank that was asked for, else the last one: it is seldom the one that writes checkpoints."""
    return scene.last_rank() if wish.rank is None else wish.rank


def signalling(number: signal.Signals) -> Strike:
    def strike(scene: Scene, wish: Wish) -> Done:
        rank = rank_of(scene, wish)
        pid = send(scene, rank, number)
        return done(scene, rank, f"{number.name} to process {pid}")

    return strike


def rank_stopped(scene: Scene, wish: Wish) -> Done:
    """As a debugger does: for good, or for some seconds."""
    rank = rank_of(scene, wish)
    pid = send(scene, rank, signal.SIGSTOP)
    if wish.seconds is None:
        return done(scene, rank, f"SIGSTOP to process {pid}")
    time.sleep(wish.seconds)
    send(scene, rank, signal.SIGCONT)
    return done(scene, rank, f"SIGSTOP to process {pid}, and SIGCONT after {wish.seconds:g} s")


def send(scene: Scene, rank: int, number: signal.Signals) -> int:
    """A signal for a rank's process; its pid."""
    process = scene.process(rank)
    try:
        process.send_signal(number)
    except psutil.NoSuchProcess:
        raise CommandError(f"rank {rank}: its process has just ended; try again", FAILED) from None
    return int(process.pid)


def gpu_lost(scene: Scene, wish: Wish) -> Done:
    return kernel_says(scene, rank_of(scene, wish), XID_79)


def kernel_line(scene: Scene, wish: Wish) -> Done:
    return kernel_says(scene, rank_of(scene, wish), _given(wish, XID_79))


def kernel_says(scene: Scene, rank: int, line: str) -> Done:
    """A line of the kernel, in the log that stands for it on the pod's virtual node."""
    path = scene.kernel_log(scene.pod_of(rank))
    _append(path, f"[{time.clock_gettime(time.CLOCK_MONOTONIC):12.6f}] {line}\n")
    return done(scene, rank, f"a line in {path}")


def out_of_memory(scene: Scene, wish: Wish) -> Done:
    """What a cgroup's limit does: the kernel says whom it kills, and kills it."""
    rank = rank_of(scene, wish)
    process = scene.process(rank)
    size = process.memory_info()
    line = (
        f"Memory cgroup out of memory: Killed process {process.pid} ({process.name()}) "
        f"total-vm:{size.vms >> 10}kB, anon-rss:{size.rss >> 10}kB, file-rss:0kB, shmem-rss:0kB, UID:0 "
        "pgtables:1024kB oom_score_adj:0"
    )
    kernel_says(scene, rank, line)
    send(scene, rank, signal.SIGKILL)
    return done(scene, rank, f"the kernel log says that it killed process {process.pid}, and SIGKILL")


def nccl_error(scene: Scene, wish: Wish) -> Done:
    """NCCL's own words in a rank's log; training goes on, for nothing broke but that line."""
    rank = rank_of(scene, wish)
    pod = scene.pod_of(rank)
    pid = pod.ranks[rank]
    peer = next((one.node for one in scene.pods if one.node != pod.node), "10.0.0.2")
    usual = (
        f"{pod.node}:{pid}:{pid} [0] NCCL WARN NET/IB : Got completion from peer {peer}<47110> with "
        "status=IBV_WC_RETRY_EXC_ERR(12) opcode=IBV_WC_RDMA_WRITE(1) reqSize=0 vendor_err=129 (Send) "
        "hca mlx5_0"
    )
    _append(pod.log, _given(wish, usual) + "\n")
    return done(scene, rank, f"a line in {pod.log}")


def log_flood(scene: Scene, wish: Wish) -> Done:
    """More lines than anybody reads, all of them harmless."""
    rank = rank_of(scene, wish)
    pod = scene.pod_of(rank)
    seconds = FLOOD_S if wish.seconds is None else wish.seconds
    lines = _flood(pod, rank, seconds)
    return done(scene, rank, f"{lines} lines in {pod.log} within {seconds:g} s")


def _flood(pod: Pod, rank: int, seconds: float) -> int:
    word = secrets.token_hex(8)
    line = (
        f"[rank{rank}]: loader {word}: batch of 64 samples, 0 errors, 0 retries, prefetch queue 8 of 8 full\n"
    )
    piece = line.encode() * int(FLOOD_LINES_A_S * _FLOOD_TICK_S)
    lines, end = 0, time.monotonic() + seconds
    with pod.log.open("ab", buffering=0) as log:
        while time.monotonic() < end:
            began = time.monotonic()
            log.write(piece)
            lines += int(FLOOD_LINES_A_S * _FLOOD_TICK_S)
            time.sleep(max(0.0, _FLOOD_TICK_S - (time.monotonic() - began)))
    return lines


def pod_deleted(scene: Scene, wish: Wish) -> Done:
    rank = rank_of(scene, wish)
    answer = done(scene, rank, "taken away as an administrator would")
    scene.client.delete(f"/jobs/{segment(scene.job_id)}/pods/{segment(answer.pod)}")
    return answer


def _given(wish: Wish, usual: str) -> str:
    if wish.line is None:
        return usual
    line = wish.line.strip()
    if not line or not line.isprintable() or len(line) > _MAX_LINE:
        raise CommandError(f"--line: one line of printable text is wanted, of at most {_MAX_LINE} characters")
    return line


def _append(path: Path, text: str) -> None:
    """In one write, so that it stays one line among others."""
    fd = os.open(path, os.O_WRONLY | os.O_APPEND)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)
