"""The page on writing an adapter, done as it says: its package, its contract, a message by a real server."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import urllib3

from channels.standin import StandIn

ROOT = Path(__file__).parents[2]
LIMIT_S = 120


def block(name: str) -> str:
    """The code block of the page that follows this file's name."""
    page = (ROOT / "docs/adapters.md").read_text(encoding="utf-8")
    found = re.search(rf"`{re.escape(name)}`[^`]*?\n\n```\w+\n(.*?)```", page, re.DOTALL)
    assert found is not None, f"the page does not show {name}"
    return found[1]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page's package, built and installed by pip into a folder of its own."""
    source = tmp_path_factory.mktemp("source")
    target = tmp_path_factory.mktemp("target")
    for name in ("faultcast_ntfy.py", "pyproject.toml"):
        (source / name).write_text(block(name), encoding="utf-8")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps"]
    command += ["--no-build-isolation", "--disable-pip-version-check", "--target", str(target), str(source)]
    subprocess.run(command, check=True, timeout=LIMIT_S, capture_output=True)
    return target


def environment(installed: Path, **given: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FAULTCAST_")}
    return {**kept, "PYTHONPATH": str(installed), **given}


def test_the_adapter_is_about_thirty_lines() -> None:
    code = [line for line in block("faultcast_ntfy.py").splitlines() if line and "import" not in line]
    assert len(code) <= 30


def test_it_passes_the_contract_away_from_our_own_tests(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "test_contract.py").write_text(block("test_contract.py"), encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir"]
    done = subprocess.run(
        [*command, str(tmp_path), "test_contract.py"],
        cwd=tmp_path,
        env=environment(installed),
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:]
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed is not None
    assert int(passed[1]) > 80


def test_a_real_server_and_worker_send_by_it(installed: Path, tmp_path: Path) -> None:
    with StandIn() as providers, serving(installed, tmp_path) as url:
        receiver = providers.robot("any", success={"id": "x", "event": "message"})
        config = {"url": receiver.url, "topic": "alerts", "token": "CANARYtoken"}
        made = post(tmp_path, f"{url}/channels", {"name": "phone", "kind": "ntfy", "config": config})
        assert made["config"] == {"url": f"{providers.url}/***", "topic": "alerts", "token": "***"}
        assert post(tmp_path, f"{url}/channels/phone/test", {})["outcome"] == "delivered"
        alert = {"source": "docs", "title": "it works", "severity": "error", "channels": ["phone"]}
        post(tmp_path, f"{url}/alerts", alert)
        _, arrived = providers.wait(2, "any")
    assert arrived.body["topic"] == "alerts"
    assert "it works" in arrived.body["title"]
    assert arrived.headers["authorization"] == "Bearer CANARYtoken"


@contextmanager
def serving(installed: Path, folder: Path) -> Iterator[str]:
    """`faultcast up` with the package installed; the URL of its API."""
    env = environment(installed, FAULTCAST_DATA_DIR=str(folder), FAULTCAST_ALLOW_TARGETS="127.0.0.0/8")
    command = [sys.executable, "-m", "master.cli", "up", "--bind", "127.0.0.1:0", "--workers", "1"]
    log = (folder / "log").open("w")
    with log, subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=log, text=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line.startswith("ready http"), (folder / "log").read_text()
            yield f"{line.split()[1]}/api/v1"
        finally:
            process.terminate()
            process.wait(LIMIT_S)


def post(folder: Path, url: str, body: dict[str, object]) -> dict[str, object]:
    headers = {"Authorization": f"Bearer {(folder / 'admin.token').read_text().strip()}"}
    answer = urllib3.request("POST", url, json=body, headers=headers, timeout=30, retries=False)
    assert answer.status < 300, answer.data.decode()
    found: dict[str, object] = json.loads(answer.data)
    return found
