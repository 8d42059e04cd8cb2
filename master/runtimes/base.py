"""The seam between the master and whatever runs its pods. A runtime starts, ends and watches; it decides
nothing and writes nothing to the database. Every call may be made again after a crash."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, ClassVar, Protocol

ELSEWHERE = (
    "its pods were started from another data dir, which this server does not see: it neither watches nor "
    "restarts them; start a server with that data dir on their machine"
)


class RuntimeFailure(Exception):  # noqa: N818  it is the runtime that failed, not the caller
    """The runtime could not do what was asked just now; asking again later may work."""


@dataclass(frozen=True)
class PodRef:
    """Names one pod for good: a later run's pod of the same index is another one.

    `place`: where it was begun (`Runtime.place`), "" where that is not known."""

    pod_id: str
    job_id: str
    run: int
    index: int
    node: str
    place: str = ""


@dataclass(frozen=True)
class PodSpec:
    """What a pod is to run: it is one of `world_size` pods, each with `nproc` training processes."""

    ref: PodRef
    name: str
    command: tuple[str, ...]
    env: Mapping[str, str] = field(repr=False)
    nproc: int = 1
    world_size: int = 1


class Phase(StrEnum):
    """What the runtime knows of a pod. GONE: it went without an exit of its own (deleted, evicted, lost)."""

    PENDING = "pending"
    RUNNING = "running"
    EXITED = "exited"
    GONE = "gone"


@dataclass(frozen=True)
class PodState:
    """One look at a pod.

    Attributes:
        exit_code, signal: how its main process ended (Phase.EXITED).
        reason: `Deleted`, `Evicted`, `NodeLost`, `Lost` (nobody knows why), `Stopped` (by us).
        ended_at: when that was, if the runtime knows.
        clean: nothing of the pod is left: no process, so its ports and devices are free.
        agent_alive: its agent's process is there.
    """

    phase: Phase
    exit_code: int | None = None
    signal: int | None = None
    reason: str = ""
    ended_at: datetime | None = None
    clean: bool = False
    agent_alive: bool = False


@dataclass(frozen=True)
class AgentAccess:
    """How an agent reaches the master, and as whom: `new_token` makes a token and voids the one before."""

    server: str
    new_token: Callable[[], str]


@dataclass(frozen=True)
class LogPiece:
    """A stretch of a pod's log; `next_offset` is where the following one begins."""

    offset: int
    next_offset: int
    text: str


class Runtime(Protocol):
    """Starts and ends pods, idempotently by pod id; a pod that was once told to stop never starts.

    Of a pod that was begun in another place it knows nothing, and says so: RuntimeFailure(ELSEWHERE)."""

    name: ClassVar[str]

    @property
    def place(self) -> str:
        """Whence the pods of this runtime can be seen; the same for whoever can see them."""
        ...

    def nodes(self) -> tuple[str, ...]:
        """The machines it can place pods on."""
        ...

    def rendezvous(self) -> tuple[str, int]:
        """Address and port at which the first pod of a new run can be met."""
        ...

    def environment(self) -> Mapping[str, str]:
        """What every pod finds in its environment whatever its job says; a job's own variables win."""
        ...

    def start_pod(self, spec: PodSpec) -> Mapping[str, Any]:
        """Start it unless it was started (or stopped) before; answers what is worth keeping of it."""
        ...

    def stop_pod(self, ref: PodRef, grace: timedelta) -> None:
        """Ask every process of it to end, by force after `grace`. Returns at once: `poll(…).clean` tells."""
        ...

    def delete_pod(self, ref: PodRef) -> None:
        """Take it away as an administrator would: no grace, no exit of its own."""
        ...

    def poll(self, ref: PodRef) -> PodState: ...

    def ensure_agent(self, ref: PodRef, access: AgentAccess) -> bool:
        """Start the pod's agent unless one lives that reaches the master there; only then a token is made.
        Says whether it did: one that knows the master by another address is ended, and what it has not told
        yet is told by the next."""
        ...

    def ensure_node_agent(self, node: str, access: AgentAccess) -> bool:
        """The same for a node's."""
        ...

    def stop_agent(self, ref: PodRef) -> None:
        """End the pod's agent, which may still tell what it knows. Returns at once."""
        ...

    def logs(self, ref: PodRef, offset: int | None, limit: int) -> LogPiece:
        """At most `limit` bytes from `offset`, or the last ones (None)."""
        ...

    def purge(self, job_id: str) -> None:
        """Forget everything of a job whose pods are clean."""
        ...

    def watch(self, wake: Callable[[], None]) -> None:
        """Call `wake`, from any thread, whenever a pod may have changed."""
        ...

    def close(self) -> None:
        """Stop watching. Pods and their agents go on."""
        ...

    def shutdown(self) -> None:
        """End everything that was started here: pods, their agents, the nodes' agents."""
        ...
