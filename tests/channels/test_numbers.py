"""Numbers, and values that every provider takes: no link, no address, no line break, never too long."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from channels.numbers import CUT, Number, Rules, domestic, fitted, is_chinese, shortened, units, webless
from channels.standin.telecom import has_web

STRICT = Rules(each=35, total=120, is_web_free=True, unwanted="【】[]()")
BITS = (
    "http://", "https://a.cn/x", "10.0.0.1", "::1", "fe80::1", "a@b.cn", "www.", "x.com", ".", "。", "．",
    ":", "@", "12:30:05", "3.14", "\n", "\r", "\t", "\u200b", "\x00", "\u2028", "【", "(", "节点", "🔥",
    "👩\u200d👧", "e\u0301", "",
)  # fmt: skip
hostile = st.lists(st.one_of(st.sampled_from(BITS), st.text(max_size=20)), max_size=12).map("".join)


@pytest.mark.parametrize("number", ["+8613800001111", "+85291234567", "+12025550123", "+8657112345678"])
def test_numbers_that_are_taken(number):
    assert TypeAdapter(Number).validate_python(f" {number} ") == number


@pytest.mark.parametrize(
    "number",
    [
        "",
        "13800001111",
        "+0138",
        "+86 138",
        "+86-138",
        "008613800001111",
        "+8613800001111222",
        "+٣٤٥٦٧٨٩",
        "+8６13800001111",
    ],
)
def test_numbers_that_are_not(number):
    with pytest.raises(ValidationError, match=r"E\.164"):
        TypeAdapter(Number).validate_python(number)


def test_as_chinese_providers_want_them():
    assert [domestic(one) for one in ("+8613800001111", "+85291234567")] == ["13800001111", "85291234567"]
    assert (is_chinese("+8613800001111"), is_chinese("+85291234567")) == (True, False)


@pytest.mark.parametrize(
    ("given", "left"),
    [
        ("10.0.0.1", "10-0-0-1"),
        ("10.0.0.1:8080", "10-0-0-1:8080"),
        ("see https://x.cn/y?q=1 now", "see  now"),
        ("fe80::1", "fe80-1"),
        ("ops@a.cn", "ops at a-cn"),
        ("node-b.cluster.local.", "node-b-cluster-local."),
        ("train.py", "train-py"),
        ("a。cn", "a-cn"),
        ("损失 3.14，用时 12:03:55。继续", "损失 3.14，用时 12:03:55。继续"),
        ("1.2GB", "1.2GB"),
        ("2.9.1", "2-9-1"),
    ],
)
def test_addresses_stay_readable_and_are_none(given, left):
    assert webless(given) == left


@given(hostile)
def test_nothing_that_a_phone_would_link_is_left(text):
    (value,) = fitted({"a": text}, STRICT).values()
    assert not has_web(value)
    assert "@" not in value
    assert "://" not in value
    assert not re.search(r"[^\W\d]\.\w|\w\.[^\W\d_]{4}", value)


@given(st.dictionaries(st.text("abc", min_size=1, max_size=3), hostile, max_size=6))
def test_values_fit_and_none_is_empty(params):
    values = fitted(params, STRICT)
    assert list(values) == list(params)
    assert all(value and value == " ".join(value.split()) for value in values.values())
    assert all(units(value) <= 35 and not set(value) & set("【】[]()") for value in values.values())
    assert sum(map(units, values.values())) <= 120
    for value in values.values():
        value.encode()  # no character is cut in two


@given(hostile, st.integers(2, 40))
def test_what_is_cut_off_can_be_seen(text, limit):
    cut = shortened(text, limit)
    assert units(cut) <= limit or cut == text
    assert cut == text or cut.endswith(CUT)


def test_the_long_values_pay_for_the_short_ones():
    values = fitted({"job": "llm", "cause": "x" * 500, "node": "node-b"}, Rules(total=60))
    assert (values["job"], values["node"]) == ("llm", "node-b")
    assert values["cause"] == "x" * 50 + CUT


def test_without_a_rule_a_url_stays():
    assert fitted({"a": "https://x.cn"}, Rules()) == {"a": "https://x.cn"}
