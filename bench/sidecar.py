"""What a sidecar costs: its processor time and memory, and how much longer a step takes beside it.

python bench/sidecar.py [--windows 12] [--seconds 8]

A live PyTorch job of two pods (gloo, CPU) makes small steps. In every other window of time all agents are
stopped (SIGSTOP), so both halves are the same job on the same machine; windows are compared in pairs. Run it
on a machine that does nothing else.
"""

import argparse
import shlex
import signal
import statistics
import sys
import time
from pathlib import Path

import psutil

import master.demo
from channels.standin import StandIn
from master.demo.town import Town, town, wait_for

TRAIN = Path(master.demo.__file__).with_name("train.py")
STARTS_WITHIN_S = 90.0
SETTLES_S = 3.0


def submit(place: Town) -> str:
    """A job that only steps."""
    envs = {
        "DEMO_CHECKPOINTS": str(place.data_dir / "checkpoints"),
        "DEMO_STEPS": "100000000",
        "DEMO_STEP_S": "0.01",
    }
    body = {
        "name": "sidecar",
        "command": f"exec {shlex.quote(sys.executable)} {shlex.quote(str(TRAIN))}",
        "jobFramework": "PyTorchJob",
        "jobSpec": {"replicas": 2, "envs": [{"name": key, "value": value} for key, value in envs.items()]},
    }
    return str(place.client.post("/jobs", body)["id"])


def agents() -> list[psutil.Process]:
    """The pods' own; the nodes' agents go on."""
    found = []
    for process in psutil.Process().children(recursive=True):
        words = process.cmdline()
        if words[-2:] == ["-m", "agent"]:
            found.append(process)
    return found


def progress(place: Town) -> Path | None:
    return next(iter(sorted(place.data_dir.rglob("progress*"))), None)


def step(path: Path) -> int:
    """It is empty for a moment when it is written."""
    while not (text := path.read_text()):
        time.sleep(0.001)
    return int(text)


def steps_a_second(path: Path, seconds: float) -> float:
    first, began = step(path), time.perf_counter()
    time.sleep(seconds)
    return (step(path) - first) / (time.perf_counter() - began)


def cpu_s(processes: list[psutil.Process]) -> float:
    return sum(sum(process.cpu_times()[:2]) for process in processes)


def measure(path: Path, windows: int, seconds: float) -> dict[str, float]:
    watching = agents()
    ratios, spent, watched = [], 0.0, 0.0
    for n in range(windows):
        rates = {}
        for is_stopped in (n % 2 == 0, n % 2 == 1):
            for process in watching:
                process.send_signal(signal.SIGSTOP if is_stopped else signal.SIGCONT)
            time.sleep(1.0)
            before = cpu_s(watching)
            rates[is_stopped] = steps_a_second(path, seconds)
            if not is_stopped:
                spent, watched = spent + cpu_s(watching) - before, watched + seconds
        ratios.append(rates[True] / rates[False] - 1)
    for process in watching:
        process.send_signal(signal.SIGCONT)
    return {
        "agents": len(watching),
        "cpu_percent_each": round(100 * spent / watched / len(watching), 2),
        "rss_mib_each": round(statistics.mean(one.memory_info().rss for one in watching) / 2**20, 1),
        "steps_per_s": round(rates[False], 1),
        "added_step_time_percent": round(100 * statistics.median(ratios), 2),
        "spread_percent": round(100 * statistics.pstdev(ratios), 2),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--windows", type=int, default=12, help="pairs of them")
    parser.add_argument("--seconds", type=float, default=8.0, help="of one")
    given = parser.parse_args()
    with StandIn() as providers, town(providers.smtp_url, "en", keep=False) as place:
        submit(place)
        path = wait_for(lambda: progress(place), STARTS_WITHIN_S, "no step")
        time.sleep(SETTLES_S)
        for name, value in measure(path, given.windows, given.seconds).items():
            print(f"{name:28}{value}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
