"""The stand-ins themselves: they play by the providers' rules, keep what arrived, and run as a command."""

import base64
import hashlib
import hmac
import html
import json
import os
import signal
import socket
import subprocess
import sys
import time
from urllib.parse import quote

import pytest

from channels.standin import Scripted, StandIn
from channels.transport import Unanswered

TEXT = {"msgtype": "text", "text": {"content": "hello"}}
CARD = {"msg_type": "interactive", "card": {"elements": [{"tag": "div", "text": {"content": "x"}}]}}


BUTTON = {"title": "open", "actionURL": "https://x"}
LINK = {"title": "t", "text": "x", "messageUrl": "https://x"}
FEED = {"title": "t", "messageURL": "https://x", "picURL": "https://x/y.png"}
NEW_CARD = {
    "msg_type": "interactive",
    "card": {"schema": "2.0", "body": {"elements": [{"tag": "markdown", "content": "x <at id=ou_1></at>"}]}},
}


@pytest.fixture
def post(network):
    return lambda url, body, **more: network.request("POST", url, json=body, **more)


def code(response):
    body = response.json_object()
    return body.get("errcode", body.get("code"))


def text(content):
    return {"msgtype": "text", "text": {"content": content}}


def markdown(**form):
    return {"msgtype": "markdown", "markdown": form}


def card(**form):
    return {"msgtype": "actionCard", "actionCard": {"title": "t", "text": "x", **form}}


def news(count):
    return {"msgtype": "news", "news": {"articles": [{"title": "训" * 50, "url": "https://x"}] * count}}


def image(content):
    digest = hashlib.md5(content, usedforsecurity=False).hexdigest()
    return {"msgtype": "image", "image": {"base64": base64.b64encode(content).decode(), "md5": digest}}


def post_form(lines):
    return {"msg_type": "post", "content": {"post": {"zh_cn": {"title": "t", "content": lines}}}}


@pytest.mark.parametrize(
    ("kind", "body", "expected"),
    [
        pytest.param("dingtalk", TEXT, 0, id="dingtalk-text"),
        pytest.param("dingtalk", markdown(title="t", text="x"), 0, id="dingtalk-markdown"),
        pytest.param("dingtalk", markdown(title="t"), 400403, id="dingtalk-no-text"),
        pytest.param("dingtalk", markdown(text="x"), 400402, id="dingtalk-no-title"),
        pytest.param("dingtalk", {"msgtype": "fax"}, 400105, id="dingtalk-unknown-type"),
        pytest.param("dingtalk", text("训" * 7000), 460101, id="dingtalk-too-long"),
        pytest.param("dingtalk", card(singleTitle="open", singleURL="https://x"), 0, id="dingtalk-button"),
        pytest.param("dingtalk", card(singleTitle="open"), 400403, id="dingtalk-button-without-url"),
        pytest.param("dingtalk", card(btns=[BUTTON, BUTTON]), 0, id="dingtalk-buttons"),
        pytest.param("dingtalk", card(btns=[{"title": "a"}]), 400403, id="dingtalk-buttons-without-url"),
        pytest.param("dingtalk", card(btns=[]), 400403, id="dingtalk-no-buttons"),
        pytest.param("dingtalk", card(text="训" * 7000, btns=[BUTTON]), 460101, id="dingtalk-card-too-long"),
        pytest.param("dingtalk", {"msgtype": "link", "link": LINK}, 0, id="dingtalk-link"),
        pytest.param(
            "dingtalk", {"msgtype": "link", "link": {"title": "t"}}, 400403, id="dingtalk-half-a-link"
        ),
        pytest.param(
            "dingtalk", {"msgtype": "feedCard", "feedCard": {"links": [FEED]}}, 0, id="dingtalk-feed"
        ),
        pytest.param(
            "dingtalk", {"msgtype": "feedCard", "feedCard": {"links": []}}, 400403, id="dingtalk-no-feed"
        ),
        pytest.param(
            "wecom", {"msgtype": "markdown_v2", "markdown_v2": {"content": "训" * 1366}}, 40058, id="wecom-v2"
        ),
        pytest.param("wecom", news(1), 0, id="wecom-news"),
        pytest.param("wecom", news(9), 40058, id="wecom-nine-articles"),
        pytest.param(
            "wecom", {"msgtype": "news", "news": {"articles": [{"title": "t"}]}}, 40058, id="wecom-no-url"
        ),
        pytest.param("wecom", image(b"png"), 0, id="wecom-image"),
        pytest.param("wecom", image(b"x" * (2 * 1024 * 1024 + 1)), 40009, id="wecom-image-too-large"),
        pytest.param("feishu", post_form([[{"tag": "text", "text": "x"}]]), 0, id="feishu-post"),
        pytest.param("feishu", post_form([{"tag": "text"}]), 19002, id="feishu-bad-post"),
        pytest.param("feishu", NEW_CARD, 0, id="feishu-card-2"),
        pytest.param(
            "feishu", {"msg_type": "interactive", "card": {"schema": "2.0"}}, 200621, id="feishu-bad-card-2"
        ),
        pytest.param("wecom", TEXT, 0, id="wecom-text"),
        pytest.param("wecom", text("训" * 683), 40058, id="wecom-text-too-long"),
        pytest.param("wecom", markdown(content="训" * 1365), 0, id="wecom-4095-bytes"),
        pytest.param("wecom", markdown(content="训" * 1366), 40058, id="wecom-4098-bytes"),
        pytest.param("wecom", {"msgtype": "fax"}, 40008, id="wecom-unknown-type"),
        pytest.param("wecom", text(" "), 44004, id="wecom-empty"),
        pytest.param("feishu", CARD, 0, id="feishu-card"),
        pytest.param("feishu", {"msg_type": "text", "content": {"text": "x"}}, 0, id="feishu-text"),
        pytest.param("feishu", {"msg_type": "interactive", "card": {}}, 11246, id="feishu-bad-card"),
        pytest.param("feishu", {"msg_type": "fax"}, 19002, id="feishu-unknown-type"),
        pytest.param(
            "feishu", {"msg_type": "text", "content": {"text": "训" * 7000}}, 9499, id="feishu-long"
        ),
    ],
)
def test_what_a_robot_answers(providers, post, kind, body, expected):
    assert code(post(providers.robot(kind).url, body)) == expected


def test_dingtalk_wants_a_signature_that_was_encoded_once(providers, post):
    robot = providers.robot("dingtalk", secret="SECx")
    stamp = str(time.time_ns() // 1_000_000)
    sign = base64.b64encode(hmac.new(b"SECx", f"{stamp}\nSECx".encode(), hashlib.sha256).digest()).decode()
    once, twice = quote(sign, safe=""), quote(quote(sign, safe=""), safe="")
    assert code(post(f"{robot.url}&timestamp={stamp}&sign={once}", TEXT)) == 0
    assert code(post(f"{robot.url}&timestamp={stamp}&sign={twice}", TEXT)) == 310000
    assert code(post(f"{robot.url}&timestamp={stamp[:-3]}&sign={once}", TEXT)) == 310000
    assert code(post(robot.url, TEXT)) == 310000


def test_dingtalk_without_a_token_and_by_get(providers, network, post):
    base = providers.url + "/robot/send"
    assert code(post(base, TEXT)) == 40035
    assert code(post(base + "?access_token=none", TEXT)) == 300005
    assert code(network.request("GET", providers.robot("dingtalk").url)) == 43002
    assert code(post(providers.robot("dingtalk").url, TEXT, headers={"Content-Type": "text/plain"})) == 43004


def test_dingtalk_markdown_notifies_only_whom_the_text_names(providers, post):
    for words in ("x", "x @13800001111"):
        body = {**markdown(title="t", text=words), "at": {"atMobiles": ["13800001111"]}}
        post(providers.robot("dingtalk").url, body)
    assert [one.called for one in providers.messages("dingtalk")] == [(), ("13800001111",)]


def test_wecom_markdown_notifies_neither_all_nor_mobiles(providers, post):
    content = {"content": "<@zhangsan> <@all>", "mentioned_mobile_list": ["13800001111"]}
    post(providers.robot("wecom").url, {"msgtype": "markdown", "markdown": content})
    assert providers.messages("wecom")[0].called == ("zhangsan",)


def test_feishu_a_hundred_a_minute(providers, post):
    robot = providers.robot("feishu")
    for past in range(100):
        assert robot.meter.over(1_000.0 + past * 0.25) is None
    assert robot.meter.over(1_030.0).count == 100


def test_scripted_answers_come_first_and_once(providers, post):
    url = providers.robot("webhook").url
    providers.script("webhook", Scripted(418, "teapot", {"X-A": "b"}))
    first, second = post(url, {}), post(url, {})
    assert (first.status, first.body, first.headers["x-a"]) == (418, b"teapot", "b")
    assert second.status == 200


def test_what_arrived_is_told_over_http(providers, network, post):
    post(providers.robot("wecom", "my-key").url, TEXT)
    post(providers.robot("feishu").url, {})
    shown = json.loads(network.request("GET", providers.url + "/_messages?kind=wecom&accepted=true").body)
    assert [(one["robot"], one["text"], one["code"]) for one in shown] == [("my-key", "hello", "0")]
    assert len(json.loads(network.request("GET", providers.url + "/_messages").body)) == 2
    assert b"hello" in network.request("GET", providers.url + "/").body
    network.request("DELETE", providers.url + "/_messages")
    assert json.loads(network.request("GET", providers.url + "/_messages").body) == []


def test_robots_and_scripts_can_be_made_over_http(providers, network, post):
    made = post(providers.url + "/_robots", {"kind": "dingtalk", "token": "t1", "keyword": "hello"})
    assert code(post(made.json_object()["url"], TEXT)) == 0
    post(providers.url + "/_script", {"kind": "dingtalk", "answers": [{"status": 500}]})
    assert post(made.json_object()["url"], TEXT).status == 500
    assert post(providers.url + "/_script", {"kind": "dingtalk", "answers": [{"surprise": 1}]}).status == 400


def test_waiting_says_how_many_there_are(providers):
    with pytest.raises(TimeoutError, match="0 of 1"):
        providers.wait(1, "dingtalk", timeout_s=0.05)


def test_the_ledger_is_written_before_the_answer(tmp_path, network):
    ledger = tmp_path / "ledger.jsonl"
    with StandIn(ledger=ledger) as providers:
        providers.script("webhook", Scripted(close="before"))
        url = providers.robot("webhook").url
        with pytest.raises(Unanswered):
            network.request("POST", url, json={"title": "one"})
        (row,) = map(json.loads, ledger.read_text().splitlines())
    assert (row["kind"], row["title"], row["is_accepted"]) == ("webhook", "one", True)


def test_as_a_command(tmp_path, network):
    command = [sys.executable, "-m", "channels.standin", "--ledger", str(tmp_path / "ledger.jsonl")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ) as process:
        known = json.loads(process.stdout.readline())
        robot = known["robots"]["wecom"]
        assert code(network.request("POST", robot["url"], json=TEXT)) == 0
        page = network.request("GET", known["url"] + "/").text
        assert "hello" in page
        assert all(html.escape(command) in page for command in known["commands"])
        host, port = known["smtp_url"].removeprefix("smtp://").partition("?")[0].split(":")
        with socket.create_connection((host, int(port)), 5) as sock:
            assert sock.recv(100).startswith(b"220")
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0
    assert "hello" in (tmp_path / "ledger.jsonl").read_text()


def test_a_port_that_is_taken(providers):
    port = providers.url.rpartition(":")[2]
    command = [sys.executable, "-m", "channels.standin", "--port", port]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 1
    assert "--port" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_organisation_may_use_up_its_quota(providers, post):
    robot = providers.robot("dingtalk", quota=2)
    assert [code(post(robot.url, TEXT)) for _ in range(4)] == [0, 0, 90030, 90030]


def test_a_card_in_form_2_and_a_post_call_people(providers, post):
    robot = providers.robot("feishu")
    at = {"tag": "at", "user_id": "all"}
    assert [code(post(robot.url, body)) for body in (NEW_CARD, post_form([[at]]))] == [0, 0]
    assert [one.called for one in providers.messages("feishu")] == [("ou_1",), ("all",)]


def test_news_are_cut_as_wecom_cuts_them(providers, post):
    assert code(post(providers.robot("wecom").url, news(1))) == 0
    (shown,) = providers.messages("wecom")
    assert shown.text.startswith("训" * 42 + "\n")
