"""The edge to NVML: NVIDIA's own binding with a library that stands in for the driver's, and none at all."""

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from agent.findings import Finding
from agent.gpus import Gpu, Snapshot
from agent.gpuwatch import GpuWatch
from agent.nvml import UnavailableError, Xid

ROOT = Path(__file__).resolve().parents[2]
SOURCE = Path(__file__).with_name("data") / "fake_nvml.c"
# The library is loaded once in a process: each look at it happens in one of its own.
WATCH = """
import json, sys
from agent.gpuwatch import GpuWatch
from agent.nvml import Nvml
class Telling(Nvml):
    def snapshot(self):
        seen = super().snapshot()
        print("looked", flush=True)
        return seen
tell = lambda found: print(json.dumps([one.line for one in found]), flush=True)
watch = GpuWatch(tell, Telling, look_s=0.05)
watch.start()
for line in sys.stdin:
    print(json.dumps([one.name for one in watch.conditions()]), flush=True)
watch.close()
"""


@dataclass
class Driver:
    """The stand-in's folder, and the file that it obeys."""

    folder: Path

    def say(self, **what: int) -> None:
        lines = "".join(f"{key.replace('_', '.')} {value}\n" for key, value in what.items())
        draft = self.folder / "state.new"
        draft.write_text(lines)
        draft.replace(self.folder / "state")

    @property
    def env(self) -> dict[str, str]:
        return {"LD_LIBRARY_PATH": str(self.folder), "FAKE_NVML": str(self.folder / "state")}


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("pynvml", reason="nvidia-ml-py (faultcast[gpu]) is not installed")
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler to build the stand-in for NVIDIA's library")
    built = tmp_path_factory.mktemp("nvml") / "libnvidia-ml.so.1"
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", built, SOURCE], check=True, timeout=60)
    return built


@pytest.fixture
def driver(library: Path, tmp_path: Path) -> Driver:
    shutil.copy(library, tmp_path / library.name)
    found = Driver(tmp_path)
    found.say()
    return found


@dataclass
class Watching:
    """A process that watches; its lines as they come."""

    process: subprocess.Popen[str]
    lines: list[str]
    looks: int = 0

    def ask(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()


@pytest.fixture
def watching(driver: Driver) -> Iterator[Watching]:
    process = subprocess.Popen(
        [sys.executable, "-c", WATCH], cwd=ROOT, env=os.environ | driver.env, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    found = Watching(process, [])
    assert process.stderr is not None
    assert "nvml_watched" in process.stderr.readline()

    def read() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            found.looks += line == "looked\n"
            found.lines += [line.strip()] if line != "looked\n" else []

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    yield found
    process.communicate(timeout=10)
    reader.join(5)
    assert process.returncode == 0


FAULTS: dict[str, tuple[dict[str, int], str]] = {
    "lost": ({"lost1": 1}, "NVML: GPU 0000:9c:00 is lost"),
    "gone": ({"gone": 1}, "NVML: GPU 0000:9c:00 is lost: it is not counted any more"),
    "ecc": ({"ecc0": 3}, "NVML: GPU 0000:9b:00: 3 uncorrectable ECC errors of its memory"),
    "failed": ({"failed0": 1}, "NVML: GPU 0000:9b:00: a row could not be remapped"),
    "link": ({"down0_2": 1}, "NVML: GPU 0000:9b:00: NVLink 2 is down"),
    "recovery": ({"recovery1": 2}, "NVML: GPU 0000:9c:00: NVLink 0 had errors: 2 recovery"),
    "xid": ({"xid": 79, "xids": 1}, "NVML: Xid 79 on GPU 0000:9b:00"),
    "xid of a lost GPU": ({"xid": 79, "xids": 1, "lost0": 1}, "NVML: Xid 79 on GPU 0000:9b:00"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_nvidias_own_binding_tells_of_it(
    watching: Watching, driver: Driver, until: Callable[..., Any], fault: str
) -> None:
    until(lambda: watching.looks, "a first look")
    assert watching.lines == []
    what, line = FAULTS[fault]
    driver.say(**what)
    until(lambda: any(f'"{line}"' in one for one in watching.lines), line)
    assert sum(line in one for one in watching.lines) == 1


def test_what_stands_is_told_while_it_stands(
    watching: Watching, driver: Driver, until: Callable[..., Any]
) -> None:
    def conditions() -> str:
        watching.ask()
        return watching.lines[-1] if watching.lines else ""

    driver.say(pending1=1, slow0=0x40)
    until(lambda: conditions() == '["gpu_slowdown", "gpu_remap_pending"]', "both")
    driver.say()
    until(lambda: conditions() == "[]", "nothing")


def test_a_machine_without_a_driver_says_so_once_and_loads_nothing() -> None:
    """Not even the binding: `pynvml` is 400 kB of Python."""
    code = (
        "import sys, time\nfrom agent import gpuwatch\ngpuwatch._AGAIN_S = 0.01\n"
        "watch = gpuwatch.GpuWatch(print)\nwatch.start()\ntime.sleep(0.3)\nwatch.close()\n"
        "print('pynvml' in sys.modules, watch.conditions())"
    )
    env = {"LD_LIBRARY_PATH": "/nonexistent", "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=env,
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    if "nvml_watched" in done.stderr:
        pytest.skip("this machine has an NVIDIA driver")
    (line,) = done.stderr.splitlines()
    assert '"no_nvml"' in line
    assert done.stdout == "False []\n"


class Silent:
    """A driver whose GPU's firmware hangs."""

    def __init__(self) -> None:
        self.asked, self.answers = threading.Event(), threading.Event()
        self.closed = threading.Event()

    def snapshot(self) -> Snapshot:
        self.asked.set()
        self.answers.wait(20)
        return Snapshot(0.0, {"GPU-0": Gpu("GPU-0", "0000:9b:00")})

    def xids(self, timeout_s: float) -> list[Xid]:
        threading.Event().wait(timeout_s)
        return []

    def close(self) -> None:
        self.closed.set()


def test_a_driver_that_hangs_is_told_of_once_until_it_answers(until: Callable[..., Any]) -> None:
    told: list[Finding] = []
    driver = Silent()

    def post(found: Sequence[Finding]) -> None:
        told.extend(found)

    watch = GpuWatch(post, lambda: driver, look_s=0.05)
    watch.start()
    assert driver.asked.wait(10)
    since = until(lambda: watch._busy_since, "a look that has begun")
    for seconds in (1, 59, 61, 70, 400):
        watch.tick(since + seconds)
    assert [one.signature for one in told] == ["gpu.driver_silent"]
    assert [one.name for one in watch.conditions()] == ["nvml_silent"]
    driver.answers.set()
    until(lambda: watch._busy_since is None, "an answer")
    watch.tick(since + 401)
    assert watch.conditions() == []
    watch.close()
    assert driver.closed.is_set()


def test_a_driver_that_is_loaded_anew_is_opened_anew(until: Callable[..., Any]) -> None:
    opened: list[int] = []

    class Fleeting(Silent):
        def snapshot(self) -> Snapshot:
            raise UnavailableError("Uninitialized")

    def library() -> Fleeting:
        opened.append(1)
        return Fleeting()

    watch = GpuWatch(lambda _: None, library, look_s=0.01)
    watch.start()
    until(lambda: len(opened) > 2, "opened again")
    watch.close()
