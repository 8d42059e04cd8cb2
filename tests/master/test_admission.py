"""Which CreateJob bodies become jobs, which are refused with which field, and what is warned of."""

from typing import Any

import pytest
from pydantic import ValidationError

from master.admission import Admission, NotAdmitted, admit
from master.createjob import CreateJob
from master.jobspec import JobSpec
from master.poolfit import PoolFacts

FACTS = PoolFacts(
    pool="default",
    runtime="local",
    fault_isolation=True,
    queues=frozenset({"default", "vision"}),
    datasources=frozenset({("hostpath", "hostpath"), ("pfs", "pfs-1")}),
)


def body(**given: Any) -> dict[str, Any]:
    return {"name": "resnet", "command": "python train.py", **given}


def spec(**given: Any) -> dict[str, Any]:
    return body(jobSpec=given)


def admitted(given: dict[str, Any], facts: PoolFacts = FACTS) -> Admission:
    return admit(CreateJob.model_validate(given), facts)


def faults(given: dict[str, Any], facts: PoolFacts = FACTS) -> dict[str, str]:
    try:
        admitted(given, facts)
    except NotAdmitted as error:
        return dict(error.faults)
    except ValidationError as error:
        return {".".join(map(str, fault["loc"])): fault["msg"] for fault in error.errors()}
    return {}


def test_the_least_that_is_needed() -> None:
    job = admitted(body()).spec
    assert (job.command, job.framework, job.replicas, job.nproc, job.priority) == (
        ("/bin/sh", "-c", "python train.py"),
        "PyTorchJob",
        1,
        1,
        "normal",
    )


def test_baidus_body_is_taken_whole() -> None:
    answer = admitted(
        {
            "name": "llm-7b",
            "queue": "vision",
            "resourcePoolId": "default",
            "jobType": "PyTorchJob",
            "jobSpec": {
                "command": "torchrun --nproc_per_node=8 train.py",
                "image": "registry.example.com/pytorch:2.6",
                "replicas": 2,
                "resources": [{"name": "baidu.com/a800_80g_cgpu", "quantity": 8}],
                "envs": [{"name": "NCCL_DEBUG", "value": "INFO"}],
                "enableRDMA": True,
                "hostNetwork": True,
                "restartPolicy": "Never",
            },
            "labels": [{"key": "team", "value": "nlp"}],
            "priority": "high",
            "datasources": [{"type": "pfs", "name": "pfs-1", "sourcePath": "/", "mountPath": "/mnt/pfs"}],
            "faultTolerance": True,
            "faultToleranceConfig": {
                "enabledHangDetection": True,
                "hangDetectionTimeoutMinutes": 10,
                "faultToleranceLimit": 5,
                "customFaultTolerancePattern": ["Loss nan"],
            },
            "retentionPeriod": "7d",
        }
    )
    assert (answer.spec.replicas, answer.spec.nproc, answer.spec.envs) == (2, 8, {"NCCL_DEBUG": "INFO"})
    assert answer.fault_tolerance.enabled
    assert answer.fault_tolerance.max_restarts == 5
    assert answer.fault_tolerance.hang_detection_log_timeout_minutes == 10
    assert [warning.split(":")[0] for warning in answer.warnings] == [
        "retentionPeriod",
        "jobSpec.image",
        "jobSpec.resources",
        "jobSpec.enableRDMA",
        "jobSpec.hostNetwork",
        "datasources.0.mountPath",
    ]
    assert JobSpec.of(answer.spec.document()) == answer.spec


@pytest.mark.parametrize("patterns", ["Loss nan", ["Loss nan"]], ids=["one", "a list"])
def test_a_fault_pattern_stands_alone_or_in_a_list(patterns: Any) -> None:
    given = body(faultTolerance=True, faultToleranceConfig={"customFaultTolerancePattern": patterns})
    assert admitted(given).fault_tolerance.custom_log_patterns == ("Loss nan",)


@pytest.mark.parametrize(
    ("given", "enabled"),
    [
        pytest.param(body(), False, id="off by default"),
        pytest.param(body(faultTolerance=True), True, id="switched on"),
        pytest.param(
            spec(envs=[{"name": "faulttolerance", "value": "true"}]), True, id="old scripts' variable"
        ),
        pytest.param(spec(envs=[{"name": "faulttolerance", "value": True}]), True, id="a YAML boolean"),
        pytest.param(spec(envs=[{"name": "faulttolerance", "value": "false"}]), False, id="variable says no"),
        pytest.param(
            {**spec(envs=[{"name": "faulttolerance", "value": "true"}]), "faultTolerance": False},
            False,
            id="the field wins over the variable",
        ),
    ],
)
def test_what_switches_fault_tolerance_on(given: dict[str, Any], enabled: bool) -> None:
    assert admitted(given).fault_tolerance.enabled is enabled


@pytest.mark.parametrize(
    ("command", "envs", "nproc", "known"),
    [
        pytest.param("python train.py", [], 1, False, id="nothing said"),
        pytest.param("torchrun --nproc_per_node=4 t.py", [], 4, True, id="flag"),
        pytest.param("torchrun --nproc-per-node 4 t.py", [], 4, True, id="flag and a word"),
        pytest.param("torchrun --nproc-per-node=auto t.py", [], 1, False, id="auto"),
        pytest.param("torchrun t.py", [{"name": "PET_NPROC_PER_NODE", "value": "2"}], 2, True, id="variable"),
        pytest.param(["torchrun", "--nproc-per-node=3", "t.py"], [], 3, True, id="words"),
    ],
)
def test_training_processes_per_pod(command: Any, envs: Any, nproc: int, known: bool) -> None:
    job = admitted({"name": "a", "command": command, "jobSpec": {"envs": envs}}).spec
    assert (job.nproc, job.nproc_is_known) == (nproc, known)


FT = {"faultTolerance": True}


@pytest.mark.parametrize(
    ("given", "field", "mend"),
    [
        pytest.param(body(name="a b"), "name", "letter or digit", id="name"),
        pytest.param(body(name="a\n"), "name", "letter or digit", id="name with a line end"),
        pytest.param(body(name="x" * 64), "name", "63", id="long name"),
        pytest.param({"command": "x"}, "name", "required", id="no name"),
        pytest.param({"name": "a"}, "command", "is missing", id="no command"),
        pytest.param(body(command="  "), "command", "is missing", id="blank command"),
        pytest.param(body(command=["a", 1]), "command", "list of words", id="odd command"),
        pytest.param(body(command="x" * 100_001), "command", "100000", id="endless command"),
        pytest.param({**spec(command="b")}, "command", "contradict", id="two commands"),
        pytest.param(body(faultTolerence=True), "faultTolerence", "did you mean faultTolerance?", id="typo"),
        pytest.param(spec(replica=2), "jobSpec.replica", "did you mean replicas?", id="typo below"),
        pytest.param(body(zzz=1), "zzz", "remove it", id="unknown"),
        pytest.param(body(jobSpec=[]), "jobSpec", "dictionary", id="no object"),
        pytest.param(spec(replicas=0), "jobSpec.replicas", "greater", id="no pods"),
        pytest.param(spec(replicas="2"), "jobSpec.replicas", "integer", id="text for a number"),
        pytest.param(spec(replicas=True), "jobSpec.replicas", "integer", id="boolean for a number"),
        pytest.param(spec(replicas=10**9), "jobSpec.replicas", "1024", id="too many pods"),
        pytest.param(body(priority="urgent"), "priority", "'low', 'normal' or 'high'", id="priority"),
        pytest.param(body(queue="nlp"), "queue", "it has default, vision", id="no such queue"),
        pytest.param(body(jobType="SparkJob"), "jobType", "give one of", id="unknown framework"),
        pytest.param(
            body(jobType="TFJob", jobFramework="PyTorchJob"),
            "jobFramework",
            "contradict",
            id="two frameworks",
        ),
        pytest.param(body(jobFramework="MPIJob", **FT), "jobFramework", "needs PyTorchJob", id="MPI and FT"),
        pytest.param(body(jobType="tensorflow", **FT), "jobType", "needs PyTorchJob", id="TF and FT"),
        pytest.param(
            {**spec(restartPolicy="OnFailure"), **FT},
            "jobSpec.restartPolicy",
            "give Never",
            id="restart policy",
        ),
        pytest.param(
            body(faultToleranceArgs="", faultToleranceConfig={}),
            "faultToleranceArgs",
            "exclude",
            id="both forms",
        ),
        pytest.param(
            body(faultToleranceArgs="--max-restart=3", **FT),
            "faultToleranceArgs",
            "--max-restart: unknown flag; did you mean --max-restarts?",
            id="unknown flag by name",
        ),
        pytest.param(
            body(faultToleranceConfig={"faultToleranceLimit": -5}),
            "faultToleranceConfig.faultToleranceLimit",
            "whole number",
            id="limit",
        ),
        pytest.param(
            body(faultToleranceConfig={"hangDetectionTimeoutMinutes": 5}),
            "faultToleranceConfig.hangDetectionTimeoutMinutes",
            "enabledHangDetection",
            id="hang timeout alone",
        ),
        pytest.param(
            body(datasources=[{"type": "bos"}]), "datasources.0.type", "hostpath, pfs", id="source type"
        ),
        pytest.param(
            body(datasources=[{"type": "pfs", "name": "pfs-2"}]),
            "datasources.0.name",
            "it has pfs-1",
            id="source",
        ),
        pytest.param(
            body(datasources=[{"type": "hostpath", "sourcePath": "data"}]),
            "datasources.0.sourcePath",
            "absolute",
            id="relative path",
        ),
        pytest.param(
            spec(envs=[{"name": "FAULTCAST_RUN", "value": "9"}]),
            "jobSpec.envs.0",
            "rename it",
            id="our variable",
        ),
        pytest.param(
            spec(envs=[{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]),
            "jobSpec.envs.1",
            "given twice",
            id="variable twice",
        ),
        pytest.param(
            spec(envs=[{"name": "A=B", "value": "1"}]), "jobSpec.envs.0.name", "give letters", id="variable"
        ),
    ],
)
def test_refused(given: dict[str, Any], field: str, mend: str) -> None:
    found = faults(given)
    assert field in found
    assert mend in found[field]


def test_a_pool_without_isolation_takes_no_fault_tolerance() -> None:
    without = PoolFacts("default", "local", False, FACTS.queues, FACTS.datasources)
    assert "switch it on" in faults(body(**FT), without)["faultTolerance"]
    assert faults(body(), without) == {}


def test_all_faults_are_said_at_once() -> None:
    given = body(queue="x", jobType="TFJob", datasources=[{"type": "bos"}], **FT)
    assert set(faults(given)) == {"queue", "jobType", "datasources.0.type"}


def test_framework_is_free_without_fault_tolerance() -> None:
    assert admitted(body(jobType="tfjob")).spec.framework == "TFJob"


@pytest.mark.parametrize(
    ("given", "warned"),
    [
        pytest.param(body(faultToleranceArgs="--max-restarts=3"), "faultTolerance", id="settings while off"),
        pytest.param(
            spec(envs=[{"name": "WORLD_SIZE", "value": "9"}]), "jobSpec.envs.0", id="the platform's variable"
        ),
        pytest.param(spec(restartPolicy="Always"), "jobSpec.restartPolicy", id="restart policy"),
        pytest.param(body(enableBccl=True), "enableBccl", id="bccl"),
        pytest.param(
            body(faultToleranceArgs="--internal-fault-tolerance-alarm-phone=10086", **FT),
            "--internal-fault-tolerance-alarm-phone",
            id="phone",
        ),
    ],
)
def test_nothing_is_ignored_in_silence(given: dict[str, Any], warned: str) -> None:
    assert warned in [warning.split(": ")[0] for warning in admitted(given).warnings]


def test_the_platforms_variables_are_not_the_jobs() -> None:
    job = admitted(
        spec(envs=[{"name": "RANK", "value": "7"}, {"name": "PET_MAX_RESTARTS", "value": "2"}])
    ).spec
    assert job.envs == {"PET_MAX_RESTARTS": "2"}


def test_secrets_in_variables_do_not_print() -> None:
    job = admitted(spec(envs=[{"name": "WANDB_API_KEY", "value": "sesame"}])).spec
    assert "sesame" not in repr(job)
