"""Every row of every outcome table, as the provider answers it, and what it must mean."""

from datetime import timedelta

import pytest

from channels.base import Mend, Outcome
from channels.outcomes import dingtalk, feishu, look_up, mail, webhook, wecom
from channels.smtp import Reply, Stage
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

WEBHOOK = [
    (200, DELIVERED, None),
    (202, DELIVERED, None),
    (204, DELIVERED, None),
    (301, REFUSED, None),
    (308, REFUSED, None),
    (400, REFUSED, None),
    (401, REFUSED, None),
    (404, REFUSED, None),
    (408, TEMPORARY, None),
    (410, REFUSED, None),
    (413, REFUSED, SHORTEN),
    (422, REFUSED, None),
    (425, TEMPORARY, None),
    (429, THROTTLED, None),
    (500, TEMPORARY, None),
    (503, TEMPORARY, None),
]  # fmt: skip

RECIPIENT, SENDER, CONTENT = Stage.RECIPIENT, Stage.SENDER, Stage.CONTENT
MAIL = [
    (RECIPIENT, "250 2.1.5 OK", DELIVERED, None),
    (RECIPIENT, "251 user not local; will forward", DELIVERED, None),
    (RECIPIENT, "421 closing", TEMPORARY, None),
    (RECIPIENT, "450 4.2.1 mailbox busy", TEMPORARY, None),
    (RECIPIENT, "451 4.7.1 greylisted, come back later", TEMPORARY, None),
    (RECIPIENT, "452 4.2.2 mailbox full", TEMPORARY, None),
    (RECIPIENT, "550 4.2.1 slow down", TEMPORARY, None),
    (RECIPIENT, "552 too many recipients", TEMPORARY, None),
    (RECIPIENT, "550 5.1.1 no such user", REFUSED, None),
    (RECIPIENT, "550 no such user", REFUSED, None),
    (RECIPIENT, "551 user not local", REFUSED, None),
    (RECIPIENT, "552 5.2.2 mailbox full", REFUSED, None),
    (RECIPIENT, "552 5.2.3 too big for this mailbox", REFUSED, SHORTEN),
    (RECIPIENT, "553 5.1.3 bad address", REFUSED, None),
    (RECIPIENT, "554 5.7.1 relay access denied", REFUSED, None),
    (RECIPIENT, "550 2.1.5 says two things", REFUSED, None),
    (RECIPIENT, "530 5.7.0 authentication required", BROKEN, None),
    (RECIPIENT, "550 5.7.8 authentication credentials invalid", BROKEN, None),
    (SENDER, "451 4.3.0 try again", TEMPORARY, None),
    (SENDER, "454 TLS not available for now", TEMPORARY, None),
    (SENDER, "452 4.3.1 no space", TEMPORARY, None),
    (SENDER, "552 message size exceeds fixed maximum", REFUSED, SHORTEN),
    (SENDER, "552 5.3.4 too big", REFUSED, SHORTEN),
    (SENDER, "553 5.1.8 this sender may not send", BROKEN, None),
    (SENDER, "530 5.7.0 authentication required", BROKEN, None),
    (CONTENT, "250 2.0.0 queued", DELIVERED, None),
    (CONTENT, "451 4.3.0 try again", TEMPORARY, None),
    (CONTENT, "523 5.3.4 too big", REFUSED, SHORTEN),
    (CONTENT, "523 too big", REFUSED, SHORTEN),
    (CONTENT, "552 too big", REFUSED, SHORTEN),
    (CONTENT, "554 5.7.1 policy: looks like spam", REFUSED, None),
    (CONTENT, "554 transaction failed", REFUSED, None),
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


@pytest.mark.parametrize(("status", "outcome", "mend"), WEBHOOK)
def test_status_of_a_webhook(desks, status, outcome, mend):
    answer = desks("webhook").answered(Scripted(status))
    assert (answer.outcome, answer.mend, answer.http_status) == (outcome, mend, status)


@pytest.mark.parametrize(
    ("stage", "said", "outcome", "mend"), MAIL, ids=[f"{one[0]}-{one[1]}" for one in MAIL]
)
def test_reply_of_a_mail_server(desks, message, stage, said, outcome, mend):
    desk = desks("email")
    rules = desk.providers.mail
    if stage is RECIPIENT:
        rules.recipients["oncall@example.com"] = said
    elif stage is SENDER:
        rules.senders["faultcast@localhost"] = said
    else:
        rules.content.append(said)
    (answer,) = desk.send(message(), desk.channel())
    (recipient,) = answer.recipients
    assert (answer.outcome, recipient.outcome, answer.mend) == (outcome, outcome, mend)
    assert answer.code.split()[0] in said or outcome is DELIVERED


@pytest.mark.parametrize(
    ("login", "outcome"),
    [("ops:right", DELIVERED), ("ops:wrong", BROKEN), ("", BROKEN)],
    ids=["right", "wrong", "none"],
)
def test_login_at_a_mail_server(desks, message, login, outcome):
    desk = desks("email")
    desk.providers.mail.logins = {"ops": "right"}
    url = desk.providers.smtp_url.replace("://", f"://{login}@" if login else "://")
    (answer,) = desk.send(message(), desk.subject.leading_to(url))
    assert answer.outcome is outcome


@pytest.mark.parametrize(
    "table", [dingtalk, wecom, feishu, webhook], ids=lambda one: one.__name__.split(".")[-1]
)
def test_every_row_is_tried(table):
    tried = {
        dingtalk: [(code, said) for code, said, *_ in DINGTALK] + [(dingtalk.FLOOD, "")],
        wecom: [(code, said) for code, said, *_ in WECOM],
        feishu: [(code, said) for code, said, *_ in FEISHU],
        webhook: [(status, "") for status, *_ in WEBHOOK],
    }[table]
    whole = [(code, said) for code, said in tried if isinstance(code, int) and not isinstance(code, bool)]
    hit = {next((row for row in table.TABLE if row.fits(code, said.lower())), None) for code, said in whole}
    assert [row for row in table.TABLE if row not in hit] == []


def test_every_row_of_mail_is_tried():
    replies = [(stage, Reply(int(said[:3]), said[4:])) for stage, said, *_ in MAIL]
    hit = {next(row for row in mail.TABLE if row.fits(stage, reply)) for stage, reply in replies}
    assert [row for row in mail.TABLE if row not in hit] == []


@pytest.mark.parametrize("reply", [Reply(354, "go on"), Reply(0), Reply(999, "?"), Reply(150)], ids=str)
@pytest.mark.parametrize("stage", list(Stage))
def test_a_reply_that_no_mail_server_gives_is_no_success(stage, reply):
    assert mail.look_up(stage, reply).outcome is TEMPORARY


@pytest.mark.parametrize(
    "table", [dingtalk.TABLE, wecom.TABLE, feishu.TABLE], ids=["dingtalk", "wecom", "feishu"]
)
def test_no_code_but_nought_is_success(table):
    assert [row.code for row in table if row.verdict.outcome in (DELIVERED, Outcome.ACCEPTED)] == [0]
    assert look_up(table, 7_777_777, "") is None


@pytest.mark.parametrize(
    "more", [{}, {"errcode": 0}, {"errcode": 88}], ids=["alone", "errcode-0", "errcode-88"]
)
def test_dingtalk_flood_guard(desks, more):
    body = {"status": 1111, "wait": 5, "source": "x5", "punish": "deny", "uuid": "u", **more}
    answer = desks("dingtalk").answered(Scripted(200, body))
    assert (answer.outcome, answer.code) == (THROTTLED, "1111")


@pytest.mark.parametrize(
    ("wait", "seconds"),
    [(5, 60), (300, 300), ("120", 120), (None, 60), (-7, 60), ("soon", 60), (10**12, 86_400), (True, 60)],
)
def test_the_flood_guard_is_waited_for_as_long_as_it_says_and_a_minute_at_least(desks, wait, seconds):
    answer = desks("dingtalk").answered(Scripted(200, {"status": 1111, "wait": wait, "punish": "deny"}))
    assert answer.retry_after == timedelta(seconds=seconds)
    assert answer.repeated_after == timedelta(minutes=10)
