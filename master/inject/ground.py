"""Where faults are injected: the pods of a job of the local runtime, seen from the machine they run on.

The server says where they are and refuses whoever may not touch them; everything else happens here.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from master.cli.client import Client, segment
from master.cli.errors import FAILED, REFUSED, CommandError

PLACE = "place"


@dataclass(frozen=True)
class Pod:
    """One pod that runs; `ranks`: its training processes by global rank, as its agent told them."""

    name: str
    index: int
    node: str
    folder: Path
    ranks: Mapping[int, int]

    @property
    def log(self) -> Path:
        return self.folder / "pod.log"

    def note(self, name: str) -> dict[str, Any]:
        """`pod.json`, `agent.json`: what the runtime wrote down of it."""
        try:
            document: dict[str, Any] = json.loads((self.folder / name).read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise CommandError(
                f"{self.name}: {name} is not there yet; try again once it runs", FAILED
            ) from None
        return document


@dataclass(frozen=True)
class Scene:
    """The job as it is now."""

    client: Client
    job_id: str
    run: int
    pods: tuple[Pod, ...]

    def pod_of(self, rank: int) -> Pod:
        for pod in self.pods:
            if rank in pod.ranks:
                return pod
        known = ", ".join(str(one) for pod in self.pods for one in sorted(pod.ranks)) or "none yet"
        raise CommandError(f"--rank: no agent tells of rank {rank}; there are: {known}", REFUSED)

    def last_rank(self) -> int:
        return max((rank for pod in self.pods for rank in pod.ranks), default=0)

    def process(self, rank: int) -> psutil.Process:
        """The training process of that rank; it is made sure that it is this run's."""
        pid = self.pod_of(rank).ranks[rank]
        try:
            found = psutil.Process(pid)
            told = found.environ()
        except psutil.AccessDenied:
            raise CommandError(
                f"rank {rank}: process {pid} is another user's; run this as that user"
            ) from None
        except psutil.NoSuchProcess:
            raise CommandError(f"rank {rank}: its process {pid} has just ended; try again", FAILED) from None
        if (told.get("FAULTCAST_JOB_ID"), told.get("FAULTCAST_RUN")) != (self.job_id, str(self.run)):
            raise CommandError(f"rank {rank}: process {pid} is none of run {self.run}; try again", FAILED)
        return found

    def kernel_log(self, pod: Pod) -> Path:
        """Of the pod's virtual node."""
        return pod.folder.parents[3] / "nodes" / pod.node / "kernel.log"


@dataclass(frozen=True)
class Ground:
    """A job that may be broken."""

    client: Client
    job_id: str

    def look(self, fault: str) -> Scene:
        """The job's pods now; the server keeps a record of who asked to break it, and how.

        Raises:
            CommandError: it is not ours, does not run, or runs elsewhere.
        """
        told = self.client.post(f"/jobs/{segment(self.job_id)}/injections", {"fault": fault})
        pods = tuple(_pod(one) for one in told["pods"])
        for pod in pods:
            _check_is_here(pod, told["place"])
        return Scene(self.client, told["job_id"], told["run"], pods)


def _pod(told: Mapping[str, Any]) -> Pod:
    ranks = {int(rank): int(pid) for rank, pid in told["ranks"].items()}
    return Pod(told["name"], told["index"], told["node"], Path(told["folder"]), ranks)


def _check_is_here(pod: Pod, place: str) -> None:
    """The data dir's own name tells it from a folder of the same path on another machine."""
    try:
        here = (pod.folder.parents[3] / PLACE).read_text(encoding="ascii")
    except PermissionError:
        raise CommandError(
            f"{pod.folder}: Permission denied; run this as the user whose server it is"
        ) from None
    except (OSError, IndexError, UnicodeDecodeError):
        here = ""
    if here != place:
        raise CommandError(
            f"pod {pod.name} does not run on this machine (no {pod.folder} here); run this where its pods run"
        )
