"""Hangs are called, healthy pauses are not (RECOVERY.md: hang evidence from a sidecar)."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from master.casefile import Cause, Diagnosis, FaultClass, Want
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


HOST = ("train_step (train.py:57)", "main (train.py:30)")
EVALUATES = ("evaluate (evaluate.py:41)", "main (train.py:31)")


def seen_often(
    story: Story, until: float, facts: dict[int, dict[str, Any]], **stacks: tuple[str, ...]
) -> Story:
    """Looks as the master asks for them, with what agents tell beside the frames."""
    moment = 35.5
    while moment < until:
        story.stacks(moment, **stacks)
        for one in story.seen[-len(stacks) :]:
            one.data.update({"gil": False, "switches": 7} | facts.get(one.rank or 0, {}))
        moment += max(2.0, (moment - 30) / 10)
    return story


def spinning() -> Story:
    """Hosts of GPUs: on a CPU whether they wait or not."""
    story = steady(pods=3).idle()
    for rank in range(3):
        story.state(rank, "R", cpu=True)
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
        sampled(steady().idle(), 213, rank0=ALL_REDUCE, rank1=READ),
        213,
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


def test_between_looks_what_stands_still_seems_wrong_and_what_moves_does_not() -> None:
    still = sampled(steady().idle(), 50, rank0=ALL_REDUCE, rank1=SLEEP)
    wanted = [still.judged(when) for when in (49.6, 49.9, 52.5)]
    assert [(one.stacks, bool(one.why)) for one in wanted if isinstance(one, Want)] == [
        (False, True), (False, True), (True, True),
    ]  # fmt: skip
    alive = steady().idle().state(1, "R", cpu=True)
    for moment in range(36, 51, 2):
        alive.stacks(
            moment, rank0=ALL_REDUCE, rank1=(f"batch_{moment} (eval.py:{moment})", "main (train.py:30)")
        )
    wanted = [alive.judged(when) for when in (50.6, 56)]
    assert [(one.stacks, one.why) for one in wanted if isinstance(one, Want)] == [(False, ""), (True, "")]


def young(*gaps: float) -> Story:
    """A job that stands in a collective since second 30, known by these gaps alone."""
    story = steady().idle()
    story.rhythm = gaps
    return sampled(story, 95, rank0=ALL_REDUCE, rank1=ALL_REDUCE)


@pytest.mark.parametrize(
    ("gaps", "after"), [((0.5,), 60), ((0.5, 0.6), 30), ((0.5, 7.0), 30), ((0.5,) * 4, 15)]
)
def test_a_job_that_made_but_few_steps_is_known_the_less(gaps: tuple[float, ...], after: int) -> None:
    assert young(*gaps).judged(30 + after - 1) is None
    assert young(*gaps).fault(30 + after + 1).fingerprint == "hang/everyone"


def test_a_job_that_told_of_one_step_alone_has_the_grace_of_its_start() -> None:
    assert young().judged(95) is None


def test_one_look_is_not_enough() -> None:
    story = steady().idle().stacks(35.5, rank0=ALL_REDUCE, rank1=ALL_REDUCE)
    assert not isinstance(story.judged(36), Diagnosis)
    assert not isinstance(story.judged(39), Diagnosis)


def test_without_any_stack_cpu_and_io_must_do() -> None:
    story = steady().idle().stacks(36, rank0="py-spy: permission denied", rank1="py-spy: permission denied")
    assert not isinstance(story.judged(148), Diagnosis)
    assert story.fault(152).fingerprint == "hang/unseen"


def test_without_any_stack_a_busy_job_gets_the_time_of_an_evaluation() -> None:
    story = steady().idle().state(0, "R", cpu=True)
    assert not isinstance(story.judged(3600), Diagnosis)
    assert story.fault(4237).fingerprint == "hang/unseen"


def test_a_job_that_tells_nothing_and_shows_nothing_is_left_alone_while_it_computes() -> None:
    story = Story().idle().state(0, "R", cpu=True)
    for moment in range(900, 20_000, 200):
        assert not isinstance(story.judged(moment), Diagnosis)


def test_a_job_that_tells_nothing_and_shows_nothing_must_have_rested_for_long() -> None:
    story = Story().idle()
    for rank, view in story.views.items():
        story.views[rank] = replace(view, still=timedelta(seconds=20))
    assert not isinstance(story.judged(1400), Diagnosis)
    for rank, view in story.views.items():
        story.views[rank] = replace(view, still=timedelta(seconds=200))
    assert story.fault(1400).fingerprint == "hang/unseen"


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


def test_a_rank_that_computes_is_told_from_hosts_that_spin_while_they_wait() -> None:
    story = seen_often(spinning(), 51, {1: {"gil": True}}, rank0=HOST, rank1=SPIN, rank2=HOST)
    found = story.fault(51)
    assert (found.culprit.rank, found.fingerprint) == (1, "hang/spinning")


def test_hosts_at_one_line_are_called_only_if_their_threads_never_wake() -> None:
    story = seen_often(spinning(), 500, {}, rank0=HOST, rank1=HOST, rank2=HOST)
    assert not isinstance(story.judged(440), Diagnosis)
    found = story.fault((story.seen[-1].at - at(0)).total_seconds() + 1)
    assert (found.culprit.rank, found.fingerprint) == (None, "hang/device")


@pytest.mark.parametrize("place", [HOST, EVALUATES], ids=["a long step", "an evaluation"])
def test_hosts_that_wake_in_between_are_at_work(place: tuple[str, ...]) -> None:
    story = spinning()
    moment, switches = 35.5, 7
    while moment < 3600:
        story.stacks(moment, rank0=place, rank1=place, rank2=place)
        for one in story.seen[-3:]:
            one.data.update(gil=False, switches=switches)
        moment, switches = moment + max(2.0, (moment - 30) / 10), switches + 3
        assert not isinstance(story.judged(moment - 1), Diagnosis)


def test_a_rank_that_tries_again_and_again_is_called_late() -> None:
    story = steady().idle()
    moment, places = 35.5, (SLEEP, ("connect (service.py:9)", *SLEEP[1:]))
    while moment < 1000:
        story.stacks(moment, rank0=ALL_REDUCE, rank1=places[len(story.seen) // 2 % 2])
        moment += max(2.0, (moment - 30) / 10)
    assert not isinstance(story.judged(800), Diagnosis)
    found = story.fault((story.seen[-1].at - at(0)).total_seconds() + 1)
    assert (found.culprit.rank, found.fingerprint) == (1, "hang/blocked")


def test_a_pod_that_ended_well_while_the_others_wait_is_named() -> None:
    story = steady(pods=3).idle().exited(1, 30.2, code=0).pod_exited(1, 30.4, 0).state(1, "gone")
    story = sampled(story, 58, rank0=ALL_REDUCE, rank2=ALL_REDUCE)
    assert not isinstance(story.judged(40), Diagnosis)
    found = story.fault(58)
    assert (found.culprit.rank, found.culprit.pod, found.fingerprint) == (1, "pod-1", "hang/left")
    assert "rank 1 has ended well" in found.evidence[0].text


@pytest.mark.parametrize("state", ["gone", "R"], ids=["gone", "by its last heartbeat at work"])
def test_a_pod_that_was_looked_at_before_it_ended_is_no_life(state: str) -> None:
    """Its last stacks moved, and so did the bytes of its last heartbeat."""
    story = steady(pods=3).idle().state(1, state, cpu=True, io=True)
    for n in range(8):
        story.stacks(31.5 + n / 2, rank1=(f"forward (model.py:{n})", "main (train.py:30)"))
    story.exited(1, 36, code=0).pod_exited(1, 36.2, 0)
    found = sampled(story, 58, rank0=ALL_REDUCE, rank2=ALL_REDUCE).fault(58)
    assert (found.culprit.rank, found.fingerprint) == (1, "hang/left")


def test_a_pod_that_ended_while_the_last_one_evaluates_is_no_hang() -> None:
    story = (
        steady()
        .exited(1, 30.2, code=0)
        .pod_exited(1, 30.4, 0)
        .idle()
        .state(1, "gone")
        .state(0, "R", cpu=True)
    )
    story = seen_often(story, 1200, {}, rank0=EVALUATES)
    for moment in range(36, 400, 7):
        assert not isinstance(story.judged(moment), Diagnosis)


def test_a_rank_in_a_debugger_is_no_hang() -> None:
    story = sampled(steady().idle().state(1, "t"), 900, rank0=ALL_REDUCE, rank1=SPIN)
    assert not isinstance(story.judged(900), Diagnosis)


def test_what_was_seen_in_a_debugger_is_no_evidence_later() -> None:
    story = sampled(steady().idle(), 100, rank0=ALL_REDUCE, rank1=SPIN)
    for one in story.seen:
        one.data["state"] = "t" if one.rank == 1 else "S"
    assert not isinstance(story.judged(101), Diagnosis)


def test_a_writer_at_one_line_lives_by_its_bytes() -> None:
    save = ("save (torch/serialization.py:850)", "save_checkpoint (train.py:20)", "main (train.py:30)")
    story = steady().idle()
    for n, moment in enumerate(range(36, 700, 20)):
        story.stacks(moment, rank0=ALL_REDUCE, rank1=save)
        story.seen[-1].data["io_bytes"] = min(n, 30) * 50_000_000
    assert not isinstance(story.judged(680), Diagnosis)


def test_nobody_is_judged_by_an_old_look() -> None:
    story = sampled(steady().idle().state(1, "R", cpu=True), 46, rank0=ALL_REDUCE, rank1=SPIN)
    wanted = story.judged(56)
    assert wanted is not None
    assert not isinstance(wanted, Diagnosis)
    assert wanted.stacks


def test_an_agent_that_was_away_is_asked_on() -> None:
    story = steady().idle().stacks(35.5, rank0=ALL_REDUCE, rank1=SLEEP)
    for moment in (60, 100, 900):
        wanted = story.judged(moment)
        assert wanted is not None
        assert not isinstance(wanted, Diagnosis)


def test_agents_that_answered_no_more_are_not_waited_for() -> None:
    story = sampled(steady().idle(), 56, rank0=ALL_REDUCE, rank1=SLEEP)
    assert not isinstance(story.judged(63), Diagnosis)
    assert story.fault(90).culprit.rank == 1


def test_a_log_of_each_hundredth_step_is_no_hang_between_its_lines() -> None:
    story = spinning()
    story.rhythm = (60.0,) * 40
    story = seen_often(story, 89, {}, rank0=HOST, rank1=HOST, rank2=HOST)
    assert story.judged(89) is None
