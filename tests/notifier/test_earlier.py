"""Which earlier sends may have arrived, so that the next one is marked as a possible duplicate."""

import pytest

from notifier.tasks import Earlier

CASES = {
    "under way": (None, None, None, True),
    "lost": ("ambiguous", None, "unanswered", True),
    "a server in trouble": ("temporary", 500, "500", True),
    "a gateway": ("temporary", 504, "504", True),
    "a success in the body of a 500": ("temporary", 500, "0", True),
    "a page that says 200": ("temporary", 200, "200", True),
    "a 200 of old without a code": ("temporary", 200, None, True),
    "the provider's own busy": ("temporary", 200, "-1", False),
    "the request came late": ("temporary", 408, "408", False),
    "nothing was sent": ("temporary", None, "not_sent", False),
    "too fast": ("throttled", 429, "429", False),
    "too fast, as a 503": ("throttled", 503, "11232", False),
    "refused": ("refused", 400, "400", False),
    "told": ("delivered", 200, "0", False),
}


@pytest.mark.parametrize(("outcome", "status", "code", "expected"), CASES.values(), ids=CASES)
def test_whether_it_may_have_arrived(
    outcome: str | None, status: int | None, code: str | None, expected: bool
) -> None:
    assert Earlier(1, 1, outcome, status, code).may_be_told is expected
