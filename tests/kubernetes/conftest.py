"""A real API server of the tests' own, where `make test-kubernetes` has built one; else none of them runs."""

import os
import signal
import socket
import ssl
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests import certificates
from tests.e2e.conftest import until

BIN = os.environ.get("KUBERNETES_BIN")
collect_ignore_glob = [] if BIN else ["test_*.py"]


@dataclass
class Kubernetes:
    """kube-apiserver and its etcd. `ask` speaks as a member of `system:masters`."""

    folder: Path
    ports: tuple[int, ...] = field(default_factory=lambda: free_ports(3))
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def port(self) -> int:
        return self.ports[0]

    def start(self) -> None:
        self.pair = certificates.made(self.folder)
        self.client = httpx.Client(
            base_url=f"https://127.0.0.1:{self.port}",
            headers={"Authorization": "Bearer admin-token"},
            verify=ssl.create_default_context(cafile=self.pair.authority),
        )
        subprocess.run(
            ["openssl", "genrsa", "-out", self.folder / "accounts.key", "2048"],
            check=True,
            capture_output=True,
        )
        (self.folder / "tokens.csv").write_text('admin-token,admin,admin,"system:masters"\n')
        clients, peers = (f"http://127.0.0.1:{port}" for port in self.ports[1:])
        self._start(
            "etcd", "--data-dir=etcd", "--unsafe-no-fsync", f"--listen-client-urls={clients}",
            f"--advertise-client-urls={clients}", f"--listen-peer-urls={peers}",
            f"--initial-advertise-peer-urls={peers}", f"--initial-cluster=default={peers}",
        )  # fmt: skip
        self.serve()

    def serve(self) -> None:
        """Start the API server, and wait until it is ready."""
        issuer = f"https://127.0.0.1:{self.port}"
        self._start(
            "kube-apiserver", f"--etcd-servers=http://127.0.0.1:{self.ports[1]}", "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1", f"--secure-port={self.port}", "--cert-dir=certs",
            f"--tls-cert-file={self.pair.certificate}", f"--tls-private-key-file={self.pair.key}",
            f"--service-account-issuer={issuer}", "--service-account-key-file=accounts.key",
            "--service-account-signing-key-file=accounts.key", "--token-auth-file=tokens.csv",
            "--authorization-mode=RBAC", "--anonymous-auth=false", "--service-cluster-ip-range=10.0.0.0/24",
            "--endpoint-reconciler-type=none", "--disable-admission-plugins=ServiceAccount",
            "--allow-privileged",
        )  # fmt: skip
        until(self._is_ready, "the API server")

    def kill(self) -> None:
        """The API server, as a lost machine would end it."""
        server = self.processes.pop("kube-apiserver")
        server.kill()
        server.wait()

    def close(self) -> None:
        for process in reversed(self.processes.values()):
            process.send_signal(signal.SIGTERM)
            process.wait(30)

    def ask(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        """Its answer; a PATCH is a strategic merge."""
        sort = "application/strategic-merge-patch+json" if method == "PATCH" else "application/json"
        answer = self.client.request(method, path, json=body, headers={"Content-Type": sort})
        assert answer.is_success, f"{method} {path}: {answer.status_code} {answer.text}"
        document: dict[str, Any] = answer.json()
        return document

    def account(self, name: str, namespace: str = "faultcast") -> Path:
        """A folder as a pod of that service account finds it."""
        path = f"api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        folder = self.folder / f"account-{name}"
        folder.mkdir(exist_ok=True)
        (folder / "token").write_text(self.ask("POST", path, body)["status"]["token"])
        (folder / "ca.crt").write_bytes(self.pair.authority.read_bytes())
        return folder

    def _is_ready(self) -> bool | None:
        assert self.processes["kube-apiserver"].poll() is None, self._log("kube-apiserver")
        try:
            return self.client.get("/readyz").is_success or None
        except httpx.TransportError:
            return None

    def _start(self, program: str, *arguments: str) -> None:
        assert BIN is not None
        with (self.folder / f"{program}.log").open("ab") as log:
            self.processes[program] = subprocess.Popen(
                [Path(BIN) / program, *arguments], cwd=self.folder, stdout=log, stderr=log
            )

    def _log(self, program: str) -> str:
        return (self.folder / f"{program}.log").read_text()[-2000:]


def free_ports(count: int) -> tuple[int, ...]:
    taken = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in taken]
    for one in taken:
        one.close()
    return tuple(ports)


@pytest.fixture(scope="session")
def kubernetes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubernetes]:
    running = Kubernetes(tmp_path_factory.mktemp("kubernetes"))
    try:
        running.start()
        yield running
    finally:
        running.close()
