"""A run begins: rows for itself and its pods, each on a node; and what each pod is told."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from master.faultargs import FaultTolerance
from master.jobspec import JobSpec
from master.lifecycle import POD_OVER, PodStatus
from master.model import Job, Pod, Run
from master.placement import place
from master.pools import ready_nodes
from master.runtimes.base import PodRef, PodSpec
from notifier.ids import new_id


@dataclass(frozen=True)
class Rendezvous:
    """Where the pods of a run meet, and whence they can be seen (`Runtime.place`)."""

    address: str
    port: int
    place: str = ""


def begin(session: Session, job: Job, n: int, rendezvous: Rendezvous, now: datetime) -> bool:
    """Write run `n` with its pods, all Pending; False when no node is ready to take them."""
    spec = JobSpec.of(job.spec)
    preferred: list[str] = []
    if n > 0 and FaultTolerance.of(job.fault_tolerance).enable_use_nodes_of_last_job:
        before = select(Pod.node).where(Pod.job_id == job.id, Pod.run == n - 1).order_by(Pod.index)
        preferred = list(session.scalars(before))
    busy = session.scalars(select(Pod.node).where(Pod.closed_at.is_(None), Pod.status.not_in(POD_OVER)))
    nodes = place(spec.replicas, ready_nodes(session, job.pool), busy=list(busy), preferred=preferred)
    if not nodes:
        return False
    session.add(Run(job_id=job.id, n=n, started_at=now, rhythm=[], end_reason=""))
    met_at = {
        "master_addr": rendezvous.address, "master_port": rendezvous.port, "place": rendezvous.place,
    }  # fmt: skip
    for index, node in enumerate(nodes):
        session.add(
            Pod(
                id=new_id("pod", now), job_id=job.id, run=n, index=index, name=f"{spec.name}-{index}",
                node=node, status=PodStatus.PENDING, reason="", handle=dict(met_at),
            )
        )  # fmt: skip
    job.run = n
    return True


def is_over(run: Run) -> bool:
    """Whether it was decided that the run ends: from then on what its pods do means nothing."""
    return bool(run.end_reason)


def pods_of(session: Session, job_id: str, run: int) -> list[Pod]:
    rows = select(Pod).where(Pod.job_id == job_id, Pod.run == run).order_by(Pod.index)
    return list(session.scalars(rows))


def ref(pod: Pod) -> PodRef:
    place = str(pod.handle.get("place", ""))
    return PodRef(pod.id, pod.job_id, pod.run, pod.index, pod.node, place)


def ranks(spec: JobSpec, pod: Pod) -> tuple[int, ...]:
    """The global ranks of the pod's training processes."""
    return tuple(range(pod.index * spec.nproc, (pod.index + 1) * spec.nproc))


def pod_spec(job: Job, pod: Pod, surroundings: Mapping[str, str]) -> PodSpec:
    """What the runtime is asked to start. `surroundings`: what the runtime gives every pod."""
    spec = JobSpec.of(job.spec)
    told = {
        "MASTER_ADDR": str(pod.handle["master_addr"]),
        "MASTER_PORT": str(pod.handle["master_port"]),
        "WORLD_SIZE": str(spec.replicas),
        "RANK": str(pod.index),
        "PET_NNODES": str(spec.replicas),
        "PET_NPROC_PER_NODE": str(spec.nproc),
        "PET_NODE_RANK": str(pod.index),
        "FAULTCAST_JOB_ID": job.id,
        "FAULTCAST_JOB_NAME": spec.name,
        "FAULTCAST_RUN": str(pod.run),
    }
    # torchrun shall not restart its workers itself: the master restarts the job, and counts it.
    env = {**surroundings, "PET_MAX_RESTARTS": "0", **spec.envs, **told}
    return PodSpec(ref(pod), pod.name, spec.command, env, nproc=spec.nproc, world_size=spec.replicas)
