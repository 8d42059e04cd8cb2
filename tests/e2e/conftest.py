"""A whole system of its own on this machine, and a real PyTorch job on it."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import psutil
import pytest

import master.demo
from channels.standin import StandIn
from master.cli.client import Client

TRAIN = Path(master.demo.__file__).with_name("train.py")
WITHIN_S = 90.0
Found = TypeVar("Found")


def until(look: Callable[[], Found | None], what: str, within_s: float = WITHIN_S) -> Found:
    """The first answer that says something; fails by the name of what was waited for."""
    end = time.monotonic() + within_s
    while time.monotonic() < end:
        if found := look():
            return found
        time.sleep(0.1)
    pytest.fail(f"{what} did not come within {within_s:.0f} s")


@dataclass(frozen=True)
class System:
    """`faultcast up` with a webhook channel `hook`, at which a stand-in listens."""

    client: Client
    data_dir: Path
    providers: StandIn

    def train(self, name: str, command: str, **spec: Any) -> str:
        """Submits a job that tells `hook` of everything; its id."""
        envs = {"DEMO_CHECKPOINTS": str(self.data_dir / name), **spec.pop("envs", {})}
        body = {
            "name": name,
            "command": command,
            "jobFramework": "PyTorchJob",
            "jobSpec": {
                "replicas": spec.pop("replicas", 2),
                "envs": [{"name": key, "value": value} for key, value in envs.items()],
            },
            "faultTolerance": True,
            "alertConfig": {"rules": [{"channels": ["hook"]}]},
            **spec,
        }
        return str(self.client.post("/jobs", body)["id"])

    def job(self, job_id: str) -> dict[str, Any]:
        document: dict[str, Any] = self.client.get(f"/jobs/{job_id}")
        return document

    def events(self, job_id: str) -> list[dict[str, Any]]:
        return list(self.client.get(f"/jobs/{job_id}/events")["items"])

    def told(self, item: str) -> list[dict[str, Any]]:
        """What the receiver got of an item: the webhook bodies."""
        got = [one.body for one in self.providers.messages("webhook", accepted=True)]
        return [body for body in got if body["item"] == item]

    def steps_beyond(self, job_id: str, step: int) -> int:
        """Waits for training to get beyond a step; the step it is at."""
        return until(
            lambda: at if (at := self.job(job_id)["step"] or 0) > step else None, f"a step beyond {step}"
        )

    def trainers(self, job_id: str) -> list[psutil.Process]:
        """The training processes: those that run the script with a rank of their own."""
        found = []
        for one in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                env, line = one.environ(), one.cmdline()
                if (
                    env.get("FAULTCAST_JOB_ID") == job_id
                    and str(TRAIN) in line
                    and "torchrun" not in str(line)
                ):
                    found.append(one)
        return sorted(found, key=lambda one: int(one.environ()["RANK"]))


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    data_dir = tmp_path_factory.mktemp("up")
    env = {name: value for name, value in os.environ.items() if not name.startswith("FAULTCAST_")}
    with StandIn() as providers, (data_dir / "up.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "master.cli", "up", "--data-dir", str(data_dir), "--bind", "127.0.0.1:0"],
            env={**env, "FAULTCAST_ALLOW_TARGETS": "127.0.0.0/8"},
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line.startswith("ready "), (data_dir / "up.log").read_text()
            client = Client(line.split()[1], (data_dir / "admin.token").read_text().strip())
            sink = providers.robot("webhook")
            client.post(
                "/channels",
                {"name": "hook", "scope": "default", "kind": "webhook", "config": {"url": sink.url}},
            )
            yield System(client, data_dir, providers)
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0
