"""Every code of PROVIDERS 1.1 to 1.3, as the robots answer it, and what it must mean."""

import pytest

from channels.base import Mend, Outcome
from channels.standin import Scripted

DELIVERED, TEMPORARY, THROTTLED = Outcome.DELIVERED, Outcome.TEMPORARY, Outcome.THROTTLED
REFUSED, BROKEN = Outcome.REFUSED, Outcome.CHANNEL_BROKEN
TEXT, SHORTEN, SIGN = Mend.PLAIN_TEXT, Mend.SHORTEN, Mend.SIGN_AGAIN

DINGTALK = [
    (0, "ok", DELIVERED, None),
    ("0", "ok", DELIVERED, None),
    (-1, "系统繁忙", TEMPORARY, None),
    (130101, "send too fast, exceed 20 times per minute", THROTTLED, None),
    (410100, "发送速度太快而限流", THROTTLED, None),
    (90030, "webhook over limit", BROKEN, None),
    (310000, "keywords not in content", REFUSED, None),
    (310000, "description:机器人发送关键词不匹配;solution:请修改", REFUSED, None),
    (310000, "sign not match", BROKEN, SIGN),
    (310000, "description:机器人发送签名不匹配;solution:请确认签名和生成签名的时间戳", BROKEN, SIGN),
    (310000, "invalid timestamp", BROKEN, SIGN),
    (310000, "ip 1.2.3.4 not in whitelist", BROKEN, None),
    (310000, "description:机器人发送IP不在白名单;solution:请确认", BROKEN, None),
    (310000, "", BROKEN, None),
    (300001, "token is not exist", BROKEN, None),
    (300001, "send too fast, exceed limit", THROTTLED, None),
    (300005, "token is not exist", BROKEN, None),
    (400101, "access_token不存在", BROKEN, None),
    (400013, "群已被解散", BROKEN, None),
    (400102, "机器人已停用", BROKEN, None),
    (400106, "机器人不存在", BROKEN, None),
    (40035, "缺少参数 access_token", BROKEN, None),
    (40035, "不合法的参数", REFUSED, TEXT),
    (400105, "不支持的消息类型", REFUSED, TEXT),
    (400402, "markdown title missing", REFUSED, TEXT),
    (400403, "miss param : markdown->text", REFUSED, TEXT),
    (43002, "需要POST请求", REFUSED, None),
    (43004, "无效的HTTP HEADER Content-Type", REFUSED, None),
    (460101, "message too long, exceed 20000 bytes", REFUSED, SHORTEN),
    (101002, "message is too long", REFUSED, SHORTEN),
    (123456, "news to us", TEMPORARY, None),
    ("123456", "news to us", TEMPORARY, None),
    (True, "ok", TEMPORARY, None),
    (None, "ok", TEMPORARY, None),
]  # fmt: skip

WECOM = [
    (0, "ok", DELIVERED, None),
    (0, "ok. Warning: wrong json format.", DELIVERED, None),
    (-1, "system busy", TEMPORARY, None),
    (6000, "busy", TEMPORARY, None),
    (45009, "api freq out of limit", THROTTLED, None),
    (45033, "concurrency", THROTTLED, None),
    (45035, "concurrency", THROTTLED, None),
    (93000, "invalid webhook url", BROKEN, None),
    (93000, "content exceed max length", REFUSED, SHORTEN),
    (40058, "markdown.content exceed max length 4096. invalid Request Parameter", REFUSED, SHORTEN),
    (40058, "invalid Request Parameter", REFUSED, TEXT),
    (40008, "invalid message type", REFUSED, TEXT),
    (40035, "invalid parameter", REFUSED, TEXT),
    (40009, "invalid image size", REFUSED, SHORTEN),
    (40006, "invalid media size", REFUSED, SHORTEN),
    (45002, "content size out of limit", REFUSED, SHORTEN),
    (44004, "empty content", REFUSED, None),
    (301019, "media id", REFUSED, None),
    (301002, "permission", REFUSED, None),
    (40014, "invalid access_token", REFUSED, None),
    (99999, "news to us", TEMPORARY, None),
    (False, "ok", TEMPORARY, None),
]  # fmt: skip

FEISHU = [
    (0, "success", DELIVERED, None),
    (11232, "frequency limited psm[lark.oapi.app_platform_runtime]appID[1500]", THROTTLED, None),
    (9499, "too many request", THROTTLED, None),
    (9499, "frequency limited", THROTTLED, None),
    (9499, "Bad Request", REFUSED, TEXT),
    (9499, "Bad Request: body too large", REFUSED, SHORTEN),
    (99991400, "request trigger frequency limit", THROTTLED, None),
    (19021, "sign match fail or timestamp is not within one hour from current time", BROKEN, SIGN),
    (19022, "Ip Not Allowed", BROKEN, None),
    (19024, "Key Words Not Found", REFUSED, None),
    (19001, "param invalid: incoming webhook access token invalid", BROKEN, None),
    (19001, "param invalid", REFUSED, TEXT),
    (19002, "params error, msg_type need", REFUSED, TEXT),
    (19036, "bad payload", REFUSED, TEXT),
    (11246, "parse card json err", REFUSED, TEXT),
    (200621, "parse card json err", REFUSED, TEXT),
    (424242, "news to us", TEMPORARY, None),
    (None, "success", TEMPORARY, None),
]  # fmt: skip

CASES = [
    *(
        (kind, "errcode", "errmsg", *row)
        for kind, rows in (("dingtalk", DINGTALK), ("wecom", WECOM))
        for row in rows
    ),
    *(("feishu", "code", "msg", *row) for row in FEISHU),
]


@pytest.mark.parametrize("case", CASES, ids=[f"{case[0]}-{case[3]}-{case[4][:24]}" for case in CASES])
def test_code(desks, case):
    kind, code_field, message_field, code, said, outcome, mend = case
    answer = desks(kind).answered(Scripted(200, {code_field: code, message_field: said}))
    assert (answer.outcome, answer.mend) == (outcome, mend)
    assert said in answer.message or not said


@pytest.mark.parametrize(
    "more", [{}, {"errcode": 0}, {"errcode": 88}], ids=["alone", "errcode-0", "errcode-88"]
)
def test_dingtalk_flood_guard(desks, more):
    body = {"status": 1111, "wait": 5, "source": "x5", "punish": "deny", "uuid": "u", **more}
    answer = desks("dingtalk").answered(Scripted(200, body))
    assert (answer.outcome, answer.code) == (THROTTLED, "1111")
