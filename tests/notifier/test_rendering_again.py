"""What is told again says so, and what is serious can be taken on from where it is read."""

import json
from dataclasses import replace

import pytest

from channels.base import Message
from channels.dingtalk import DingTalkConfig
from channels.feishu import FeishuConfig
from channels.registry import ADAPTERS
from notifier.acklinks import token_of
from notifier.rendering import render, render_digest
from notifier.secretbox import SecretBox
from notifier.wording import MAX_TITLE, AlertView
from tests.notifier.messages import FULL, PUBLIC, SHANGHAI, SHORT, bare, bodies, incident, recovery

TOKEN = f"dlv_{'1' * 26}.{'a' * 26}"
ACK = f"{PUBLIC}/ack/{TOKEN}"
HOOK = "https://robot.example/hook?access_token=x"
AGAIN = {
    ("escalation", 0, "zh"): "5 分 0 秒内无人认领",
    ("escalation", 7, "en"): "nobody has taken it on for 5 min 0 s",
    ("remind", 0, "zh"): "已持续 5 分 0 秒，仍未恢复",
    ("remind", 3, "zh"): "其间重复 3 次",
    ("remind", 0, "en"): "still firing for 5 min 0 s",
    ("remind", 3, "en"): "still firing for 5 min 0 s, repeated 3 times",
}


def told(view: AlertView, kind: str, language: str = "en") -> Message:
    rendered = render(view, ADAPTERS[kind], language, SHANGHAI, PUBLIC)
    assert rendered.template_error is None
    return rendered.message


@pytest.mark.parametrize("kind", FULL)
@pytest.mark.parametrize(("how", "said"), AGAIN.items(), ids=[" ".join(map(str, how)) for how in AGAIN])
def test_why_it_is_told_again(kind: str, how: tuple[str, int, str], said: str) -> None:
    trigger, repeats, language = how
    view = incident("jobHang", trigger=trigger, open_s=300.0, repeats=repeats)
    rendered = render(view, ADAPTERS[kind], language, SHANGHAI, PUBLIC)
    assert all(said in body for body in bodies(rendered))
    prefix = {"escalation": ("无人认领：", "Nobody took it on: "), "remind": ("仍未恢复：", "Still firing: ")}
    assert prefix[trigger][language == "en"] in rendered.message.title


@pytest.mark.parametrize("kind", SHORT)
@pytest.mark.parametrize("language", ["zh", "en"])
def test_whoever_is_called_hears_that_nobody_answered(kind: str, language: str) -> None:
    view = incident("jobHang", trigger="escalation", open_s=300.0, job={"id": "job_1", "name": "llm"})
    if ADAPTERS[kind].format == "speech":
        text = told(view, kind, language).text
        assert {"zh": "5分0秒内无人认领", "en": "nobody has taken it on"}[language] in text.replace(
            " ", ""
        ) + text
    else:
        assert len(told(view, kind, language).text) <= {"zh": 70, "en": 160}[language]


@pytest.mark.parametrize(
    "view", [incident("jobHang"), recovery(trigger="remind", open_s=300.0)], ids=["first", "over"]
)
def test_what_is_told_for_the_first_time_or_is_over_says_nothing_of_it(view: AlertView) -> None:
    message = told(view, "wecom")
    assert "firing" not in message.title + message.text
    assert message.document["trigger"] == view.trigger


@pytest.mark.parametrize("kind", FULL)
@pytest.mark.parametrize("language", ["zh", "en"])
def test_the_link_stands_below_the_one_that_shows_more(kind: str, language: str) -> None:
    message = told(incident("jobHang", ack=TOKEN), kind, language)
    assert message.ack_link == ACK
    assert message.plain.index(f"{PUBLIC}/jobs/") < message.plain.index(ACK)
    assert {"zh": "我来处理", "en": "Take it on"}[language] in message.plain
    assert message.html is None or f'href="{ACK}"' in message.html


def test_a_card_has_a_button_for_each_of_them() -> None:
    view = incident("jobHang", ack=TOKEN, severity="error")
    (card,) = ADAPTERS["dingtalk"].parts(told(view, "dingtalk"), DingTalkConfig(webhook_url=HOOK))
    buttons = card.payload["actionCard"]["btns"]
    assert [one["actionURL"] for one in buttons] == [f"{PUBLIC}/jobs/job_1", ACK]
    assert ACK not in card.payload["actionCard"]["text"]
    (sheet,) = ADAPTERS["feishu"].parts(told(view, "feishu"), FeishuConfig(webhook_url=HOOK))
    (action,) = [one for one in sheet.payload["card"]["elements"] if one["tag"] == "action"]
    assert [one["url"] for one in action["actions"]] == [f"{PUBLIC}/jobs/job_1", ACK]


def test_programs_find_it_among_the_links() -> None:
    assert told(incident("jobHang", ack=TOKEN), "webhook").document["links"] == {
        "job": f"{PUBLIC}/jobs/job_1", "ack": ACK,
    }  # fmt: skip


def test_a_digest_has_one_only_where_it_tells_of_one_alert() -> None:
    one = incident("jobHang", ack=TOKEN)
    same = replace(one, trigger="remind", open_s=60.0)
    other = replace(one, alert_id="alr_2")
    for views, expected in (([one, same], ACK), ([one, other], None), ([one, recovery()], None)):
        message = render_digest(views, "dlv_9", ADAPTERS["webhook"], "en", SHANGHAI, PUBLIC).message
        assert message.ack_link == expected
        assert (ACK in message.text) == (expected is not None)
    document = render_digest(
        [one, other], "dlv_9", ADAPTERS["webhook"], "en", SHANGHAI, PUBLIC
    ).message.document
    assert json.dumps(document).count(ACK) == 2


@pytest.mark.parametrize("title", ["disk full", "d" * 200])
def test_what_is_taken_on_by_now_says_so_and_offers_it_to_nobody_else(title: str) -> None:
    taken = bare(title=title, acked_by="li", alert_id="alr_1")
    message = render(taken, ADAPTERS["wecom"], "zh", SHANGHAI, PUBLIC).message
    assert message.title.endswith("（li 已认领）")
    assert len(message.title) <= MAX_TITLE
    box = SecretBox("a-secret-key-of-tests")
    assert token_of(taken, "chn_1", box) is None
    assert token_of(replace(taken, acked_by=""), "chn_1", box) is not None
