"""What holds for every text, sought by hypothesis."""

import json
import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from channels.base import Message, Severity
from channels.graphemes import graphemes
from channels.registry import ADAPTERS

QUICK = settings(max_examples=60, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
LIMITS = {"dingtalk": 20_000, "wecom": 4096, "feishu": 20_000}
CONFIGS = {
    "dingtalk": {"secret": "SECx", "keyword": "告警", "at_mobiles": ["13800001111"], "at_all": True},
    "wecom": {"mentioned_user_ids": ["zhangsan", "@all"], "mentioned_mobiles": ["13800001111"]},
    "feishu": {"secret": "x-secret", "keyword": "告警", "at_open_ids": ["ou_1"], "at_all": True},
}
LINK = "[查看详情](https://faultcast.example.com/jobs/job_01)"
any_text = st.text(st.characters(), max_size=60)
nasty = st.sampled_from(
    [
        *"*_`<>[]()@#&~!\\|\n\r\t \x00\x1b\u202e\u200d",
        "<@all>",
        "<at id=all></at>",
        '<at user_id="all">',
        "](",
        "@all",
    ]
)
data = st.lists(any_text | nasty | st.text("行訓練節點あア", max_size=40), max_size=30).map("".join)
pieces = st.sampled_from(
    ["节点 node-7 掉线", "👩‍👩‍👧", "🇨🇳🇩🇪", "e\u0301", "\\*", "&#42;", LINK, "\n", "\n\n", "x" * 50, '"\\\\']
)
long_text = st.lists(pieces, min_size=1, max_size=40).flatmap(
    lambda found: st.integers(1, 400).map(lambda times: "".join(found) * times)
)


def config(kind):
    return ADAPTERS[kind].Config.model_validate({"webhook_url": "https://robot.example/x", **CONFIGS[kind]})


def made_of(text, *, title="训练失败", plain=False):
    return Message(
        id="dlv_1", title=title, text=text, plain=text, severity=Severity.CRITICAL, is_plain=plain,
        link="https://faultcast.example.com/a/1",
    )  # fmt: skip


def size(kind, payload):
    if kind == "wecom":
        return len(payload[payload["msgtype"]]["content"].encode())
    signature = {"timestamp": "1700000000", "sign": "0" * 44} if kind == "feishu" else {}
    return len(json.dumps({**payload, **signature}, ensure_ascii=False, separators=(",", ":")).encode())


@pytest.mark.parametrize("plain", [False, True], ids=["marked-up", "plain"])
@pytest.mark.parametrize("kind", LIMITS)
@QUICK
@given(text=data | long_text, title=data)
def test_parts_are_valid_json_within_the_limit(kind, plain, text, title):
    parts = ADAPTERS[kind].parts(made_of(text, title=title, plain=plain), config(kind))
    limit = 2048 if kind == "wecom" and plain else LIMITS[kind]
    assert 1 <= len(parts) <= 3
    assert [(part.n, part.of) for part in parts] == [(n, len(parts)) for n in range(1, len(parts) + 1)]
    assert all(size(kind, part.payload) <= limit for part in parts)


@pytest.mark.parametrize("kind", ["dingtalk", "feishu"])
@QUICK
@given(text=data | long_text)
def test_the_keyword_is_in_every_part(kind, text):
    parts = ADAPTERS[kind].parts(made_of(text), config(kind))
    assert all("告警" in json.dumps(part.payload, ensure_ascii=False) for part in parts)


@pytest.mark.parametrize("kind", LIMITS)
@QUICK
@given(text=long_text)
def test_links_and_characters_stay_whole(kind, text):
    parts = ADAPTERS[kind].parts(made_of(text), config(kind))
    for part in parts:
        words = json.dumps(part.payload, ensure_ascii=False)
        assert words.count("[查看详情]") == words.count(LINK)
        assert words.count("👩") == 3 * words.count("👩‍👩‍👧") - words.count("👧")
        assert words.count("🇩") <= words.count("🇩🇪")


@pytest.mark.parametrize("kind", LIMITS)
@QUICK
@given(text=data)
def test_escaped_data_has_neither_mention_nor_markup(kind, text):
    escaped = ADAPTERS[kind].escape(text)
    assert not re.search(r"<@|<at\b|</|@\w|\]\(|[\x00\x1b\u202e]", escaped)


@pytest.mark.parametrize("kind", [*LIMITS, "email", "webhook"])
@QUICK
@given(text=data)
def test_escaping_gives_text_that_can_be_sent(kind, text):
    ADAPTERS[kind].escape(text).encode()


@QUICK
@given(text=data | long_text)
def test_graphemes_are_the_text(text):
    assert "".join(graphemes(text)) == text
