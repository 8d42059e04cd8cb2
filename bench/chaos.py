"""Kill -9 at random under load, graceful restarts, a doorbell wiped: the ledgers are balanced at the end.

python bench/chaos.py [--kills 200] [--restarts N] [--wipes N] [--seconds 600] [--rate 20] [--seed 1]
                      [--postgres] [--matrix] [--json]

Runs a server, two workers, Valkey and SQLite (or PostgreSQL, nothing switched off) as processes, and
producers that try each alert again by its Idempotency-Key until it is accepted. Two ledgers lie outside,
each line on disk before anybody goes on: what was accepted, and what arrived at the played receivers (which
are slow, fail and break off now and then). Lost is what was accepted, did not arrive, and is not `failed` or
`expired` in the log. A copy is marked where the log says of an attempt that it may be one.
Exit code 0: nothing was lost, no copy unmarked, no alert accepted twice; and with graceful restarts or wipes
alone, no copy at all.
--matrix runs every fault point × every action with the full 30 s of stall instead (tests/delivery).
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from sqlalchemy import func, select, update

from bench.town import ROOT, Town, town
from channels.standin import Scripted, StandIn
from notifier.clock import utcnow
from notifier.model import Alert, Attempt, Delivery
from tests.delivery.breaking import Producer

CHANNELS = ("one", "two", "three")
PRODUCERS = 4
QUIET_S = 240.0
OPEN = ("pending", "retrying", "sending")
MATRIX = ("tests/delivery/test_matrix.py", "tests/delivery/test_stalls.py")


@dataclass(frozen=True)
class Plan:
    """What is done to the town, and for how long."""

    kills: int = 0
    restarts: int = 0
    wipes: int = 0
    seconds: float = 60.0
    rate: float = 20.0
    seed: int = 1
    postgres: bool = False
    least: int = 0  # goes on until so many alerts are accepted


@dataclass
class Found:
    """The balance. `bound`: kills lose less than this share of themselves, with 95 % confidence."""

    blows: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    accepted: int = 0
    deliveries: int = 0
    lost: int = 0
    given_up: int = 0
    accepted_twice: int = 0
    copies: int = 0
    marked: int = 0
    unmarked: int = 0
    refused: dict[int, int] = field(default_factory=dict)
    accepted_p99_s: float = 0.0
    bad_exits: list[str] = field(default_factory=list)

    @property
    def bound(self) -> float:
        kills = sum(count for name, count in self.blows.items() if name.startswith("kill"))
        return 3 / kills if kills else 1.0

    def is_good(self, plan: Plan) -> bool:
        is_graceful = plan.kills == 0
        faults = self.lost + self.unmarked + self.accepted_twice + len(self.bad_exits)
        return faults == 0 and not (is_graceful and self.copies)


@dataclass
class Ledger:
    """What was accepted: on disk before the next alert is posted."""

    path: Path
    count: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, title: str, ids: Sequence[str]) -> None:
        with self.lock, self.path.open("a") as file:
            self.count += 1
            file.write(json.dumps([title, list(ids)]) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def read(self) -> dict[str, list[str]]:
        return dict(json.loads(line) for line in self.path.read_text().splitlines())


def run(plan: Plan) -> Found:
    """One whole run; answers the balance."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="fc-chaos-") as name:
        folder = Path(name)
        arrived = folder / "arrived.jsonl"
        with StandIn(ledger=arrived) as providers, town(folder, postgres=plan.postgres) as place:
            _make_channels(place, providers)
            chance = random.Random(plan.seed)  # noqa: S311  the same moments in every run
            _make_receivers_human(providers, chance, plan)
            ledger = Ledger(folder / "accepted.jsonl")
            found = Found()
            with _load(place, ledger, plan, found):
                found.blows = dict(_strike(place, chance, plan))
                while ledger.count < plan.least:
                    _look_after(place, 0.1)
            _wait_until_quiet(place)
            _balance(found, place, ledger.read(), _arrivals(arrived))
            found.bad_exits = _bad_exits(place) if not plan.kills else []
    found.seconds = round(time.monotonic() - began, 1)
    return found


def _make_channels(place: Town, providers: StandIn) -> None:
    producer = Producer(place.url, place.token)
    headers = {"Authorization": f"Bearer {place.token}"}
    for name in CHANNELS:
        body = {"name": name, "kind": "webhook", "config": {"url": providers.robot("webhook").url}}
        producer.client.post(f"{place.url}/api/v1/channels", json=body, headers=headers).raise_for_status()


def _make_receivers_human(providers: StandIn, chance: random.Random, plan: Plan) -> None:
    """Some answers take a while, a few fail, a few are lost on the way; graceful runs lose none."""
    moods = [Scripted()] * 60 + [Scripted(delay_s=0.05)] * 25 + [Scripted(delay_s=0.4)] * 10
    if plan.kills:
        moods += [Scripted(status=503)] * 3 + [Scripted(close="middle")] * 2
    sends = int(plan.seconds * plan.rate * len(CHANNELS) * 1.5) + 1000
    providers.script("webhook", *chance.choices(moods, k=sends))


@contextmanager
def _load(place: Town, ledger: Ledger, plan: Plan, found: Found) -> Iterator[None]:
    """Producers at work until the block ends; each finishes what it has begun."""
    stop = threading.Event()
    producers = [Producer(place.url, place.token, patience_s=180) for _ in range(PRODUCERS)]
    errors: list[BaseException] = []

    def produce(n: int, producer: Producer) -> None:
        count = 0
        try:
            while not stop.wait(PRODUCERS / plan.rate):
                count += 1
                title = f"alert {n} {count}"
                ledger.add(title, producer.publish(title, *CHANNELS))
        except BaseException as error:  # noqa: BLE001  told by the main thread
            errors.append(error)

    threads = [threading.Thread(target=produce, args=pair) for pair in enumerate(producers)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        while any(thread.is_alive() for thread in threads):
            place.ensure()
            time.sleep(0.1)
    if errors:
        raise errors[0]
    found.refused = dict(sum((producer.refused for producer in producers), Counter()))
    waits = sorted(one for producer in producers for one in producer.latencies)
    found.accepted_p99_s = round(waits[int(len(waits) * 0.99)], 3)


def _strike(place: Town, chance: random.Random, plan: Plan) -> Counter[str]:
    """All blows, at random moments, in random order; whoever died is started again at once."""
    blows = ["kill"] * plan.kills + ["restart"] * plan.restarts + ["wipe"] * plan.wipes
    chance.shuffle(blows)
    done: Counter[str] = Counter()
    until = time.monotonic() + plan.seconds
    for nth, blow in enumerate(blows):
        left = until - time.monotonic()
        _look_after(place, max(0.0, chance.uniform(0.2, 1.8) * left / (len(blows) - nth + 1)))
        if blow == "wipe":
            place.wipe()
            done["wipe"] += 1
            continue
        names = [name for name in place.parts if blow == "kill" or name.startswith(("server", "worker"))]
        victim = chance.choice(names)
        place.parts[victim].end(signal.SIGKILL if blow == "kill" else signal.SIGTERM)
        done[f"{blow} {victim.partition('-')[0]}"] += 1
        place.ensure()
    _look_after(place, until - time.monotonic())
    return done


def _look_after(place: Town, seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        place.ensure()
        time.sleep(min(0.1, max(0.0, until - time.monotonic())))


def _wait_until_quiet(place: Town) -> None:
    """Nothing is open any more; what waits for its next try has it now."""
    until = time.monotonic() + QUIET_S
    while True:
        place.ensure()
        with place.store.write() as session:
            if not session.scalar(select(func.count()).where(Delivery.state.in_(OPEN))):
                return
            waiting = update(Delivery).where(
                Delivery.state == "retrying", Delivery.next_attempt_at > utcnow()
            )
            session.execute(waiting.values(next_attempt_at=utcnow()))
        if time.monotonic() > until:
            return  # the balance shows it
        time.sleep(0.5)


def _arrivals(path: Path) -> Counter[str]:
    lines = (json.loads(line) for line in path.read_text().splitlines())
    return Counter(line["id"] for line in lines if line["is_accepted"])


def _balance(found: Found, place: Town, accepted: Mapping[str, Sequence[str]], arrived: Counter[str]) -> None:
    with place.store.read() as session:
        rows = {row.id: row for row in session.scalars(select(Delivery))}
        admitted = Counter(session.scalars(select(Attempt.delivery_id).where(Attempt.possible_duplicate)))
        titles = session.execute(select(Alert.title, func.count()).group_by(Alert.title)).all()
    promised = [one for ids in accepted.values() for one in ids]
    found.accepted, found.deliveries = len(accepted), len(promised)
    found.accepted_twice = sum(count - 1 for _, count in titles)
    for one in promised:
        row = rows.get(one)
        if arrived[one] or (row is not None and arrived[row.merged_into or ""]):
            continue
        if row is not None and row.state in ("failed", "expired"):
            found.given_up += 1
        else:
            found.lost += 1
    for one, count in arrived.items():
        found.copies += count - 1
        found.marked += min(count - 1, admitted[one])
    found.unmarked = found.copies - found.marked


def _bad_exits(place: Town) -> list[str]:
    exits: dict[str, list[int]] = {name: getattr(part, "exits", []) for name, part in place.parts.items()}
    # SIGTERM itself ends whoever has not begun to do anything.
    good = (0, -signal.SIGTERM)
    return [f"{name}: {code}" for name, codes in exits.items() for code in codes if code not in good]


def _print(found: Found) -> None:
    shown: dict[str, Any] = asdict(found)
    for name, value in shown.items():
        said = (
            ", ".join(f"{key}: {count}" for key, count in value.items()) if isinstance(value, dict) else value
        )
        print(f"{name:16}{said}")
    print(f"{'bound (95 %)':16}{found.bound:.2%} of kills lose anything, at most")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--kills", type=int, default=None)
    parser.add_argument("--restarts", type=int, default=0)
    parser.add_argument("--wipes", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--rate", type=float, default=20.0, help="alerts a second, each on three channels")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--postgres", action="store_true")
    parser.add_argument("--matrix", action="store_true")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def main() -> int:
    given = _arguments()
    if given.matrix:
        environment = {**os.environ, "FAULTCAST_TEST_STALL_S": "30"}
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *MATRIX]
        return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode
    kills = given.kills if given.kills is not None else 0 if given.restarts or given.wipes else 200
    plan = Plan(
        kills, given.restarts, given.wipes, given.seconds, given.rate, given.seed, postgres=given.postgres
    )
    found = run(plan)
    if given.json:
        print(json.dumps({**asdict(found), "bound": found.bound}))
    else:
        _print(found)
    return 0 if found.is_good(plan) else 1


if __name__ == "__main__":
    sys.exit(main())
