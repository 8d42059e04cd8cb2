"""What is asked of group robots: a code in the body, sizes in bytes, people called by name."""

import json
from typing import Any

import pytest

from channels.base import Outcome, Severity
from channels.contract.desk import Desk, make_message
from channels.contract.every import HOSTILE
from channels.contract.http import HttpContract
from channels.contract.subject import Subject
from channels.standin import Scripted

ENDLESS = "日志日志日志日志日志\n" * 20_000
MARKUP = ("<@", "<at", "@all", "@138", "](", "<font", "<script", "\x1b", "\x00", "\u202e")


class RobotContract(HttpContract):
    """For a subject with `limit`, `size`, `mentioned`, `called`."""

    def test_an_unknown_code_is_temporary(self, desk: Desk) -> None:
        answer = desk.answered(Scripted(200, {"errcode": 987654, "code": 987654, "errmsg": "?", "msg": "?"}))
        assert (answer.outcome, answer.code) == (Outcome.TEMPORARY, "987654")

    @pytest.mark.parametrize(
        "body",
        [
            pytest.param("", id="empty"),
            pytest.param("<html>gateway</html>", id="html"),
            pytest.param("[0]", id="array"),
            pytest.param("{}", id="no-code"),
            pytest.param('{"errcode":null,"code":null}', id="null"),
            pytest.param('{"errcode":false,"code":false}', id="false"),
            pytest.param('{"errcode":0.0,"code":0.0}', id="float"),
            pytest.param('{"errcode":"","code":""}', id="empty-text"),
            pytest.param('{"errcode":"ok","code":"ok"}', id="words"),
            pytest.param('{"errcode":[0],"code":[0]}', id="list"),
            pytest.param("\x00\x01", id="binary"),
            pytest.param("[" * 50_000, id="deep"),
            pytest.param('{"errcode":0,"code":0,"x":"' + "a" * 100_000 + '"}', id="over-64-KiB"),
        ],
    )
    def test_an_unreadable_200_is_never_success(self, desk: Desk, body: str) -> None:
        assert desk.answered(Scripted(200, body)).outcome is Outcome.TEMPORARY

    @pytest.mark.parametrize("status", [401, 403, 404])
    def test_a_robot_that_is_not_there_breaks_the_channel(self, desk: Desk, status: int) -> None:
        assert desk.answered(Scripted(status)).outcome is Outcome.CHANNEL_BROKEN

    def test_half_an_answer_is_ambiguous(self, given: Subject, desk: Desk) -> None:
        assert desk.answered(Scripted(200, given.success, close="middle")).outcome is Outcome.AMBIGUOUS

    def test_an_unknown_token_breaks_the_channel(self, given: Subject, desk: Desk) -> None:
        known = desk.providers.robot(given.played, "known").url
        (answer,) = desk.send(make_message(), given.leading_to(known.replace("known", "unknown")))
        assert answer.outcome is Outcome.CHANNEL_BROKEN

    def test_long_text_goes_out_in_numbered_parts_within_the_limit(self, given: Subject, desk: Desk) -> None:
        text = "\n".join(f"第 {n} 行：节点 node-{n:03d} 的显卡掉线，训练已经停止" for n in range(100))
        answers = desk.send(make_message(text=text * (1 if _limit(given) < 10_000 else 4)), desk.channel())
        assert {answer.outcome for answer in answers} == {Outcome.DELIVERED}
        assert 2 <= len(answers) <= 3
        shown = [one.title + one.text for one in desk.arrived()]
        assert all(f"({n}/{len(answers)})" in words for n, words in enumerate(shown, 1))
        assert len(shown) == len(answers)

    def test_what_does_not_fit_three_parts_is_cut_short_visibly(self, desk: Desk) -> None:
        text = "罪魁：rank 3\n决定：重启\n" + ENDLESS
        answers = desk.send(make_message(text=text), desk.channel())
        assert [answer.outcome for answer in answers] == [Outcome.DELIVERED] * 3
        shown = desk.arrived()
        assert "罪魁：rank 3" in shown[0].text
        assert "已截断" in shown[2].text
        assert "https://faultcast.example.com/a/1" in json.dumps(shown[2].body)
        assert all("llm-训练 failed" in one.title + one.text for one in shown)

    def test_parts_use_the_room_there_is(self, given: Subject, desk: Desk) -> None:
        sizes = [given.size(part.payload) for part in desk.parts(make_message(text=ENDLESS), desk.channel())]
        assert all(_limit(given) - 300 < size <= _limit(given) for size in sizes)

    @pytest.mark.parametrize("plain", [False, True], ids=["marked-up", "plain"])
    @pytest.mark.parametrize("severity", [Severity.ERROR, Severity.CRITICAL])
    def test_serious_alerts_really_notify(
        self, given: Subject, desk: Desk, severity: Severity, plain: bool
    ) -> None:
        desk.send(make_message(severity=severity, is_plain=plain), desk.channel(**given.mentioned))
        assert {who for one in desk.arrived() for who in one.called} == given.called

    def test_nobody_is_called_twice_by_a_message_in_parts(self, given: Subject, desk: Desk) -> None:
        assert len(desk.send(make_message(text=ENDLESS), desk.channel(**given.mentioned))) <= 3
        called = [who for one in desk.arrived() for who in one.called]
        assert len(called) == len(set(called)) > 0

    @pytest.mark.parametrize(
        "changes",
        [
            pytest.param({"severity": Severity.INFO}, id="info"),
            pytest.param({"severity": Severity.WARNING}, id="warning"),
            pytest.param({"severity": Severity.CRITICAL, "status": "resolved"}, id="resolved"),
        ],
    )
    def test_lesser_alerts_and_resolves_call_nobody(
        self, given: Subject, desk: Desk, changes: dict[str, Any]
    ) -> None:
        desk.send(make_message(**changes), desk.channel(**given.mentioned))
        assert [one.called for one in desk.arrived()] == [()]

    @pytest.mark.parametrize("data", HOSTILE, ids=range(len(HOSTILE)))
    def test_escaped_data_holds_no_markup_of_its_own(self, given: Subject, data: str) -> None:
        escaped = given.adapter.escape(data)
        assert not [sequence for sequence in MARKUP if sequence in escaped]


class KeywordContract(RobotContract):
    """For robots that may ask for a keyword, as the config's `keyword`."""

    def test_the_keyword_is_in_every_part(self, desk: Desk) -> None:
        config = desk.channel(keyword="告警")
        answers = desk.send(make_message(text=ENDLESS), config)
        assert [answer.outcome for answer in answers] == [Outcome.DELIVERED] * 3
        answers = desk.send(make_message(status="resolved", is_plain=True), config)
        assert [answer.outcome for answer in answers] == [Outcome.DELIVERED]


def _limit(subject: Subject) -> int:
    assert subject.limit is not None, "a robot's subject has a limit"
    return subject.limit
