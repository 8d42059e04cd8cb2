"""One engine, real database, real HTTP: what is told, in which order, and what becomes of it."""

import pytest

pytestmark = pytest.mark.timeout(60)


def test_an_alert_is_told_and_logged(house) -> None:
    (one,) = house.alert(house.channel())
    with house.working():
        house.told(one)
    (attempt,) = house.attempts(one)
    row = house.row(one)
    assert house.arrived() == ["it broke"]
    assert (attempt.outcome, attempt.http_status, attempt.n, attempt.part) == ("delivered", 200, 1, 1)
    assert row.message["title"] == "it broke"
    assert (row.attempt_count, row.tries, row.error_code, row.lease_token) == (1, 0, None, None)
    assert row.delivered_at >= row.first_attempt_at >= row.created_at
