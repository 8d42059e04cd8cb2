"""A burst of alerts to many webhooks: deliveries a second, processor time, memory; ours beside two peers.

python bench/throughput.py [--alerts 300] [--channels 10] [--workers 2] [--only NAME] [--postgres URL]
                           [--json]

Each subject is started by itself and gets the same burst twice: with a provider that answers at once, and
with one that takes 200 ms. The peers are Alertmanager and a worker with one RQ job for each delivery
(`rqpeer.py`; with the slow provider it gets a small burst only, for it sends one at a time). The rate is
from the first post to the last arrival, so sink and generator are on the same processors: what they use is
`beside_s_per_1000`, and not in `cpu_s_per_1000`. A third burst is accepted before the workers are started:
what they do alone, from the first arrival to the last.
"""

import argparse
import contextlib
import http.client
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import subjects
from subjects import HERE, Subject, weighed

SLOW_MS = 200
WARM_UP = 20
ARRIVE_S = 300.0
LOG_S = 15.0  # for the last outcomes to be written
RQ_SLOW_SECONDS = 12  # so long its small burst takes
GOAL, TIMES_RQ = 1000.0, 5.0
COLUMNS = (
    "deliveries", "per_s", "accepted_to_last_s", "cpu_s_per_1000", "beside_s_per_1000", "peak_mib", "copies",
    "not_arrived", "not_logged",
)  # fmt: skip
Start = Callable[[Path, Sequence[str]], AbstractContextManager[Subject]]


@dataclass(frozen=True)
class Sink:
    """The provider's process, asked over one connection."""

    port: int
    connection: http.client.HTTPConnection
    pid: int

    def cpu_s(self) -> float:
        """Its own, and that of whoever posts: us, and a child that has ended."""
        mine, its = psutil.Process().cpu_times(), psutil.Process(self.pid).cpu_times()
        return float(
            mine.user + mine.system + mine.children_user + mine.children_system + its.user + its.system
        )

    def urls(self, channels: int) -> list[str]:
        return [f"http://127.0.0.1:{self.port}/{n}/" for n in range(channels)]

    def seen(self) -> dict[str, float]:
        self.connection.request("GET", "/")
        found: dict[str, float] = json.loads(self.connection.getresponse().read())
        return found

    def wait(self, different: int) -> dict[str, float]:
        """Until so many different ones have come, or no more do."""
        deadline = time.monotonic() + ARRIVE_S
        while (found := self.seen())["different"] < different and time.monotonic() < deadline:
            time.sleep(0.05)
        return found


@contextlib.contextmanager
def sink(delay_ms: float) -> Iterator[Sink]:
    command = [sys.executable, HERE / "sink.py", "--delay-ms", str(delay_ms)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        try:
            yield Sink(port, http.client.HTTPConnection("127.0.0.1", port), process.pid)
        finally:
            process.kill()


def measure(start: Start, delay_ms: float, alerts: int, channels: int) -> tuple[str, dict[str, float]]:
    """One burst to one subject."""
    with (
        tempfile.TemporaryDirectory(prefix="fc-bench-") as name,
        sink(delay_ms) as provider,
        start(Path(name), provider.urls(channels)) as subject,
    ):
        warm = min(WARM_UP, alerts)
        subject.post(range(warm))
        before = provider.wait(warm * channels)
        time.sleep(1.0)
        wanted = alerts * channels
        with weighed(subject):
            used, beside, began = subject.cpu_s(), provider.cpu_s(), time.monotonic()
            subject.post(range(warm, warm + alerts))
            accepted = time.monotonic()
            after = provider.wait(int(before["different"]) + wanted)
            beside = provider.cpu_s() - beside
            logged = _logged(subject, warm * channels + wanted)
            used = subject.cpu_s() - used
        arrived = after["different"] - before["different"]
        return subject.name, {
            "deliveries": wanted,
            "per_s": round(arrived / (after["last"] - began), 1),
            "accepted_to_last_s": round(after["last"] - accepted, 2),
            "cpu_s_per_1000": round(used * 1000 / wanted, 2),
            "beside_s_per_1000": round(beside * 1000 / wanted, 2),
            "peak_mib": round(subject.peak_mib, 1),
            "copies": after["requests"] - before["requests"] - arrived,
            "not_arrived": wanted - arrived,
            "not_logged": -1 if logged is None else warm * channels + wanted - logged,
        }


def drain(alerts: int, channels: int, workers: int) -> tuple[str, dict[str, float]]:
    """How fast the workers bring out what waits already, from the first arrival to the last."""
    with (
        tempfile.TemporaryDirectory(prefix="fc-bench-") as name,
        sink(0) as provider,
        subjects.backlog(Path(name), provider.urls(channels), workers) as subject,
    ):
        subject.post(range(alerts))
        wanted = alerts * channels
        subject.roots = subject.start()
        with weighed(subject):
            beside = provider.cpu_s()
            seen = provider.wait(wanted)
            beside = provider.cpu_s() - beside
            logged = _logged(subject, wanted)
            used = subject.cpu_s()
        return subject.name, {
            "deliveries": wanted,
            "per_s": round((seen["different"] - 1) / (seen["last"] - seen["first"]), 1),
            "accepted_to_last_s": round(seen["last"] - seen["first"], 2),
            "cpu_s_per_1000": round(used * 1000 / wanted, 2),
            "beside_s_per_1000": round(beside * 1000 / wanted, 2),
            "peak_mib": round(subject.peak_mib, 1),
            "copies": seen["requests"] - seen["different"],
            "not_arrived": wanted - seen["different"],
            "not_logged": wanted - (logged or 0),
        }


def _logged(subject: Subject, wanted: int) -> int | None:
    deadline = time.monotonic() + LOG_S
    while (found := subject.logged()) is not None and found < wanted and time.monotonic() < deadline:
        time.sleep(0.5)
    return found


def run(given: argparse.Namespace) -> dict[str, dict[str, dict[str, float]]]:
    ours = partial(subjects.faultcast, workers=given.workers, database=None)
    starts: dict[str, Start] = {"faultcast": ours}
    if given.postgres:
        starts["postgres"] = partial(subjects.faultcast, workers=given.workers, database=given.postgres)
    starts |= {
        "alertmanager": subjects.alertmanager,
        "rq": partial(subjects.one_job_each, workers=given.workers),
    }
    found: dict[str, dict[str, dict[str, float]]] = {}
    if not given.only or "backlog" in given.only:
        found["at once, what waits already"] = dict([drain(given.alerts, given.channels, given.workers)])
    for delay_ms in (0, SLOW_MS):
        rows = found.setdefault("at once" if not delay_ms else f"after {delay_ms} ms", {})
        for kind, start in starts.items():
            if given.only and kind not in given.only:
                continue
            small = max(1, RQ_SLOW_SECONDS * 1000 * given.workers // SLOW_MS // given.channels)
            alerts = min(given.alerts, small) if kind == "rq" and delay_ms else given.alerts
            name, row = measure(start, delay_ms, alerts, given.channels)
            rows[name] = row
            print(f"{name}, provider after {delay_ms} ms: {row}", file=sys.stderr)
    return found


def verdict(found: dict[str, dict[str, dict[str, float]]]) -> dict[str, Any]:
    rows = found.get("at once", {})
    rate = {name: row["per_s"] for name, row in rows.items()}
    ours = rate.get("faultcast", 0.0)
    lost = sum(
        row["not_arrived"] + max(0, row["not_logged"]) for some in found.values() for row in some.values()
    )
    return {
        "times_rq": round(ours / rate["one RQ job each"], 1) if rate.get("one RQ job each") else None,
        "of_alertmanager": round(ours / rate["alertmanager"], 3) if rate.get("alertmanager") else None,
        "lost": lost,
        "holds": ours >= GOAL and not lost and ours >= TIMES_RQ * rate.get("one RQ job each", 0.0),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--alerts", type=int, default=300)
    parser.add_argument("--channels", type=int, default=10)
    parser.add_argument("--workers", type=int, default=2, help="processes, of Faultcast's and of RQ's alike")
    parser.add_argument("--only", action="append", help="backlog, faultcast, postgres, alertmanager, rq")
    parser.add_argument(
        "--postgres",
        metavar="URL",
        help="measure PostgreSQL too, in new databases of that server; its own CPU is not in",
    )
    parser.add_argument("--json", action="store_true", help="one JSON document instead of the table")
    given = parser.parse_args()
    found = run(given)
    judged = verdict(found)
    if given.json:
        print(json.dumps({"alerts": given.alerts, "channels": given.channels, **found, "verdict": judged}))
    else:
        for provider, rows in found.items():
            print(f"\nprovider answers {provider}\n{'':24}" + "".join(f"{name:>20}" for name in COLUMNS))
            for name, row in rows.items():
                print(f"{name:24}" + "".join(f"{row[column]:>20}" for column in COLUMNS))
        print(f"\n{judged}")
    return 0 if judged["holds"] else 1


if __name__ == "__main__":
    sys.exit(main())
