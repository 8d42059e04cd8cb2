"""The flags of `job create` become a CreateJob body; flags win over the file."""

import json
from pathlib import Path
from typing import Any

import pytest

from master.cli.errors import CommandError
from master.cli.jobflags import JobFlags
from master.cli.jobspec import job_body

RUN = {"command": "python train.py"}


def body(**given: Any) -> dict[str, Any]:
    return job_body(JobFlags(**given))


def job_file(folder: Path, document: Any, name: str = "job.json") -> str:
    path = folder / name
    path.write_text(document if isinstance(document, str) else json.dumps(document), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param({"name": "first"}, {"name": "first"}, id="name"),
        pytest.param({"pool": "p", "queue": "q"}, {"resourcePoolId": "p", "queue": "q"}, id="pool and queue"),
        pytest.param({"priority": "high"}, {"priority": "high"}, id="priority"),
        pytest.param({"framework": "pytorch"}, {"jobFramework": "pytorch"}, id="framework"),
        pytest.param({"enable_fault_tolerance": "true"}, {"faultTolerance": True}, id="fault tolerance on"),
        pytest.param(
            {"enable_fault_tolerance": "False"}, {"faultTolerance": False}, id="fault tolerance off"
        ),
        pytest.param(
            {"fault_tolerance_args": "--enable-replace=true"},
            {"faultToleranceArgs": "--enable-replace=true"},
            id="fault-tolerance args are one string",
        ),
        pytest.param(
            {"label": ["a=1", "b=x=y"]},
            {"labels": [{"key": "a", "value": "1"}, {"key": "b", "value": "x=y"}]},
            id="labels; the first = parts key and value",
        ),
        pytest.param(
            {"image": "i:1", "replicas": 2}, {"jobSpec": {"image": "i:1", "replicas": 2}}, id="pods"
        ),
        pytest.param({"nproc_per_node": 8}, {"jobSpec": {"nprocPerNode": 8}}, id="processes in a pod"),
        pytest.param(
            {"gpu": ["baidu.com/a100=8"]},
            {"jobSpec": {"resources": [{"name": "baidu.com/a100", "quantity": 8}]}},
            id="accelerators",
        ),
        pytest.param(
            {"env": ["A=1", "A=2"]},
            {"jobSpec": {"envs": [{"name": "A", "value": "2"}]}},
            id="the last env wins",
        ),
        pytest.param(
            {"enable_rdma": "true", "enable_bccl": "true", "host_network": "false", "privileged": "true"},
            {"jobSpec": {"enableRDMA": True, "enableBCCL": True, "hostNetwork": False, "privileged": True}},
            id="switches",
        ),
        pytest.param(
            {"restart_policy": "Never"}, {"jobSpec": {"restartPolicy": "Never"}}, id="restart policy"
        ),
        pytest.param(
            {"ds_type": "pfs", "ds_name": "d", "ds_mountpath": "/d", "ds_sourcepath": "/s"},
            {"datasources": [{"type": "pfs", "name": "d", "sourcePath": "/s", "mountPath": "/d"}]},
            id="data source",
        ),
        pytest.param(
            {"alert": ["ding", "mail:jobFT, jobFailed"]},
            {
                "alertConfig": {
                    "rules": [{"channels": ["ding"]}, {"channels": ["mail"], "items": ["jobFT", "jobFailed"]}]
                }
            },
            id="alerts",
        ),
    ],
)
def test_flag(given: dict[str, Any], expected: dict[str, Any]) -> None:
    assert body(**RUN, **given) == {**RUN, **expected}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        pytest.param({}, "--command", id="nothing to run"),
        pytest.param({"command": "a", "script_file": "b"}, "not both", id="command and script"),
        pytest.param({"script_file": "/nowhere"}, "--script-file: /nowhere", id="no such script"),
        pytest.param({"job_file": "/nowhere"}, "--job-file: /nowhere", id="no such file"),
        pytest.param({**RUN, "label": ["a"]}, "--label: a", id="label without ="),
        pytest.param({**RUN, "env": ["=1"]}, "--env: =1", id="env without a name"),
        pytest.param({**RUN, "gpu": ["a100=many"]}, "--gpu: a100=many", id="a count that is no number"),
        pytest.param({**RUN, "alert": [":jobFT"]}, "--alert: :jobFT", id="alert without a channel"),
        pytest.param({**RUN, "enable_rdma": "maybe"}, "--enable-rdma: maybe", id="a switch that is neither"),
    ],
)
def test_refused_by_name(given: dict[str, Any], words: str) -> None:
    with pytest.raises(CommandError, match=words) as refused:
        body(**given)
    assert refused.value.exit_code == 2


def test_flags_win_over_the_file(tmp_path: Path) -> None:
    path = job_file(
        tmp_path,
        {
            "name": "file",
            "priority": "low",
            "jobType": "PyTorchJob",
            "faultToleranceConfig": {"enabledHangDetection": True},
            "labels": [{"key": "a", "value": "file"}, {"key": "b", "value": "file"}],
            "jobSpec": {"command": "file", "replicas": 4, "envs": [{"name": "A", "value": "file"}]},
        },
    )
    assert body(
        job_file=path, name="flag", framework="pytorch", command="flag", label=["a=flag"], env=["A=flag"],
        fault_tolerance_args="--max-restarts=1",
    ) == {
        "name": "flag",
        "priority": "low",
        "jobFramework": "pytorch",
        "faultToleranceArgs": "--max-restarts=1",
        "labels": [{"key": "b", "value": "file"}, {"key": "a", "value": "flag"}],
        "command": "flag",
        "jobSpec": {"replicas": 4, "envs": [{"name": "A", "value": "flag"}]},
    }  # fmt: skip


def test_a_yaml_file_holds_the_same(tmp_path: Path) -> None:
    path = job_file(tmp_path, "name: y\njobSpec:\n  command: python a.py\n  replicas: 2\n", "job.yaml")
    assert body(job_file=path) == {"name": "y", "jobSpec": {"command": "python a.py", "replicas": 2}}


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("[1, 2]", id="a list"),
        pytest.param("a: b: c", id="broken YAML"),
        pytest.param("when: 2026-11-29\nx: !!python/object:os.system {}", id="YAML that would run code"),
        pytest.param("name: x\njobSpec: 3", id="jobSpec is no mapping"),
        pytest.param("labels: 7\nlabels2: {}", id="nothing to run in it"),
    ],
)
def test_a_bad_file_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(CommandError):
        body(job_file=job_file(tmp_path, text))


def test_a_script_becomes_the_command(tmp_path: Path) -> None:
    script = tmp_path / "run.sh"
    script.write_text("set -e\npython train.py\n", encoding="utf-8")
    assert body(script_file=str(script)) == {"command": "set -e\npython train.py\n"}
