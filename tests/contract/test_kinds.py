"""Every kind of ours through the contract that is asked of other people's adapters too."""

from contextlib import suppress

import pytest
from pydantic import ValidationError

from channels.contract import (
    AdapterContract,
    HttpContract,
    KeywordContract,
    RobotContract,
    Subject,
    WordContract,
)
from channels.contract.every import LOCAL
from tests.contract import subjects, telecom


class TestDingTalk(KeywordContract):
    subject = subjects.DINGTALK


class TestFeishu(KeywordContract):
    subject = subjects.FEISHU


class TestWeCom(RobotContract):
    subject = subjects.WECOM


class TestWebhook(HttpContract):
    subject = subjects.WEBHOOK


class TestApprise(HttpContract):
    subject = subjects.APPRISE

    @pytest.mark.parametrize("host", LOCAL)
    def test_a_forbidden_address_is_refused_when_dialled(self, given, desk, host):
        with suppress(ValidationError):  # Apprise does not take every spelling for a host
            super().test_a_forbidden_address_is_refused_when_dialled(given, desk, host)


class TestEmail(AdapterContract):
    subject = subjects.EMAIL

    def called_by_data(self, called: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(who for who in called if who != "oncall@example.com")


class TestTelecom(WordContract):
    """Texts and calls: each provider through its SDK."""

    @pytest.fixture(params=telecom.SUBJECTS)
    def given(self, request: pytest.FixtureRequest) -> Subject:
        return telecom.SUBJECTS[request.param]

    def called_by_data(self, called: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(who for who in called if who != telecom.ALICE)
