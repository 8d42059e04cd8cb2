"""The node's agent in a cluster: its conditions and events by a real API server, to a real master."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from agent.kubeapi import Api, Cluster, Collection, GoneError
from tests.e2e.conftest import System, system, until
from tests.kubernetes.conftest import Kubernetes

__all__ = ["system"]  # pytest finds the fixture by its name

ROOT = Path(__file__).parents[2]
MANIFEST = ROOT / "deploy/kubernetes/node-agent.yaml"
NODE = "node-2"
STEPS = "import time\nfor n in range(10_000):\n    print('step', n, flush=True)\n    time.sleep(0.2)"
OFF_BUS = "ErrorCode:79 PCI:0000:ef:00 GPU has fallen off the bus. Recommended Action=RESTART_BM;"


def apply(kubernetes: Kubernetes, document: dict[str, Any]) -> None:
    version, metadata = document["apiVersion"], document["metadata"]
    group = "api" if version == "v1" else "apis"
    within = f"namespaces/{metadata['namespace']}/" if "namespace" in metadata else ""
    kubernetes.ask("POST", f"{group}/{version}/{within}{document['kind'].lower()}s", document)


@pytest.fixture(scope="module")
def cluster(kubernetes: Kubernetes) -> Kubernetes:
    """With what our manifest makes, and a node."""
    for document in yaml.safe_load_all(MANIFEST.read_text(encoding="utf-8")):
        apply(kubernetes, document)
    kubernetes.ask("POST", "api/v1/nodes", {"metadata": {"name": NODE}})
    set_conditions(kubernetes, Ready="True", DiskPressure="False")
    return kubernetes


def set_conditions(kubernetes: Kubernetes, message: str = "", **conditions: str) -> None:
    """As kubelet and monitors do."""
    now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    told = [
        {
            "type": kind, "status": status, "reason": f"{kind}Is{status}", "message": message,
            "lastTransitionTime": now, "lastHeartbeatTime": now,
        }
        for kind, status in conditions.items()
    ]  # fmt: skip
    kubernetes.ask("PATCH", f"api/v1/nodes/{NODE}/status", {"status": {"conditions": told}})


def started(
    kubernetes: Kubernetes, account: Path, folder: Path, env: dict[str, str]
) -> subprocess.Popen[bytes]:
    """`faultcast agent --node`, with the service account where a pod has it: it has mounts of its own."""
    (folder / "kernel.log").touch()
    place = "/run/secrets/kubernetes.io"
    within = (
        f'mount -t tmpfs tmpfs /run && mkdir -p {place} && ln -s "$0" {place}/serviceaccount && exec "$@"'
    )
    told = {
        "FAULTCAST_NODE": NODE, "FAULTCAST_KERNEL_LOG": str(folder / "kernel.log"),
        "KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(kubernetes.port),
    }  # fmt: skip
    command = ["unshare", "-rm", "sh", "-c", within, str(account), sys.executable, "-m", "master.cli"]
    with (folder / "agent.log").open("wb") as log:
        return subprocess.Popen(
            [*command, "agent", "--node"], cwd=ROOT, env=os.environ | told | env, stdout=log, stderr=log
        )


@pytest.fixture(scope="module")
def agent(
    cluster: Kubernetes, system: System, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[subprocess.Popen[bytes]]:
    body = {"name": "kubernetes", "role": "agent", "scope": "default", "node": NODE}
    env = {
        "FAULTCAST_SERVER": system.client.server,
        "FAULTCAST_AGENT_TOKEN": system.client.post("/tokens", body)["token"],
    }
    process = started(cluster, cluster.account("faultcast-node"), tmp_path_factory.mktemp("agent"), env)
    yield process
    process.terminate()
    assert process.wait(10) == 0


def node(system: System) -> dict[str, Any]:
    (found,) = [one for one in system.client.get("/nodes")["items"] if one["name"] == NODE]
    return dict(found)


def said(system: System) -> set[str]:
    return {one["name"] for one in node(system)["signals"] if one["source"] == "kubernetes"}


@pytest.mark.usefixtures("agent")
def test_a_condition_is_shown_beside_the_node_while_it_lasts(cluster: Kubernetes, system: System) -> None:
    set_conditions(cluster, "kubelet has disk pressure", DiskPressure="True")
    until(lambda: said(system) == {"DiskPressure"} or None, "the signal", 20)
    command = [sys.executable, "-m", "master.cli", "pool", "node", "list", "--json"]
    env = {"FAULTCAST_SERVER": system.client.server, "FAULTCAST_DATA_DIR": str(system.data_dir)}
    told = subprocess.run(command, env=os.environ | env, capture_output=True, check=True).stdout
    assert "kubelet has disk pressure" in str(json.loads(told))
    set_conditions(cluster, DiskPressure="False")
    until(lambda: said(system) == set() or None, "its end", 20)


@pytest.mark.usefixtures("agent")
def test_a_monitors_event_is_shown(cluster: Kubernetes, system: System) -> None:
    now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    event = {
        "metadata": {"name": "node-2.hung", "namespace": "default"}, "type": "Warning", "reason": "TaskHung",
        "involvedObject": {"kind": "Node", "name": NODE, "uid": NODE}, "message": "task python blocked",
        "source": {"component": "kernel-monitor"}, "firstTimestamp": now, "lastTimestamp": now, "count": 1,
    }  # fmt: skip
    cluster.ask("POST", "api/v1/namespaces/default/events", event)
    until(lambda: "TaskHung" in said(system) or None, "the event", 20)


def nodes_of(system: System, job_id: str) -> set[str]:
    """Where it runs; nowhere while it does not."""
    job = system.job(job_id)
    return {pod["node"] for pod in job["pods"]} if job["status"] == "Running" else set()


@pytest.mark.usefixtures("agent")
def test_a_fault_by_a_condition_isolates_the_node_and_restarts_the_job(
    cluster: Kubernetes, system: System
) -> None:
    job_id = system.train("on-kubernetes-word", f'{sys.executable} -c "{STEPS}"')
    system.steps_beyond(job_id, 3)
    assert NODE in nodes_of(system, job_id)
    set_conditions(cluster, OFF_BUS, SysLogsXIDError="True")
    (event,) = until(lambda: system.events(job_id), "the fault event", 30)
    assert (event["cause"], event["culprit"]["node"]) == ("gpu_hardware", NODE)
    assert event["decision"]["isolate_nodes"] == [NODE]
    assert node(system)["status"] == "isolated"
    until(lambda: nodes_of(system, job_id) == {"node-1", "node-3"} or None, "training elsewhere", 30)
    set_conditions(cluster, "No Health Failures", SysLogsXIDError="False")
    until(lambda: "SysLogsXIDError" not in said(system) or None, "its end", 20)
    system.client.post(f"/jobs/{job_id}/stop", {})


@pytest.mark.usefixtures("agent")
def test_an_api_server_that_dies_is_followed_again(cluster: Kubernetes, system: System) -> None:
    cluster.kill()
    cluster.serve()
    set_conditions(cluster, PIDPressure="True")
    until(lambda: "PIDPressure" in said(system) or None, "the signal", 60)


def test_a_version_that_is_forgotten_is_told_to_be_gone(cluster: Kubernetes) -> None:
    here = Cluster("127.0.0.1", cluster.port, cluster.account("faultcast-node"))
    nodes = Collection("nodes", "/api/v1/nodes", {"metadata.name": NODE})
    (found,), version = Api(here).fetch(nodes, 10)
    assert found["metadata"]["name"] == NODE
    assert int(version) > 1
    with pytest.raises(GoneError):
        list(Api(here).watch(nodes, "1"))


def test_a_service_account_that_may_not_is_told_which_rule_is_missing(
    cluster: Kubernetes, system: System, tmp_path: Path
) -> None:
    cluster.ask("POST", "api/v1/namespaces/faultcast/serviceaccounts", {"metadata": {"name": "powerless"}})
    env = {"FAULTCAST_SERVER": system.client.server, "FAULTCAST_AGENT_TOKEN": "fct_none"}
    process = started(cluster, cluster.account("powerless"), tmp_path, env)
    try:

        def lines() -> str:
            return (tmp_path / "agent.log").read_text()

        until(lambda: "`list` and `watch` of nodes" in lines() or None, "the rule for nodes", 20)
        until(lambda: "`list` and `watch` of events" in lines() or None, "the rule for events", 20)
    finally:
        process.terminate()
        process.wait(10)
