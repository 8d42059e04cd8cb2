"""The keeper of `faultcast up`: parts live, die, come back, and end together."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from master.processes import LONGEST_WAIT_S, Keeper, Program, wait_after

LIMIT_S = 20.0


def wait_for(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)


def shell(name: str, script: str) -> Program:
    return Program(name, ("/bin/sh", "-c", script), dict(os.environ))


def lines(path: Path) -> list[str]:
    return path.read_text().split() if path.exists() else []


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


@pytest.fixture
def keeper() -> Iterator[Keeper]:
    keeper = Keeper()
    yield keeper
    keeper.stop(0.0)


@pytest.mark.parametrize(
    ("deaths", "seconds"), [(1, 0.2), (2, 0.4), (3, 0.8), (6, 6.4), (7, LONGEST_WAIT_S), (99, LONGEST_WAIT_S)]
)
def test_the_wait_grows_with_each_death(deaths: int, seconds: float) -> None:
    assert wait_after(deaths) == pytest.approx(seconds)


def test_who_dies_is_started_again(keeper: Keeper, tmp_path: Path) -> None:
    keeper.start(shell("part", f"echo $$ >> {tmp_path}/pids; exec sleep 600"))
    wait_for(lambda: lines(tmp_path / "pids"))
    os.kill(int(lines(tmp_path / "pids")[0]), signal.SIGKILL)
    wait_for(lambda: keeper.look_after() or len(lines(tmp_path / "pids")) == 2)
    assert keeper.exit_code("part") is None


def test_who_dies_at_once_is_not_started_in_a_rush(keeper: Keeper, tmp_path: Path) -> None:
    keeper.start(shell("part", f"echo x >> {tmp_path}/starts; exit 3"))
    until = time.monotonic() + 1.0  # 0.2 + 0.4 s are waited for two starts, 0.8 s for a third
    while time.monotonic() < until:
        keeper.look_after()
        time.sleep(0.01)
    assert 2 <= len(lines(tmp_path / "starts")) <= 3


def test_all_end_together_and_the_stubborn_by_force(keeper: Keeper, tmp_path: Path) -> None:
    keeper.start(shell("good", f"echo $$ >> {tmp_path}/pids; exec sleep 600"))
    keeper.start(shell("stubborn", f"trap '' TERM; echo $$ >> {tmp_path}/pids; while :; do sleep 0.05; done"))
    wait_for(lambda: len(lines(tmp_path / "pids")) == 2)
    keeper.stop(0.3)
    assert not any(is_running(int(pid)) for pid in lines(tmp_path / "pids"))


def test_parts_die_with_the_process_that_keeps_them(tmp_path: Path) -> None:
    """The keeper is killed without a chance to say so; its part hears of it from the kernel."""
    part = (
        "import os, sys, time; from pathlib import Path; from master.processes import die_with;"
        f"die_with(int(sys.argv[1])); Path({str(tmp_path / 'pid')!r}).write_text(str(os.getpid()));"
        "time.sleep(600)"
    )
    keep = (
        "import os, sys, time; from master.processes import Keeper, Program; keeper = Keeper();"
        f"keeper.start(Program('part', (sys.executable, '-c', {part!r}, str(os.getpid())), {{}}));"
        "time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", keep]) as process:
        wait_for(lambda: lines(tmp_path / "pid"))
        process.kill()
    pid = int(lines(tmp_path / "pid")[0])
    wait_for(lambda: not is_running(pid))


def test_a_part_whose_parent_is_gone_already_does_not_start() -> None:
    code = "from master.processes import die_with; die_with(1); raise SystemExit(9)"
    if os.getpid() == 1:
        pytest.skip("this process is the init of its own namespace")
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=LIMIT_S).returncode == 0
