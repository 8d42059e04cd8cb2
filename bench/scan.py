"""How many MB of a log the agent reads a second and core, end to end: lines, signatures, steps, context.

python -m bench.scan [--mb 60] [--json]

Each log is written to memory (/dev/shm) and read by the agent's own probe as fast as it can: ordinary step
lines of eight ranks; the same coloured; the same with a fault line in every megabyte; one endless line; bytes
at random. Beside it the same probe line by line. Processor time counts, not the clock. Exit code 0: ordinary
lines go at 500 MB a second at least.
"""

import argparse
import json
import random
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from agent.follow import MAX_BACKLOG
from agent.framing import RankMap
from agent.logprobe import LogProbe
from agent.progress import Progress
from agent.signatures import Scanner, Sieve

GOAL = 500.0
RANKS = 8
MAX_MB = (MAX_BACKLOG >> 20) - 4  # what an agent is further behind of, it leaves out
MB = 1 << 20
LINE = (
    "[rank{rank}]: 2026-11-29 10:11:{second:02},{ms:03} INFO trainer: step {step} | loss 2.3134 | "
    "lr 3.0e-04 | grad_norm 1.02 | tokens/s 152344 | mem 61.2GB\n"
)
FAULT = "[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"


def steps() -> Iterator[str]:
    step = 0
    while True:
        step += 1
        for rank in range(RANKS):
            yield LINE.format(rank=rank, second=step % 60, ms=step % 1000, step=step)


def block(lines: Iterator[str]) -> bytes:
    found, size = [], 0
    while size < MB:
        found.append(next(lines))
        size += len(found[-1])
    return "".join(found).encode()


def kinds() -> dict[str, Callable[[], bytes]]:
    plain = steps()
    chance = random.Random(4)  # noqa: S311  no secret
    return {
        "step lines": lambda: block(plain),
        "step lines, coloured": lambda: block(plain).replace(b"INFO", b"\x1b[1mINFO\x1b[m")[:MB],
        "step lines, a fault in every MB": lambda: block(plain) + FAULT.encode(),
        "one endless line": lambda: b"x" * MB,
        "bytes at random": lambda: chance.randbytes(MB),
    }


def measure(path: Path, size: int, sieve: Sieve | None) -> dict[str, float]:
    probe = LogProbe(Scanner(), RankMap(pod_rank=0, nproc=RANKS), Progress(), sieve)
    probe.follow(path)
    found, began = 0, time.process_time()
    while True:
        found += len(probe.tick(0.5, time.monotonic()))
        if not probe.behind:
            break
    spent = time.process_time() - began
    skipped = probe.take_dropped().get("log_bytes", 0)
    probe.close()
    return {"mb_per_s": round((size - skipped) / MB / spent, 1), "matches": found, "skipped_mb": skipped / MB}


def run(megabytes: int, folder: Path) -> dict[str, dict[str, Any]]:
    rows: dict[str, dict[str, Any]] = {}
    sieve = Sieve()
    sieve.forms(b"")  # is made once in an agent's life, which lasts longer than these few megabytes
    for what, make in kinds().items():
        path = folder / "pod.log"
        path.write_bytes(b"".join(make() for _ in range(min(megabytes, MAX_MB))))
        size = path.stat().st_size
        rows[what] = measure(path, size, sieve)
        rows[what]["line_by_line_mb_per_s"] = measure(path, size, None)["mb_per_s"]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    rows["all"] = {"peak_mib": round(peak, 1)}
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--mb", type=int, default=60, help="of each log")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="fc-bench-") as name:
        rows = run(given.mb, Path(name))
    print(json.dumps(rows) if given.json else "\n".join(f"{what:34}{row}" for what, row in rows.items()))
    return 0 if rows["step lines"]["mb_per_s"] >= GOAL else 1


if __name__ == "__main__":
    sys.exit(main())
