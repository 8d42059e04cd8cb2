"""Digests: one message that names every alert in it, headed by the most severe, however many there are."""

from datetime import timedelta

import pytest

from channels.base import Severity, mentions
from channels.registry import ADAPTERS
from notifier.rendering import render_digest
from tests.notifier.dialects import READERS
from tests.notifier.messages import AT, FULL, PUBLIC, SHANGHAI, bodies, incident, news, recovery

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
        "**rank 11（node-2）的 GPU 出现硬件故障（Xid 79：GPU 掉卡）**\n"
        "**定位**：rank 11 · Pod worker-1 · 节点 node-2\n"
        "**处理**：重启任务 · 隔离节点 node-2 · 第 2 次重启 · 剩余 8 次\n"
        "**原因**：首次出现此故障；隔离节点 node-2\n"
        "**建议**：将该节点移出调度，检查或复位 GPU 后再恢复\n"
        "\n"
        "共 2 条告警，按时间先后：\n"
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
    assert (over.status, over.severity) == ("resolved", Severity.ERROR)
    assert over.title == "🟢 已解除：训练卡住 · llm-70b-pretrain（共 2 条）"
    assert not mentions(over)
    another = incident("jobHang", alert_id="alr_2")
    goes_on = render_digest(
        [hang, another, recovery()], "dlv_9", ADAPTERS["wecom"], "zh", SHANGHAI, None
    ).message
    assert goes_on.status == "firing"


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
        [*views, incident("jobHang")], "dlv_9", ADAPTERS["wecom"], "en", SHANGHAI, None
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
