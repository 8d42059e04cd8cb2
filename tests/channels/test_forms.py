"""The best form of each robot: cards with places and a button where nobody is called, and their fallback."""

import json
from typing import Any

import pytest

from channels.base import Message, Part, Severity, Sheet
from channels.cutting import cut, utf8
from channels.graphemes import border, graphemes
from channels.registry import ADAPTERS

ROBOT = {"webhook_url": "https://robot.example/hook?access_token=x"}
LINK = "https://fc.example/jobs/1"
SHEET = Sheet(
    lead="rank 3 hangs",
    rows=(("定位", "rank 3 · node-2"), ("处理", "重启任务"), ("原因", "长" * 40)),
    words="df says\n97 %",
    evidence=("node-2: Xid 79",),
    evidence_label="证据",
    notes=("时间：2026-09-04 14:14:15 +08:00",),
)
TEXT = f"**rank 3 hangs**\n**定位**：rank 3 · node-2\n[查看详情]({LINK})\n**处理**：重启任务"


def parts(kind: str, config: dict[str, Any] | None = None, **changes: Any) -> list[Part]:
    given: dict[str, Any] = {
        "id": "dlv_1", "title": "训练卡住", "text": TEXT, "plain": "rank 3 hangs", "severity": Severity.ERROR,
        "link": LINK, "link_label": "查看详情",
    }  # fmt: skip
    parsed = ADAPTERS[kind].Config.model_validate({**ROBOT, **(config or {})})
    return ADAPTERS[kind].parts(Message(**{**given, **changes}), parsed)


def payload(kind: str, config: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    (part,) = parts(kind, config, **changes)
    return dict(part.payload)


def test_dingtalk_has_a_button_where_nobody_is_called() -> None:
    card = payload("dingtalk")["actionCard"]
    assert (card["singleTitle"], card["singleURL"]) == ("查看详情", LINK)
    assert LINK not in card["text"]
    assert "**处理**：重启任务" in card["text"]


@pytest.mark.parametrize(
    ("config", "changes", "form"),
    [
        pytest.param({"at_mobiles": ["13800001111"]}, {}, "markdown", id="calls-somebody"),
        pytest.param({"at_all": True}, {"severity": Severity.WARNING}, "actionCard", id="not-for-a-warning"),
        pytest.param({"at_all": True}, {"status": "resolved"}, "actionCard", id="not-when-it-is-over"),
        pytest.param({}, {"link": None}, "markdown", id="no-link"),
        pytest.param({}, {"is_plain": True}, "text", id="as-plain-text"),
    ],
)
def test_the_form_of_dingtalk(config: dict[str, Any], changes: dict[str, Any], form: str) -> None:
    made = payload("dingtalk", config, **changes)
    assert made["msgtype"] == form
    assert ("at" in made) is (form in ("markdown", "text"))


def test_feishu_has_a_place_for_each_thing() -> None:
    card = payload("feishu", {"at_all": True}, sheet=SHEET)["card"]
    assert card["header"]["template"] == "red"
    assert [element["tag"] for element in card["elements"]] == [
        "div", "div", "div", "hr", "div", "div", "action", "note",
    ]  # fmt: skip
    fields = card["elements"][1]["fields"]
    assert [(field["is_short"], field["text"]["content"][:10]) for field in fields] == [
        (True, "**定位**\nran"), (True, "**处理**\n重启任"), (False, "**原因**：长长长"),
    ]  # fmt: skip
    assert card["elements"][6]["actions"][0]["url"] == LINK
    assert "<at id=all></at>" in json.dumps(card["elements"][5])


@pytest.mark.parametrize(("status", "colour"), [("firing", "red"), ("resolved", "green")])
def test_feishus_header_says_whether_it_is_over(status: str, colour: str) -> None:
    assert payload("feishu", sheet=SHEET, status=status)["card"]["header"]["template"] == colour


def test_feishus_keyword_stands_where_it_is_looked_for() -> None:
    """Not only in the small print, and once."""
    said = json.dumps(payload("feishu", {"keyword": "时间"}, sheet=SHEET), ensure_ascii=False)
    assert said.count("时间") == 2
    assert (
        json.dumps(payload("feishu", {"keyword": "重启"}, sheet=SHEET), ensure_ascii=False).count("重启") == 1
    )


def test_what_is_too_long_for_feishus_places_is_told_in_running_text_with_a_button_on_each_part() -> None:
    long = Sheet(lead="x", words="训" * 9000)
    made = parts("feishu", sheet=long, text=f"**x**\n[查看详情]({LINK})\n" + "\n".join(["训" * 90] * 100))
    assert [part.of for part in made] == [2, 2]
    for part in made:
        tags = [element["tag"] for element in part.payload["card"]["elements"]]
        assert tags == ["div", "action"]
        assert f"]({LINK})" not in json.dumps(part.payload)


def test_feishu_as_plain_text_keeps_the_link_whole() -> None:
    made = payload("feishu", is_plain=True, plain=f"see https://evil.com\n{LINK}", sheet=SHEET)
    assert made["msg_type"] == "text"
    assert LINK in made["content"]["text"]
    assert "https://evil.com" not in made["content"]["text"]


@pytest.mark.parametrize(
    ("text", "budgets", "pieces"),
    [
        pytest.param("**abcdef**", [7, 99], ["**abc**", "**def**"], id="bold"),
        pytest.param("**ab** cdefg", [9, 99], ["**ab** cd", "efg"], id="nothing-open"),
        pytest.param("abcd**ef**", [7, 99], ["abcd", "**ef**"], id="opens-at-the-cut"),
        pytest.param("**abcd**ef", [8, 99], ["**abcd**", "ef"], id="ends-at-the-cut"),
        pytest.param("\\*\\*abcdef", [7, 99], ["\\*\\*abc", "def"], id="escaped-marks-are-none"),
        pytest.param(
            "<font color=x>abcdef</font>", [24, 99],
            ["<font color=x>abc</font>", "<font color=x>def</font>"], id="font",
        ),
        pytest.param(
            "**<font color=x>abcd</font>**", [29, 99], ["**<font color=x>abcd</font>**"], id="both-fit"
        ),
        pytest.param(
            "**<font color=x>abcdefgh</font>**", [29, 99],
            ["**<font color=x>abcd</font>**", "**<font color=x>efgh</font>**"], id="one-within-the-other",
        ),
    ],
)  # fmt: skip
def test_a_cut_closes_what_is_open_and_opens_it_again(
    text: str, budgets: list[int], pieces: list[str]
) -> None:
    assert cut(text, budgets, utf8, "…", is_marked=True) == pieces


def test_plain_text_is_cut_without_a_thought_for_marks() -> None:
    assert cut("**abcdef", [5, 99], utf8, "…") == ["**abc", "def"]


@pytest.mark.parametrize(
    "text",
    [
        "각각",
        "\u1100\u1161\u11a8\u1100",
        "क्षिक",
        "நிந",
        "🇨🇳🇩🇪🇫🇷",
        "👩‍👩‍👧👧",
        "e\u0301\u0302e",
        "ｶﾞｶ",
        "1️⃣2",
        "👍🏽👍",
    ],
)
def test_a_text_is_never_cut_inside_a_character(text: str) -> None:
    at, borders = 0, {0}
    for one in graphemes(text):
        at += len(one)
        borders.add(at)
    assert 1 not in borders or len(text[0]) == 1
    for end in range(len(text) + 1):
        assert border(text, end) == max(one for one in borders if one <= end)
