"""The embedded Valkey: private, without TCP, alive only as long as its parent."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
import redis

from notifier.valkey import MAX_SOCKET_PATH, Embedded, ValkeyError

PARENT = """
import sys, time
from pathlib import Path
from notifier.valkey import Embedded
server = Embedded(Path(sys.argv[1]))
server.start()
Path(sys.argv[2]).write_text(str(server.pid))
time.sleep(600)
"""


def until(condition: Callable[[], bool], timeout_s: float = 15) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


def test_serves_on_a_private_socket_and_no_port(tmp_path: Path) -> None:
    with Embedded(tmp_path) as server:
        client = redis.Redis.from_url(server.url)
        assert client.ping()
        assert client.config_get("port") == {"port": "0"}
        client.close()
        assert (tmp_path / "valkey").stat().st_mode & 0o777 == 0o700
        assert psutil.Process(server.pid).net_connections("inet") == []


@pytest.mark.parametrize("name", ["d" * 120, "a space, %41 and ?#", "数据"], ids=["long", "odd", "chinese"])
def test_any_data_dir_will_do(tmp_path: Path, name: str) -> None:
    with Embedded(tmp_path / name) as server:
        client = redis.Redis.from_url(server.url)
        assert client.ping()
        client.close()
        assert len(os.fsencode(server.url)) <= 3 * MAX_SOCKET_PATH


def test_keeps_its_data_over_a_restart(tmp_path: Path) -> None:
    for expected in (None, b"1"):
        with Embedded(tmp_path) as server, redis.Redis.from_url(server.url) as client:
            assert client.get("kept") == expected
            client.set("kept", 1)


def test_a_killed_server_is_started_again(tmp_path: Path) -> None:
    with Embedded(tmp_path) as server:
        assert not server.ensure()
        assert server.pid is not None
        os.kill(server.pid, signal.SIGKILL)
        until(lambda: not server.is_healthy())
        assert server.ensure()
        assert server.is_healthy()


def test_dies_with_its_parent_and_the_next_takes_over(tmp_path: Path) -> None:
    told = tmp_path / "pid"
    with subprocess.Popen([sys.executable, "-c", PARENT, str(tmp_path), str(told)]) as parent:
        try:
            until(lambda: told.exists() and bool(told.read_text()))
        finally:
            parent.kill()
    pid = int(told.read_text())
    with Embedded(tmp_path) as server:
        assert server.is_healthy()
        until(lambda: not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)


def test_a_second_server_on_the_same_data_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("notifier.valkey.STOP_S", 0.2)
    with Embedded(tmp_path), pytest.raises(ValkeyError, match="another Valkey"):
        Embedded(tmp_path).start()


def test_a_shared_folder_for_the_short_name_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / f"faultcast-{os.getuid()}").mkdir(mode=0o777)
    (tmp_path / f"faultcast-{os.getuid()}").chmod(0o777)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(ValkeyError, match="not ours alone"):
        Embedded(tmp_path / ("d" * 120)).start()
