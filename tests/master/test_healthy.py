"""A little of bench/healthy.py: uneven jobs that were once called hung, and hangs that were once missed."""

import pytest

from bench.healthy import healthy, hung


@pytest.mark.parametrize("seed", [40013, 50007])
def test_an_uneven_job_is_not_called_hung(seed: int) -> None:
    _, called = healthy(seed, hours=2)
    assert called == []


@pytest.mark.parametrize(("seed", "kind"), [(40218, "a service"), (40021, "kernel"), (40009, "kernel")])
def test_a_hang_of_an_uneven_job_is_found_and_its_culprit_named(seed: int, kind: str) -> None:
    found = hung(seed, kind)
    assert found.named == "right"
    assert found.after is not None
    assert found.after < 420
