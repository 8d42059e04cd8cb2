"""How often a healthy job is called hung, and how surely a hung one: the real rules on a simulated clock.

python bench/healthy.py [--hours 1000] [--hangs 500] [--seed 1]

Jobs as people run them (bench/bumpy.py) are looked at once a second through the real case file: steps by
heartbeats once a second, stacks when diagnosis asks for them, a second or two later. Settings are the
defaults. `in a debugger` and the like are healthy: only time tells, and that is the job of the rules.
"""

import argparse
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from agent.signatures import Scanner
from agent.wire import Kind
from bench import broken as hangs
from bench.broken import Broken
from bench.bumpy import HOUR, Act, Phase, draw
from bench.lives import phases
from bench.watched import Called, Watched
from master.casefile import Diagnosis, Seen, Source

JOB_HOURS = 10
NCCL_S = 600.0
GIVEN_UP_S = 3 * HOUR


def healthy(seed: int, hours: float) -> tuple[Watched, list[Called]]:
    """A job's life; whoever is called hung goes on as if nobody had said so, with fresh eyes."""
    job = draw(seed)
    watched, calls = Watched(job), list[Called]()
    for phase in phases(job):
        until = watched.now + phase.length
        while watched.now < min(until, hours * HOUR):
            if (called := watched.live(phase, min(until, hours * HOUR))) is not None:
                calls.append(called)
                return watched, calls
        if watched.now >= hours * HOUR:
            return watched, calls
    raise AssertionError("a life has no end of its own")


@dataclass(frozen=True)
class Hung:
    """One hang: after how long it was called, and whether its culprit was named right."""

    kind: str
    seed: int
    after: float | None
    named: str  # right | nobody | wrong | false (called before it began)
    fingerprint: str = ""


def hung(seed: int, kind: str) -> Hung:
    """A hang of one kind at a random moment of a job's first hours, every fifth after its first steps."""
    job = draw(seed)
    watched = Watched(job)
    begins = random.Random(seed * 7 + 1).uniform(900, 1.5 * HOUR)  # noqa: S311  the same moment in every run
    for phase in phases(job):
        if seed % 5 == 0 and phase.name == "train":
            begins = watched.now + 4 * max(1.0, job.step * job.every)
        if (called := watched.live(phase, min(watched.now + phase.length, begins))) is not None:
            return Hung(kind, seed, None, "false", called.found.fingerprint)
        if watched.now >= begins:
            break
    stuck = hangs.KINDS[kind](job)
    watched.left = stuck.left
    phase = Phase("hang", GIVEN_UP_S, _silent(stuck))
    called = watched.live(phase, watched.now + NCCL_S)
    if called is None:
        watched.lines += _watchdog(watched, stuck)
        called = watched.live(phase, watched.now + GIVEN_UP_S)
    if called is None:
        return Hung(kind, seed, None, "nobody")
    return Hung(
        kind, seed, called.at - begins, _named(called.found, stuck, watched), called.found.fingerprint
    )


def _watchdog(watched: Watched, stuck: Broken) -> list[Seen]:
    """NCCL's own time-out, which ends what we did not call before it; it names those who wait."""
    job = watched.job
    text = (
        "[rank{0}]:[E ProcessGroupNCCL.cpp:685] [Rank {0}] Watchdog caught collective operation timeout: "
        "WorkNCCL(SeqNum=7, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600029 "
        "milliseconds before timing out."
    )
    waits = [rank for rank in range(job.world) if rank not in stuck.culprits | stuck.left] if job.gpu else []
    found = []
    for rank in waits if job.world > 1 else []:
        line = text.format(rank)
        if (match := Scanner().scan(line)) is not None:
            data = {"signature": match.signature, "captured": match.captured, "line": line}
            found.append(Seen(watched.at(watched.now), Kind.LOG_MATCH, Source.AGENT, watched.node(rank),
                              watched.pod(rank), rank, data))  # fmt: skip
    return found


def _silent(stuck: Broken) -> tuple[Act, ...]:
    if stuck.logs_every is None:
        return stuck.acts
    first, *rest = stuck.acts
    return (Act(first.places, first.cpu, first.io, first.state, stuck.logs_every), *rest)


def _named(found: Diagnosis, stuck: Broken, watched: Watched) -> str:
    """Right if the rank, or the pod that holds all culprits, is named."""
    where = found.culprit
    if where.rank is None and where.pod is None and where.node is None:
        return "nobody"
    if where.rank is not None:
        return "right" if {where.rank} == stuck.culprits else "wrong"
    pods = {watched.pod(rank) for rank in stuck.culprits}
    return "right" if pods == {where.pod} else "wrong"


def _share(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("nan")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    options.add_argument("--hours", type=int, default=1000)
    options.add_argument("--hangs", type=int, default=500)
    options.add_argument("--seed", type=int, default=1)
    given = options.parse_args()
    if given.hours:
        _tell_healthy(given.seed, given.hours)
    if given.hangs:
        _tell_hung(list(_all_hung(given.seed, given.hangs)))


def _tell_healthy(seed: int, hours: int) -> None:
    lived, looks, suspected, calls = 0.0, 0, 0, 0
    number = seed * 10_000
    while lived < hours * HOUR:
        number += 1
        watched, called = healthy(number, min(JOB_HOURS, hours - lived / HOUR))
        lived, looks = lived + watched.now, looks + watched.looked
        suspected, calls = suspected + watched.suspected_s, calls + len(called)
        if number % 10 == 0:
            print(f"  … {lived / HOUR:.0f} h, {calls} called", flush=True)
        for one in called:
            job, said = watched.job, one.found.evidence
            print(f"  false: job {number} at {one.at:.0f} s in {one.phase}: {one.found.fingerprint}")
            where = "GPUs" if job.gpu else "CPUs"
            print(f"    {job.world} ranks on {where}, steps of {job.step:.2f} s by {job.told_by}")
            print(f"    {said[0].text if said else ''}")
    often = looks / lived * HOUR
    print(f"healthy: {lived / HOUR:.0f} h, false hangs {calls}, looks at stacks {often:.1f} an hour")


def _all_hung(seed: int, count: int) -> Iterator[Hung]:
    kinds = list(hangs.KINDS)
    for n in range(count):
        yield hung(seed * 20_000 + n, kinds[n % len(kinds)])


def _tell_hung(all_of_them: list[Hung]) -> None:
    for kind in [*hangs.KINDS, ""]:
        some = [one for one in all_of_them if kind in ("", one.kind) and one.named != "false"]
        found = [one for one in some if one.after is not None]
        names = Counter(one.named for one in found)
        times = [one.after for one in found if one.after is not None]
        after = f"p50 {_share(times, 0.5):.0f} s, p95 {_share(times, 0.95):.0f} s"
        culprits = f"right {names['right']}, nobody {names['nobody']}, wrong {names['wrong']}"
        print(f"{kind or 'all':24} {len(found)}/{len(some)} found, {after}, culprit {culprits}")
    for one in all_of_them:
        if one.named in ("wrong", "false") or one.after is None:
            print(f"  {one.named if one.after or one.named == 'false' else 'missed'}: {one}")


if __name__ == "__main__":
    main()
