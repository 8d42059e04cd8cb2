"""The contract: the same cases for every adapter, over real connections to the stand-ins."""

import base64
import socket
from datetime import timedelta
from urllib.parse import quote

import pytest

from channels.base import Mend, Outcome, Severity
from channels.standin import Scripted
from channels.transport import Network

CANARY = "CANARYq7Zk/x+9secretTOKEN"


def test_delivers_and_the_provider_shows_it(desk, subject, message):
    answers = desk.send(subject, message(), desk.channel(subject))
    assert [answer.outcome for answer in answers] == [Outcome.DELIVERED] * len(answers)
    (shown,) = desk.arrived(subject)
    assert "rank 3 on node-b" in shown.text + str(shown.body)


def test_tells_what_was_sent_and_answered(desk, subject, message):
    (answer,) = desk.send(subject, message(), desk.channel(subject))
    assert "rank 3 on node-b" in answer.request
    assert answer.response


def test_makes_the_same_parts_of_the_same_message(desk, subject, message):
    config = desk.channel(subject)
    parts = [subject.adapter.parts(message(text="行\n" * 9000), config) for _ in range(2)]
    assert parts[0] == parts[1]


def test_an_unknown_code_is_temporary(desk, robot_subject):
    body = {"errcode": 987654, "code": 987654, "errmsg": "?", "msg": "?"}
    answer = desk.answered(robot_subject, Scripted(200, body))
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
def test_an_unreadable_200_is_never_success(desk, robot_subject, body):
    assert desk.answered(robot_subject, Scripted(200, body)).outcome is Outcome.TEMPORARY


@pytest.mark.parametrize("status", [500, 502, 503, 504, 408, 425])
def test_a_server_in_trouble_is_temporary(desk, http_subject, status):
    answer = desk.answered(http_subject, Scripted(status, "oops"))
    assert (answer.outcome, answer.http_status) == (Outcome.TEMPORARY, status)


def test_success_in_the_body_of_a_500_is_no_success(desk, robot_subject):
    answer = desk.answered(robot_subject, Scripted(500, robot_subject.success))
    assert answer.outcome is Outcome.TEMPORARY


def test_429_waits_as_long_as_told(desk, http_subject):
    answer = desk.answered(http_subject, Scripted(429, "", {"Retry-After": "7"}))
    assert (answer.outcome, answer.retry_after) == (Outcome.THROTTLED, timedelta(seconds=7))


def test_429_without_a_word_leaves_the_wait_open(desk, http_subject):
    answer = desk.answered(http_subject, Scripted(429, "", {"Retry-After": "soon"}))
    assert (answer.outcome, answer.retry_after) == (Outcome.THROTTLED, None)


def test_retry_after_as_a_date(desk, http_subject):
    date = (desk.now + timedelta(seconds=90)).strftime("%a, %d %b %Y %H:%M:%S GMT")
    answer = desk.answered(http_subject, Scripted(503, "", {"Retry-After": date}))
    assert timedelta(seconds=88) < answer.retry_after <= timedelta(seconds=90)


def test_an_absurd_retry_after_is_cut(desk, http_subject):
    answer = desk.answered(http_subject, Scripted(429, "", {"Retry-After": "9" * 40}))
    assert answer.retry_after == timedelta(hours=24)


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_robot_that_is_not_there_breaks_the_channel(desk, robot_subject, status):
    assert desk.answered(robot_subject, Scripted(status)).outcome is Outcome.CHANNEL_BROKEN


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirects_are_refused_and_not_followed(desk, http_subject, status):
    elsewhere = desk.providers.robot("webhook", "elsewhere").url
    answer = desk.answered(http_subject, Scripted(status, "", {"Location": elsewhere}))
    assert (answer.outcome, answer.mend) == (Outcome.REFUSED, None)
    assert not [one for one in desk.providers.messages("webhook") if one.robot == "elsewhere"]


def test_too_large_for_the_server_asks_for_less(desk, http_subject):
    answer = desk.answered(http_subject, Scripted(413))
    assert (answer.outcome, answer.mend) == (Outcome.REFUSED, Mend.SHORTEN)


def test_an_answer_that_never_comes_is_ambiguous(desk, http_subject):
    answer = desk.answered(http_subject, Scripted(close="before"))
    assert answer.outcome is Outcome.AMBIGUOUS
    assert desk.arrived(http_subject), "it did arrive"


def test_an_answer_that_comes_too_late_is_ambiguous(desk, http_subject):
    desk.network = Network(allow=desk.network.allow, timeout_s=0.2)
    assert desk.answered(http_subject, Scripted(delay_s=0.6)).outcome is Outcome.AMBIGUOUS


def test_half_an_answer_is_ambiguous(desk, robot_subject):
    answer = desk.answered(robot_subject, Scripted(200, robot_subject.success, close="middle"))
    assert answer.outcome is Outcome.AMBIGUOUS


def test_connection_refused_is_temporary(desk, subject, message):
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
    scheme = "http" if subject.is_http else "smtp"
    (answer,) = desk.send(subject, message(), subject.config(f"{scheme}://127.0.0.1:{port}"))
    assert (answer.outcome, answer.message) == (Outcome.TEMPORARY, "connection refused")


def test_a_name_that_does_not_resolve_is_temporary(desk, subject, message):
    scheme = "http" if subject.is_http else "smtp"
    (answer,) = desk.send(subject, message(), subject.config(f"{scheme}://nowhere.invalid:9"))
    assert answer.outcome is Outcome.TEMPORARY


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "localhost", "2130706433", "0x7f.1", "0177.0.0.1", "[::ffff:127.0.0.1]", "[::1]", "0"],
)
def test_a_forbidden_address_is_refused_when_dialled(desk, subject, message, host):
    port = desk.providers.url.rpartition(":")[2]
    scheme = "http" if subject.is_http else "smtp"
    desk.network = Network(timeout_s=1.0, smtp_timeout_s=1.0)
    (answer,) = desk.send(subject, message(), subject.config(f"{scheme}://{host}:{port}"))
    assert answer.outcome is Outcome.REFUSED
    assert not desk.providers.messages()


def test_long_text_goes_out_in_numbered_parts_within_the_limit(desk, robot_subject, message):
    text = "\n".join(f"第 {n} 行：节点 node-{n:03d} 的显卡掉线，训练已经停止" for n in range(100))
    text = text * (1 if robot_subject.limit < 10_000 else 4)
    answers = desk.send(robot_subject, message(text=text), desk.channel(robot_subject))
    assert {answer.outcome for answer in answers} == {Outcome.DELIVERED}
    assert 2 <= len(answers) <= 3
    shown = desk.arrived(robot_subject)
    assert [f"({n}/{len(answers)})" in one.title + one.text for n, one in enumerate(shown, 1)] == [
        True
    ] * len(answers)


def test_what_does_not_fit_three_parts_is_cut_short_visibly(desk, robot_subject, message):
    text = "罪魁：rank 3\n决定：重启\n" + "日志日志日志日志日志\n" * 20_000
    answers = desk.send(robot_subject, message(text=text), desk.channel(robot_subject))
    assert [answer.outcome for answer in answers] == [Outcome.DELIVERED] * 3
    shown = desk.arrived(robot_subject)
    assert "罪魁：rank 3" in shown[0].text
    assert "已截断" in shown[2].text
    assert "https://faultcast.example.com/a/1" in shown[2].text
    assert all("llm-训练 failed" in one.title + one.text for one in shown)


def test_parts_use_the_room_there_is(desk, robot_subject, message):
    text = "日志日志日志日志日志\n" * 20_000
    parts = robot_subject.adapter.parts(message(text=text), desk.channel(robot_subject))
    sizes = [robot_subject.size(part.payload) for part in parts]
    assert all(robot_subject.limit - 300 < size <= robot_subject.limit for size in sizes)


def test_as_plain_text_it_goes_through_as_well(desk, subject, message):
    text = "culprit: rank 3\n" + "行" * 9000
    answers = desk.send(subject, message(text=text, is_plain=True), desk.channel(subject))
    assert {answer.outcome for answer in answers} == {Outcome.DELIVERED}


def test_the_keyword_is_in_every_part(desk, keyword_subject, message):
    text = "日志日志日志日志日志\n" * 20_000
    config = desk.channel(keyword_subject, keyword="告警")
    answers = desk.send(keyword_subject, message(text=text), config)
    assert [answer.outcome for answer in answers] == [Outcome.DELIVERED] * 3
    answers = desk.send(keyword_subject, message(status="resolved", is_plain=True), config)
    assert [answer.outcome for answer in answers] == [Outcome.DELIVERED]


@pytest.mark.parametrize("plain", [False, True], ids=["marked-up", "plain"])
@pytest.mark.parametrize("severity", [Severity.ERROR, Severity.CRITICAL])
def test_serious_alerts_really_notify(desk, robot_subject, message, mentioned, severity, plain):
    config = desk.channel(robot_subject, **mentioned[robot_subject.kind])
    desk.send(robot_subject, message(severity=severity, is_plain=plain), config)
    called = {who for one in desk.arrived(robot_subject) for who in one.called}
    assert (
        called
        == {
            "dingtalk": {"13800001111", "manager1", "all"},
            "wecom": {"zhangsan", "@all", "13800001111"},
            "feishu": {"ou_abc", "all"},
        }[robot_subject.kind]
    )


def test_nobody_is_called_twice_by_a_message_in_parts(desk, robot_subject, message, mentioned):
    config = desk.channel(robot_subject, **mentioned[robot_subject.kind])
    answers = desk.send(robot_subject, message(text="日志日志日志日志日志\n" * 20_000), config)
    assert len(answers) <= 3
    called = [who for one in desk.arrived(robot_subject) for who in one.called]
    assert len(called) == len(set(called)) > 0


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"severity": Severity.INFO}, id="info"),
        pytest.param({"severity": Severity.WARNING}, id="warning"),
        pytest.param({"severity": Severity.CRITICAL, "status": "resolved"}, id="resolved"),
    ],
)
def test_lesser_alerts_and_resolves_call_nobody(desk, robot_subject, message, mentioned, changes):
    config = desk.channel(robot_subject, **mentioned[robot_subject.kind])
    desk.send(robot_subject, message(**changes), config)
    assert [one.called for one in desk.arrived(robot_subject)] == [()]


HOSTILE = [
    "<@all>", "<@zhangsan>", "@all", "@13800001111", "<at id=all></at>", '<at user_id="all">x</at>',
    "[click](http://evil.example)", "![](http://evil.example/x.png)", "`code` **bold** _it_ ~~gone~~",
    "<font color='red'>x</font><script>alert(1)</script>", "# heading\n> quote\n- list\n1. one",
    '{"errcode":0} "quoted" \\back\\slash \\D: C:\\temp\\new', "\x1b[31mred\x1b[0m\x00\x07\x9b",
    "\u202egnp.exe \u2066x\u2069", "&#60;at id=all&#62; &lt;at&gt;", "emoji 👩‍👩‍👧 🇨🇳 \ud800 lone",
    "%s %(x)s {0}",
]  # fmt: skip


@pytest.mark.parametrize("plain", [False, True], ids=["marked-up", "plain"])
@pytest.mark.parametrize("data", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_data_arrives_and_calls_nobody(desk, subject, message, mentioned, data, plain):
    more = mentioned.get(subject.kind, {})
    config = desk.channel(subject, **more)
    shown = message(
        title=f"job {data}", text=subject.adapter.escape(data) or "-", plain=data, is_plain=plain,
        severity=Severity.WARNING, html=None, document={"labels": {"path": data}},
    )  # fmt: skip
    answers = desk.send(subject, shown, config)
    assert [answer.outcome for answer in answers] == [Outcome.DELIVERED]
    (arrived,) = desk.arrived(subject)
    assert subject.kind == "email" or arrived.called == ()


@pytest.mark.parametrize("data", HOSTILE, ids=range(len(HOSTILE)))
def test_escaped_data_holds_no_markup_of_its_own(robot_subject, data):
    escaped = robot_subject.adapter.escape(data)
    for sequence in ("<@", "<at", "@all", "@138", "](", "<font", "<script", "\x1b", "\x00", "\u202e"):
        assert sequence not in escaped


def test_a_title_cannot_add_headers_or_lines(desk, subject, message):
    title = "loss NaN\r\nBcc: evil@example.com\n\nX-Injected: 1"
    answers = desk.send(subject, message(title=title), desk.channel(subject))
    assert answers[0].outcome is Outcome.DELIVERED
    (arrived,) = desk.arrived(subject)
    assert "\n" not in arrived.title
    assert "bcc" not in arrived.headers
    assert "evil@example.com" not in arrived.called


FAILURES: dict[str, tuple[Scripted, ...]] = {
    "closed port": (),
    "refused": (Scripted(200, {"errcode": 1, "code": 1, "errmsg": CANARY, "msg": CANARY}),),
    "echoed": (Scripted(500, f"no such hook: {CANARY} {quote(CANARY, safe='')}"),),
    "broken off": (Scripted(close="before"),),
}


@pytest.mark.parametrize("failure", FAILURES)
def test_no_secret_in_anything_that_is_kept(desk, http_subject, message, failure):
    token = quote(CANARY, safe="")
    base = "http://127.0.0.1:1" if failure == "closed port" else desk.providers.url
    url = desk.providers.robot(http_subject.kind, "x").url.replace(desk.providers.url, base)
    url = url[: url.rindex("x")] + token
    more = {"headers": {"Authorization": f"Bearer {CANARY}"}} if http_subject.kind == "webhook" else {}
    if http_subject.secret and http_subject.kind != "webhook":
        more["secret"] = CANARY
    config = http_subject.config(url, **more)
    desk.providers.script(http_subject.kind, *FAILURES[failure])
    answers = desk.send(http_subject, message(text=f"leak {CANARY} {_b64('x ' + CANARY)}"), config)
    kept = "".join(f"{answer!r}" for answer in answers) + repr(config) + str(config)
    for form in (CANARY, token, _b64(CANARY), _b64("x " + CANARY)[8:24], CANARY[8:]):
        assert form not in kept


def _b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
