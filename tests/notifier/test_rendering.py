"""Messages: each item says its facts in both languages on every channel; some as a reader gets them."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from channels.base import Severity
from channels.registry import ADAPTERS
from notifier.items import ITEMS
from notifier.rendering import render, trial_view
from notifier.wording import SIGNS, Speaker, speaker, words_of
from tests.notifier.dialects import READERS
from tests.notifier.messages import (
    AT,
    EVENT,
    FULL,
    JOB,
    LABELS,
    PUBLIC,
    SHANGHAI,
    bare,
    bodies,
    incident,
    news,
    recovery,
)  # fmt: skip

FAULTS = ("jobFT", "jobHang", "jobFailed", "jobGaveUp", "nodeFT", "custom")
QUIET = ("jobRunning", "jobSucceed", "agentLost", "nodeFT", "channelFailing")
CHINESE = speaker("zh", SHANGHAI, PUBLIC)


def shown(kind: str, text: str) -> str:
    return READERS[kind](text).shown if kind in READERS and kind != "email" else text


@pytest.mark.parametrize("language", ["zh", "en"])
@pytest.mark.parametrize("kind", FULL)
@pytest.mark.parametrize("item", FAULTS)
def test_a_fault_says_its_facts_on_every_channel(item: str, kind: str, language: str) -> None:
    rendered = render(incident(item, title="disk full"), ADAPTERS[kind], language, SHANGHAI, PUBLIC)
    assert rendered.template_error is None
    assert rendered.message.title.endswith(" · llm-70b-pretrain")
    expected = [
        EVENT["reason"][language], EVENT["advice"][language], EVENT["decision"]["why"][language], "worker-1",
        words_of(language)["causes"]["gpu_hardware"], words_of(language)["budget"].format(left=8),
        "default/research", "step 184220", "run 1", "2026-09-04 14:14:15 +08:00", "team = nlp", item, "evt_1",
        "Xid (PCI:0000:3b:00): 79", "rank 11 · node-2 · agent: torch.AcceleratorError",
    ]  # fmt: skip
    for body in bodies(rendered):
        assert [fact for fact in expected if fact not in shown(kind, body)] == []
        assert f"{PUBLIC}/jobs/job_1" in body


@pytest.mark.parametrize("language", ["zh", "en"])
@pytest.mark.parametrize("kind", FULL)
@pytest.mark.parametrize("item", QUIET)
def test_news_without_a_fault_say_their_facts(item: str, kind: str, language: str) -> None:
    rendered = render(news(item), ADAPTERS[kind], language, SHANGHAI, PUBLIC)
    assert rendered.template_error is None
    about = LABELS.get(item, {}).get("channel") or (LABELS.get(item, {}).get("node") or "")
    for body in bodies(rendered):
        words = shown(kind, body)
        for fact in ("2026-09-04 14:14:15 +08:00", "default/research", *LABELS.get(item, {}).values()):
            assert fact in words
        assert "None" not in words
    assert rendered.message.title.endswith(
        "llm-70b-pretrain" if item not in ("nodeFT", "channelFailing") else about
    )


@pytest.mark.parametrize("status", ["firing", "resolved"])
@pytest.mark.parametrize("language", ["zh", "en"])
@pytest.mark.parametrize("kind", FULL)
@pytest.mark.parametrize("item", ITEMS)
def test_what_is_not_known_leaves_no_gap(item: str, kind: str, language: str, status: str) -> None:
    rendered = render(bare(item, status=status), ADAPTERS[kind], language, "UTC", None)
    assert rendered.template_error is None
    for body in bodies(rendered):
        assert "2026-09-04 06:14:15 +00:00" in body
        for gap in ("None", "()", "（）", "\n\n\n", "  的", "：\n", " : ", "Undefined"):
            assert gap not in body
        assert not body.startswith("\n")


@pytest.mark.parametrize("kind", ["dingtalk", "wecom", "feishu"])
@pytest.mark.parametrize("language", ["zh", "en"])
def test_emphasis_and_the_link_are_read_as_meant(kind: str, language: str) -> None:
    """Chinese punctuation inside `**` would leave the asterisks to be seen."""
    message = render(incident(), ADAPTERS[kind], language, SHANGHAI, PUBLIC).message
    seen = READERS[kind](message.text)
    assert seen.links == (f"{PUBLIC}/jobs/job_1",)
    assert seen.bold == 11  # the headline, nine facts and the evidence's heading
    assert "**" not in seen.shown


def test_culprit_decision_and_link_stand_near_the_head() -> None:
    text = "长" * 5000
    event = {**EVENT, "reason": text, "advice": text, "decision": {**EVENT["decision"], "why": text}}
    message = render(incident(event=event), ADAPTERS["wecom"], "zh", SHANGHAI, PUBLIC).message
    assert message.text.index("worker-1") < 400
    assert message.text.index("重启任务") < 450
    assert message.text.index(PUBLIC) < 1100


def test_a_fault_in_chinese_as_read_in_plain_text() -> None:
    message = render(incident("jobFT", items=("nodeFT",)), ADAPTERS["email"], "zh", SHANGHAI, PUBLIC).message
    assert message.title == "🟠 触发容错 · llm-70b-pretrain"
    assert message.plain == (
        "rank 11（node-2）的 GPU 出现硬件故障（Xid 79：GPU 掉卡）\n"
        "定位：rank 11 · Pod worker-1 · 节点 node-2\n"
        "处理：重启任务 · 隔离节点 node-2 · 第 2 次重启 · 剩余 8 次\n"
        "原因：首次出现此故障；隔离节点 node-2\n"
        "建议：将该节点移出调度，检查或复位 GPU 后再恢复\n"
        "查看详情：https://fc.example/jobs/job_1\n"
        "类型：日志出现故障特征 · GPU 硬件故障（error_log/gpu_hardware）\n"
        "任务：llm-70b-pretrain（default/research） · run 1 · step 184220\n"
        "时间：2026-09-04 14:14:15 +08:00（故障后 2.9 秒）\n"
        "标签：team = nlp\n"
        "告警项：jobFT, nodeFT（警告） · evt_1\n"
        "\n"
        "证据\n"
        "  node-2 · node: NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.\n"
        "  rank 11 · node-2 · agent: torch.AcceleratorError: CUDA error"
    )


def test_a_fault_in_english_as_wecom_gets_it() -> None:
    message = render(incident(), ADAPTERS["wecom"], "en", "UTC", PUBLIC).message
    assert message.title == "🟠 Fault tolerance triggered · llm-70b-pretrain"
    assert message.text == (
        "**A GPU of rank 11 (node-2) failed (Xid 79: fallen off the bus)**\n"
        "**Culprit**: rank 11 · Pod worker-1 · node node-2\n"
        "**Decision**: restart the job · isolate node-2 · restart 2 · 8 left\n"
        "**Why**: the first fault of this kind; node node-2 is isolated\n"
        "**Advice**: Keep the node out of scheduling until its GPU has been checked or reset\n"
        "[Details](https://fc.example/jobs/job_1)\n"
        "**Type**: fault in a log · GPU hardware (error_log/gpu_hardware)\n"
        "**Job**: llm-70b-pretrain (default/research) · run 1 · step 184220\n"
        "**Time**: 2026-09-04 06:14:15 +00:00 (2.9 s after the fault)\n"
        "**Labels**: team = nlp\n"
        "**Items**: jobFT (warning) · evt_1\n"
        "\n"
        "**Evidence**\n"
        "> node-2 · node: NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.\n"
        "> rank 11 · node-2 · agent: torch.AcceleratorError: CUDA error"
    )


def test_the_recovery_says_what_the_fault_cost() -> None:
    message = render(recovery(), ADAPTERS["feishu"], "zh", SHANGHAI, None).message
    assert message.title == "🟢 训练已恢复 · llm-70b-pretrain"
    first, second, *rest = message.text.split("\n")
    assert first == "**训练已恢复，停训 1 分 37 秒，重算 41 步**"
    assert second == "**此前故障**：rank 11（node-2）的 GPU 出现硬件故障（Xid 79：GPU 掉卡）"
    assert "**时间**：2026-09-04 14:16:15 +08:00" in rest
    assert not [line for line in rest if "处理" in line or "建议" in line]


@pytest.mark.parametrize(
    ("item", "title"),
    [
        ("agentLost", "🟢 Agent is back · llm-70b-pretrain"),
        ("nodeFT", "🟢 Node is back · node-2"),
        ("channelFailing", "🟢 Alert channel works again · oncall"),
        ("jobHang", "🟢 Resolved: Training hangs · llm-70b-pretrain"),
    ],
)
def test_what_is_over_does_not_read_as_if_it_went_on(item: str, title: str) -> None:
    message = render(news(item, status="resolved"), ADAPTERS["wecom"], "en", "UTC", None).message
    assert message.title == title
    assert not [word for word in ("silent", "out of scheduling", "does not deliver") if word in message.text]


def test_an_alert_of_somebody_elses_is_told_in_its_own_words() -> None:
    told = bare(title="disk almost full", text="df says 97 %\n/dev/sda1 1.8T", labels={"host": "b-04"})
    message = render(told, ADAPTERS["wecom"], "en", "UTC", PUBLIC).message
    assert message.title == "🔴 disk almost full"
    assert "\n\ndf says 97 %\n/dev/sda1 1.8T\n\n" in message.text
    assert message.link == f"{PUBLIC}/deliveries/dlv_1"
    assert "**Labels**: host = b-04" in message.text
    over = replace(told, status="resolved")
    assert render(over, ADAPTERS["wecom"], "en", "UTC", None).message.title == "🟢 Resolved: disk almost full"


def test_a_detail_of_one_line_is_a_fact_among_others() -> None:
    message = render(
        news("agentLost", text="silent for 8 s"), ADAPTERS["wecom"], "zh", SHANGHAI, None
    ).message
    assert "**详情**：silent for 8 s" in message.text


def test_restarts_are_not_counted_twice() -> None:
    decision = {**EVENT["decision"], "why": "the first fault of this kind, 8 of 10 restarts left"}
    message = render(
        incident(event={**EVENT, "decision": decision}), ADAPTERS["wecom"], "en", "UTC", None
    ).message
    assert "**Decision**: restart the job · isolate node-2 · restart 2\n" in message.text


def test_restarts_without_limit_say_so() -> None:
    decision = {**EVENT["decision"], "budget_left": None}
    message = render(
        incident(event={**EVENT, "decision": decision}), ADAPTERS["wecom"], "en", "UTC", None
    ).message
    assert "restart 2 · no limit" in message.text


def test_the_document_is_the_webhook_body() -> None:
    document = render(incident(), ADAPTERS["webhook"], "en", "UTC", PUBLIC).message.document
    assert json.loads(json.dumps(document)) == document
    assert document["event"]["reason"] == EVENT["reason"]["en"]
    assert document["event"]["decision"]["why"] == EVENT["decision"]["why"]["en"]
    assert document["links"] == {"job": f"{PUBLIC}/jobs/job_1"}
    assert (document["id"], document["delivery_id"], document["time"]) == (
        "alr_1",
        "dlv_1",
        "2026-09-04T06:14:15.000Z",
    )
    assert (document["item"], document["severity"], document["status"]) == ("jobFT", "warning", "firing")
    assert (document["job"], document["labels"]) == (JOB, {"team": "nlp"})


def test_a_trial_message_is_told_as_any_other() -> None:
    message = render(trial_view("dlv_1", "oncall", "en", AT), ADAPTERS["wecom"], "en", "UTC", None).message
    assert message.title == "🔵 Faultcast test message"
    assert "Channel oncall works" in message.plain


def test_words_are_complete_in_both_languages() -> None:
    zh, en = words_of("zh"), words_of("en")
    assert set(zh) == set(en)
    assert set(zh["items"]) == set(en["items"]) == set(ITEMS)
    for name in zh:
        if isinstance(zh[name], dict):
            assert set(zh[name]) == set(en[name])
    assert set(SIGNS) == set(Severity)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0, "0 秒"), (2.94, "2.9 秒"), (9.96, "10 秒"), (59.7, "1 分 0 秒"),
        (97.4, "1 分 37 秒"), (3725, "1 小时 2 分"),
        (200_000, "2 天 7 小时"), (None, ""), (-1, ""), (float("nan"), ""), (float("inf"), ""),
    ],
)  # fmt: skip
def test_durations(seconds: float | None, said: str) -> None:
    assert CHINESE.duration(seconds) == said


@pytest.mark.parametrize(
    ("zone", "moment", "said"),
    [
        ("Asia/Kolkata", AT, "2026-09-04 11:44:15 +05:30"),
        ("America/St_Johns", AT, "2026-09-04 03:44:15 -02:30"),
        ("Europe/Berlin", AT + timedelta(days=90), "2026-12-03 07:14:15 +01:00"),
        ("No/Such", AT, "2026-09-04 06:14:15 +00:00"),
        ("Asia/Shanghai", datetime.max.replace(tzinfo=UTC), "9999-12-31 23:59:59 +00:00"),
    ],
)
def test_times_say_their_offset(zone: str, moment: datetime, said: str) -> None:
    assert speaker("en", zone, None).time(moment) == said


@pytest.mark.parametrize(
    ("public_url", "link"),
    [
        ("https://fc.example/base/", "https://fc.example/base/jobs/job_1"),
        ("http://[2001:db8::1]:8642", "http://[2001:db8::1]:8642/jobs/job_1"),
        ("javascript:alert(1)", None),
        ("https://", None),
        ("https://[bad", None),
        ("https://x.example/a) [y](z", "https://x.example/a%29%20[y]%28z/jobs/job_1"),
        ("", None),
        (None, None),
    ],
)
def test_links_are_http_and_carry_no_markup(public_url: str | None, link: str | None) -> None:
    assert Speaker("en", CHINESE.zone, public_url).link(incident()) == link


@pytest.mark.parametrize(
    ("sentence", "told"),
    [
        ({"zh": "显存不足。", "en": "out of memory."}, "显存不足"),
        ({"en": "only English."}, "only English"),
        ("one\n for  all", "one for all"),
        ("and so on...", "and so on..."),
        ({}, ""),
        (None, ""),
        (7, "7"),
    ],
)
def test_sentences_are_taken_in_the_readers_language(sentence: object, told: str) -> None:
    assert CHINESE.said(sentence) == told
