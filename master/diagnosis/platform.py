"""What the runtime says became of pods and nodes."""

from agent.signatures import Role, Trigger
from master.casefile import CaseFile, Cause, PodView, Seen, Source
from master.diagnosis.signs import Sign, origin_of
from master.diagnosis.world import World

_MEANING = {
    "pod_deleted": Cause.POD_DELETED,
    "pod_vanished": Cause.POD_DELETED,
    "pod_stopped": Cause.EXTERNAL_STOP,
    "pod_deadline": Cause.EXTERNAL_STOP,
    "pod_evicted": Cause.POD_EVICTED,
    "pod_preempted": Cause.PREEMPTED,
    "pod_oom_killed": Cause.HOST_OOM,
    "pod_not_started": Cause.RENDEZVOUS_FAILURE,
    "pod_devices_lost": Cause.CONTAINER_GPU_LOST,
    "node_lost": Cause.NODE_DOWN,
}
# Explains others' trouble in a start, and is none by itself: an image may be on its way still.
_ONLY_BESIDE_OTHERS = frozenset({"pod_not_started"})


def pod_signs(case: CaseFile, world: World) -> list[Sign]:
    """Pods and nodes that went away, oldest first."""
    signs = [_sign(seen, world) for seen in case.seen if seen.kind in _MEANING]
    told = {sign.pod for sign in signs} | {
        seen.pod for seen in case.seen if seen.kind in ("pod_exited", "process_exited")
    }
    lost_nodes = {sign.node for sign in signs if sign.name == "node_lost"}
    signs += [
        _vanished(pod, case)
        for pod in case.pods
        if not pod.alive and pod.exit_code is None and pod.name not in told and pod.node not in lost_nodes
    ]
    return sorted(signs, key=lambda sign: sign.at)


def _sign(seen: Seen, world: World) -> Sign:
    whole_job = bool(seen.data.get("whole_job"))
    pod = None if whole_job else world.pods.get(seen.pod or "") or world.only_pod_on(seen.node)
    own_fault = bool(seen.data.get("own_fault")) or seen.kind == "pod_oom_killed"
    return Sign(
        at=seen.at,
        name=seen.kind,
        cause=_MEANING[seen.kind],
        role=Role.CULPRIT,
        trigger=Trigger.NEVER if seen.kind in _ONLY_BESIDE_OTHERS else Trigger.AT_ONCE,
        source=seen.source,
        text=_words(seen),
        node=seen.node or (pod.node if pod else ""),
        pod=pod.name if pod else seen.pod,
        hardware=seen.kind in ("node_lost", "pod_devices_lost"),
        retryable=not own_fault,
        captured={key: str(seen.data[key]) for key in ("reason", "by", "container") if seen.data.get(key)},
        **origin_of(seen),
    )


def _words(seen: Seen) -> str:
    if text := seen.data.get("text"):
        return str(text)
    about = seen.data.get("reason") or seen.data.get("by") or ""
    said = seen.kind.replace("_", " ")
    return f"{said}: {about}" if about else said


def _vanished(pod: PodView, case: CaseFile) -> Sign:
    """The runtime finds nothing of a pod and nobody said why."""
    at = pod.agent_seen_at or case.started_at
    return Sign(
        at=at,
        name="pod_vanished",
        cause=Cause.POD_DELETED,
        role=Role.CULPRIT,
        trigger=Trigger.AT_ONCE,
        source=Source.RUNTIME,
        text=f"pod {pod.name} is gone and left no exit code",
        node=pod.node,
        pod=pod.name,
    )
