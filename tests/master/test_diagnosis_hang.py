"""Hangs are called, healthy pauses are not (RECOVERY.md: hang evidence from a sidecar)."""

from dataclasses import replace
from datetime import timedelta

import pytest

from master.casefile import Cause, Diagnosis, FaultClass
from tests.master.story import ALL_REDUCE, HANG, Story, at, steady

SPIN = ("spin (train.py:98)", "train_step (train.py:52)", "main (train.py:30)")
SLEEP = ("refresh (service.py:12)", "train_step (train.py:52)", "main (train.py:30)")
READ = ("read (ssl.py:1159)", "recv_into (ssl.py:1290)", "__next__ (torch/utils/data/dataloader.py:631)")
BACKWARD = (
    "_engine_run_backward (torch/autograd/graph.py:979)",
    "backward (torch/_tensor.py:623)",
    "main (train.py:30)",
)


def sampled(story: Story, until: float, **stacks: tuple[str, ...]) -> Story:
    """Stacks every two seconds from the suspicion on."""
    moment = 35.5
    while moment < until:
        story.stacks(moment, **stacks)
        moment += 2
    return story


def tight_loop(story: Story, until: float) -> Story:
    """`while True: pass` is seen on either of its two lines."""
    moment, line = 35.5, 98
    while moment < until:
        story.stacks(moment, rank0=ALL_REDUCE, rank1=(f"spin (train.py:{line})", *SPIN[1:]))
        moment, line = moment + 2, 197 - line
    return story


HANGS = {
    "every rank waits in a collective": (
        sampled(steady().idle(), 38, rank0=ALL_REDUCE, rank1=ALL_REDUCE),
        38,
        None,
        "everyone",
    ),
    "one rank spins, the other waits": (
        sampled(steady().idle().state(1, "R", cpu=True), 49, rank0=ALL_REDUCE, rank1=SPIN),
        49,
        1,
        "spinning",
    ),
    "a loop of two lines": (tight_loop(steady().idle().state(1, "R", cpu=True), 49), 49, 1, "spinning"),
    "a loop entered by a signal handler inside a collective": (
        sampled(steady().idle().state(1, "R", cpu=True), 49, rank0=ALL_REDUCE, rank1=(SPIN[0], *ALL_REDUCE)),
        49,
        1,
        "spinning",
    ),
    "victims wait in DDP's backward pass": (
        sampled(steady().idle().state(0, "R", cpu=True), 49, rank0=SPIN, rank1=BACKWARD),
        49,
        0,
        "spinning",
    ),
    "one rank is blocked in code of its own": (
        sampled(steady().idle(), 61, rank0=ALL_REDUCE, rank1=SLEEP),
        61,
        1,
        "blocked",
    ),
    "one rank is blocked while a helper thread of it ticks": (
        sampled(steady().idle().state(1, "S", cpu=True), 61, rank0=ALL_REDUCE, rank1=SLEEP),
        61,
        1,
        "blocked",
    ),
    "one rank waits for data for very long": (
        sampled(steady().idle(), 91, rank0=ALL_REDUCE, rank1=READ),
        91,
        1,
        "outside",
    ),
    "two ranks of two are elsewhere": (
        sampled(steady().idle(), 61, rank0=SLEEP, rank1=("other (x.py:1)",)),
        61,
        None,
        "blocked",
    ),
}


@pytest.mark.parametrize(("story", "when", "rank", "how"), HANGS.values(), ids=HANGS.keys())
def test_hangs(story: Story, when: float, rank: int | None, how: str) -> None:
    found = story.fault(when)
    assert (found.fault_class, found.cause, found.culprit.rank) == (FaultClass.HANG, Cause.HANG, rank)
    assert found.fingerprint == f"hang/{how}"


def moving(story: Story, until: float) -> Story:
    moment, line = 35.5, 1
    while moment < until:
        story.stacks(moment, rank0=ALL_REDUCE, rank1=(f"evaluate (eval.py:{line})", "main (train.py:30)"))
        moment, line = moment + 2, line + 1
    return story


PAUSES = {
    "20 s of checkpoint writing": sampled(
        steady().idle().state(1, "S", io=True), 50, rank0=ALL_REDUCE, rank1=SLEEP
    ),
    "20 s asleep": sampled(steady().idle(), 50, rank0=ALL_REDUCE, rank1=SLEEP),
    "15 s of pure computing in one line": sampled(
        steady().idle().state(1, "R", cpu=True), 45, rank0=ALL_REDUCE, rank1=SPIN
    ),
    "minutes of evaluation": moving(steady().idle().state(1, "R", cpu=True), 300),
    "minutes of checkpoint writing": sampled(
        steady().idle().state(1, "D", io=True), 300, rank0=ALL_REDUCE, rank1=SLEEP
    ),
    "compiling": sampled(
        steady().idle().state(1, "R", cpu=True),
        200,
        rank0=ALL_REDUCE,
        rank1=("compile (torch/_inductor/codecache.py:9)",),
    ),
    "a pause like those before": sampled(
        Story().steps(30, pauses=(40.0,)).idle(), 60, rank0=ALL_REDUCE, rank1=ALL_REDUCE
    ),
    "steps of ten seconds": sampled(Story().steps(30, gap=10).idle(), 60, rank0=ALL_REDUCE, rank1=ALL_REDUCE),
}


@pytest.mark.parametrize("story", PAUSES.values(), ids=PAUSES.keys())
def test_healthy_pauses_are_no_hang(story: Story) -> None:
    last = max(one.at for one in story.seen)
    assert not isinstance(story.judged((last - at(0)).total_seconds()), Diagnosis)


def test_a_suspicion_asks_for_stacks_first() -> None:
    assert steady().idle().judged(34.5) is None
    wanted = steady().idle().judged(35.5)
    assert wanted is not None
    assert not isinstance(wanted, Diagnosis)
    assert wanted.stacks


def test_one_look_is_not_enough() -> None:
    story = steady().idle().stacks(35.5, rank0=ALL_REDUCE, rank1=ALL_REDUCE)
    assert not isinstance(story.judged(36), Diagnosis)
    assert not isinstance(story.judged(39), Diagnosis)


def test_without_any_stack_cpu_and_io_must_do() -> None:
    story = steady().idle().stacks(36, rank0="py-spy: permission denied", rank1="py-spy: permission denied")
    assert not isinstance(story.judged(50), Diagnosis)
    assert story.fault(62).fingerprint == "hang/unseen"


def test_without_any_stack_a_busy_job_gets_the_log_timeout() -> None:
    story = steady().idle().state(0, "R", cpu=True)
    assert not isinstance(story.judged(440), Diagnosis)
    assert story.fault(475).fingerprint == "hang/unseen"


def test_hang_detection_off_calls_no_hang() -> None:
    off = Story(hang=replace(HANG, enabled=False)).steps(until=30).idle()
    assert sampled(off, 600, rank0=ALL_REDUCE, rank1=ALL_REDUCE).judged(3600) is None


def user_timeouts(log: float, grace: float) -> Story:
    settings = replace(
        HANG, adaptive=False, log_timeout=timedelta(seconds=log), startup_toleration=timedelta(seconds=grace)
    )
    return Story(hang=settings)


def test_log_silence_counts_from_the_last_line_and_after_the_grace() -> None:
    story = user_timeouts(log=20, grace=60).idle()
    assert story.judged(59) is None
    story.last_log_at = at(50)
    assert story.judged(69) is None
    for moment in (70.5, 73):
        story.stacks(moment, rank0=ALL_REDUCE, rank1=ALL_REDUCE)
    assert story.fault(73.5).cause is Cause.HANG


def test_logs_that_flow_do_not_hide_stacks_that_stand_still() -> None:
    story = user_timeouts(log=600, grace=10)
    story.hang = replace(story.hang, stack_timeout=timedelta(seconds=30))
    story.steps(until=30).idle()
    for moment in range(61, 95, 5):
        story.stacks(moment, rank0=ALL_REDUCE, rank1=ALL_REDUCE)
        story.last_log_at = at(moment)
    assert story.fault(95).cause is Cause.HANG
