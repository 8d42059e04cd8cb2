"""Text messages and calls: the gist, as it is read and heard."""

import pytest

from channels.registry import ADAPTERS
from notifier.items import ITEMS
from notifier.rendering import OwnWords, render, render_digest
from tests.notifier.messages import PUBLIC, SHANGHAI, SHORT, bare, incident, news, recovery


def told(kind: str, language: str, view: object) -> str:
    rendered = render(view, ADAPTERS[kind], language, SHANGHAI, PUBLIC)  # type: ignore[arg-type]
    assert rendered.template_error is None
    assert rendered.message.link is None
    return rendered.message.text


@pytest.mark.parametrize(
    ("language", "view", "text"),
    [
        ("zh", incident("jobHang"), "错误：训练卡住 llm-70b-pretrain\nrank 11 node-2 重启任务"),
        (
            "en", incident("jobHang"),
            "error: Training hangs llm-70b-pretrain\nrank 11 node-2: restart the job",
        ),
        ("zh", recovery(), "训练已恢复 llm-70b-pretrain\n停训 1 分 37 秒 重算 41 步"),
        (
            "en", recovery(),
            "Training recovered llm-70b-pretrain\ndown for 1 min 37 s, 41 steps repeated",
        ),
        ("zh", news("channelFailing"), "错误：通知渠道异常\noncall"),
        ("en", news("nodeFT"), "warning: Node fault\nnode-2"),
        ("en", bare(title="disk full", text="df says 97 %"), "error: disk full\ndf says 97 %"),
    ],
)  # fmt: skip
def test_a_text_message_is_the_gist_in_two_lines(language: str, view: object, text: str) -> None:
    assert told("sms", language, view) == text


@pytest.mark.parametrize("status", ["firing", "resolved"])
@pytest.mark.parametrize(("language", "most"), [("zh", 70), ("en", 160)])
@pytest.mark.parametrize("item", ITEMS)
def test_it_is_one_text_message_however_long_the_names(
    item: str, language: str, most: int, status: str
) -> None:
    job = {"id": "job_1", "name": "j" * 100}
    text = told("sms", language, incident(item, job=job, title="t" * 200, status=status))
    assert 0 < len(text) <= most
    assert "None" not in text


def test_a_long_text_in_english_costs_no_more_for_its_dots() -> None:
    assert told("sms", "en", incident("jobHang", job={"name": "j" * 100})).isascii()


@pytest.mark.parametrize(
    ("language", "view", "text"),
    [
        (
            "zh", incident("jobHang"),
            "训练告警，级别，错误。 任务，llm 70b pretrain。训练卡住。 "
            "rank 11，node 2，的 GPU 出现硬件故障，Xid 79，GPU 掉卡。 位置，rank 11 node 2。 "
            "处理，重启任务，第2次，还剩8次。 重复一遍，任务，llm 70b pretrain，训练卡住。 "
            "建议，将该节点移出调度，检查或复位 GPU 后再恢复。",
        ),
        (
            "en", incident("jobHang"),
            "Training alert, severity error. Job llm 70b pretrain. Training hangs. "
            "A GPU of rank 11, node 2, failed, Xid 79, fallen off the bus. Located at rank 11 node 2. "
            "Decision, restart the job, restart 2, 8 left. I repeat. Job llm 70b pretrain. Training hangs. "
            "Advice, Keep the node out of scheduling until its GPU has been checked or reset.",
        ),
        (
            "en", recovery(),
            "Training news. Job llm 70b pretrain. Training recovered. "
            "Training makes steps again after 1 minutes 37 seconds, 41 steps are repeated. "
            "I repeat. Job llm 70b pretrain. Training recovered.",
        ),
    ],
)  # fmt: skip
def test_a_call_says_whole_sentences_and_the_key_fact_twice(language: str, view: object, text: str) -> None:
    assert told("phone", language, view) == text


@pytest.mark.parametrize("kind", SHORT)
@pytest.mark.parametrize("language", ["zh", "en"])
def test_a_digest_names_its_alerts(kind: str, language: str) -> None:
    names = ("alpha", "beta", "gamma")
    views = [incident("jobHang", alert_id=name, job={"name": f"job {name}"}) for name in names]
    text = render_digest(views, "dlv_9", ADAPTERS[kind], language, SHANGHAI, PUBLIC).message.text
    assert [name for name in ("alpha", "beta", "gamma", "3") if name not in text] == []
    assert PUBLIC not in text


def test_a_users_own_words_are_as_short_as_he_likes() -> None:
    own = OwnWords("", "{{ job }} {{ text }}")
    view = bare(job={"name": "llm"}, text="🔴 see https://evil.com/" + "x" * 200)
    text = render(view, ADAPTERS["sms"], "en", SHANGHAI, PUBLIC, own).message.text
    assert text == "llm  see https\u200b://evil\u200b.com/" + "x" * 200
