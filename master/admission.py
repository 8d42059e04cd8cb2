"""Whether a job may be created, and as what: a pure judgement of the body against what the pool is.

All that is wrong is said at once, each with its field and its mend; what is
taken but has no effect is a warning.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from master.createjob import CreateJob
from master.faultargs import FaultTolerance, Given, effective, from_config, parse
from master.findings import Findings, listed
from master.flagvalues import SettingError, shown
from master.jobspec import FRAMEWORKS, OURS, PYTORCH, JobSpec, read_nproc
from master.poolfit import (
    PoolFacts,
    check_datasources,
    check_fault_tolerance,
    check_queue,
    warn_of_the_unused,
)

SWITCH_ENV = "faulttolerance"


@dataclass(frozen=True)
class Admission:
    """The answer where nothing is wrong."""

    spec: JobSpec
    fault_tolerance: FaultTolerance
    warnings: tuple[str, ...]


class NotAdmitted(ValueError):  # noqa: N818  a judgement, not a failure
    """What is wrong: (field, what and how to mend it)."""

    def __init__(self, faults: list[tuple[str, str]]) -> None:
        self.faults = faults
        super().__init__("; ".join(f"{name}: {message}" for name, message in faults))


def admit(body: CreateJob, facts: PoolFacts) -> Admission:
    """The parsed job.

    Raises:
        NotAdmitted: with every fault that was found.
    """
    found = Findings()
    check_queue(body, facts, found)
    framework = _framework(body, found)
    command = _command(body, found)
    envs = _envs(body, found)
    tolerance = _fault_tolerance(body, envs, found)
    if tolerance.enabled:
        check_fault_tolerance(body, framework, facts, found)
    check_datasources(body, facts, found)
    warn_of_the_unused(body, tolerance, facts, found)
    spec = _spec(body, framework, command, envs)
    if found.faults:
        raise NotAdmitted(found.faults)
    return Admission(spec, tolerance, tuple(found.warnings))


def _spec(body: CreateJob, framework: str, command: tuple[str, ...], envs: dict[str, str]) -> JobSpec:
    template = body.job_spec
    nproc = template.nproc_per_node or read_nproc(command, envs)
    return JobSpec(
        name=body.name,
        framework=framework,
        command=command,
        replicas=template.replicas,
        nproc=nproc or 1,
        nproc_is_known=nproc is not None,
        envs={name: value for name, value in envs.items() if name not in OURS},
        labels={label.key: label.value for label in body.labels},
        priority=body.priority,
        restart_policy=template.policy,
        image=template.image,
        resources={resource.name: resource.quantity for resource in template.resources},
        datasources=tuple(source.model_dump() for source in body.datasources),
    )


def _framework(body: CreateJob, found: Findings) -> str:
    said = {name: given for name, given in _frameworks(body) if given}
    known = {name: FRAMEWORKS.get(given.lower()) for name, given in said.items()}
    for name, framework in known.items():
        if framework is None:
            choice = listed(set(FRAMEWORKS.values()))
            found.refuse(
                name, f"{shown(said[name])} is no framework that is known here; give one of {choice}"
            )
    if len(set(known.values())) > 1:
        found.refuse("jobFramework", "jobType and jobFramework contradict each other; give one of them")
    return next((framework for framework in known.values() if framework), PYTORCH)


def _frameworks(body: CreateJob) -> tuple[tuple[str, str | None], ...]:
    return ("jobFramework", body.job_framework), ("jobType", body.job_type)


def _command(body: CreateJob, found: Findings) -> tuple[str, ...]:
    outer, inner = body.command, body.job_spec.command
    if outer and inner and outer != inner:
        found.refuse("command", "command and jobSpec.command contradict each other; give one of them")
    command = outer or inner
    if command is None or not "".join(command).strip():
        found.refuse("command", "is missing: say what each pod runs, here or in jobSpec.command")
        return ()
    return ("/bin/sh", "-c", command) if isinstance(command, str) else tuple(command)


def _envs(body: CreateJob, found: Findings) -> dict[str, str]:
    envs: dict[str, str] = {}
    for n, env in enumerate(body.job_spec.envs):
        where = f"jobSpec.envs.{n}"
        if env.name in envs and envs[env.name] != env.value:
            found.refuse(where, f"{env.name} is given twice with different values; keep one of them")
        if env.name.startswith("FAULTCAST_"):
            found.refuse(
                where, f"{env.name}: names that begin with FAULTCAST_ are set by the platform; rename it"
            )
        elif env.name in OURS - {"PET_NPROC_PER_NODE"}:
            found.warn(where, f"{env.name} is set by the platform for each pod; this value is not used")
        envs[env.name] = env.value
    return envs


def _fault_tolerance(body: CreateJob, envs: Mapping[str, str], found: Findings) -> FaultTolerance:
    enabled = bool(body.fault_tolerance)
    if body.fault_tolerance is None and envs.get(SWITCH_ENV, "").lower() in {"true", "1"}:
        enabled = True
    if body.fault_tolerance_args is not None and body.fault_tolerance_config is not None:
        found.refuse(
            "faultToleranceArgs",
            "faultToleranceArgs and faultToleranceConfig exclude each other; keep one of them",
        )
    try:
        given = _given(body)
    except SettingError as error:
        name = "faultToleranceArgs" if error.field.startswith("-") else error.field
        message = error.message if name == error.field else f"{error.field}: {error.message}"
        found.refuse(name, message)
        given = Given()
    if given.settings and not enabled:
        found.warn(
            "faultTolerance",
            "is off: faults are only told, with what would have been done by these settings; "
            "set it to true to have it done",
        )
    return effective(given, enabled=enabled)


def _given(body: CreateJob) -> Given:
    if body.fault_tolerance_args is not None:
        return parse(body.fault_tolerance_args)
    config = body.fault_tolerance_config
    if config is None:
        return Given()
    return from_config(
        hang=config.enabled_hang_detection,
        timeout_minutes=config.hang_detection_timeout_minutes,
        restarts=config.fault_tolerance_limit,
        patterns=config.custom_fault_tolerance_pattern,
    )
