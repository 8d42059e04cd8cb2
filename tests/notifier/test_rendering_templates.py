"""Templates that are broken, missing or of a user's own: the alert is told, and what went wrong is said."""

import re
import shutil
from pathlib import Path

import pytest

import templates
from channels.registry import ADAPTERS
from notifier import forms
from notifier.items import ITEMS
from notifier.rendering import render, render_digest
from tests.notifier.dialects import READERS
from tests.notifier.messages import FULL, PUBLIC, SHANGHAI, bodies, incident

GIVEN = Path(templates.__path__[0])
FACTS = (
    "rank 11（node-2）的 GPU 出现硬件故障",
    "rank 11 · Pod worker-1 · 节点 node-2",
    "重启任务 · 隔离节点 node-2",
    "将该节点移出调度",
    "llm-70b-pretrain",
    "2026-09-04 14:14:15 +08:00",
    "Xid (PCI:0000:3b:00): 79",
    f"{PUBLIC}/jobs/job_1",
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The templates, to be broken."""
    own = tmp_path / "templates"
    shutil.copytree(GIVEN, own, ignore=shutil.ignore_patterns("console", "__pycache__"))
    monkeypatch.setattr(forms, "FOLDER", str(own))
    return own


BROKEN = [
    pytest.param("{{ job.", "TemplateSyntaxError", id="syntax"),
    pytest.param("{{ nothing() }}", "UndefinedError", id="calls what is not defined"),
    pytest.param("{{ 1 // 0 }}", "ZeroDivisionError", id="counts wrongly"),
    pytest.param("{{ job | nosuchfilter }}", "TemplateAssertionError", id="a filter that is none"),
    pytest.param("{{ job | safe }}", "TemplateAssertionError", id="claims that data are safe"),
    pytest.param("{{ ''.__class__.__mro__[1].__subclasses__() }}", "SecurityError", id="climbs out"),
    pytest.param("{% include 'none.j2' %}", "TemplateNotFound", id="includes what is not there"),
    pytest.param("{% for n in range(90000) %}too long {% endfor %}", "more than 65536", id="has no end"),
    pytest.param(
        "{% macro m(n) %}{{ m(n) }}{% endmacro %}{{ m(1) }}", "RecursionError", id="turns in circles"
    ),
]


@pytest.mark.parametrize(("source", "error"), BROKEN)
@pytest.mark.parametrize("kind", FULL)
def test_a_broken_form_gives_the_built_in_text(kind: str, source: str, error: str, folder: Path) -> None:
    for form in ("txt", "md", "html"):
        (folder / "forms" / f"alert.{form}.j2").write_text(source)
    rendered = render(incident(), adapter := ADAPTERS[kind], "zh", SHANGHAI, PUBLIC)
    assert error in str(rendered.template_error)
    read = READERS[kind] if kind != "email" and kind in READERS else None
    words = read(rendered.message.text).shown if read else rendered.message.text
    assert [fact for fact in FACTS if fact not in words] == []
    assert "消息模板出错" in words
    assert rendered.message.html is None
    assert adapter.parts(rendered.message, config(kind))


def config(kind: str) -> object:
    given = (
        {"to": ["a@example.com"]} if kind == "email" else {"webhook_url": "https://robot.example/hook?key=x"}
    )
    given = {"webhook": {"url": "https://hook.example"}, "apprise": {"url": "ntfys://ntfy.example/t"}}.get(
        kind, given
    )
    return ADAPTERS[kind].Config.model_validate(given)


@pytest.mark.parametrize(("source", "error"), BROKEN)
def test_broken_words_leave_the_form_as_it_is(source: str, error: str, folder: Path) -> None:
    (folder / "zh" / "jobFT.words.j2").write_text(source)
    rendered = render(incident(), ADAPTERS["wecom"], "zh", SHANGHAI, PUBLIC)
    assert error in str(rendered.template_error)
    assert rendered.message.text.startswith("**rank 11（node-2）的 GPU 出现硬件故障")
    assert "**处理**：重启任务" in rendered.message.text


def test_a_broken_digest_names_every_alert(folder: Path) -> None:
    for form in ("txt", "md"):
        (folder / "forms" / f"digest.{form}.j2").write_text("{{")
    views = [incident("jobFT"), incident("jobHang"), incident("jobGaveUp")]
    rendered = render_digest(views, "dlv_9", ADAPTERS["wecom"], "zh", SHANGHAI, None)
    assert rendered.template_error is not None
    for words in ("触发容错", "训练卡住", "容错已放弃"):
        assert words in rendered.message.text


def test_only_the_broken_form_is_replaced(folder: Path) -> None:
    (folder / "forms" / "alert.md.j2").write_text("{{")
    message = render(incident(), ADAPTERS["wecom"], "zh", SHANGHAI, PUBLIC).message
    assert "消息模板出错" in message.text
    assert "消息模板出错" not in message.plain


def test_a_name_that_is_not_known_is_empty(folder: Path) -> None:
    (folder / "forms" / "alert.md.j2").write_text("[{{ nothing.at.all | upper }}] {{ job }}")
    rendered = render(incident(), ADAPTERS["wecom"], "zh", SHANGHAI, PUBLIC)
    assert (rendered.template_error, rendered.message.text) == (None, "[] llm-70b-pretrain")


def test_an_item_may_have_a_form_of_its_own(folder: Path) -> None:
    (folder / "zh" / "jobFT.md.j2").write_text("{{ job }} 在 {{ node }} 上出错 {{ link }}")
    own = render(incident("jobFT"), ADAPTERS["wecom"], "zh", SHANGHAI, PUBLIC).message
    assert own.text == f"llm-70b-pretrain 在 node-2 上出错 {PUBLIC}/jobs/job_1"
    assert "**处理**" in render(incident("jobHang"), ADAPTERS["wecom"], "zh", SHANGHAI, PUBLIC).message.text
    assert "Decision" in render(incident("jobFT"), ADAPTERS["wecom"], "en", SHANGHAI, PUBLIC).message.text


@pytest.mark.parametrize("kind", ["dingtalk", "wecom", "feishu"])
def test_no_way_of_putting_things_together_lets_data_format(kind: str, folder: Path) -> None:
    """A template of somebody's own cannot open the door either."""
    (folder / "forms" / "alert.md.j2").write_text(
        "{% macro m(x) %}{{ x }}{% endmacro %}{% set s %}{{ job }}{% endset %}"
        "{{ m(job) }} {{ s }} {{ '*' ~ job }} {{ job.upper() }} {{ [job] | join('-') }} {{ job | indent }}"
        "{% filter upper %}{{ job }}{% endfilter %} {{ '%s' | format(job) }} {% autoescape true %}{{ job }}"
        "{{ m(job) ~ job }}{% endautoescape %}"
    )
    view = incident(job={"id": "j", "name": "<at id=all></at> [x](https://evil.example) @bob <@all>"})
    seen = READERS[kind](render(view, ADAPTERS[kind], "zh", SHANGHAI, None).message.text)
    assert (seen.links, seen.tags, seen.calls) == ((), (), ())


def test_there_are_words_for_every_item_in_every_language() -> None:
    for language in ("zh", "en"):
        assert {path.name for path in (GIVEN / language).glob("*.words.j2")} == {
            f"{item}.words.j2" for item in ITEMS
        }


def test_values_are_put_into_html_as_text_or_quoted_attributes_only() -> None:
    """`finalize` escapes for these two places; anywhere else it would not do."""
    for path in (GIVEN / "forms").glob("*.html.j2"):
        source = path.read_text()
        assert not re.search(r"=\s*\{\{", source)
        assert not re.search(r"<(script|style)", source)


def test_every_body_is_made_by_a_template_and_by_nothing_else(folder: Path) -> None:
    rendered = render(incident(), ADAPTERS["email"], "en", SHANGHAI, PUBLIC)
    assert rendered.template_error is None
    assert len(bodies(rendered)) == 3
