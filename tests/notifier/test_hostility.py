"""A few of the inputs that `bench/hostile.py` tries by the thousand."""

from hypothesis import HealthCheck, given, settings

from tests.notifier.hostility import GIVEN, Given, faults


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(GIVEN)
def test_whatever_an_alert_says_every_channel_gets_it_whole_and_harmless(one: Given) -> None:
    assert list(faults(one)) == []
