"""How fast the delivery log answers at size: every filter, pairs of them, words rare and common, deep pages.

python -m bench.log --database-url postgresql+psycopg://… --rows 10000000 [--requests 300] [--json]
python -m bench.log --database-url sqlite:////somewhere/log.db            # a million rows

An empty database is migrated and filled (deliveries, attempts, alerts, and the index of words as a worker
writes it) and left so; one that is filled is measured as it is. Then a real `faultcast server` is asked over
HTTP, over one connection, one request at a time. Exit code 0: p99 is under 20 ms, whatever is asked.
"""

import argparse
import http.client
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import psutil
from sqlalchemy import Engine, select

from bench.logrows import CHANNELS, JOBS, NODES, RAREST, Plan, delivery_id, fill, join
from notifier.auth import NewToken, Role, create_token
from notifier.clock import rfc3339, utcnow
from notifier.deliveries import DELIVERIES
from notifier.migrations import migrate
from notifier.model import Delivery
from notifier.pages import cursor_of
from notifier.storage import Store, make_engine

KEY = "a key for the bench, long enough"
ADDRESS = "127.0.0.1:8655"
SCOPES = {"": (None, None), "of a queue: ": ("default", "train")}
PORT_S = 60
WARM = 3  # rounds that make caches warm
SLOW_MS = 20.0
Ask = Callable[[random.Random], Mapping[str, str]]


def asked(plan: Plan) -> dict[str, Ask]:
    """What is asked for, by name; the values are other ones each time."""

    def cursor(chance: random.Random) -> str:
        return cursor_of(delivery_id(plan, chance.randrange(plan.rows)), DELIVERIES)

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
        "q: 1 in 5,000,000": lambda c: {"q": f"{RAREST}{c.randrange(1, plan.copies)}"},
        "q: 1 in 10,000": lambda _: {"q": "meteor"},
        "q: 1 in 500": lambda c: {"q": f"node{c.randrange(NODES)}"},
        "q: 1 in 30": lambda _: {"q": "NaN"},
        "q: in all": lambda _: {"q": "training"},
        "q: in all, deep": lambda c: {"q": "training", "cursor": cursor(c)},
        "q: Chinese": lambda _: {"q": "通信超时"},
        "q: two, common": lambda _: {"q": "training rank"},
        "q: two that never meet": lambda _: {"q": "nan watchdog"},
        "q: common and rare": lambda c: {"q": f"training {RAREST}{c.randrange(1, plan.copies)}"},
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
def server(url: str, folder: Path) -> Iterator[psutil.Process]:
    environment = {**os.environ, "FAULTCAST_DATABASE_URL": url, "FAULTCAST_SECRET_KEY": KEY}
    environment |= {"FAULTCAST_DATA_DIR": str(folder), "FAULTCAST_BIND": ADDRESS}
    environment |= {"FAULTCAST_LOCAL_NODES": "1"}  # what runs jobs is not what is measured
    command: list[str | Path] = [Path(sys.executable).with_name("faultcast"), "server"]
    with (folder / "server.log").open("wb") as output:
        process = subprocess.Popen(command, env=environment, stdout=output, stderr=output)
    try:
        deadline = time.monotonic() + PORT_S
        while not _is_up():
            if process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"the server did not start: {(folder / 'server.log').read_text()[-2000:]}")
            time.sleep(0.2)
        yield psutil.Process(process.pid)
    finally:
        process.terminate()
        process.wait()


def _is_up() -> bool:
    connection = http.client.HTTPConnection(ADDRESS, timeout=5)
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


@dataclass
class Times:
    """Of one question: ms it took, rows it found, ms of CPU that it cost the server."""

    took: list[float]
    hits: list[int]
    cpu: list[float]

    def figures(self) -> dict[str, float]:
        ordered = sorted(self.took)
        return {
            "hits": round(statistics.mean(self.hits), 1),
            "least_ms": round(ordered[0], 1),
            "p50_ms": round(statistics.median(ordered), 1),
            "p99_ms": round(ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))], 1),
            "max_ms": round(ordered[-1], 1),
            "cpu_ms": round(statistics.mean(self.cpu), 1),
        }


def ask_all(
    clients: Mapping[str, Client], plan: Plan, requests: int, process: psutil.Process
) -> dict[str, dict[str, float]]:
    """Each question so often, all of them in turn."""
    chance = random.Random(4)  # noqa: S311  no secret
    asks = asked(plan)
    names = [(who, name) for who in clients for name in asks if who == "" or name.startswith(("q", "state"))]
    times = {name: Times([], [], []) for name in [*names, ("", "by id")]}
    for n in range(-WARM, requests):
        for (who, name), seen in times.items():
            one = f"/deliveries/{delivery_id(plan, chance.randrange(plan.rows))}"
            path, query = (one, {}) if name == "by id" else ("/deliveries", asks[name](chance))
            before = _cpu_ms(process)
            took, found = clients[who].get(path, query)
            if n >= 0:
                seen.took.append(took)
                seen.hits.append(len(found["items"]) if "next_cursor" in found else 1)
                seen.cpu.append(_cpu_ms(process) - before)
    return {who + name: seen.figures() for (who, name), seen in times.items()}


def _cpu_ms(process: psutil.Process) -> float:
    """In steps of 10 ms; the mean of many is exact."""
    spent = process.cpu_times()
    return float(spent.user + spent.system) * 1000


def filled(engine: Engine, rows: int) -> Plan:
    """Empty before, or as an earlier run has left it."""
    migrate(engine)
    with engine.connect() as connection:
        is_filled = connection.execute(select(Delivery.id).limit(1)).first() is not None
        plan = Plan.found(connection) if is_filled else Plan.of(rows)
    if not is_filled:
        fill(engine, plan)
    join(engine)
    return plan


def run(given: argparse.Namespace, folder: Path) -> dict[str, Any]:
    url = given.database_url or f"sqlite:///{folder / 'faultcast.db'}"
    engine = make_engine(url)
    began = time.monotonic()
    plan = filled(engine, given.rows)
    filled_s = round(time.monotonic() - began)
    tokens = {}
    with Store(engine).write() as session:
        for who, scope in SCOPES.items():
            new = NewToken(f"bench {time.time()}", Role.VIEWER, *scope)
            tokens[who] = create_token(session, new, utcnow())[1]
    engine.dispose()
    connection = http.client.HTTPConnection(ADDRESS, timeout=120)
    clients = {who: Client(connection, token) for who, token in tokens.items()}
    with server(url, folder) as process:
        found = ask_all(clients, plan, given.requests, process)
    slow = [what for what, row in found.items() if row["p99_ms"] >= SLOW_MS]
    return {"rows": plan.rows, "filled_s": filled_s, "slow": slow, "asked": found}


def shown(found: Mapping[str, Any]) -> Iterator[str]:
    yield f"{found['rows']:,} deliveries, ready after {found['filled_s']} s"
    names: Sequence[str] = next(iter(found["asked"].values()))
    yield f"{'':38}" + "".join(f"{name.replace('_', ' '):>9}" for name in names)
    for what, row in found["asked"].items():
        yield f"{what:38}" + "".join(f"{row[name]:>9}" for name in names)
    slow = ", ".join(found["slow"])
    yield f"p99 is under {SLOW_MS:.0f} ms" + (f", but for: {slow}" if slow else " whatever is asked")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--database-url", help="left out: SQLite, for this run only")
    parser.add_argument("--rows", type=int, default=1_000_000, help="of a database that is empty")
    parser.add_argument("--requests", type=int, default=300, help="of each kind")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="fc-bench-") as name:
        found = run(given, Path(name))
    print(json.dumps(found) if given.json else "\n".join(shown(found)))
    return 1 if found["slow"] else 0


if __name__ == "__main__":
    sys.exit(main())
