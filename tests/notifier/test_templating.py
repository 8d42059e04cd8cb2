"""Users' templates in a process of their own: what they may not do ends them, and nobody else."""

import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from notifier import templating
from notifier.templating import Sandbox, fill, written
from notifier.templating_child import CLOSE, OPEN

FACTS = {
    "job": "a*b", "link": "https://fc.example/jobs/1", "items": ["x", "y"], "evidence": [], "node": "",
    "labels": [["team", "nlp"]], "resolved": False,
}  # fmt: skip


def filled(source: str, *, is_strict: bool = False) -> str:
    found = fill({"text": source}, FACTS, is_strict=is_strict)
    assert found.faults == {}
    return written(found.texts["text"], lambda text: f"<{text}>")


def fault(source: str, *, is_strict: bool = False) -> str:
    return str(fill({"text": source}, FACTS, is_strict=is_strict).faults["text"])


@pytest.mark.parametrize(
    ("source", "text"),
    [
        pytest.param("**{{ job }}**", "**<a*b>**", id="values-are-marked-and-words-are-not"),
        pytest.param("[more]({{ link }})", "[more](https://fc.example/jobs/1)", id="our-link-is-no-value"),
        pytest.param("{{ '**' ~ job }}{{ '**' }}", "<**a*b><**>", id="what-an-expression-makes-is-a-value"),
        pytest.param("{{ link|upper }}", "<HTTPS://FC.EXAMPLE/JOBS/1>", id="so-is-a-link-that-was-changed"),
        pytest.param("{{ none }}{{ nope.at.all }}", "<><>", id="what-is-not-known-is-empty"),
        pytest.param("{% for n, v in labels %}{{ n }}={{ v }}{% endfor %}", "<team>=<nlp>", id="lists"),
        pytest.param("{% macro m(x) %}*{{ x }}*{% endmacro %}{{ m(job) }}", "<*a*b*>", id="macros"),
        pytest.param("{{ '\ue000' }}\ue001{{ job }}", "<><a*b>", id="nobody-else-makes-the-marks"),
        pytest.param("a\u202eb\x1b[31mc", "abc", id="no-control-characters"),
        pytest.param("{% if items %}\n  yes\n{% endif %}\n", "  yes", id="blocks-leave-no-lines"),
    ],
)
def test_what_it_makes(source: str, text: str) -> None:
    assert filled(source) == text


@pytest.mark.parametrize(
    ("source", "said"),
    [
        pytest.param("ok\n{{ job.", "line 2: TemplateSyntaxError", id="syntax"),
        pytest.param("\n\n{{ nope() }}", "line 3: UndefinedError: 'nope' is undefined", id="calls-nothing"),
        pytest.param("{{ 1 // 0 }}", "line 1: ZeroDivisionError", id="counts-wrongly"),
        pytest.param("{{ job|safe }}", "line 1: TemplateAssertionError: No filter named 'safe'", id="safe"),
        pytest.param("{{ ''.__class__.mro() }}", "SecurityError", id="climbs-out"),
        pytest.param("{% set x = items.append('z') %}", "SecurityError", id="changes-data"),
        pytest.param("{% include '/etc/passwd' %}", "no loader", id="reads-files"),
        pytest.param("{% macro m(n) %}{{ m(n) }}{% endmacro %}{{ m(1) }}", "RecursionError", id="circles"),
        pytest.param("{{ '(' * 9 }}" + "{{" + "(" * 9000 + "}}", "RecursionError", id="brackets"),
        pytest.param("{% for n in range(90000) %}long {% endfor %}", "more than 65536", id="no-end"),
        pytest.param("{{ 'x' * 70000 }}", "more than 65536", id="one-long-value"),
    ],
)
def test_what_it_may_not_do_is_a_fault_and_harms_nobody(source: str, said: str) -> None:
    assert said in fault(source)
    assert filled("{{ job }}") == "<a*b>"


@pytest.mark.parametrize(
    "source",
    [
        pytest.param("{{ 'x' * 10 ** 9 }}", id="memory"),
        pytest.param("{{ 'x' * 100000000 }}", id="a-hundred-megabytes"),
        pytest.param("{{ '%99999999d' | format(1) }}", id="a-wide-format"),
        pytest.param("{{ 'a' | center(90000000) }}", id="a-wide-centre"),
        pytest.param(
            "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
            id="loops-in-loops",
        ),
        pytest.param("{{ 7 ** 99999999 }}", id="a-power"),
    ],
)
def test_a_greedy_one_meets_a_cap_and_harms_nobody(source: str) -> None:
    """Which of its caps, memory or one of the two times, a template meets first is the machine's to say."""
    began = time.monotonic()
    assert re.search("takes more than (1 s|256 MB)|takes too much memory", fault(source))
    assert filled("{{ job }}") == "<a*b>"
    assert time.monotonic() - began < 30


@pytest.mark.parametrize(
    ("source", "said"),
    [
        pytest.param("\n{{ jobb }}", "line 2: there is no fact `jobb`; did you mean `job`?", id="a-slip"),
        pytest.param("{{ whatever }}", "give one of evidence, items, job,", id="no-name-near-it"),
        pytest.param("{{ job.name }}", "line 1: UndefinedError: a text has no `.name`", id="no-parts"),
        pytest.param("{% if x %}{% endif %}", "there is no fact `x`", id="in-a-condition"),
    ],
)
def test_a_template_that_is_being_kept_names_only_what_there_is(source: str, said: str) -> None:
    assert said in fault(source, is_strict=True)


@pytest.mark.parametrize(
    "source",
    [
        "{{ evidence[0] }}{{ items[1] or '' }}",
        "{% for n in range(3) %}{{ loop.index }}{{ n }}{% endfor %}",
        "{% set x = namespace(a=1) %}{{ x.a }}{{ job.upper() }}",
    ],
)
def test_what_may_be_missing_in_a_list_is_no_mistake(source: str) -> None:
    filled(source, is_strict=True)


def test_one_bad_template_leaves_the_others() -> None:
    found = fill({"a": "{{ job }}", "b": "{{ nope() }}"}, FACTS)
    assert (set(found.texts), set(found.faults)) == ({"a"}, {"b"})


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    made = Sandbox()
    yield made
    made.stop()


def pid_of(sandbox: Sandbox) -> int:
    assert sandbox._process is not None
    return sandbox._process.pid


def test_it_is_started_again_after_it_was_killed(sandbox: Sandbox) -> None:
    assert sandbox.fill({"": "{{ job }}"}, FACTS, is_strict=False).faults == {}
    before = pid_of(sandbox)
    os.kill(before, 9)
    assert sandbox.fill({"": "{{ job }}"}, FACTS, is_strict=False).faults == {}
    assert pid_of(sandbox) != before


def test_what_had_to_be_stopped_is_not_tried_again_at_once(sandbox: Sandbox) -> None:
    endless = {"": "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}"}
    first = sandbox.fill(endless, FACTS, is_strict=False)
    began = time.monotonic()
    assert sandbox.fill(endless, FACTS, is_strict=False) == first
    assert time.monotonic() - began < 0.5


def test_it_holds_nothing_worth_stealing(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAULTCAST_SECRET_KEY", "CANARY")
    sandbox.fill({"": "x"}, {}, is_strict=False)
    process = Path("/proc") / str(pid_of(sandbox))
    assert b"CANARY" not in (process / "environ").read_bytes()
    targets = {str(one.readlink()) for one in (process / "fd").iterdir()}
    assert all(target.startswith("pipe:") or target == "/dev/null" for target in targets)


def test_a_forked_process_starts_its_own() -> None:
    filled("{{ job }}")
    mine = pid_of(templating._SANDBOX)
    child = os.fork()
    if child == 0:
        os._exit(0 if filled("{{ job }}") == "<a*b>" and pid_of(templating._SANDBOX) != mine else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert filled("{{ job }}") == "<a*b>"
    assert pid_of(templating._SANDBOX) == mine


def test_marks_in_facts_are_no_marks() -> None:
    found = fill({"": "{{ job }}"}, {"job": f"a{CLOSE}<at id=all>{OPEN}"})
    assert written(found.texts[""], str.upper) == "A<AT ID=ALL>"
