"""What is asked of an adapter that posts to a URL: it reads HTTP as the rest of the house does."""

from datetime import timedelta

import pytest

from channels.base import Mend, Outcome
from channels.contract.desk import Desk
from channels.contract.every import AdapterContract
from channels.contract.subject import Subject
from channels.standin import Scripted
from channels.transport import Network


class HttpContract(AdapterContract):
    @pytest.mark.parametrize("status", [500, 502, 503, 504, 408, 425])
    def test_a_server_in_trouble_is_temporary(self, desk: Desk, status: int) -> None:
        answer = desk.answered(Scripted(status, "oops"))
        assert (answer.outcome, answer.http_status) == (Outcome.TEMPORARY, status)

    def test_success_in_the_body_of_a_500_is_no_success(self, given: Subject, desk: Desk) -> None:
        assert desk.answered(Scripted(500, given.success)).outcome is Outcome.TEMPORARY

    def test_429_waits_as_long_as_told(self, desk: Desk) -> None:
        answer = desk.answered(Scripted(429, "", {"Retry-After": "7"}))
        assert (answer.outcome, answer.retry_after) == (Outcome.THROTTLED, timedelta(seconds=7))

    def test_429_without_a_word_leaves_the_wait_open(self, desk: Desk) -> None:
        answer = desk.answered(Scripted(429, "", {"Retry-After": "soon"}))
        assert (answer.outcome, answer.retry_after) == (Outcome.THROTTLED, None)

    def test_retry_after_as_a_date(self, desk: Desk) -> None:
        date = (desk.now + timedelta(seconds=90)).strftime("%a, %d %b %Y %H:%M:%S GMT")
        wait = desk.answered(Scripted(503, "", {"Retry-After": date})).retry_after
        assert wait is not None
        assert timedelta(seconds=88) < wait <= timedelta(seconds=90)

    def test_busy_in_the_body_waits_as_long_as_told(self, desk: Desk) -> None:
        busy = {"errcode": -1, "code": 987654, "errmsg": "busy", "msg": "busy"}
        answer = desk.answered(Scripted(503, busy, {"Retry-After": "40"}))
        assert (answer.outcome, answer.retry_after) == (Outcome.TEMPORARY, timedelta(seconds=40))

    def test_an_absurd_retry_after_is_cut(self, desk: Desk) -> None:
        answer = desk.answered(Scripted(429, "", {"Retry-After": "9" * 40}))
        assert answer.retry_after == timedelta(hours=24)

    @pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
    def test_redirects_are_refused_and_not_followed(self, desk: Desk, status: int) -> None:
        elsewhere = desk.providers.robot("webhook", "elsewhere").url
        answer = desk.answered(Scripted(status, "", {"Location": elsewhere}))
        assert (answer.outcome, answer.mend) == (Outcome.REFUSED, None)
        assert not [one for one in desk.providers.messages("webhook") if one.robot == "elsewhere"]

    def test_too_large_for_the_server_asks_for_less(self, desk: Desk) -> None:
        answer = desk.answered(Scripted(413))
        assert (answer.outcome, answer.mend) == (Outcome.REFUSED, Mend.SHORTEN)

    def test_an_answer_that_never_comes_is_ambiguous(self, desk: Desk) -> None:
        answer = desk.answered(Scripted(close="before"))
        assert answer.outcome is Outcome.AMBIGUOUS
        assert desk.arrived(), "it did arrive"

    def test_an_answer_that_comes_too_late_is_ambiguous(self, desk: Desk) -> None:
        desk.network = Network(allow=desk.network.allow, timeout_s=0.2)
        assert desk.answered(Scripted(delay_s=0.6)).outcome is Outcome.AMBIGUOUS
