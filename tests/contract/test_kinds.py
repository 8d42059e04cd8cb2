"""Every kind of ours through the contract that is asked of other people's adapters too."""

from channels.contract import AdapterContract, HttpContract, KeywordContract, RobotContract
from tests.contract import subjects


class TestDingTalk(KeywordContract):
    subject = subjects.DINGTALK


class TestFeishu(KeywordContract):
    subject = subjects.FEISHU


class TestWeCom(RobotContract):
    subject = subjects.WECOM


class TestWebhook(HttpContract):
    subject = subjects.WEBHOOK


class TestEmail(AdapterContract):
    subject = subjects.EMAIL

    def called_by_data(self, called: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(who for who in called if who != "oncall@example.com")
