"""What each robot does in a way of its own: waits, limits, signatures, keywords, how people are called."""

from datetime import timedelta

import pytest

from channels.base import Mend, Outcome
from channels.standin import Scripted

DELIVERED, TEMPORARY, THROTTLED = Outcome.DELIVERED, Outcome.TEMPORARY, Outcome.THROTTLED
REFUSED, BROKEN = Outcome.REFUSED, Outcome.CHANNEL_BROKEN


@pytest.mark.parametrize("kind", ["dingtalk", "wecom"])
def test_too_fast_waits_a_minute_and_then_as_long_as_the_penalty(desks, kind):
    code = {"dingtalk": 130101, "wecom": 45009}[kind]
    answer = desks(kind).answered(Scripted(200, {"errcode": code, "errmsg": "too fast"}))
    assert answer.retry_after == timedelta(minutes=1)
    assert answer.repeated_after == {"dingtalk": timedelta(minutes=10), "wecom": timedelta(minutes=1)}[kind]


def test_feishu_waits_a_second_and_then_a_minute(desks):
    answer = desks("feishu").answered(Scripted(200, {"code": 11232, "msg": "frequency limited"}))
    assert (answer.retry_after, answer.repeated_after) == (timedelta(seconds=1), timedelta(minutes=1))


def test_feishu_rate_limit_also_comes_with_http_400(desks):
    body = {"code": 9499, "msg": "too many request", "data": {}}
    answer = desks("feishu").answered(Scripted(400, body))
    assert (answer.outcome, answer.http_status, answer.code) == (THROTTLED, 400, "9499")


@pytest.mark.parametrize("status", [400, 429])
def test_feishu_says_when_its_limit_is_reset(desks, status):
    reset = {"x-ogw-ratelimit-reset": "17"}
    answer = desks("feishu").answered(Scripted(status, {"code": 99991400, "msg": "limit"}, reset))
    assert (answer.outcome, answer.retry_after) == (THROTTLED, timedelta(seconds=17))


@pytest.mark.parametrize(
    ("body", "outcome"),
    [
        pytest.param({"StatusCode": 0, "StatusMessage": "success"}, DELIVERED, id="old-success"),
        pytest.param({"StatusCode": 0, "code": 0, "msg": "success"}, DELIVERED, id="both"),
        pytest.param({"StatusCode": 19001, "StatusMessage": "param invalid"}, REFUSED, id="old-refusal"),
        pytest.param({"StatusCode": 19001, "code": 0}, REFUSED, id="one-says-no"),
        pytest.param({"StatusCode": 0, "code": None}, TEMPORARY, id="one-says-nothing"),
        pytest.param({"StatusMessage": "success"}, TEMPORARY, id="words-only"),
    ],
)
def test_feishu_old_replies(desks, body, outcome):
    assert desks("feishu").answered(Scripted(200, body)).outcome is outcome


def burst(desk, message, count):
    """The outcomes of so many sends at once to one robot."""
    config = desk.channel()
    return [desk.send(message(), config)[0].outcome for _ in range(count)]


def test_dingtalk_shuts_a_robot_after_twenty(desks, message):
    assert burst(desks("dingtalk"), message, 22) == [DELIVERED] * 20 + [THROTTLED] * 2


def test_wecom_takes_twenty_a_minute(desks, message):
    assert burst(desks("wecom"), message, 21) == [DELIVERED] * 20 + [THROTTLED]


def test_feishu_takes_five_a_second(desks, message):
    assert burst(desks("feishu"), message, 6) == [DELIVERED] * 5 + [THROTTLED]


@pytest.mark.parametrize("kind", ["dingtalk", "feishu"])
def test_a_wrong_secret_asks_to_sign_again(desks, message, kind):
    desk = desks(kind)
    robot = desk.providers.robot(kind, secret="the right one")
    (answer,) = desk.send(message(), desk.subject.leading_to(robot.url))
    assert (answer.outcome, answer.mend) == (BROKEN, Mend.SIGN_AGAIN)


@pytest.mark.parametrize("kind", ["dingtalk", "feishu"])
def test_a_clock_an_hour_wrong_asks_to_sign_again(desks, message, kind):
    desk = desks(kind)
    config = desk.channel()
    desk.now += timedelta(minutes=61)
    (answer,) = desk.send(message(), config)
    assert (answer.outcome, answer.mend) == (BROKEN, Mend.SIGN_AGAIN)


@pytest.mark.parametrize("kind", ["dingtalk", "feishu"])
def test_the_same_part_is_signed_anew_for_each_send(desks, message, kind):
    desk = desks(kind)
    config = desk.channel()
    (part,) = desk.parts(message(), config)
    real = desk.now
    desk.now = real - timedelta(minutes=61)
    assert desk.send_part(part, config).outcome is BROKEN
    desk.now = real
    assert desk.send_part(part, config).outcome is DELIVERED


@pytest.mark.parametrize("kind", ["dingtalk", "feishu"])
def test_a_keyword_that_is_not_configured_is_refused_with_a_hint(desks, message, kind):
    desk = desks(kind)
    robot = desk.providers.robot(kind, secret=desk.subject.secret, keyword="训练告警")
    (answer,) = desk.send(message(), desk.subject.leading_to(robot.url))
    assert answer.outcome is REFUSED
    assert "keyword" in answer.message


def test_dingtalk_names_mobiles_in_the_text_too(desks, message):
    desk = desks("dingtalk")
    desk.send(message(), desk.channel(at_mobiles=["13900000000"]))
    (shown,) = desk.arrived()
    assert shown.body["at"]["atMobiles"] == ["13900000000"]
    assert "@13900000000" in shown.text


def test_wecom_calls_mobiles_by_a_second_message(desks, message):
    desk = desks("wecom")
    answers = desk.send(message(), desk.channel(mentioned_mobiles=["13900000000"]))
    assert [answer.outcome for answer in answers] == [DELIVERED] * 2
    markdown, text = desk.arrived()
    assert (markdown.called, text.called) == ((), ("13900000000",))


def test_wecom_calls_user_ids_inline(desks, message):
    desk = desks("wecom")
    desk.send(message(), desk.channel(mentioned_user_ids=["zhangsan"]))
    (shown,) = desk.arrived()
    assert "<@zhangsan>" in shown.text
