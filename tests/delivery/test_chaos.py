"""Some seconds of bench/chaos.py, which is run for longer by hand: its ledgers are balanced."""

import pytest

from bench.chaos import Plan, run

pytestmark = pytest.mark.timeout(240)
LEAST = 20  # alerts
PLANS = {
    "killed at random": Plan(kills=8, wipes=2, seconds=9, rate=8, seed=20261129, least=LEAST),
    "killed at random, postgres": Plan(kills=6, seconds=8, rate=8, seed=20261130, postgres=True, least=LEAST),
    "restarted and wiped": Plan(restarts=3, wipes=2, seconds=6, rate=8, seed=3, least=LEAST),
}


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_the_ledgers_are_balanced(plan: Plan) -> None:
    found = run(plan)
    assert found.is_good(plan), found
    assert found.accepted >= LEAST, found
    assert sum(found.blows.values()) == plan.kills + plan.restarts + plan.wipes
