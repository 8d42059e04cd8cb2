"""A runtime without processes: whoever holds it says what becomes of its pods. It keeps the same contract as
the real ones (test_runtime_contract.py)."""

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, ClassVar

from master.runtimes.base import (
    ELSEWHERE,
    AgentAccess,
    LogPiece,
    Phase,
    PodRef,
    PodSpec,
    PodState,
    RuntimeFailure,
)

STOPPED = PodState(Phase.EXITED, signal=15, reason="Stopped")


@dataclass(frozen=True)
class VirtualAgent:
    """Whom it reports to, and as whom."""

    server: str
    token: str


@dataclass
class VirtualPod:
    """What a test may look at."""

    spec: PodSpec | None = None
    state: PodState = field(default_factory=lambda: PodState(Phase.PENDING))
    agent: VirtualAgent | None = None
    heeds_stop: bool = True
    starts: int = 0
    stop_grace: timedelta | None = None


class VirtualRuntime:
    """Pods by id, in memory; they outlive a master that is thrown away."""

    name: ClassVar[str] = "local"

    def __init__(self, count: int = 3) -> None:
        self.pods: dict[str, VirtualPod] = {}
        self.node_agents: dict[str, VirtualAgent] = {}
        self.log = ""
        self.lies_at = "here"
        self._count = count
        self._ports = itertools.count(20_000)
        self._wake: Callable[[], None] = lambda: None

    def nodes(self) -> tuple[str, ...]:
        return tuple(f"node-{n}" for n in range(1, self._count + 1))

    @property
    def place(self) -> str:
        return self.lies_at

    def rendezvous(self) -> tuple[str, int]:
        return "127.0.0.1", next(self._ports)

    def environment(self) -> Mapping[str, str]:
        return {"PATH": "/bin"}

    def start_pod(self, spec: PodSpec) -> Mapping[str, Any]:
        pod = self._pod(spec.ref)
        if pod.state.phase is Phase.PENDING and pod.stop_grace is None:
            pod.spec, pod.state = spec, PodState(Phase.RUNNING)
            pod.starts += 1
        return {"virtual": spec.ref.pod_id}

    def stop_pod(self, ref: PodRef, grace: timedelta) -> None:
        pod = self._pod(ref)
        pod.stop_grace = grace
        if pod.state.phase is Phase.PENDING:
            pod.state = PodState(Phase.GONE, reason="Stopped", clean=True)
        elif pod.heeds_stop and not pod.state.clean:
            self._over(pod, pod.state if pod.state.phase is not Phase.RUNNING else STOPPED)

    def delete_pod(self, ref: PodRef) -> None:
        self._over(self._pod(ref), PodState(Phase.GONE, reason="Deleted"))

    def poll(self, ref: PodRef) -> PodState:
        pod = self._pod(ref)
        state = pod.state
        return PodState(
            state.phase, state.exit_code, state.signal, state.reason, state.ended_at, state.clean,
            agent_alive=pod.agent is not None,
        )  # fmt: skip

    def ensure_agent(self, ref: PodRef, access: AgentAccess) -> bool:
        pod = self._pod(ref)
        if pod.agent is not None and pod.agent.server == access.server:
            return False
        pod.agent = VirtualAgent(access.server, access.new_token())
        return True

    def ensure_node_agent(self, node: str, access: AgentAccess) -> bool:
        if node in self.node_agents and self.node_agents[node].server == access.server:
            return False
        self.node_agents[node] = VirtualAgent(access.server, access.new_token())
        return True

    def stop_agent(self, ref: PodRef) -> None:
        self._pod(ref).agent = None

    def logs(self, ref: PodRef, offset: int | None, limit: int) -> LogPiece:
        """One log for all."""
        self._pod(ref)
        start = max(0, len(self.log) - limit) if offset is None else min(offset, len(self.log))
        text = self.log[start : start + limit]
        return LogPiece(start, start + len(text), text)

    def purge(self, job_id: str) -> None:
        self.pods = {pod_id: pod for pod_id, pod in self.pods.items() if not _is_of(pod, job_id)}

    def watch(self, wake: Callable[[], None]) -> None:
        self._wake = wake

    def close(self) -> None:
        self._wake = lambda: None

    def shutdown(self) -> None:
        for pod in self.pods.values():
            if pod.state.phase is Phase.RUNNING:
                self._over(pod, STOPPED)
            pod.agent = None
        self.node_agents.clear()

    def exit(self, pod_id: str, *, code: int | None = None, signal: int | None = None) -> None:
        """The pod's main process ends by itself."""
        self._over(self.pods[pod_id], self._ended(code=code, signal=signal))

    def lose(self, pod_id: str, reason: str = "Lost", *, clean: bool = True) -> None:
        """The pod is gone, and nobody knows of an exit."""
        self._over(self.pods[pod_id], PodState(Phase.GONE, reason=reason), clean=clean)

    def _ended(self, *, code: int | None = None, signal: int | None = None) -> PodState:
        return PodState(Phase.EXITED, exit_code=code, signal=signal)

    def _over(self, pod: VirtualPod, state: PodState, *, clean: bool = True) -> None:
        pod.state = PodState(state.phase, state.exit_code, state.signal, state.reason, clean=clean)
        self._wake()

    def _pod(self, ref: PodRef) -> VirtualPod:
        if ref.place not in ("", self.lies_at):
            raise RuntimeFailure(ELSEWHERE)
        return self.pods.setdefault(ref.pod_id, VirtualPod())


def _is_of(pod: VirtualPod, job_id: str) -> bool:
    return pod.spec is not None and pod.spec.ref.job_id == job_id
