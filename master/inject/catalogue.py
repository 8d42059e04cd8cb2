"""The faults there are and what each should be called: one table for the command, the demo, the tests."""

import signal
from dataclasses import dataclass

from master.casefile import Cause, FaultClass
from master.cli.errors import CommandError
from master.inject.agents import agent_killed, clock_skewed
from master.inject.ground import Ground
from master.inject.inside import asking
from master.inject.network import network_cut
from master.inject.outside import (
    Strike,
    gpu_lost,
    kernel_line,
    log_flood,
    nccl_error,
    out_of_memory,
    pod_deleted,
    rank_stopped,
    signalling,
)
from master.inject.wish import Done, Wish

ANY_JOB, SCRIPT, APART = "any job", "bundled script", "pods apart"
COMPILE_S = 20.0


@dataclass(frozen=True)
class Fault:
    """One way to try a job.

    Attributes:
        words: what is done, {"zh", "en"}.
        becomes, causes: the class and the causes it must be called; None where nothing is at fault.
        needs: ANY_JOB; SCRIPT: the training script plays along; APART: pods in networks of their own.
        raises: the alert that is due although training is well.
        takes: options beside the rank, by their names in `Wish`. With `seconds` what would be a fault ends
            by itself, and is none if that is soon enough.
    """

    name: str
    words: dict[str, str]
    does: Strike
    becomes: FaultClass | None = None
    causes: tuple[Cause, ...] = ()
    needs: str = ANY_JOB
    raises: str = ""
    takes: tuple[str, ...] = ()

    @property
    def is_healthy(self) -> bool:
        """Whether training must be left alone."""
        return self.becomes is None

    def strike(self, ground: Ground, wish: Wish | None = None) -> Done:
        """Do it.

        Raises:
            CommandError: it cannot be done to this job, and why.
        """
        return self.does(ground.look(self.name), wish or Wish())


FAULTS = (
    Fault(
        "exception", {"zh": "训练代码抛出异常", "en": "the training code raises an exception"},
        asking("exception"), FaultClass.PROCESS_EXIT, (Cause.USER_CODE_ERROR,), SCRIPT,
    ),
    Fault(
        "rank_killed", {"zh": "杀死一个训练进程 (SIGKILL)", "en": "a training process is killed (SIGKILL)"},
        signalling(signal.SIGKILL), FaultClass.PROCESS_EXIT, (Cause.EXTERNAL_STOP, Cause.UNKNOWN),
    ),
    Fault(
        "rank_stopped",
        {"zh": "暂停一个训练进程 (SIGSTOP)", "en": "a training process is stopped (SIGSTOP)"},
        rank_stopped, FaultClass.HEARTBEAT_LOST, (Cause.HEARTBEAT_LOST,), takes=("seconds",),
    ),
    Fault(
        "rank_spins",
        {"zh": "一个 rank 陷入死循环，其余在等待", "en": "one rank loops for ever, the others wait"},
        asking("rank_spins"), FaultClass.HANG, (Cause.HANG,), SCRIPT,
    ),
    Fault(
        "collective_skipped",
        {"zh": "一个 rank 跳过一次集合通信", "en": "one rank skips a collective that the others make"},
        asking("collective_skipped"), FaultClass.ERROR_LOG, (Cause.DESYNC,), SCRIPT,
    ),
    Fault(
        "out_of_memory",
        {"zh": "一个训练进程因内存超限被内核杀死 (退出码 137)",
         "en": "the kernel kills a training process for memory (exit code 137)"},
        out_of_memory, FaultClass.PROCESS_EXIT, (Cause.HOST_OOM,),
    ),
    Fault(
        "checkpoint_stalls",
        {"zh": "写检查点时存储不再响应", "en": "the storage stops answering while a checkpoint is written"},
        asking("checkpoint_stalls", rank=0), FaultClass.HANG, (Cause.HANG,), SCRIPT, takes=("seconds",),
    ),
    Fault(
        "gpu_lost", {"zh": "节点内核日志出现 Xid 79", "en": "Xid 79 in a node's kernel log"},
        gpu_lost, FaultClass.ERROR_LOG, (Cause.GPU_HARDWARE,),
    ),
    Fault(
        "kernel_line",
        {"zh": "节点内核日志出现一行 (--line，默认 Xid 79)",
         "en": "a line in a node's kernel log (--line; Xid 79 if not given)"},
        kernel_line, FaultClass.ERROR_LOG, (Cause.GPU_HARDWARE,), takes=("line",),
    ),
    Fault(
        "nccl_error",
        {"zh": "rank 日志出现 NCCL 报错 (--line 可改)",
         "en": "an error of NCCL in a rank's log (--line for another)"},
        nccl_error, FaultClass.ERROR_LOG, (Cause.NETWORK_IB,), takes=("line",),
    ),
    Fault(
        "pod_deleted", {"zh": "删除一个 Pod", "en": "a pod is deleted"},
        pod_deleted, FaultClass.POD_LOST, (Cause.POD_DELETED,),
    ),
    Fault(
        "network_cut", {"zh": "切断一个 Pod 的网络", "en": "the network of one pod is cut"},
        network_cut, FaultClass.HANG, (Cause.HANG, Cause.NETWORK_TCP, Cause.NCCL_TIMEOUT), APART,
    ),
    Fault(
        "agent_killed", {"zh": "杀死 Pod 的 agent", "en": "the agent beside a pod is killed"},
        agent_killed, raises="agentLost",
    ),
    Fault(
        "clock_skewed",
        {"zh": "Pod 的 agent 时钟偏差 (--skew-s，默认 300 秒)",
         "en": "the clock of a pod's agent is wrong (--skew-s; 300 s if not given)"},
        clock_skewed, takes=("skew_s",),
    ),
    Fault(
        "long_compile",
        {"zh": "一个 rank 长时间编译 (--seconds，默认 20)，其余在等待",
         "en": "one rank compiles for long (--seconds; 20 if not given), the others wait"},
        asking("long_compile", seconds=COMPILE_S), needs=SCRIPT, takes=("seconds",),
    ),
    Fault(
        "log_flood",
        {"zh": "日志洪水：每秒十万行 (--seconds，默认 5)",
         "en": "a flood in a log: 100,000 lines a second (--seconds; 5 if not given)"},
        log_flood, takes=("seconds",),
    ),
)  # fmt: skip


def find(name: str) -> Fault:
    """The fault of that name; `-` for `_` will do."""
    wanted = name.strip().lower().replace("-", "_")
    for fault in FAULTS:
        if fault.name == wanted:
            return fault
    known = ", ".join(fault.name for fault in FAULTS)
    raise CommandError(f"FAULT: there is no {name}; give one of: {known}")
