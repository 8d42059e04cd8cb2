"""The built-in forms of messages (`templates/`), filled in this process: nobody but us can write them.

`templates/<language>/<item>.words.j2` says what happened, and on a second line what to do where the fault
event does not. `templates/forms/` puts that and the facts (notifier/facts.py) into each format; an item that
needs a form of its own in some format has it in `templates/<language>/<item>.<format>.j2`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import Any, TypeVar

from jinja2 import ChainableUndefined, FileSystemLoader, Template, TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment

import templates
from channels import escaping
from notifier.facts import Facts, bare_facts, facts_of, rows_of
from notifier.templating_child import MAX_OUTPUT, UNSAFE_FILTERS
from notifier.wording import AlertView, Link, Speaker, clip, one_line

T = TypeVar("T")
SHORT = 80  # characters that are likely to come again
FOLDER = templates.__path__[0]


class Raw(str):
    """Markup of our own."""


@dataclass(frozen=True)
class Form:
    """One text to be made: the template's suffix, and how values are made literal in it."""

    suffix: str
    escape: Callable[[str], str]
    quote: str = ""


@dataclass
class Border:
    """Where templates and data that nobody foresaw are stopped: what went wrong is noted, and made good."""

    errors: list[str] = field(default_factory=list)

    def attempt(self, make: Callable[[], T], otherwise: Callable[[], T]) -> T:
        try:
            return make()
        except BaseException as error:  # noqa: BLE001  a border: whatever a template does, the alert is told
            self.errors.append(one_line(f"{type(error).__name__}: {error}"))
            return otherwise()


WORDS = Form("words", one_line)
PLAIN = Form("txt", escaping.clean)


def told(view: AlertView, say: Speaker, border: Border) -> Facts:
    """The facts and the words for them: `headline`, and the rows `head` and `tail`."""
    facts = border.attempt(lambda: facts_of(view, say), lambda: bare_facts(view, say))

    def words() -> str:
        return fill((f"{say.language}/{view.item}", f"{say.language}/custom"), WORDS, facts)

    reason = str(facts.get("reason") or "")
    first, *rest = border.attempt(words, lambda: reason).split("\n") or [""]
    if not facts.get("advice") and rest:
        facts["advice"] = " ".join(rest)
    facts["headline"] = facts.get("ended") or first
    facts["head"], facts["tail"] = rows_of(facts, say)
    return facts


def fill(names: Sequence[str], form: Form, facts: Mapping[str, Any]) -> str:
    """The first of these forms that there is. Lines that are empty at either end are left out."""
    pieces, size = [], 0
    for piece in _template(tuple(names), form, FOLDER).generate(facts):
        size += len(piece)
        if size > MAX_OUTPUT:
            raise TemplateError(f"the template gave more than {MAX_OUTPUT} characters")
        pieces.append(piece)
    return "".join(pieces).strip("\n")


@lru_cache(maxsize=1024)
def _template(names: tuple[str, ...], form: Form, folder: str) -> Template:
    """Which of the forms there is, is looked up once."""
    return _environment(form.escape, folder).select_template([f"{name}.{form.suffix}.j2" for name in names])


@cache
def _environment(escape: Callable[[str], str], folder: str) -> ImmutableSandboxedEnvironment:
    """Every value is made literal on its way into the text; only our own links and marks pass as they are."""

    remembered = lru_cache(maxsize=4096)(escape)  # labels, names, nodes

    def literal(value: Any) -> str:
        if isinstance(value, Link | Raw):
            return str(value)
        text = "" if value is None else str(value)
        return remembered(text) if len(text) <= SHORT else escape(text)

    environment = ImmutableSandboxedEnvironment(
        loader=FileSystemLoader(folder),
        finalize=literal,
        undefined=ChainableUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    for name in UNSAFE_FILTERS:
        del environment.filters[name]
    environment.filters["clip"] = clip
    return environment
