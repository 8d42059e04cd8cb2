"""`faultcast up` as an operator meets it: one line, one folder, nothing left behind."""

import json
import os
import re
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import psutil
import pytest
import urllib3

LIMIT_S = 60.0


@dataclass
class Up:
    """A running `faultcast up`."""

    process: "subprocess.Popen[str]"
    url: str
    data_dir: Path

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(LIMIT_S)

    def parts(self, word: str) -> list[psutil.Process]:
        """Its children with that word on their command line."""
        children = psutil.Process(self.process.pid).children()
        return [child for child in children if re.search(rf"(^|[ /]){word}( |$)", _words(child))]

    def get(self, path: str) -> str:
        return urllib3.request("GET", self.url + path, timeout=5, retries=False).data.decode()


def environment(data_dir: Path, **given: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FAULTCAST_")}
    return kept | {"FAULTCAST_DATA_DIR": str(data_dir)} | given


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "master.cli", *arguments]


def wait_for(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


def answers(up: Up) -> bool:
    try:
        return json.loads(up.get("/readyz"))["ready"] is True
    except urllib3.exceptions.HTTPError:
        return False


def of_data_dir(data_dir: Path) -> list[psutil.Process]:
    """Whatever runs with that folder in its environment, on its command line or as its working directory."""
    found = []
    for process in psutil.process_iter():
        try:
            env, cwd = process.environ(), process.cwd()
            if process.status() == psutil.STATUS_ZOMBIE or process.pid == os.getpid():
                continue
        except psutil.Error:
            continue
        told = [*env.values(), cwd, *process.cmdline()]
        if any(str(data_dir) in word for word in told):
            found.append(process)
    return found


def _words(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


@contextmanager
def started(data_dir: Path, log: IO[str], *flags: str, **settings: str) -> Iterator[Up]:
    process = subprocess.Popen(
        command("up", "--bind", "127.0.0.1:0", "--workers", "1", *flags),
        env=environment(data_dir, **settings), stdout=subprocess.PIPE, stderr=log, text=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("ready http://127.0.0.1:"), Path(log.name).read_text()
        yield Up(process, line.removeprefix("ready ").strip(), data_dir)
    finally:
        if process.poll() is None:
            process.terminate()
        process.communicate(timeout=LIMIT_S)


@contextmanager
def fresh(folder: Path) -> Iterator[Up]:
    with (folder / "log").open("a+") as log, started(folder / "data", log) as running:
        yield running


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Up]:
    with fresh(tmp_path) as running:
        yield running


@pytest.fixture(scope="module")
def lasting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """One that several tests share: none of them ends it."""
    with fresh(tmp_path_factory.mktemp("lasting")) as running:
        yield running


def refused(data_dir: Path, *flags: str, **settings: str) -> tuple[int, str]:
    """How an `up` ends that cannot start: exit code and the one line that it says."""
    ended = subprocess.run(
        command("up", "--workers", "1", *flags),
        env=environment(data_dir, **settings), capture_output=True, text=True, timeout=LIMIT_S, check=False,
    )  # fmt: skip
    assert ended.stdout == ""
    (line,) = [line for line in ended.stderr.splitlines() if line.startswith("faultcast: ")]
    assert "Traceback" not in ended.stderr
    return ended.returncode, line


def test_it_serves_says_so_in_one_line_and_leaves_nothing(up: Up) -> None:
    assert answers(up)
    assert stat.S_IMODE(up.data_dir.stat().st_mode) == 0o700
    assert stat.S_IMODE((up.data_dir / "admin.token").stat().st_mode) == 0o600
    listed = subprocess.run(
        command("node", "list", "--json", "--server", up.url),
        env=environment(up.data_dir), capture_output=True, text=True, timeout=LIMIT_S, check=True,
    )  # fmt: skip
    assert len(json.loads(listed.stdout)["items"]) == 3
    assert up.end() == 0
    assert up.process.stdout is not None
    assert up.process.stdout.read() == ""
    assert of_data_dir(up.data_dir) == []


def test_ctrl_c_ends_it_the_same_way(up: Up) -> None:
    assert up.end(signal.SIGINT) == 0
    assert of_data_dir(up.data_dir) == []


def test_a_second_one_on_the_same_folder_is_refused(lasting: Up) -> None:
    code, line = refused(lasting.data_dir, "--bind", "127.0.0.1:0")
    assert code == 1
    assert f"in use by another `faultcast up` (pid {lasting.process.pid})" in line
    assert answers(lasting)


def test_a_server_that_is_killed_comes_back_at_the_same_address(lasting: Up) -> None:
    (server,) = lasting.parts("server")
    server.kill()
    wait_for(lambda: lasting.parts("server") and lasting.parts("server") != [server])
    wait_for(lambda: answers(lasting))


@pytest.mark.parametrize("part", ["worker", "valkey-server"])
def test_a_part_that_is_killed_comes_back(lasting: Up, part: str) -> None:
    wait_for(lambda: lasting.parts(part))
    (first,) = lasting.parts(part)
    first.kill()
    wait_for(lambda: lasting.parts(part) and lasting.parts(part) != [first])


def test_killed_itself_it_takes_its_parts_along_and_can_start_again(tmp_path: Path) -> None:
    """Agents stay, as pods do: the next one goes on with them, and ends them with itself."""
    with fresh(tmp_path) as first:
        first.process.kill()
        first.process.wait(LIMIT_S)
        wait_for(lambda: all("-m agent" in _words(left) for left in of_data_dir(first.data_dir)))
    with fresh(tmp_path) as again:
        assert answers(again)
    assert of_data_dir(first.data_dir) == []


def test_an_address_in_use_is_refused(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        bind = f"127.0.0.1:{other.getsockname()[1]}"
        code, line = refused(tmp_path / "data", "--bind", bind)
    assert code == 1
    assert f"--bind: {bind}: Address already in use;" in line


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"FAULTCAST_TIMEZONE": "Mars"}, "FAULTCAST_TIMEZONE"),
        ({"FAULTCAST_SECRET_KEY": "short"}, "FAULTCAST_SECRET_KEY"),
        ({"FAULTCAST_BIND": "8642"}, "FAULTCAST_BIND"),
        ({"FAULTCAST_DATABASE_URL": "mysql://x/y"}, "FAULTCAST_DATABASE_URL"),
    ],
)
def test_a_setting_that_is_wrong_is_named(tmp_path: Path, settings: dict[str, str], name: str) -> None:
    code, line = refused(tmp_path / "data", **settings)
    assert (code, name in line) == (2, True)


def test_a_database_that_is_not_there_is_named(tmp_path: Path) -> None:
    url = "postgresql+psycopg://nobody:hidden@127.0.0.1:1/none"
    code, line = refused(
        tmp_path / "data", "--bind", "127.0.0.1:0",
        FAULTCAST_DATABASE_URL=url, FAULTCAST_SECRET_KEY="0123456789abcdef",
    )  # fmt: skip
    assert (code, "FAULTCAST_DATABASE_URL" in line, "hidden" in line) == (1, True, False)


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    code, line = refused(tmp_path / "file" / "data", "--bind", "127.0.0.1:0")
    assert (code, "--data-dir" in line) == (2, True)


def test_a_folder_that_was_there_keeps_its_mode(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data").chmod(0o750)
    with socket.create_server(("127.0.0.1", 0)) as other:
        code, _ = refused(tmp_path / "data", "--bind", f"127.0.0.1:{other.getsockname()[1]}")
    assert code == 1
    assert stat.S_IMODE((tmp_path / "data").stat().st_mode) == 0o750


def test_a_folder_in_which_everybody_may_write_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data").chmod(0o1777)
    code, line = refused(tmp_path / "data", "--bind", "127.0.0.1:0")
    assert (code, "--data-dir" in line, "everybody may write" in line) == (2, True, True)
    assert stat.S_IMODE((tmp_path / "data").stat().st_mode) == 0o1777


def test_a_runtime_that_is_none_yet_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    code, line = refused(tmp_path / "data", FAULTCAST_RUNTIME="kubernetes")
    assert (code, "FAULTCAST_RUNTIME" in line) == (2, True)
    assert not (tmp_path / "data").exists()
