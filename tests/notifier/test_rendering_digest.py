"""Digests: one message that names every alert in it, headed by the most severe, however many there are."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from channels.base import Message, Severity, mentions
from channels.registry import ADAPTERS
from notifier.rendering import AlertView, render_digest
from tests.notifier.dialects import READERS
from tests.notifier.messages import AT, FULL, PUBLIC, SHANGHAI, bare, bodies, incident, news, recovery

THREE = [
    news("jobRunning", alert_id="alr_1"),
    incident("jobGaveUp", alert_id="alr_2", job={"id": "job_2", "name": "other"}),
    incident("jobFT", alert_id="alr_3"),
]


def numbered(count: int) -> list:
    return [
        incident("jobFT", alert_id=f"alr_{n}", job={"id": f"job_{n}", "name": f"job-{n}"}, created_at=at)
        for n, at in enumerate(AT + timedelta(seconds=n) for n in range(count))
    ]


@pytest.mark.parametrize("kind", FULL)
@pytest.mark.parametrize("language", ["zh", "en"])
def test_it_names_every_alert_on_every_channel(kind: str, language: str) -> None:
    rendered = render_digest(THREE, "dlv_9", ADAPTERS[kind], language, SHANGHAI, PUBLIC)
    assert rendered.template_error is None
    words = {"zh": ("任务开始运行", "容错已放弃", "触发容错"), "en": ("is running", "gave up", "triggered")}[
        language
    ]
    for body in bodies(rendered):
        assert [word for word in words if word not in body] == []
        assert body.count("+08:00") == 3
        assert f"{PUBLIC}/jobs/job_2" in body


def test_it_is_headed_by_the_most_severe() -> None:
    message = render_digest(THREE, "dlv_9", ADAPTERS["dingtalk"], "zh", SHANGHAI, PUBLIC).message
    assert message.title == "🚨 容错已放弃，需人工处理 · other（共 3 条）"
    assert (message.severity, message.id, message.link) == (
        Severity.CRITICAL,
        "dlv_9",
        f"{PUBLIC}/jobs/job_2",
    )
    assert mentions(message)
    assert [one["item"] for one in message.document["alerts"]] == ["jobRunning", "jobGaveUp", "jobFT"]
    assert (message.document["item"], message.document["delivery_id"]) == ("jobGaveUp", "dlv_9")


def test_it_reads_well() -> None:
    views = [incident("jobFT", labels={}), recovery(labels={})]
    message = render_digest(views, "dlv_9", ADAPTERS["wecom"], "zh", SHANGHAI, None).message
    assert message.text == (
        "**训练已恢复，停训 1 分 37 秒，重算 41 步**\n"
        "**此前故障**：rank 11（node-2）的 GPU 出现硬件故障（Xid 79：GPU 掉卡）\n"
        "**定位**：rank 11 · Pod worker-1 · 节点 node-2\n"
        "\n"
        "告警经过，按时间先后：\n"
        "\n"
        "2026-09-04 14:14:15 +08:00 **🟠 触发容错 · llm-70b-pretrain**\n"
        "rank 11（node-2）的 GPU 出现硬件故障（Xid 79：GPU 掉卡）"
        " · 重启任务 · 隔离节点 node-2 · 第 2 次重启 · 剩余 8 次\n"
        "\n"
        "2026-09-04 14:16:15 +08:00 **🟢 训练已恢复 · llm-70b-pretrain**\n"
        "训练已恢复，停训 1 分 37 秒，重算 41 步 · rank 11 · Pod worker-1 · 节点 node-2"
    )


def test_what_is_over_by_now_is_told_as_such_and_wakes_nobody() -> None:
    hang = incident("jobHang")
    over = render_digest([hang, recovery()], "dlv_9", ADAPTERS["wecom"], "zh", SHANGHAI, None).message
    assert (over.status, over.document["status"]) == ("resolved", "resolved")
    assert over.title == "🟢 训练已恢复 · llm-70b-pretrain"
    assert not mentions(over)
    another = incident("jobHang", alert_id="alr_2")
    goes_on = render_digest(
        [hang, another, recovery()], "dlv_9", ADAPTERS["wecom"], "zh", SHANGHAI, None
    ).message
    assert goes_on.status == "firing"


def seen(*views: AlertView, kind: str = "webhook") -> Message:
    return render_digest(views, "dlv_9", ADAPTERS[kind], "en", SHANGHAI, PUBLIC).message


def burning(name: str, **changes: Any) -> AlertView:
    title = f"link down on {name}"
    return bare(alert_id=f"alr_{name}", delivery_id=f"dlv_{name}", title=title, **changes)


def over(name: str, **changes: Any) -> AlertView:
    return replace(burning(name, status="resolved", resolved_at=AT, **changes), delivery_id=f"dlv_end_{name}")


def test_what_goes_on_heads_what_is_over() -> None:
    """Though the latter was as severe, and its end the latest."""
    message = seen(burning("a"), burning("b"), over("b"))
    assert (message.title, message.link) == ("🔴 link down on a (and 1 more)", f"{PUBLIC}/deliveries/dlv_a")
    document = message.document
    assert [document[name] for name in ("id", "status", "resolved_at")] == ["alr_a", "firing", None]
    told = ("🔴 link down on a", "🔴 link down on b", "🟢 Resolved: link down on b")
    assert [one["title"] for one in document["alerts"]] == list(told)
    assert "2 alerts, oldest first" in seen(burning("a"), burning("b"), over("b"), kind="wecom").text


def test_what_is_over_and_was_more_severe_wakes_nobody() -> None:
    message = seen(burning("b", severity="critical"), over("b", severity="critical"), news("jobFT"))
    assert (message.severity, message.status, mentions(message)) == ("warning", "firing", False)


def test_where_all_is_over_its_end_heads_it() -> None:
    message = seen(burning("a"), burning("b", severity="warning"), over("a"), over("b", severity="warning"))
    assert message.title == "🟢 Resolved: link down on a (and 1 more)"
    assert [message.document[name] for name in ("id", "status")] == ["alr_a", "resolved"]


def test_what_somebody_has_taken_on_is_told_so_and_does_not_head_it() -> None:
    message = seen(burning("a"), burning("b", acked_by="li"), kind="wecom")
    assert message.title == "🔴 link down on a (and 1 more)"
    assert "🔴 link down on b (taken on by li)" in message.text


def test_what_is_told_twice_in_the_same_words_is_one_alert() -> None:
    again = replace(burning("a"), delivery_id="dlv_again")
    message = seen(burning("a"), again, kind="wecom")
    assert message.title == "🔴 link down on a"
    assert message.text.count("link down on a") == 1
    ids = [one["delivery_id"] for one in seen(burning("a"), again).document["alerts"]]
    assert ids == ["dlv_a", "dlv_again"]


@pytest.mark.parametrize("kind", ["dingtalk", "wecom", "feishu"])
@pytest.mark.parametrize("count", [9, 40, 60])
def test_many_alerts_are_all_named_in_what_is_sent(kind: str, count: int) -> None:
    config = ADAPTERS[kind].Config.model_validate({"webhook_url": "https://robot.example/hook?key=x"})
    message = render_digest(numbered(count), "dlv_9", ADAPTERS[kind], "zh", SHANGHAI, PUBLIC).message
    sent = "".join(str(part.payload) for part in ADAPTERS[kind].parts(message, config))
    assert [n for n in range(count) if f"job-{n}**" not in sent] == []


def test_hundreds_of_the_same_kind_are_counted() -> None:
    views = [
        news("jobRunning", alert_id=f"alr_{n}", created_at=AT + timedelta(seconds=n)) for n in range(300)
    ]
    message = render_digest(
        [*views, incident("jobHang", alert_id="alr_h")], "dlv_9", ADAPTERS["wecom"], "en", SHANGHAI, None
    ).message
    assert "Job is running · llm-70b-pretrain ×300, until 2026-09-04 14:19:14 +08:00" in message.text
    assert message.title.endswith("(and 300 more)")
    assert len(message.text) < 2000


def test_rows_are_paragraphs_where_lines_would_flow_together() -> None:
    message = render_digest(THREE, "dlv_9", ADAPTERS["dingtalk"], "zh", SHANGHAI, PUBLIC).message
    shown = READERS["dingtalk"](message.text).shown.split("\n")
    assert sum(line.startswith("2026-09-04") for line in shown) == 3


def test_a_digest_of_nothing_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="empty"):
        render_digest([], "dlv_9", ADAPTERS["wecom"], "zh", SHANGHAI, None)
