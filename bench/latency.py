"""How long from an alert to the provider's request, when idle: ours beside Prometheus Alertmanager.

python bench/latency.py [--alerts 200] [--gap-ms 50] [--json]

Starts `faultcast up` (server, workers, Valkey, SQLite) and `prometheus-alertmanager` (Debian's package,
group_wait 0), each with a webhook that leads to a receiver in this process, and posts alerts to them in
turn. Two moments are measured to the request's arrival: `posted`, before the alert's POST is sent, and
`accepted`, when its answer has been read.
"""

import argparse
import contextlib
import http.client
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from subjects import ALERTMANAGER, connected, free_port

ARRIVAL_S = 30.0
MARK = re.compile(rb"latency-probe-(\d+)")
GOAL = 10.0  # our p99 within so many times Alertmanager's


class Receiver(ThreadingHTTPServer):
    """Plays the provider: notes when each probe's request has been read, and says 200."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Sink)
        self.arrived: dict[int, float] = {}
        self.changed = threading.Condition()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def wait(self, probe: int) -> float:
        with self.changed:
            if not self.changed.wait_for(lambda: probe in self.arrived, ARRIVAL_S):
                raise SystemExit(f"probe {probe} did not arrive within {ARRIVAL_S:.0f} s")
            return self.arrived[probe]


class _Sink(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        now = time.perf_counter()
        with self.server.changed:
            for found in MARK.findall(body):
                self.server.arrived.setdefault(int(found), now)
            self.server.changed.notify_all()
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  the base class's name
        """The table is the output."""


@dataclass
class Subject:
    """A system under test: where to post an alert, and what was measured (seconds)."""

    name: str
    connection: http.client.HTTPConnection
    path: str
    body: Callable[[int], Any]
    headers: dict[str, str] = field(default_factory=dict)
    posted: list[float] = field(default_factory=list)
    accepted: list[float] = field(default_factory=list)

    def probe(self, receiver: Receiver, number: int, *, counts: bool) -> None:
        body = json.dumps(self.body(number))
        began = time.perf_counter()
        self.connection.request("POST", self.path, body, {"Content-Type": "application/json", **self.headers})
        answer = self.connection.getresponse()
        said = answer.read()
        answered = time.perf_counter()
        if answer.status >= 300:
            raise SystemExit(f"{self.name} said {answer.status}: {said.decode()[:300]}")
        arrived = receiver.wait(number)
        if counts:
            self.posted.append(arrived - began)
            self.accepted.append(arrived - answered)


@contextlib.contextmanager
def faultcast(folder: Path, receiver: Receiver) -> Iterator[Subject]:
    """The whole of it in one command, with a webhook channel."""
    log = (folder / "faultcast.log").open("wb")
    environment = {**os.environ, "FAULTCAST_ALLOW_TARGETS": "127.0.0.1/32"}
    command = [Path(sys.executable).with_name("faultcast"), "up"]
    command += ["--data-dir", folder / "data", "--bind", "127.0.0.1:0"]
    with subprocess.Popen(
        command, env=environment, cwd=folder, stdout=subprocess.PIPE, stderr=log, text=True
    ) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            if not line.startswith("ready "):
                raise SystemExit(f"faultcast did not start: {(folder / 'faultcast.log').read_text()[-1000:]}")
            connection = connected(urlsplit(line.split()[1]).netloc)
            token = (folder / "data" / "admin.token").read_text().strip()
            headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
            url = f"http://127.0.0.1:{receiver.server_port}/faultcast"
            channel = {"name": "probe", "kind": "webhook", "config": {"url": url}}
            connection.request("POST", "/api/v1/channels", json.dumps(channel), headers)
            made = connection.getresponse()
            if made.read() and made.status != 201:
                raise SystemExit(f"the channel was not made: {made.status}")
            yield Subject("faultcast", connection, "/api/v1/alerts", _our_alert, headers)
        finally:
            process.terminate()


def _our_alert(number: int) -> dict[str, Any]:
    title = f"latency-probe-{number}"
    return {"source": "bench", "item": "custom", "severity": "error", "title": title, "channels": ["probe"]}


@contextlib.contextmanager
def alertmanager(folder: Path, receiver: Receiver) -> Iterator[Subject]:
    """Debian's package, every alert a group of its own, told at once."""
    binary = next(filter(None, map(shutil.which, ALERTMANAGER)), None)
    if binary is None:
        raise SystemExit("install Alertmanager first: apt-get install prometheus-alertmanager")
    url = f"http://127.0.0.1:{receiver.server_port}/alertmanager"
    route = {"receiver": "probe", "group_by": ["probe"], "group_wait": "0s", "group_interval": "1s"}
    hook = {"name": "probe", "webhook_configs": [{"url": url, "send_resolved": False}]}
    (folder / "alertmanager.json").write_text(json.dumps({"route": route, "receivers": [hook]}))  # is YAML
    address = f"127.0.0.1:{free_port()}"
    command = [binary, f"--config.file={folder / 'alertmanager.json'}", f"--storage.path={folder / 'am'}"]
    command += [f"--web.listen-address={address}", "--cluster.listen-address="]
    with (folder / "am.log").open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            yield Subject("alertmanager", connected(address), "/api/v2/alerts", _their_alert)
        finally:
            process.terminate()


def _their_alert(number: int) -> list[dict[str, Any]]:
    labels = {"alertname": "probe", "probe": f"latency-probe-{number}", "severity": "error"}
    return [{"labels": labels, "annotations": {"summary": f"latency-probe-{number}"}}]


def run(subjects: Sequence[Subject], receiver: Receiver, *, alerts: int, gap_s: float) -> None:
    """One alert to each in turn, the next when the last one has arrived and everything is idle again."""
    warm_up = 20
    for number in range(warm_up + alerts):
        for place, subject in enumerate(subjects):
            subject.probe(receiver, number * len(subjects) + place, counts=number >= warm_up)
            time.sleep(gap_s)


def percentile(values: Sequence[float], percent: int) -> float:
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]


def figures(subject: Subject) -> dict[str, float]:
    """Milliseconds."""
    return {
        f"{moment}_p{percent}_ms": round(percentile(values, percent) * 1000, 2)
        for moment, values in (("posted", subject.posted), ("accepted", subject.accepted))
        for percent in (50, 99)
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--alerts", type=int, default=200)
    parser.add_argument("--gap-ms", type=float, default=50)
    parser.add_argument("--json", action="store_true", help="one JSON document instead of the table")
    given = parser.parse_args()
    receiver = Receiver()
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fc-bench-")))
        subjects = [stack.enter_context(start(folder, receiver)) for start in (faultcast, alertmanager)]
        run(subjects, receiver, alerts=given.alerts, gap_s=given.gap_ms / 1000)
    found = {subject.name: figures(subject) for subject in subjects}
    ours, theirs = found.values()
    ratio = {name: round(ours[name] / theirs[name], 1) for name in ours if theirs[name] > 0}
    if given.json:
        print(json.dumps({"alerts": given.alerts, **found, "ratio": ratio}))
    else:
        _print_table(found, ratio)
    return 0 if ratio["posted_p99_ms"] <= GOAL else 1


def _print_table(found: dict[str, dict[str, float]], ratio: dict[str, float]) -> None:
    names = list(next(iter(found.values())))
    print(f"{'':14}" + "".join(f"{name:>18}" for name in names))
    for subject, row in found.items():
        print(f"{subject:14}" + "".join(f"{row[name]:>18.2f}" for name in names))
    print(f"{'ratio':14}" + "".join(f"{ratio.get(name, float('nan')):>18.1f}" for name in names))


if __name__ == "__main__":
    sys.exit(main())
