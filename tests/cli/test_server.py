"""`faultcast server` by itself, as on many machines: its token, and what it says when it cannot start."""

import os
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
import urllib3

from master.runtimes.local import LocalRuntime
from notifier.clock import rfc3339, utcnow

LIMIT_S = 60.0
KEY = "0123456789abcdef0123"


def run(data_dir: Path, *arguments: str, **settings: str) -> "subprocess.CompletedProcess[str]":
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FAULTCAST_")}
    return subprocess.run(
        [sys.executable, "-m", "master.cli", *arguments],
        env=kept | {"FAULTCAST_DATA_DIR": str(data_dir)} | settings,
        capture_output=True, text=True, timeout=LIMIT_S, check=False,
    )  # fmt: skip


@contextmanager
def serving(data: Path, **settings: str) -> Iterator[str]:
    """A server by itself; answers its address, and ends it with SIGTERM."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FAULTCAST_")}
    ready, say_ready = os.pipe()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        fds = (listener.fileno(), say_ready)
        words = ("server", "--listen-fd", str(fds[0]), "--ready-fd", str(fds[1]))
        server = subprocess.Popen(
            [sys.executable, "-m", "master.cli", *words],
            env=kept | {"FAULTCAST_DATA_DIR": str(data)} | settings,
            pass_fds=fds, stderr=subprocess.DEVNULL,
        )  # fmt: skip
    os.close(say_ready)
    try:
        assert os.read(ready, 1), "it did not start"
        yield url
    finally:
        os.close(ready)
        server.terminate()
        assert server.wait(LIMIT_S) == 0


def ask(data: Path, url: str, method: str, path: str, body: object = None) -> Any:
    bearer = {"Authorization": f"Bearer {(data / 'admin.token').read_text().strip()}"}
    answer = urllib3.request(method, f"{url}/api/v1{path}", headers=bearer, json=body)
    assert answer.status < 300, answer.data
    return answer.json() if answer.data else None


def test_the_first_admin_token_lies_in_its_data_dir(tmp_path: Path) -> None:
    """As docs/many-machines.md says: migrate, serve, use the token."""
    data = tmp_path / "data"
    assert run(data, "migrate").returncode == 0
    try:
        with serving(data) as url:
            assert [one["name"] for one in ask(data, url, "GET", "/tokens")["items"]].count("admin") == 1
            assert (data / "admin.token").stat().st_mode & 0o077 == 0
    finally:
        LocalRuntime(data, 3).shutdown()  # the nodes' agents outlive a server
    with sqlite3.connect(data / "faultcast.db") as database:
        assert database.execute("select count(*) from leaders").fetchone() == (0,), "the lease is kept"


@pytest.mark.parametrize("first", ["server", "worker"])
def test_a_new_database_is_ours_alone_though_not_migrated_first(tmp_path: Path, first: str) -> None:
    """And its journals, which take after it, though the folder is open to others."""
    tmp_path.chmod(0o755)
    url = {"FAULTCAST_DATABASE_URL": f"sqlite:///{tmp_path}/faultcast.db"} if first == "worker" else {}
    refused = run(tmp_path, first, FAULTCAST_BIND="127.0.0.1:0", FAULTCAST_SECRET_KEY=KEY, **url)
    assert refused.returncode == 1
    assert "faultcast migrate" in refused.stderr
    assert run(tmp_path, "migrate", **url).returncode == 0
    with closing(sqlite3.connect(tmp_path / "faultcast.db")) as database:
        database.execute("select * from leaders")
        modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.glob("faultcast.db*")}
    assert {"faultcast.db", "faultcast.db-wal", "faultcast.db-shm"} <= set(modes)
    assert set(modes.values()) == {0o600}, modes


def test_a_server_with_another_data_dir_leaves_jobs_that_it_cannot_see_alone(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    shared = {"FAULTCAST_DATABASE_URL": f"sqlite:///{tmp_path}/shared.db", "FAULTCAST_SECRET_KEY": KEY}
    assert run(first, "migrate", **shared).returncode == 0
    job = {"name": "long", "command": "sleep 600", "faultTolerance": True}
    try:
        with ExitStack() as later:
            with serving(first, **shared) as url:
                job_id = ask(first, url, "POST", "/jobs", job)["id"]
                until(lambda: ask(first, url, "GET", f"/jobs/{job_id}")["status"] == "Running")
                standby = later.enter_context(serving(second, **shared))
            until(lambda: "another data dir" in ask(second, standby, "GET", f"/jobs/{job_id}")["reason"])
            left = ask(second, standby, "GET", f"/jobs/{job_id}")
            assert (left["status"], left["run"]) == ("Running", 0)
            assert ask(second, standby, "GET", f"/jobs/{job_id}/events")["items"] == []
    finally:
        for data in (first, second):
            LocalRuntime(data, 3).shutdown()


def test_agents_follow_a_server_that_comes_back_at_another_address(tmp_path: Path) -> None:
    job = {"name": "long", "command": "sleep 600", "faultTolerance": True}
    try:
        assert run(tmp_path, "migrate").returncode == 0
        with serving(tmp_path) as url:
            job_id = ask(tmp_path, url, "POST", "/jobs", job)["id"]
            until(lambda: len(heard(tmp_path, url, job_id, since="")) == 4)
        with serving(tmp_path) as url:
            since = rfc3339(utcnow())
            until(lambda: len(heard(tmp_path, url, job_id, since)) == 4)
            items = [alert["item"] for alert in ask(tmp_path, url, "GET", "/alerts")["items"]]
            assert "agentLost" not in items
            assert ask(tmp_path, url, "GET", f"/jobs/{job_id}")["run"] == 0
    finally:
        LocalRuntime(tmp_path, 3).shutdown()


def heard(data: Path, url: str, job_id: str, since: str) -> list[dict[str, Any]]:
    """The nodes and pods whose agents have spoken since."""
    nodes = ask(data, url, "GET", "/nodes")["items"]
    pods = ask(data, url, "GET", f"/jobs/{job_id}")["pods"]
    return [one for one in nodes + pods if (one["agent_seen_at"] or "") > since]


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.1)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        pytest.param(
            {"FAULTCAST_DATABASE_URL": "postgresql://u:hidden@127.0.0.1:1/x", "FAULTCAST_SECRET_KEY": KEY},
            "is the database there",
            id="nobody there",
        ),
        pytest.param(
            {"FAULTCAST_DATABASE_URL": "sqlite:////no/such/folder/x.db"}, "is the database", id="no folder"
        ),
        pytest.param({}, "faultcast migrate", id="no tables"),
    ],
)
def test_a_database_that_cannot_be_used_is_named(
    tmp_path: Path, settings: dict[str, str], words: str
) -> None:
    ended = run(tmp_path / "data", "server", "--bind", "127.0.0.1:0", **settings)
    assert ended.returncode == 1
    assert ended.stderr.count("\n") == 1
    assert ended.stderr.startswith("faultcast: FAULTCAST_DATABASE_URL: ")
    assert words in ended.stderr
    assert "hidden" not in ended.stderr
    assert "sqlalche.me" not in ended.stderr
