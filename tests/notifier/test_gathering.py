"""A digest names every alert in it, in as few parts as can hold them, whatever the titles are."""

from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from channels.base import Adapter
from channels.cutting import in_json
from channels.registry import ADAPTERS
from notifier.gathering import MOST, capacity, clipped, gathered
from notifier.rendering import AlertView, render_digest
from notifier.wording import speaker
from tests.notifier.messages import AT, PUBLIC, SHANGHAI

URL = {"webhook_url": "https://robot.example/hook?key=x"}
CONFIGS = {
    "dingtalk": ("dingtalk", {"at_mobiles": ["13800001111"] * 20, "keyword": "训练"}),
    "wecom": ("wecom", {}),
    "wecom with names": ("wecom", {"mentioned_user_ids": ["somebody.with.a.long.name"] * 20}),
    "wecom with a second message for phone numbers": ("wecom", {"mentioned_mobiles": ["13800001111"]}),
    "feishu": ("feishu", {"at_all": True, "keyword": "训练"}),
}
FILLINGS = {
    "short": "",
    "long": "很长的标题" * 16,
    "marked up": "*_`[x](y)<at id=all>@all " * 4,
    "a traceback": 'File "C:\\\\train.py", line 3 ' * 3,
    "pictures": "🔥👩‍👩‍👧‍👦" * 10,
    "nothing to see": "\u200b\x07" * 30,
}


def custom(n: int, filling: str) -> AlertView:
    title = f"b{n:03} {filling} e{n:03}"
    moment = AT + timedelta(seconds=n)
    return AlertView(f"dlv_{n}", f"alr_{n}", "custom", (), "error", "firing", title, "", moment)


def sent(adapter: Adapter, config: dict[str, object], count: int, filling: str) -> list[str]:
    """The text of each part."""
    space = adapter.space(config)
    views = [custom(n, filling) for n in range(count)]
    rendered = render_digest(views, "dlv_9", adapter, "zh", SHANGHAI, PUBLIC, space=space)
    assert rendered.template_error is None
    parsed = adapter.Config.model_validate({**URL, **config})
    return [str(part.payload) for part in adapter.parts(rendered.message, parsed)]


@pytest.mark.parametrize("filling", FILLINGS.values(), ids=FILLINGS)
@pytest.mark.parametrize(("kind", "config"), CONFIGS.values(), ids=CONFIGS)
def test_as_many_as_a_digest_may_hold_are_all_named(
    kind: str, config: dict[str, object], filling: str
) -> None:
    most = capacity(ADAPTERS[kind].space(config))
    for count in {most[0], most[-1]}:
        texts = sent(ADAPTERS[kind], config, count, filling)
        whole = "".join(texts)
        assert [n for n in range(count) if f"b{n:03}" not in whole or f"e{n:03}" not in whole] == []
        assert "截断" not in whole
        planned = next(n for n, holds in enumerate(most, 1) if holds >= count)
        with_call = bool(config.get("mentioned_mobiles"))
        assert len(texts) <= planned + with_call


def test_a_hundred_and_fifty_fit_into_wecoms_three_parts() -> None:
    assert capacity(ADAPTERS["wecom"].space({}))[-1] >= 150


def test_without_a_limit_there_is_a_limit_for_readers() -> None:
    assert capacity(()) == (MOST,)


def test_titles_of_the_same_words_are_told_once() -> None:
    alerts = [{"time": f"{n}", "title": "it broke"} for n in range(50)]
    (row,) = gathered(alerts, speaker("en", SHANGHAI, None), (4000,))
    assert row["title"].startswith("it broke ×50")


def test_short_titles_stay_whole_and_long_ones_share_what_is_left() -> None:
    titles = [f"short {n}" for n in range(30)] + ["長" * 200 + f"{n}" for n in range(10)]
    alerts = [{"time": "2026-11-29 11:00:00", "title": title} for title in titles]
    rows = gathered(alerts, speaker("en", SHANGHAI, None), (4000,))
    assert [row["title"] for row in rows[:30]] == titles[:30]
    assert all("…" in row["title"] and len(row["title"]) > 40 for row in rows[30:])


@given(text=st.text(max_size=300), size=st.integers(3, 200))
@settings(max_examples=300, deadline=None)
def test_clipped_keeps_within_the_size_and_says_so(text: str, size: int) -> None:
    found = clipped(text, size, in_json)
    assert in_json(found) <= size
    assert found == text or "…" in found
