"""Messages: what they must say, that data never formats, links or calls, and that there always is one."""

import json
import re
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jinja2 import TemplateError

from channels.base import Adapter, Severity
from channels.registry import ADAPTERS
from notifier import rendering
from notifier.items import ITEMS
from notifier.rendering import AlertView, render, render_digest, trial_view
from notifier.wording import SIGNS, words_of

AT = datetime(2026, 9, 4, 6, 14, 15, tzinfo=UTC)
SHANGHAI = "Asia/Shanghai"
EVENT: dict[str, Any] = {
    "id": "evt_1",
    "time": "2026-09-04T06:14:13Z",
    "fault_class": "hang",
    "cause": "hang",
    "reason": {
        "zh": "rank 611 停在数据读取，其余 1023 个 rank 在等待",
        "en": "rank 611 stands in data loading",
    },
    "advice": {"zh": "检查 NFS 192.0.2.40", "en": "check NFS 192.0.2.40"},
    "culprit": {"rank": 611, "pod": "worker-76", "node": "b-04"},
    "decision": {
        "action": "restart_job",
        "isolate_nodes": ["b-04"],
        "restart_no": 2,
        "budget_left": 8,
        "why": {"zh": "只有一个 rank 异常", "en": "one rank is out of line"},
    },
    "evidence": [{"rank": 611, "node": "b-04", "source": "agent", "text": "read_shard (loader.py:212)"}],
    "downtime_s": 94.2,
    "steps_lost": 42,
}
JOB = {"id": "job_1", "name": "llm-70b-pretrain", "step": 184220}


def view(item: str = "jobHang", **changes: Any) -> AlertView:
    full = AlertView(
        "dlv_1", "alt_1", item, (), ITEMS[item].severity, "firing", "llm-70b-pretrain", "", AT,
        scope="default/research", job=JOB, event=EVENT, thread="alt_1",
    )  # fmt: skip
    return replace(full, **changes)


def bare(item: str) -> AlertView:
    return AlertView("dlv_1", "alt_1", item, (), "error", "firing", "", "", AT)


def bodies(rendered: rendering.Rendered) -> list[str]:
    message = rendered.message
    return [text for text in (message.text, message.plain, message.html) if text is not None]


@pytest.mark.parametrize("language", ["zh", "en"])
@pytest.mark.parametrize("kind", ADAPTERS)
@pytest.mark.parametrize("item", ITEMS)
def test_every_item_says_its_facts_on_every_channel(item: str, kind: str, language: str) -> None:
    is_resolve = item == "jobRecovered"
    told = view(item, title="disk full", status="resolved" if is_resolve else "firing")
    rendered = render(told, ADAPTERS[kind], language, SHANGHAI, "https://fc.example")
    assert rendered.template_error is None
    title = rendered.message.title
    assert title.endswith("disk full · llm-70b-pretrain" if item == "custom" else "· llm-70b-pretrain")
    assert "\n" not in title
    expected = [
        "2026-09-04 14:14:15 +08:00",
        "611",
        "b-04",
        "default/research",
        "https://fc.example/jobs/job_1",
    ]
    expected += ["42"] if is_resolve else [EVENT["decision"]["why"][language], "8", "192.0.2.40", "read"]
    for body in bodies(rendered):
        assert [fact for fact in expected if fact not in body] == []


@pytest.mark.parametrize("language", ["zh", "en"])
@pytest.mark.parametrize("kind", ADAPTERS)
@pytest.mark.parametrize("item", ITEMS)
def test_what_is_not_known_leaves_no_gap(item: str, kind: str, language: str) -> None:
    rendered = render(bare(item), ADAPTERS[kind], language, "UTC", None)
    assert rendered.template_error is None
    for body in bodies(rendered):
        assert "2026-09-04 06:14:15 +00:00" in body
        assert "None" not in body
        assert "\n\n\n" not in body


def test_words_are_complete_in_both_languages() -> None:
    zh, en = words_of("zh"), words_of("en")
    assert set(zh["items"]) == set(en["items"]) == set(ITEMS)
    for table in ("fault_classes", "causes", "actions"):
        assert set(zh[table]) == set(en[table])
    assert set(zh) == set(en)
    assert set(SIGNS) == set(Severity)


def test_a_chinese_message_reads_well() -> None:
    message = render(view(), ADAPTERS["wecom"], "zh", SHANGHAI, "https://fc.example").message
    assert message.title == "🔴 训练卡住 · llm-70b-pretrain"
    assert message.plain == (
        "rank 611 停在数据读取，其余 1023 个 rank 在等待\n"
        "定位：rank 611 · Pod worker-76 · 节点 b-04\n"
        "处理：重启任务 · 隔离节点 b-04 · 第 2 次重启 · 剩余 8 次。只有一个 rank 异常\n"
        "故障：训练卡住 · 停住不动\n"
        "建议：检查 NFS 192.0.2.40\n"
        "任务：llm-70b-pretrain（default/research） · step 184220\n"
        "时间：2026-09-04 14:14:15 +08:00（故障后 2.0 秒）\n"
        "查看详情：https://fc.example/jobs/job_1\n"
        "证据\n"
        "  rank 611 · b-04 · agent: read_shard (loader.py:212)"
    )


def test_the_recovery_says_what_the_fault_cost() -> None:
    message = render(view("jobRecovered", status="resolved"), ADAPTERS["feishu"], "en", "UTC", None).message
    assert message.title == "🟢 Training goes on · llm-70b-pretrain"
    assert "**Recovered**: stood still for 1 min 34 s · 42 steps repeated" in message.text


def test_a_resolved_alert_of_somebody_elses_says_so() -> None:
    told = replace(bare("custom"), title="disk full", status="resolved")
    assert render(told, ADAPTERS["wecom"], "en", "UTC", None).message.title == "🟢 Resolved: disk full"


def test_the_document_is_the_webhook_body() -> None:
    document = render(view(), ADAPTERS["webhook"], "en", "UTC", "https://fc.example").message.document
    assert document["event"]["reason"] == "rank 611 stands in data loading"
    assert document["event"]["decision"]["why"] == "one rank is out of line"
    assert document["links"] == {"job": "https://fc.example/jobs/job_1"}
    assert (document["id"], document["delivery_id"]) == ("alt_1", "dlv_1")


def test_a_digest_names_every_alert_and_is_headed_by_the_gravest() -> None:
    views = [view("jobRunning"), view("jobGaveUp", job={"id": "job_2", "name": "other"}), view("jobFT")]
    rendered = render_digest(views, "dlv_9", ADAPTERS["dingtalk"], "zh", SHANGHAI, None)
    assert rendered.template_error is None
    assert rendered.message.title == "🚨 容错放弃，需人工处理 · other（共 3 条）"
    assert rendered.message.severity is Severity.CRITICAL
    for words in ("任务开始训练", "容错放弃", "触发容错"):
        assert words in rendered.message.text
    assert [one["item"] for one in rendered.message.document["alerts"]] == [
        "jobRunning",
        "jobGaveUp",
        "jobFT",
    ]


def test_a_trial_message_is_told_as_any_other() -> None:
    message = render(trial_view("dlv_1", "oncall", "en", AT), ADAPTERS["wecom"], "en", "UTC", None).message
    assert message.title == "🔵 Faultcast test message"
    assert "Channel oncall works" in message.plain


HOSTILE = [
    "<at id=all></at>",
    '<at user_id="all"></at>',
    "<@all>",
    "@all @13800001111",
    "[sign in](https://evil.example)",
    "![x](https://evil.example/x.png)",
    "<script>alert(1)</script>",
    '<font color="warning">x</font>',
    "**bold** `code` ~~gone~~",
    "# heading\n> quote\n- list",
    "{{ 7*7 }} {% raw %}",
    "\x1b[31mred\x1b[0m \u202eevil\u202c \x00",
]
MENTION = re.compile(r"@(?!\u200b)[\w<]|<at |<@\w")
LINK = re.compile(r"\]\(https?://evil")


@pytest.mark.parametrize("kind", ["dingtalk", "wecom", "feishu"])
@pytest.mark.parametrize("words", HOSTILE)
def test_data_calls_nobody_and_links_nowhere_on_robots(words: str, kind: str) -> None:
    hostile_event = {**EVENT, "reason": words, "advice": words, "evidence": [{"text": words, "node": words}]}
    told = view(job={"id": "j", "name": words}, event=hostile_event, labels={words: words}, scope=words)
    for part in ADAPTERS[kind].parts(render(told, ADAPTERS[kind], "zh", "UTC", None).message, ROBOT[kind]):
        for text in strings(part.payload):
            assert MENTION.search(text) is None
            assert LINK.search(text) is None
            assert "\x1b" not in text
            assert "\u202e" not in text


@pytest.mark.parametrize("words", HOSTILE)
def test_data_brings_no_markup_into_a_mail(words: str) -> None:
    rendered = render(
        view(job={"id": "j", "name": words}, labels={"k": words}), ADAPTERS["email"], "en", "UTC", None
    )
    assert rendered.message.html is not None
    tags = set(re.findall(r"<\s*/?\s*([a-z!]\w*)", rendered.message.html))
    assert tags <= {"!doctype", "html", "body", "h2", "p", "b", "table", "tr", "td", "a", "pre"}


def strings(value: Any) -> list[str]:
    """All that the provider parses: what stands under `title` is plain text for DingTalk and Feishu."""
    if isinstance(value, dict):
        return [text for name, one in value.items() if name != "title" for text in strings(one)]
    if isinstance(value, list | tuple):
        return [text for one in value for text in strings(one)]
    return [value] if isinstance(value, str) else []


ROBOT = {
    kind: ADAPTERS[kind].Config.model_validate({"webhook_url": "https://robot.example/hook?access_token=x"})
    for kind in ("dingtalk", "wecom", "feishu")
}
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=40),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=12,
)
EVENTS = st.fixed_dictionaries(
    {}, optional=dict.fromkeys([*EVENT, "id"], ANYTHING)
) | st.none()  # fmt: skip


@pytest.mark.parametrize("kind", ADAPTERS)
@settings(max_examples=60, deadline=None)
@given(
    event=EVENTS,
    job=st.dictionaries(st.sampled_from(["id", "name", "step"]), ANYTHING) | st.none(),
    title=st.text(),
    labels=st.dictionaries(st.text(max_size=20), ANYTHING, max_size=5),
)
def test_any_data_gives_a_message(kind: str, event: Any, job: Any, title: str, labels: Any) -> None:
    told = replace(bare("custom"), title=title, text=title, event=event, job=job, labels=labels)
    rendered = render(told, ADAPTERS[kind], "zh", SHANGHAI, "https://fc.example")
    assert rendered.template_error is None
    for body in bodies(rendered):
        assert "2026-09-04 14:14:15 +08:00" in body
        body.encode("utf-8")


@pytest.mark.parametrize("kind", ADAPTERS)
def test_a_broken_template_gives_the_plain_facts_and_says_so(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> str:
        raise TemplateError("unexpected '}'")

    monkeypatch.setattr(rendering, "_fill", broken)
    rendered = render(view(), adapter := ADAPTERS[kind], "zh", SHANGHAI, "https://fc.example")
    assert rendered.template_error == "TemplateError: unexpected '}'"
    for fact in ("rank 611 · Pod worker-76 · 节点 b-04", "重启任务", "https://fc.example/jobs/job_1"):
        assert literal(adapter, fact) in rendered.message.text
    digest = render_digest([view(), view("jobFT")], "dlv_9", adapter, "zh", SHANGHAI, None)
    assert "触发容错" in digest.message.plain


def literal(adapter: Adapter, fact: str) -> str:
    return fact if fact.startswith("http") or adapter.format == "html" else adapter.escape(fact)


def test_a_template_that_gives_too_much_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rendering, "MAX_OUTPUT", 50)
    rendered = render(view(), ADAPTERS["wecom"], "zh", SHANGHAI, None)
    assert rendered.template_error is not None
    assert "more than 50 characters" in rendered.template_error
    assert len(rendered.message.plain) <= 50


def test_documents_are_json() -> None:
    document = render(view(), ADAPTERS["webhook"], "zh", "UTC", None).message.document
    assert json.loads(json.dumps(document)) == document
