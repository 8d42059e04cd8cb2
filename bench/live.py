"""Every fault of the kit once, on a live PyTorch job of two pods, with the settings as they come: how soon it
is noticed, what it is called, who is named.

    python bench/live.py [FAULT …] [-v]
"""

import argparse
import shlex
import sys
import time
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import master.demo
from channels.standin import StandIn
from master.cli.errors import CommandError
from master.demo.town import Town, town, wait_for
from master.inject import FAULTS, Fault, Ground, find
from master.inject.catalogue import APART
from notifier.clock import utcnow

TRAIN = Path(master.demo.__file__).with_name("train.py")
PLAIN = f"{shlex.quote(sys.executable)} {shlex.quote(str(TRAIN))}"
WITHIN_S = 400.0  # a checkpoint may stall for five minutes
HEALTHY_FOR_S = 25.0  # without a word of it, after it was done
TRAINS_ON = 120  # steps, some seconds: enough to know the job by
ROW = "{:<20}{:>9}{:>9}{:>9}  {:<15}{:<17}{:<22}{:<13}{}"
ENDED = ("Failed", "Stopped", "Succeeded")


@dataclass
class Bench:
    """Jobs in the town: one is kept for as long as it lives, those with networks of their own are apart."""

    place: Town
    job: str = ""
    command: str = ""
    is_loud: bool = False

    def run(self, fault: Fault) -> bool:
        """One fault; prints its row. Whether it was called what it is."""
        self._have_job(fault)
        events, step = self._events(), self._trains_on()
        struck = utcnow()
        done = fault.strike(Ground(self.place.client, self.job))
        if fault.is_healthy:
            return self._left_alone(fault, events)
        event = wait_for(
            lambda: next(iter(self._events()[: -len(events) or None]), None),
            WITHIN_S,
            f"{fault.name}: no event",
        )
        again = wait_for(self._settled, WITHIN_S, f"{fault.name}: no end")
        later = next(one for one in self._events() if one["id"] == event["id"])
        took = [_seconds(later[f"{word}_at"], struck) for word in ("detected", "decided", "recovered")]
        culprit = " ".join(f"{name} {value}" for name, value in event["culprit"].items() if name != "pod")
        is_right = event["fault_class"] == fault.becomes and event["cause"] in fault.causes
        is_right = is_right and len(self._events()) == len(events) + 1
        print(ROW.format(fault.name, *took, event["fault_class"], event["cause"], culprit,
                         event["decision"]["action"], "" if is_right else "WRONG"))  # fmt: skip
        if not is_right or self.is_loud:
            print(f"    rank {done.rank} was struck at step {step}: {event['reason']}; {event['evidence']}")
            print(f"    {[(one['fault_class'], one['cause']) for one in self._events()]}, then {again}")
        for node in event["decision"]["isolate_nodes"]:
            self.place.client.post(f"/nodes/{node}/restore")
        return is_right

    def _have_job(self, fault: Fault) -> None:
        command = (
            f"{shlex.quote(sys.executable)} -m master.inject.apart -- {PLAIN}"
            if fault.needs == APART
            else PLAIN
        )
        if self.job and self.command == command and self._status() not in ENDED:
            return
        if self.job and self._status() not in ENDED:
            self.place.client.post(f"/jobs/{self.job}/stop")
        self.command = command
        envs = {"DEMO_CHECKPOINTS": str(self.place.data_dir / f"checkpoints-{time.monotonic_ns()}"),
                "DEMO_STEPS": "1000000"}  # fmt: skip
        body = {
            "name": f"live-{time.monotonic_ns()}",
            "command": f"exec {command}",
            "jobFramework": "PyTorchJob",
            "jobSpec": {
                "replicas": 2,
                "envs": [{"name": key, "value": value} for key, value in envs.items()],
            },
            "faultTolerance": True,
            "faultToleranceArgs": "--enable-hang-detection=true --max-restarts=100",
        }
        self.job = self.place.client.post("/jobs", body)["id"]

    def _left_alone(self, fault: Fault, events: list[dict[str, Any]]) -> bool:
        run, end = self._document()["run"], time.monotonic() + HEALTHY_FOR_S
        while time.monotonic() < end and len(self._events()) == len(events):
            time.sleep(0.5)
        told = self._events()[: len(self._events()) - len(events)]
        is_right = not told
        if is_right:
            self._trains_on()
            is_right = self._document()["run"] == run
        verdict = "nothing" if is_right else str([(one["fault_class"], one["reason"]) for one in told])
        print(ROW.format(fault.name, "-", "-", "-", verdict, "", "", "", "" if is_right else "WRONG"))
        return is_right

    def _trains_on(self) -> int:
        first = wait_for(self._step, WITHIN_S, "no step")
        return int(wait_for(lambda: at if (at := self._step() or 0) > first + TRAINS_ON else None,
                            WITHIN_S, "no more steps"))  # fmt: skip

    def _settled(self) -> str | None:
        """Recovered, or over."""
        if self._status() in ENDED:
            return self._status()
        return "recovered" if all(one["recovered_at"] for one in self._events()) else None

    def _document(self) -> dict[str, Any]:
        return dict(self.place.client.get(f"/jobs/{self.job}"))

    def _status(self) -> str:
        return str(self._document()["status"])

    def _step(self) -> int | None:
        step: int | None = self._document()["step"]
        return step

    def _events(self) -> list[dict[str, Any]]:
        """Newest first."""
        return list(self.place.client.get(f"/jobs/{self.job}/events", {"limit": 500})["items"])


def _seconds(moment: str | None, since: datetime) -> str:
    return "-" if moment is None else f"{(datetime.fromisoformat(moment) - since).total_seconds():.2f}"


def _named(name: str) -> Fault:
    try:
        return find(name)
    except CommandError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("faults", nargs="*", metavar="FAULT", help="left out: all", type=_named)
    parser.add_argument("-v", action="store_true", help="what was said of each")
    given = parser.parse_args()
    print(ROW.format("fault", "detected", "decided", "training", "class", "cause", "culprit", "action", ""))
    with StandIn() as providers, town(providers.smtp_url, "en", keep=False) as place:
        bench = Bench(place, is_loud=given.v)
        wrong = [fault.name for fault in given.faults or FAULTS if not bench.run(fault)]
    print(f"wrong: {', '.join(wrong) or 'none'}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
