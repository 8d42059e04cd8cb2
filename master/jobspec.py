"""What a job is once it is admitted: plain data, stored with the job."""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

PYTORCH = "PyTorchJob"
FRAMEWORKS = {
    "pytorchjob": PYTORCH, "pytorch": PYTORCH, "tfjob": "TFJob", "tensorflow": "TFJob", "mpijob": "MPIJob",
    "mpi": "MPIJob", "rayjob": "RayJob", "ray": "RayJob",
}  # fmt: skip
# What every pod is told by the platform (CONTRACT 3), whatever the job says; PET_MAX_RESTARTS is the job's.
OURS = frozenset(
    {
        "MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK", "PET_NNODES", "PET_NPROC_PER_NODE",
        "PET_NODE_RANK",
    }
)  # fmt: skip
_NPROC = re.compile(r"--nproc[-_]per[-_]node[= ]\s*(\d{1,4})(?=\s|$)")


@dataclass(frozen=True)
class JobSpec:
    """What a job is, parsed. `nproc_is_known`: told or read off the command, no mere default."""

    name: str
    framework: str
    command: tuple[str, ...]
    replicas: int
    nproc: int
    nproc_is_known: bool
    envs: dict[str, str] = field(repr=False)
    labels: dict[str, str]
    priority: str
    restart_policy: str
    image: str | None
    resources: dict[str, float]
    datasources: tuple[dict[str, str], ...]

    def document(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> "JobSpec":
        values = dict(document)
        values["command"], values["datasources"] = tuple(values["command"]), tuple(values["datasources"])
        return cls(**values)


def read_nproc(command: tuple[str, ...], envs: Mapping[str, str]) -> int | None:
    """Training processes per pod, as the command itself or the launcher's variable says."""
    told = envs.get("PET_NPROC_PER_NODE", "")
    if told.isascii() and told.isdigit() and 1 <= int(told[:5]) <= 1024:
        return int(told)
    written = _NPROC.search(" ".join(command))
    return max(1, int(written[1])) if written else None
