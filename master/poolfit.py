"""Whether a job goes with its pool: queue, data sources, fault isolation, what its runtime has no use for."""

from dataclasses import dataclass

from master.createjob import CreateJob
from master.faultargs import FaultTolerance
from master.findings import Findings, listed
from master.flagvalues import shown
from master.jobspec import PYTORCH

HOSTPATH = "hostpath"


@dataclass(frozen=True)
class PoolFacts:
    """What the judgement needs of the pool named in the body."""

    pool: str
    runtime: str
    fault_isolation: bool
    queues: frozenset[str]
    datasources: frozenset[tuple[str, str]]  # (type, name)


def check_queue(body: CreateJob, facts: PoolFacts, found: Findings) -> None:
    if body.queue not in facts.queues:
        found.refuse(
            "queue", f"pool {facts.pool} has no queue {shown(body.queue)}; it has {listed(facts.queues)}"
        )


def check_fault_tolerance(body: CreateJob, framework: str, facts: PoolFacts, found: Findings) -> None:
    if framework != PYTORCH:
        where = "jobFramework" if body.job_framework else "jobType"
        found.refuse(
            where, f"fault tolerance needs {PYTORCH}, not {framework}; change it or switch faultTolerance off"
        )
    if body.job_spec.policy.lower() != "never":
        found.refuse(
            "jobSpec.restartPolicy",
            f"{shown(body.job_spec.policy)} does not go with fault tolerance, which restarts pods itself; "
            "give Never",
        )
    if not facts.fault_isolation:
        found.refuse(
            "faultTolerance",
            f"automatic fault isolation of pool {facts.pool} is off; switch it on "
            f"(faultcast pool set --fault-isolation=true) or switch faultTolerance off",
        )


def check_datasources(body: CreateJob, facts: PoolFacts, found: Findings) -> None:
    types = {kind for kind, _ in facts.datasources}
    for n, source in enumerate(body.datasources):
        where = f"datasources.{n}"
        if source.type not in types:
            has = f"it has {listed(types)}"
            found.refuse(
                f"{where}.type", f"pool {facts.pool} has no data source of type {shown(source.type)}; {has}"
            )
        elif (source.name or source.type != HOSTPATH) and (source.type, source.name) not in facts.datasources:
            names = listed({name for kind, name in facts.datasources if kind == source.type})
            what = f"data source {shown(source.name)} of type {source.type}"
            found.refuse(f"{where}.name", f"pool {facts.pool} has no {what}; it has {names}")
        for name, path in (("sourcePath", source.source_path), ("mountPath", source.mount_path)):
            if path and not path.startswith("/"):
                found.refuse(f"{where}.{name}", "give an absolute path, /data/…")


def warn_of_the_unused(body: CreateJob, tolerance: FaultTolerance, facts: PoolFacts, found: Findings) -> None:
    """Nothing is ignored in silence."""
    if tolerance.internal_fault_tolerance_alarm_phone:
        found.warn(
            "--internal-fault-tolerance-alarm-phone", "kept, but no phone provider calls these numbers yet"
        )
    if body.retention_period:
        found.warn("retentionPeriod", "kept, but jobs are not deleted by age")
    if body.tensorboard_config:
        found.warn("tensorboardConfig", "not used: no TensorBoard is started")
    if facts.runtime != "local":
        return
    if tolerance.enable_replace:
        found.warn("--enable-replace", "the local runtime restarts the whole job (default mode)")
    template = body.job_spec
    unused = {
        "jobSpec.image": template.image,
        "jobSpec.resources": template.resources,
        "jobSpec.enableRDMA": template.enable_rdma,
        "enableBccl": template.enable_bccl or body.enable_bccl,
        "jobSpec.hostNetwork": template.host_network,
        "jobSpec.privileged": template.privileged,
    }
    for name in (name for name, given in unused.items() if given):
        found.warn(name, "not used by the local runtime, whose pods are processes of this machine")
    if template.policy.lower() != "never":
        found.warn(
            "jobSpec.restartPolicy", "not used by the local runtime: a pod that ended is not started again"
        )
    for n, source in enumerate(body.datasources):
        if source.mount_path and source.mount_path != source.source_path:
            where = f"datasources.{n}.mountPath"
            found.warn(where, "the local runtime mounts nothing: the job finds its data at sourcePath")
