"""The plain data on which diagnosis and decision judge. No I/O, no clock: replayable from the log."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

FEW_BYTES = 256 * 1024  # between two looks: less is no work, but a thread that tells figures or reads /proc


class FaultClass(StrEnum):
    PROCESS_EXIT = "process_exit"
    HEARTBEAT_LOST = "heartbeat_lost"
    ERROR_LOG = "error_log"
    POD_LOST = "pod_lost"
    HANG = "hang"


class Cause(StrEnum):
    GPU_HARDWARE = "gpu_hardware"
    NVLINK_FABRIC = "nvlink_fabric"
    NETWORK_IB = "network_ib"
    NETWORK_TCP = "network_tcp"
    NCCL_TIMEOUT = "nccl_timeout"
    NCCL_CONFIG = "nccl_config"
    DESYNC = "desync"
    CUDA_OOM = "cuda_oom"
    HOST_OOM = "host_oom"
    USER_CODE_ERROR = "user_code_error"
    STORAGE_ERROR = "storage_error"
    SHM_EXHAUSTED = "shm_exhausted"
    SEGFAULT = "segfault"
    RENDEZVOUS_FAILURE = "rendezvous_failure"
    POD_EVICTED = "pod_evicted"
    POD_DELETED = "pod_deleted"
    PREEMPTED = "preempted"
    EXTERNAL_STOP = "external_stop"
    NODE_DOWN = "node_down"
    HEARTBEAT_LOST = "heartbeat_lost"
    HANG = "hang"
    CONTAINER_GPU_LOST = "container_gpu_lost"
    ENV_MISMATCH = "env_mismatch"
    CUSTOM_PATTERN = "custom_pattern"
    UNKNOWN = "unknown"


class Action(StrEnum):
    RESTART_JOB = "restart_job"
    REPLACE_PODS = "replace_pods"
    FAIL_JOB = "fail_job"
    NONE = "none"


class Source(StrEnum):
    """Who saw it. Only NODE, RUNTIME and INGEST count towards isolating a node: a pod can forge AGENT."""

    AGENT = "agent"
    NODE = "node"
    RUNTIME = "runtime"
    INGEST = "ingest"


@dataclass(frozen=True)
class Seen:
    """One observation of the case. `kind` is agent.wire.Kind or a runtime's word: `pod_exited`
    {"exit_code", "signal"}, `pod_deleted` {"by"}, `pod_evicted` {"reason", "own_fault": bool},
    `pod_preempted`, `pod_oom_killed`, `pod_not_started` {"reason"}, `pod_vanished`, `pod_stopped` (with the
    server), `node_lost` {"reason"};
    after the fact also `pod_devices_lost`, `heartbeat_missing` {"state"}, `heartbeat_ok` and
    `no_progress` {"for_s"}.
    `data["text"]`, where set, is what a person may read as evidence."""

    at: datetime
    kind: str
    source: Source
    node: str
    pod: str | None = None
    rank: int | None = None
    data: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class RankView:
    """The newest heartbeat of one rank, and the one a window before it."""

    rank: int
    pod: str
    node: str
    state: str  # R S D T Z X, t (a debugger holds it), or "gone"
    step: int | None
    step_at: datetime | None
    cpu_moved: bool
    io_moved: bool
    stack: tuple[str, ...] | None = None  # innermost first; None: not collected
    stack_error: str | None = None
    still: timedelta | None = None  # for so long in this state without a tick; None: not told


@dataclass(frozen=True)
class PodView:
    """One pod of the run as runtime and agent tell it."""

    name: str
    index: int
    node: str
    ranks: tuple[int, ...]
    alive: bool  # by the runtime
    exit_code: int | None
    agent_seen_at: datetime | None


@dataclass(frozen=True)
class HangSettings:
    enabled: bool
    log_timeout: timedelta
    startup_toleration: timedelta
    stack_timeout: timedelta
    adaptive: bool


@dataclass(frozen=True)
class CaseFile:
    """All evidence of one run. `rhythm`: recent gaps between steps, in seconds, oldest first.
    `after_the_fact`: read from files when all was over. Nothing more will come, so nothing is waited for,
    and what was not seen (a kernel's word on a killed process) need not have been absent."""

    job_id: str
    run: int
    started_at: datetime
    pods: tuple[PodView, ...]
    ranks: tuple[RankView, ...]
    seen: tuple[Seen, ...]
    hang: HangSettings
    first_step_at: datetime | None = None
    last_step: int | None = None
    last_step_at: datetime | None = None
    last_log_at: datetime | None = None
    rhythm: tuple[float, ...] = ()
    nodes_by_address: dict[str, str] = field(default_factory=dict)  # IP or host name → node
    after_the_fact: bool = False


@dataclass(frozen=True)
class Culprit:
    rank: int | None = None
    pod: str | None = None
    node: str | None = None


@dataclass(frozen=True)
class Evidence:
    time: datetime
    source: str
    text: str
    rank: int | None = None
    pod: str | None = None
    node: str | None = None
    file: str | None = None  # after the fact: where the line stands
    line_no: int | None = None


@dataclass(frozen=True)
class Diagnosis:
    """What went wrong. `reason` one sentence, `advice` what a person should do, each {"zh", "en"}.
    `trusted`: the culprit node rests on evidence that no pod can forge. `free`: costs no restart.
    `fingerprint`: mechanism, without ranks, nodes, addresses or times."""

    fault_class: FaultClass
    cause: Cause
    culprit: Culprit
    confidence: float
    hardware: bool
    retryable: bool
    trusted: bool
    free: bool
    fingerprint: str
    reason: dict[str, str]
    advice: dict[str, str]
    evidence: tuple[Evidence, ...]
    at: datetime  # when the fault happened
    symptoms: tuple[Evidence, ...] = ()
    suspected_at: datetime | None = None  # of a hang: when it was time to look


@dataclass(frozen=True)
class Want:
    """Diagnosis needs more before it can answer. `stacks`: agents are to be asked for them now, else time
    must pass. `why`: what seems wrong; empty: nothing does."""

    stacks: bool
    why: str


@dataclass(frozen=True)
class Policy:
    """The job's effective fault-tolerance settings, as far as a decision needs them."""

    enabled: bool
    max_restarts: int  # -1: no limit
    unconditional_retries: int
    unconditional_observe: timedelta
    replace: bool


@dataclass(frozen=True)
class Past:
    """One earlier fault of the job."""

    fingerprint: str
    step: int | None
    at: datetime
    action: Action


@dataclass(frozen=True)
class History:
    """`restarts_used` since progress gave the budget back; `past` newest first; `step` reached now."""

    restarts_used: int
    unconditional_used: int
    run_started_at: datetime
    step: int | None
    past: tuple[Past, ...] = ()


@dataclass(frozen=True)
class PoolView:
    fault_isolation: bool
    isolation_cap: float
    nodes: int
    isolated: frozenset[str]


@dataclass(frozen=True)
class Decision:
    """`why` is one sentence a person understands, {"zh", "en"}. `backoff` before the new run starts."""

    action: Action
    why: dict[str, str]
    isolate_nodes: tuple[str, ...] = ()
    restart_no: int = 0
    budget_left: int | None = None  # None: no limit
    counts_as: str = "restart"  # restart | unconditional | free: which budget pays
    backoff: timedelta = timedelta(0)
    mode: str = "default"
    would: "Decision | None" = None  # of a job without fault tolerance: what would have been done
