"""What decide() does about a diagnosis, and the sentence it gives."""

from dataclasses import replace
from datetime import timedelta

import pytest

from master.casefile import (
    Action,
    Cause,
    Culprit,
    Decision,
    Diagnosis,
    FaultClass,
    History,
    Past,
    Policy,
    PoolView,
)
from master.decision import Budget, budget_after_progress, decide
from tests.master.story import OFF_BUS, START, at, killed_rank, steady, user_error_on

NOW = at(31)
POLICY = Policy(
    enabled=True,
    max_restarts=10,
    unconditional_retries=0,
    unconditional_observe=timedelta(hours=1),
    replace=False,
)
POOL = PoolView(fault_isolation=True, isolation_cap=0.34, nodes=3, isolated=frozenset())
FRESH = History(restarts_used=0, unconditional_used=0, run_started_at=START, step=600)

KILLED = killed_rank().fault(33)
XID = steady().kernel("node-b", 30.1, OFF_BUS).fault(33)
USER_ERROR = user_error_on(1, "ValueError: bad sample").fault(33)
CRASH = steady().exited(1, 30.1, signal=11).fault(33)
EVICTED = steady().pod_word(1, 30.1, "pod_evicted", reason="memory").fault(33)
EVICTED_FOR_ITS_OWN = steady().pod_word(1, 30.1, "pod_evicted", own_fault=True).fault(33)
STOPPED = steady().idle().state(1, "T").fault(40)


def struck(diagnosis: Diagnosis, times: int, step: int | None = 600, used: int | None = None) -> History:
    """The same fault before, so many times, each at that step; nothing gained since."""
    past = tuple(
        Past(diagnosis.fingerprint, step, at(20 - number), Action.RESTART_JOB) for number in range(times)
    )
    return replace(FRESH, past=past, restarts_used=times if used is None else used)


def decided(
    diagnosis: Diagnosis, history: History = FRESH, policy: Policy = POLICY, pool: PoolView = POOL
) -> Decision:
    return decide(diagnosis, policy, history, pool, NOW)


ACTIONS = {
    "the first infrastructure fault restarts at once": (KILLED, FRESH, POLICY, "restart_job", "restart", 0),
    "the second without progress waits 5 s": (KILLED, struck(KILLED, 1), POLICY, "restart_job", "restart", 5),
    "the third 15 s": (KILLED, struck(KILLED, 2), POLICY, "restart_job", "restart", 15),
    "the fourth time at the same step is the end": (KILLED, struck(KILLED, 3), POLICY, "fail_job", "", 0),
    "progress in between begins anew": (
        KILLED,
        struck(KILLED, 3, step=300),
        POLICY,
        "restart_job",
        "restart",
        0,
    ),
    "faults before the first step count as no progress": (
        KILLED,
        replace(struck(KILLED, 3, step=None), step=None),
        POLICY,
        "fail_job",
        "",
        0,
    ),
    "a crash is confirmed once": (CRASH, struck(CRASH, 1), POLICY, "fail_job", "", 0),
    "another fault in between is no repeat": (
        CRASH,
        replace(FRESH, past=struck(KILLED, 1).past + struck(CRASH, 1).past),
        POLICY,
        "restart_job",
        "restart",
        15,
    ),
    "a used-up budget is the end": (KILLED, replace(FRESH, restarts_used=10), POLICY, "fail_job", "", 0),
    "no budget at all": (KILLED, FRESH, replace(POLICY, max_restarts=0), "fail_job", "", 0),
    "-1 never ends": (
        KILLED,
        replace(FRESH, restarts_used=5000),
        replace(POLICY, max_restarts=-1),
        "restart_job",
        "restart",
        0,
    ),
    "the program's own error ends the job": (USER_ERROR, FRESH, POLICY, "fail_job", "", 0),
    "unless unconditional retries are left": (
        USER_ERROR,
        FRESH,
        replace(POLICY, unconditional_retries=2),
        "restart_job",
        "unconditional",
        0,
    ),
    "and not when they are used up": (
        USER_ERROR,
        replace(FRESH, unconditional_used=2),
        replace(POLICY, unconditional_retries=2),
        "fail_job",
        "",
        0,
    ),
    "an eviction costs nothing": (
        EVICTED,
        replace(FRESH, restarts_used=10),
        POLICY,
        "restart_job",
        "free",
        0,
    ),
    "an eviction for the pod's own use is not free": (EVICTED_FOR_ITS_OWN, FRESH, POLICY, "fail_job", "", 0),
    "a stopped rank restarts": (STOPPED, FRESH, POLICY, "restart_job", "restart", 0),
    "without fault tolerance an end is the end": (
        KILLED,
        FRESH,
        replace(POLICY, enabled=False),
        "fail_job",
        "",
        0,
    ),
    "without fault tolerance what lives on is only told": (
        XID,
        FRESH,
        replace(POLICY, enabled=False),
        "none",
        "",
        0,
    ),
}


@pytest.mark.parametrize(
    ("diagnosis", "history", "policy", "action", "pays", "waits"), ACTIONS.values(), ids=ACTIONS.keys()
)
def test_actions(
    diagnosis: Diagnosis, history: History, policy: Policy, action: str, pays: str, waits: int
) -> None:
    found = decided(diagnosis, history, policy)
    assert found.action == action
    if action == "restart_job":
        assert (found.counts_as, found.backoff.total_seconds()) == (pays, waits)


ISOLATION = {
    "a node with proof": (XID, POOL, ("node-b",), "node-b is isolated"),
    "no node on a pod's word alone": (replace(XID, trusted=False), POOL, (), "only the pod itself says so"),
    "no node beyond the cap": (XID, replace(POOL, isolated=frozenset({"node-a"})), (), "the cap is 34%"),
    "no node of a pool of one": (XID, replace(POOL, nodes=1), (), "the cap is"),
    "no node where the pool forbids": (XID, replace(POOL, fault_isolation=False), (), "isolation is off"),
    "no node twice": (XID, replace(POOL, isolated=frozenset({"node-b"})), (), "first fault"),
    "no node without hardware evidence": (KILLED, POOL, (), "first fault"),
}


@pytest.mark.parametrize(("diagnosis", "pool", "nodes", "why"), ISOLATION.values(), ids=ISOLATION.keys())
def test_isolation(diagnosis: Diagnosis, pool: PoolView, nodes: tuple[str, ...], why: str) -> None:
    found = decided(diagnosis, pool=pool)
    assert found.isolate_nodes == nodes
    assert why in found.why["en"]
    assert found.action is Action.RESTART_JOB


SENTENCES = {
    "first": (KILLED, FRESH, POLICY, "first fault of this kind, 9 of 10 restarts left"),
    "second": (
        KILLED,
        struck(KILLED, 1),
        POLICY,
        "fault no. 2 of this kind, 8 of 10 restarts left, after 5 s",
    ),
    "unlimited": (
        KILLED,
        FRESH,
        replace(POLICY, max_restarts=-1),
        "first fault of this kind, restarts are not limited",
    ),
    "repeat": (
        KILLED,
        struck(KILLED, 3),
        POLICY,
        "the same fault has struck 4 times at step 600 with nothing gained, so it stops",
    ),
    "off": (
        KILLED,
        FRESH,
        replace(POLICY, enabled=False),
        "fault tolerance is off for this job, so it fails; with it on, it would have been restarted",
    ),
}


@pytest.mark.parametrize(("diagnosis", "history", "policy", "why"), SENTENCES.values(), ids=SENTENCES.keys())
def test_the_reason_has_numbers(diagnosis: Diagnosis, history: History, policy: Policy, why: str) -> None:
    found = decided(diagnosis, history, policy)
    assert found.why["en"] == why
    assert found.why["zh"]


def test_budget_left_is_what_remains_after_this_restart() -> None:
    assert decided(KILLED).budget_left == 9
    assert decided(KILLED, policy=replace(POLICY, max_restarts=-1)).budget_left is None
    assert decided(EVICTED, replace(FRESH, restarts_used=4)).budget_left == 6
    assert decided(USER_ERROR, policy=replace(POLICY, unconditional_retries=3)).budget_left == 2


def test_budget_left_of_a_job_that_gives_up_is_what_was_not_used() -> None:
    assert decided(USER_ERROR).budget_left == 10
    assert decided(KILLED, replace(FRESH, restarts_used=10)).budget_left == 0
    assert decided(USER_ERROR, policy=replace(POLICY, max_restarts=-1)).budget_left is None


@pytest.mark.parametrize(
    ("allowed", "words"),
    [(0, "no restart is allowed"), (1, "the one restart allowed"), (2, "all 2 restarts are used")],
)
def test_a_used_up_budget_is_told_in_numbers_that_agree(allowed: int, words: str) -> None:
    given_up = decided(
        KILLED, replace(FRESH, restarts_used=allowed), policy=replace(POLICY, max_restarts=allowed)
    )
    assert words in given_up.why["en"]


def test_restarts_are_numbered_over_the_life_of_the_job() -> None:
    assert decided(KILLED).restart_no == 1
    assert decided(KILLED, struck(KILLED, 2)).restart_no == 3


def test_old_restarts_no_longer_delay() -> None:
    past = tuple(replace(one, at=START - timedelta(hours=3)) for one in struck(KILLED, 2).past)
    assert decided(KILLED, replace(FRESH, past=past)).backoff == timedelta(0)


@pytest.mark.parametrize(
    ("step", "best", "lived_s", "expected"),
    [
        (700, 600, 60, Budget(0, 2)),
        (600, 600, 60, Budget(4, 2)),
        (None, 600, 60, Budget(4, 2)),
        (700, None, 60, Budget(4, 2)),
        (600, 600, 3600, Budget(4, 0)),
    ],
    ids=["a new best step", "the same step again", "no step yet", "the first run", "a run that lives long"],
)
def test_progress_gives_budgets_back(
    step: int | None, best: int | None, lived_s: int, expected: Budget
) -> None:
    found = budget_after_progress(
        Budget(4, 2), POLICY, step=step, best_before=best, run_age=timedelta(seconds=lived_s)
    )
    assert found == expected


def test_every_cause_and_class_is_decided() -> None:
    for cause in Cause:
        for fault_class in FaultClass:
            found = decided(replace(KILLED, cause=cause, fault_class=fault_class, culprit=Culprit()))
            assert set(found.why) == {"zh", "en"}


def test_without_fault_tolerance_it_is_said_what_would_have_been_done() -> None:
    off = replace(POLICY, enabled=False)
    assert decided(XID, policy=off).would == decided(XID)
    assert decided(XID, policy=off).isolate_nodes == ()
    assert (
        decided(XID, policy=off).why["en"].endswith("it would have been restarted and node node-b isolated")
    )
    assert decided(XID, policy=off).why["zh"].endswith("若已开启，将重启任务并隔离节点 node-b")
    assert decided(USER_ERROR, policy=off).why["en"].endswith("it would have been stopped all the same")
    assert decided(XID).would is None
