"""What data cannot do: format, link, call people, break a template, or keep an alert from being told."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from channels.base import Part
from channels.registry import ADAPTERS
from notifier.items import ITEMS
from notifier.rendering import AlertView, render, render_digest
from tests.notifier.dialects import GAP, READERS
from tests.notifier.messages import AT, EVENT, FULL, JOB, PUBLIC, SHANGHAI, bare, bodies, incident

HOSTILE = [
    "<at id=all></at>",
    '<at user_id="all">all</at>',
    "<@all>",
    "<@zhangsan>",
    "@all @13800001111",
    "[sign in](https://evil.example)",
    "[a\nb](https://evil.example)",
    "![x](https://evil.example/x.png)",
    "<https://evil.example>",
    "[x]: https://evil.example",
    "<script>alert(1)</script>",
    "</pre><img src=x onerror=alert(1)>",
    '"><a href="https://evil.example">x</a>',
    '<font color="warning">x</font>',
    "**bold** `code` ~~gone~~ __under__",
    "```\nfence\n```",
    "# heading\n> quote\n- list\n1. one\n---",
    "heading\n===",
    "| a | b |\n| - | - |",
    "&lt;at id=all&gt; &#60;at&#62;",
    "\\[x\\](https://evil.example) \\",
    "{{ 7*7 }} {% raw %} {# #}",
    "{count} {0.__class__} %s %(x)s",
    "\x1b[31mred\x1b[0m \u202eevil\u202c \x00 \u200b \ud800",
    "r\rn\nls\u2028ps\u2029nel\x85",
    ":DONE: :smile:",
]
FIELDS = [
    "reason",
    "advice",
    "why",
    "evidence",
    "node",
    "job",
    "label",
    "scope",
    "title",
    "text",
    "cause",
    "id",
]
OWN_TAGS = {"html", "body", "div", "h2", "p", "b", "br", "table", "tr", "td", "a", "pre", "span"}


def tainted(field: str, words: str) -> AlertView:
    """Each field in turn says something evil."""
    event: dict[str, Any] = {**EVENT, "evidence": list(EVENT["evidence"])}
    if field in ("reason", "advice", "cause", "id"):
        event[field] = words
    elif field == "why":
        event["decision"] = {**EVENT["decision"], "why": words, "action": words, "isolate_nodes": [words]}
    elif field == "evidence":
        event["evidence"] = [{"rank": words, "node": words, "source": words, "text": words}]
    elif field == "node":
        event["culprit"] = {"rank": words, "pod": words, "node": words}
    changes: dict[str, dict[str, Any]] = {
        "job": {"job": {**JOB, "name": words}},
        "label": {"labels": {words: words}},
        "scope": {"scope": words},
        "title": {"title": words},
        "text": {"text": words},
    }
    return incident("custom", event=event, **changes.get(field, {}))


def calm(kind: str, text: str) -> None:
    """Nothing in it but our own link and form."""
    seen = READERS[kind](text)
    assert set(seen.links) <= {f"{PUBLIC}/jobs/job_1"}
    assert set(seen.tags) <= OWN_TAGS if kind == "email" else seen.tags == ()
    assert seen.calls == ()
    for forbidden in ("\x1b", "\u202e", "\x00", "\ud800", "\u2028"):
        assert forbidden not in text


@pytest.mark.parametrize("kind", READERS)
@pytest.mark.parametrize("field", FIELDS)
def test_data_stay_data_in_every_field(kind: str, field: str) -> None:
    for words in HOSTILE:
        rendered = render(tainted(field, words), ADAPTERS[kind], "zh", SHANGHAI, PUBLIC)
        assert rendered.template_error is None
        calm(kind, rendered.message.html or rendered.message.text)
        assert "\n" not in rendered.message.title


@pytest.mark.parametrize("kind", READERS)
def test_data_stay_data_in_a_digest_and_in_built_in_text(
    kind: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    views = [tainted(field, words) for field in FIELDS for words in HOSTILE[::3]]
    for few in (views[:5], views):
        message = render_digest(few, "dlv_9", ADAPTERS[kind], "zh", SHANGHAI, PUBLIC).message
        calm(kind, message.html or message.text)
    monkeypatch.setattr("notifier.forms.FOLDER", str(tmp_path))  # no template at all
    for view in views:
        rendered = render(view, ADAPTERS[kind], "zh", SHANGHAI, PUBLIC)
        assert rendered.template_error is not None
        calm_built_in(kind, rendered.message.text)


def calm_built_in(kind: str, text: str) -> None:
    """The built-in text has its link bare, and e-mail gets no HTML of it."""
    if kind != "email":
        calm(kind, text.replace(f"{PUBLIC}/jobs/job_1", ""))


@pytest.mark.parametrize("kind", ["dingtalk", "wecom", "feishu"])
def test_what_a_log_says_is_read_as_it_stands(kind: str) -> None:
    line = "Traceback: dict[str, Any] <module> **kwargs `x` a_b_c 50% C:\\new #1 @here"
    message = render(tainted("evidence", line), ADAPTERS[kind], "en", "UTC", None).message
    seen = READERS[kind](message.text).shown
    if kind == "wecom":  # it knows no escape character: look-alikes
        line = line.replace("*", "∗").replace("`", "ˋ")
    assert line in seen


@pytest.mark.parametrize("kind", ["dingtalk", "wecom", "feishu"])
@pytest.mark.parametrize("words", HOSTILE)
def test_nobody_is_called_by_what_goes_onto_the_wire(words: str, kind: str) -> None:
    config = ADAPTERS[kind].Config.model_validate(
        {"webhook_url": "https://robot.example/hook?access_token=x"}
    )
    view = tainted("evidence", words)
    for part in ADAPTERS[kind].parts(render(view, ADAPTERS[kind], "zh", "UTC", None).message, config):
        for text in on_the_wire(part):
            assert READERS[kind](text).calls == ()


def on_the_wire(part: Part) -> list[str]:
    """All that the provider parses; what stands under `title` is plain text for DingTalk and Feishu."""

    def strings(value: Any) -> list[str]:
        if isinstance(value, dict):
            return [text for name, one in value.items() if name != "title" for text in strings(one)]
        if isinstance(value, list | tuple):
            return [text for one in value for text in strings(one)]
        return [value] if isinstance(value, str) else []

    return strings(dict(part.payload))


def test_huge_data_give_a_message_of_a_bearable_size() -> None:
    words = "训练<@all>" * 200_000
    event = {**EVENT, "reason": words, "advice": words, "evidence": [{"text": words}] * 1000}
    view = incident(
        "custom", text=words, title=words, labels={f"k{n}": words for n in range(1000)}, event=event
    )
    rendered = render(view, ADAPTERS["email"], "zh", SHANGHAI, PUBLIC)
    assert rendered.template_error is None
    assert all(len(body) < 64 * 1024 for body in bodies(rendered))
    assert len(rendered.message.title) <= 120


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=40) | st.sampled_from(HOSTILE),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=10,
)
DECISIONS = st.fixed_dictionaries({}, optional=dict.fromkeys(EVENT["decision"], ANYTHING)) | ANYTHING
PARTS = [*EVENT, "downtime_s", "steps_lost"]
EVENTS = (
    st.fixed_dictionaries({}, optional={**dict.fromkeys(PARTS, ANYTHING), "decision": DECISIONS}) | ANYTHING
)
JOBS = st.dictionaries(st.sampled_from([*JOB, "step"]), ANYTHING) | ANYTHING
VIEWS = st.builds(
    bare,
    st.sampled_from([*ITEMS, "noSuchItem"]),
    severity=st.sampled_from(["info", "critical", "fatal", ""]),
    status=st.sampled_from(["firing", "resolved", "?"]),
    title=st.text(),
    text=st.text(),
    scope=st.text(),
    event=EVENTS,
    job=JOBS,
    labels=st.dictionaries(st.text(max_size=20), ANYTHING, max_size=5) | ANYTHING,
)


@pytest.mark.parametrize("kind", FULL)
@settings(max_examples=120, deadline=None)
@given(
    view=VIEWS,
    timezone=st.sampled_from([SHANGHAI, "UTC", "", "../etc"]),
    public_url=st.text() | st.just(PUBLIC),
)
def test_any_data_give_a_message(kind: str, view: AlertView, timezone: str, public_url: str) -> None:
    rendered = render(view, ADAPTERS[kind], "zh", timezone, public_url)
    assert rendered.template_error is None
    for body in bodies(rendered):
        assert f"{AT:%Y-%m-%d}" in body
        body.encode("utf-8")
    if kind in READERS:
        seen = READERS[kind](rendered.message.html or rendered.message.text)
        assert len(seen.links) <= 1
        assert set(seen.tags) <= OWN_TAGS
        assert seen.calls == ()
    digest = render_digest([view, incident()], "dlv_9", ADAPTERS[kind], "en", timezone, public_url)
    assert digest.template_error is None


@pytest.mark.parametrize("kind", ["dingtalk", "wecom", "feishu"])
@settings(max_examples=200, deadline=None)
@given(words=st.text(alphabet="ab1 \n\t@<>[]()!*_`~#&;\\:-=|+.{}%/\"'" + GAP, min_size=1, max_size=60))
def test_no_arrangement_of_marks_links_or_calls(kind: str, words: str) -> None:
    for field in ("reason", "evidence", "text"):
        calm(kind, render(tainted(field, words), ADAPTERS[kind], "en", SHANGHAI, PUBLIC).message.text)
