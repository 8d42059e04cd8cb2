"""Hostile input: many alerts and digests, by hypothesis, through every renderer and every adapter.

python bench/hostile.py [--inputs 100000] [--processes 2] [--seconds S] [--seed 0] [--json]

An input is one alert or digest; it is rendered for every kind of channel, cut into parts, and all that must
be true of them is looked at (tests/notifier/hostility.py). Prints inputs, messages, failures and seconds;
exit code 1 if there were failures.
"""

import argparse
import json
import multiprocessing
import sys
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from hypothesis import HealthCheck, Phase, given, seed, settings

from tests.notifier.hostility import GIVEN, Given, channels, faults

LOT = 250
SHOWN = 20


def lot(number: int) -> tuple[int, Counter[str], dict[str, str]]:
    """Tries LOT inputs; answers how many, what was wrong how often, and an input for each."""
    tried, wrong, examples = 0, Counter[str](), dict[str, str]()

    @seed(number)
    @settings(
        max_examples=LOT, database=None, deadline=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(GIVEN)
    def look(one: Given) -> None:
        nonlocal tried
        tried += 1
        for fault in faults(one):
            kind = fault[:160]
            wrong[kind] += 1
            examples.setdefault(kind, repr(one)[:4000])

    look()
    return tried, wrong, examples


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--inputs", type=int, default=100_000)
    parser.add_argument("--processes", type=int, default=multiprocessing.cpu_count())
    parser.add_argument("--seconds", type=float, help="stop after so long, with as many inputs as were tried")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    began, tried, wrong, examples = time.monotonic(), 0, Counter[str](), dict[str, str]()
    lots = range(asked.seed, asked.seed + -(-asked.inputs // LOT))
    with multiprocessing.get_context("spawn").Pool(asked.processes) as pool:
        for count, found, shown in pool.imap_unordered(lot, lots):
            tried += count
            wrong += found
            for kind in shown.keys() - examples.keys():
                print(f"\n{kind}", file=sys.stderr)
            examples = shown | examples
            if asked.seconds is not None and time.monotonic() - began > asked.seconds:
                pool.terminate()
                break
            print(f"\r{tried} inputs, {wrong.total()} failures", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    told = {
        "inputs": tried, "messages": tried * len(channels()), "failures": wrong.total(),
        "seconds": round(time.monotonic() - began, 1), "kinds": dict(wrong.most_common(SHOWN)),
    }  # fmt: skip
    print(
        json.dumps(told, ensure_ascii=False)
        if asked.json
        else "\n".join(f"{k}: {v}" for k, v in told.items())
    )
    for kind in told["kinds"] if not asked.json else ():
        print(f"\n{kind}\n  {examples[kind]}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
