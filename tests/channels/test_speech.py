"""What is read aloud, and what stands in a text message."""

import pytest

from channels.escaping import GAP
from channels.speech import sms, spoken, tidy


def test_a_text_message_has_no_pictographs():
    assert sms("🔴 训练卡住 ✅ at http://x") == f" 训练卡住  at http{GAP}://x"


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        pytest.param("zh", "卡（node-2）的 GPU：Xid 79", "卡，node 2，的 GPU，Xid 79", id="marks-are-pauses"),
        pytest.param("en", "failed (Xid 79: off)", "failed, Xid 79, off,", id="in-english-too"),
        pytest.param("zh", "见 https://x.cn/y 或 a@b.cn", "见 或", id="no-addresses"),
        pytest.param("zh", "磁盘 97.5%", "磁盘 百分之97.5", id="percent"),
        pytest.param("en", "disk at 97 %", "disk at 97 percent", id="percent-in-english"),
        pytest.param("en", "10.0.0.1 took 2.9 s", "10 0 0 1 took 2.9 seconds", id="numbers-and-units"),
        pytest.param("en", "1 min 37 s", "1 minutes 37 seconds", id="units"),
        pytest.param("zh", "evt_01J9ZK3M5N7P8Q9R0S", "", id="no-ids"),
        pytest.param("zh", "step 184220", "step 1 8 4 2 2 0", id="long-numbers-by-digits"),
        pytest.param("zh", "🔴 **a_b** <at id=all>", "a b at id all", id="no-symbols"),
    ],
)
def test_what_is_read_aloud(language, text, expected):
    assert spoken(text, language) == expected


def test_what_is_read_aloud_ends_with_a_sentence():
    assert tidy("a ，。 b,.\nc", 100) == "a。 b. c"
    assert tidy("一句话。又一句话。", 7) == "一句话。"
    assert tidy("x" * 30, 10) == "x" * 10
