"""How fast the delivery log answers at size: every filter, pairs of them, words rare and common, deep pages.

python -m bench.log --database-url postgresql+psycopg://… [--rows 10000000] [--requests 100] [--json]
python -m bench.log [--rows 1000000]            # SQLite, in a folder of its own

The database must be empty; it is migrated, filled (deliveries, attempts, alerts, and the index of words as a
worker would have written it; with `--filled` it is as an earlier run has left it) and left so. Then a real
`faultcast server` is asked over HTTP, one request at a time.
"""

import argparse
import base64
import http.client
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from bench.logrows import BLOCK, CHANNELS, COPIES, JOBS, NODES, RAREST, Plan, delivery_id, fill
from notifier.auth import NewToken, Role, create_token
from notifier.clock import rfc3339, utcnow
from notifier.migrations import migrate
from notifier.storage import Store, make_engine

KEY = "a key for the bench, long enough"
PORT_S = 60
SLOW_MS = 20.0
Ask = Callable[[random.Random], Mapping[str, str]]


def asked(plan: Plan) -> dict[str, Ask]:
    """What is asked for, by name; the values are other ones each time."""

    def cursor(chance: random.Random) -> str:
        name = delivery_id(plan, chance.randrange(plan.rows))
        return base64.urlsafe_b64encode(name.encode()).decode().rstrip("=")

    def moment(chance: random.Random) -> str:
        return rfc3339(plan.moment(chance.randrange(plan.rows)))

    def job(chance: random.Random) -> str:
        return f"job_{chance.randrange(JOBS):026}"

    def channel(chance: random.Random) -> str:
        return CHANNELS[chance.randrange(len(CHANNELS))][0]

    return {
        "newest": lambda _: {},
        "deep page": lambda c: {"cursor": cursor(c)},
        "job": lambda c: {"job": job(c)},
        "alert": lambda c: {"alert": delivery_id(plan, c.randrange(plan.rows)).replace("dlv", "alr")},
        "channel": lambda c: {"channel": channel(c)},
        "kind": lambda _: {"kind": "email"},
        "item": lambda _: {"item": "jobHang"},
        "state, common": lambda _: {"state": "delivered"},
        "state, rare": lambda _: {"state": "expired"},
        "since … until": lambda c: dict(zip(("since", "until"), sorted((moment(c), moment(c))), strict=True)),
        "channel, state": lambda c: {"channel": channel(c), "state": "failed"},
        "channel, rare state": lambda c: {"channel": channel(c), "state": "expired"},
        "item, state": lambda _: {"item": "jobHang", "state": "failed"},
        "job, state": lambda c: {"job": job(c), "state": "failed"},
        "kind, channel: none": lambda _: {"kind": "email", "channel": CHANNELS[0][0]},
        "channel, item, until": lambda c: {"channel": channel(c), "item": "jobFT", "until": moment(c)},
        "channel, state, deep": lambda c: {"channel": channel(c), "state": "failed", "cursor": cursor(c)},
        "q: nowhere": lambda c: {"q": f"nowhere{c.randrange(1000)}"},
        "q: 1 in 5,000,000": lambda c: {"q": f"{RAREST}{c.randrange(1, COPIES)}"},
        "q: 1 in 10,000": lambda _: {"q": "meteor"},
        "q: 1 in 500": lambda c: {"q": f"node{c.randrange(NODES)}"},
        "q: 1 in 30": lambda _: {"q": "NaN"},
        "q: in all": lambda _: {"q": "training"},
        "q: in all, deep": lambda c: {"q": "training", "cursor": cursor(c)},
        "q: Chinese": lambda _: {"q": "通信超时"},
        "q: two, common": lambda _: {"q": "training rank"},
        "q: two that never meet": lambda _: {"q": "nan watchdog"},
        "q: common and rare": lambda c: {"q": f"training {RAREST}{c.randrange(1, COPIES)}"},
        "q: a number": lambda c: {"q": f"rank {c.randrange(512)}"},
        "q: an id": lambda c: {"q": delivery_id(plan, c.randrange(plan.rows))},
        "q, channel": lambda c: {"q": "timeout", "channel": channel(c)},
        "q, state": lambda _: {"q": "training", "state": "expired"},
        "q, job": lambda c: {"q": "timeout", "job": job(c)},
        "q, channel, state, until": lambda c: {
            "q": "rank", "channel": channel(c), "state": "failed", "until": moment(c),
        },
    }  # fmt: skip


@dataclass
class Client:
    connection: http.client.HTTPConnection
    token: str

    def get(self, path: str, query: Mapping[str, str]) -> tuple[float, Any]:
        """How many ms, and what."""
        address = f"/api/v1{path}" + (f"?{urlencode(query, quote_via=quote)}" if query else "")
        began = time.perf_counter()
        self.connection.request("GET", address, headers={"Authorization": f"Bearer {self.token}"})
        answer = self.connection.getresponse()
        said = answer.read()
        took = (time.perf_counter() - began) * 1000
        if answer.status != 200:
            raise SystemExit(f"{address} said {answer.status}: {said.decode()[:300]}")
        return took, json.loads(said)


@contextmanager
def server(url: str, folder: Path) -> Iterator[str]:
    environment = {**os.environ, "FAULTCAST_DATABASE_URL": url, "FAULTCAST_SECRET_KEY": KEY}
    environment |= {"FAULTCAST_DATA_DIR": str(folder), "FAULTCAST_BIND": "127.0.0.1:8655"}
    command = [Path(sys.executable).with_name("faultcast"), "server"]
    with (folder / "server.log").open("wb") as output:
        process = subprocess.Popen(command, env=environment, stdout=output, stderr=output)
    try:
        deadline = time.monotonic() + PORT_S
        while not _is_up():
            if process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"the server did not start: {(folder / 'server.log').read_text()[-2000:]}")
            time.sleep(0.2)
        yield "127.0.0.1:8655"
    finally:
        process.terminate()
        process.wait()


def _is_up() -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", 8655, timeout=5)
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


def measured(times: list[float], hits: list[int]) -> dict[str, float]:
    ordered = sorted(times)
    return {
        "hits": round(statistics.mean(hits), 1),
        "p50_ms": round(statistics.median(ordered), 1),
        "p99_ms": round(ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))], 1),
        "max_ms": round(ordered[-1], 1),
    }


def ask_all(clients: Mapping[str, Client], plan: Plan, requests: int) -> dict[str, dict[str, float]]:
    """Each question so often, all of them in turn."""
    chance = random.Random(4)  # noqa: S311  no secret
    asks = asked(plan)
    names = [(who, name) for who in clients for name in asks if who == "" or name.startswith(("q", "state"))]
    times: dict[tuple[str, str], list[float]] = {name: [] for name in names}
    hits: dict[tuple[str, str], list[int]] = {name: [] for name in names}
    by_id: list[float] = []
    for n in range(requests + 2):
        for who, name in names:
            took, found = clients[who].get("/deliveries", asks[name](chance))
            if n >= 2:  # the first two make caches warm
                times[who, name].append(took)
                hits[who, name].append(len(found["items"]))
        by_id.append(clients[""].get(f"/deliveries/{delivery_id(plan, chance.randrange(plan.rows))}", {})[0])
    rows = {f"{who}{name}": measured(times[who, name], hits[who, name]) for who, name in names}
    return {"by id": measured(by_id[2:], [1] * len(by_id[2:])), **rows}


def run(given: argparse.Namespace, folder: Path) -> dict[str, Any]:
    url = given.database_url or f"sqlite:///{folder / 'faultcast.db'}"
    engine = make_engine(url)
    migrate(engine)
    plan = Plan.of(given.rows)
    began = time.monotonic()
    if not given.filled:
        fill(engine, plan)
    filled_s = time.monotonic() - began
    with Store(engine).write() as session:
        tokens = {
            who: create_token(session, NewToken(f"bench {time.time()}", Role.VIEWER, pool, queue), utcnow())[
                1
            ]
            for who, (pool, queue) in {"": (None, None), "of a queue: ": ("default", "train")}.items()
        }
    engine.dispose()
    with server(url, folder) as address:
        clients = {
            who: Client(http.client.HTTPConnection(address, timeout=120), token)
            for who, token in tokens.items()
        }
        found = ask_all(clients, plan, given.requests)
    return {"rows": plan.rows, "blocks": plan.rows // BLOCK, "filled_s": round(filled_s), "asked": found}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--database-url")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--requests", type=int, default=100, help="of each kind")
    parser.add_argument("--filled", action="store_true", help="the database is filled already")
    parser.add_argument("--folder", type=Path, help="for SQLite and the server's data")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="fc-bench-") as name:
        folder = given.folder or Path(name)
        folder.mkdir(parents=True, exist_ok=True)
        found = run(given, folder)
    if given.json:
        print(json.dumps(found))
    else:
        print(f"{found['rows']:,} deliveries, filled in {found['filled_s']} s")
        print(f"{'':34}{'hits':>7}{'p50 ms':>9}{'p99 ms':>9}{'max ms':>9}")
        for what, row in found["asked"].items():
            print(f"{what:34}" + "".join(f"{row[name]:>{7 if name == 'hits' else 9}}" for name in row))
    return 0 if all(row["p99_ms"] < SLOW_MS for row in found["asked"].values()) else 1


if __name__ == "__main__":
    sys.exit(main())
