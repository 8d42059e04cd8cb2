"""A burst of alerts to one robot of each kind with its real limit: what is refused, lost, late.

python bench/burst.py [--alerts 500] [--critical-percent 5] [--workers 2] [--json]

Starts `faultcast up` and plays the three robots in this process; they count as the real ones do (DingTalk
and WeCom 20 messages a minute, DingTalk then silent for ten; Feishu 5 a second and 100 a minute). Every alert
is another job's, and goes to all three. An alert has been told when a message that names it was taken.
"""

import argparse
import contextlib
import http.client
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from channels.standin import StandIn

KINDS = ("dingtalk", "wecom", "feishu")
MARK = re.compile(r"llm-pretrain-(\d{4})")
POSTERS = 4
ALL_TOLD_S = 600.0


@dataclass(frozen=True)
class Server:
    """A running `faultcast up`."""

    address: str
    token: str

    def post(self, connection: http.client.HTTPConnection, path: str, body: Mapping[str, Any]) -> Any:
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        connection.request("POST", f"/api/v1{path}", json.dumps(body), headers)
        answer = connection.getresponse()
        said = answer.read()
        if answer.status >= 300:
            raise SystemExit(f"{path} said {answer.status}: {said.decode()[:300]}")
        return json.loads(said)

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(self.address, timeout=60)


@dataclass
class Burst:
    """What was published: when each alert was accepted (Unix time), and which are critical."""

    accepted: dict[int, float] = field(default_factory=dict)
    critical: set[int] = field(default_factory=set)
    began: float = 0.0
    ended: float = 0.0


@contextlib.contextmanager
def faultcast(folder: Path, workers: int) -> Iterator[Server]:
    log = folder / "faultcast.log"
    environment = {**os.environ, "FAULTCAST_ALLOW_TARGETS": "127.0.0.1/32"}
    command = [Path(sys.executable).with_name("faultcast"), "up", "--data-dir", folder / "data"]
    command += ["--bind", "127.0.0.1:0", "--workers", str(workers)]
    with (
        log.open("wb") as errors,
        subprocess.Popen(
            command, env=environment, cwd=folder, stdout=subprocess.PIPE, stderr=errors, text=True
        ) as process,
    ):
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            if not line.startswith("ready "):
                raise SystemExit(f"faultcast did not start: {log.read_text()[-1000:]}")
            token = (folder / "data" / "admin.token").read_text().strip()
            yield Server(urlsplit(line.split()[1]).netloc, token)
        finally:
            process.terminate()


def publish(server: Server, alerts: int, critical_percent: int) -> Burst:
    """All of them, as fast as the API takes them."""
    burst = Burst(critical={n for n in range(alerts) if n * critical_percent % 100 < critical_percent})

    def post(share: range) -> None:
        connection = server.connect()
        for n in share:
            severity = "critical" if n in burst.critical else "error"
            title = f"NCCL 通信超时 · llm-pretrain-{n:04}"
            server.post(
                connection, "/alerts",
                {"source": "bench", "item": "custom", "severity": severity, "title": title,
                 "text": f"rank {n} 在 AllReduce 上等待超过 600 s", "channels": list(KINDS)},
            )  # fmt: skip
            burst.accepted[n] = time.time()

    threads = [threading.Thread(target=post, args=(range(k, alerts, POSTERS),)) for k in range(POSTERS)]
    burst.began = time.time()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    burst.ended = time.time()
    return burst


def first_told(providers: StandIn, kind: str) -> dict[int, float]:
    """When the first message that names it was taken, by alert."""
    told: dict[int, float] = {}
    for message in providers.messages(kind, accepted=True):
        at = datetime.fromisoformat(message.at).timestamp()
        for found in MARK.findall(f"{message.title}\n{message.text}"):
            told.setdefault(int(found), at)
    return told


def figures(providers: StandIn, kind: str, burst: Burst) -> dict[str, float]:
    told = first_told(providers, kind)
    taken = providers.messages(kind, accepted=True)
    delays = sorted(told[n] - burst.accepted[n] for n in burst.critical if n in told)
    return {
        "messages": len(taken),
        "refused": len(providers.messages(kind, accepted=False)),
        "lost": len(set(burst.accepted) - set(told)),
        "all_told_s": round(max(told.values(), default=burst.began) - burst.began, 1),
        "critical_p50_s": round(statistics.median(delays), 2) if delays else 0.0,
        "critical_max_s": round(delays[-1], 2) if delays else 0.0,
    }


def run(given: argparse.Namespace) -> dict[str, dict[str, float]]:
    with tempfile.TemporaryDirectory(prefix="fc-bench-") as name, StandIn() as providers:
        with faultcast(Path(name), given.workers) as server:
            connection = server.connect()
            for kind in KINDS:
                config = {"webhook_url": providers.robot(kind).url}
                server.post(connection, "/channels", {"name": kind, "kind": kind, "config": config})
            burst = publish(server, given.alerts, given.critical_percent)
            deadline = time.monotonic() + ALL_TOLD_S
            while time.monotonic() < deadline and any(
                len(first_told(providers, kind)) < given.alerts for kind in KINDS
            ):
                time.sleep(0.5)
            time.sleep(2)  # for whatever would be too much
            found = {kind: figures(providers, kind, burst) for kind in KINDS}
        return {"published": {"alerts": given.alerts, "took_s": round(burst.ended - burst.began, 1)}, **found}


def _print_table(rows: Mapping[str, Mapping[str, float]], names: Sequence[str]) -> None:
    print(f"{'':10}" + "".join(f"{name:>16}" for name in names))
    for kind, row in rows.items():
        print(f"{kind:10}" + "".join(f"{row[name]:>16}" for name in names))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--alerts", type=int, default=500)
    parser.add_argument("--critical-percent", type=int, default=5)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--json", action="store_true", help="one JSON document instead of the table")
    given = parser.parse_args()
    found = run(given)
    if given.json:
        print(json.dumps(found))
    else:
        print(f"{given.alerts} alerts published in {found['published']['took_s']} s")
        _print_table({kind: found[kind] for kind in KINDS}, list(found[KINDS[0]]))
    return 0 if all(found[kind]["refused"] == found[kind]["lost"] == 0 for kind in KINDS) else 1


if __name__ == "__main__":
    sys.exit(main())
