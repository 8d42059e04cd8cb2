"""The faults that the demo injects into a live job, each done from outside as the world would do it."""

import json
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from master.cli.client import Client

XID_79 = "NVRM: Xid (PCI:0000:9b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."


@dataclass(frozen=True)
class Ground:
    """Where faults are injected: the job, its pods' folders, the nodes' kernel logs."""

    client: Client
    data_dir: Path
    job_id: str

    def job(self) -> dict[str, Any]:
        """The job as the API tells it: {"run", "step", "pods", …}."""
        document: dict[str, Any] = self.client.get(f"/jobs/{self.job_id}")
        return document

    def pod(self, index: int) -> dict[str, Any]:
        """The pod of that index, of the run there is: {"name", "node", …}."""
        pods: list[dict[str, Any]] = self.job()["pods"]
        return next(pod for pod in pods if pod["index"] == index)

    def trainer(self, index: int) -> psutil.Process:
        """The training process of that pod: the one that runs the script, below the pod's main process."""
        run = self.job()["run"]
        folder = self.data_dir / "jobs" / self.job_id / f"run-{run}" / f"pod-{index}"
        main = psutil.Process(json.loads((folder / "pod.json").read_text())["main_pid"])
        family = [main, *main.children(recursive=True)]
        return next(one for one in family if Path(one.name()).name.startswith("python"))


@dataclass(frozen=True)
class Fault:
    """One way to break a job. `strikes` a pod by its index; `becomes` the class it must be called."""

    name: str
    becomes: str
    words: dict[str, str]
    strike: Callable[[Ground, int], None]


def _signal(number: signal.Signals) -> Callable[[Ground, int], None]:
    return lambda ground, index: ground.trainer(index).send_signal(number)


def _xid(ground: Ground, index: int) -> None:
    path = ground.data_dir / "nodes" / ground.pod(index)["node"] / "kernel.log"
    with path.open("a", encoding="utf-8") as log:
        log.write(f"[{time.monotonic():12.6f}] {XID_79}\n")
        log.flush()
        os.fsync(log.fileno())


def _delete(ground: Ground, index: int) -> None:
    ground.client.delete(f"/jobs/{ground.job_id}/pods/{ground.pod(index)['name']}")


FAULTS = (
    Fault(
        "rank_killed", "process_exit",
        {"zh": "杀死一个训练进程 (SIGKILL)", "en": "a training process is killed (SIGKILL)"},
        _signal(signal.SIGKILL),
    ),
    Fault(
        "rank_stopped", "heartbeat_lost",
        {"zh": "暂停一个训练进程 (SIGSTOP)", "en": "a training process is stopped (SIGSTOP)"},
        _signal(signal.SIGSTOP),
    ),
    Fault(
        "rank_spins", "hang",
        {"zh": "一个 rank 陷入死循环，其余在等待", "en": "one rank loops for ever, the others wait"},
        _signal(signal.SIGUSR1),
    ),
    Fault(
        "gpu_lost", "error_log",
        {"zh": "节点内核日志出现 Xid 79", "en": "Xid 79 in a node's kernel log"},
        _xid,
    ),
    Fault("pod_deleted", "pod_lost", {"zh": "删除一个 Pod", "en": "a pod is deleted"}, _delete),
)  # fmt: skip
