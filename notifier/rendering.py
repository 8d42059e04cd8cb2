"""From an alert to the message of one channel. Whatever templates or data do, there is a message.

`templates/<language>/<item>.words.j2` says what happened, and on a second line what to do where the fault
event does not. `templates/forms/` puts that and the facts (notifier/facts.py) into each format; an item that
needs a form of its own in some format has it in `templates/<language>/<item>.<format>.j2`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cache, lru_cache
from typing import Any, TypeVar

from jinja2 import ChainableUndefined, FileSystemLoader, Template, TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment

import templates
from channels import escaping
from channels.base import Adapter, Message
from notifier.clock import rfc3339
from notifier.facts import HEAD, TAIL, Facts, bare_facts, event_in, facts_of, rows_of
from notifier.gathering import gathered
from notifier.items import most_severe
from notifier.wording import (
    RESOLVED,
    AlertView,
    Link,
    Speaker,
    mapping,
    one_line,
    severity_of,
    speaker,
    words_of,
)

__all__ = ["AlertView", "Rendered", "render", "render_digest", "trial_view"]

T = TypeVar("T")
FOLDER = templates.__path__[0]
MAX_OUTPUT = 64 * 1024  # characters
QUOTES = {"markdown": "> ", "lark": "┃ "}  # lark_md knows no quotation
COLOURS = {"info": "#3056d3", "warning": "#d98a00", "error": "#b42318", "critical": "#7a0c12"}
RESOLVED_COLOUR = "#12805c"
FIRING = "firing"


@dataclass(frozen=True)
class Rendered:
    """`template_error`: what went wrong with the template; the message is the built-in text then."""

    message: Message
    template_error: str | None = None


@dataclass(frozen=True)
class _Form:
    """One text to be made: the template's suffix, and how values are made literal in it."""

    suffix: str
    escape: Callable[[str], str]
    quote: str = ""


@dataclass
class _Border:
    """Where templates and data that nobody foresaw are stopped: what went wrong is noted, and made good."""

    errors: list[str] = field(default_factory=list)

    def attempt(self, make: Callable[[], T], otherwise: Callable[[], T]) -> T:
        try:
            return make()
        except Exception as error:  # noqa: BLE001  a border: whatever a template does, the alert is told
            self.errors.append(one_line(f"{type(error).__name__}: {error}"))
            return otherwise()


WORDS = _Form("words", one_line)
PLAIN = _Form("txt", escaping.clean)


def render(
    view: AlertView, adapter: Adapter, language: str, timezone: str, public_url: str | None
) -> Rendered:
    """The message of one alert."""
    say, border = speaker(language, timezone, public_url), _Border()
    facts = _told(view, say, border)
    composed = _Composition(view, adapter, say, border, (f"{say.language}/{view.item}", "forms/alert"))
    return composed.rendered(facts, border.attempt(lambda: _document(view, facts, say), dict))


def render_digest(
    views: Sequence[AlertView],
    delivery_id: str,
    adapter: Adapter,
    language: str,
    timezone: str,
    public_url: str | None,
) -> Rendered:
    """One message that names every alert in it, oldest first, headed by the latest of the most severe.

    Raises:
        ValueError: there is no alert to tell.
    """
    say, border = speaker(language, timezone, public_url), _Border()
    severity = most_severe(severity_of(view.severity) for view in views)
    told = [(view, _told(view, say, border)) for view in views]
    head, head_facts = [one for one in told if severity_of(one[0].severity) is severity][-1]
    whole = replace(head, delivery_id=delivery_id, severity=severity, status=_status(views))
    count = {"count": len(views), "others": len(views) - 1}
    title = say.words["digest_title"].format(title=say.title(whole), **count)
    facts = {
        **head_facts, "title": title, "text": "", "evidence": [], "tail": [],
        "intro": say.words["digest_intro"].format(**count),
        "alerts": gathered([one for _, one in told], say),
    }  # fmt: skip
    document = {
        **_document(head, head_facts, say), "delivery_id": delivery_id,
        "alerts": [_document(view, one, say) for view, one in told],
    }  # fmt: skip
    composed = _Composition(whole, adapter, say, border, (f"{say.language}/digest", "forms/digest"))
    return composed.rendered(facts, document)


def _status(views: Sequence[AlertView]) -> str:
    """Whether anything is still going on of what a digest tells."""
    over = {view.alert_id for view in views if view.status == RESOLVED}
    return (
        FIRING if any(view.status != RESOLVED and view.alert_id not in over for view in views) else RESOLVED
    )


def trial_view(delivery_id: str, channel: str, language: str, now: datetime) -> AlertView:
    """What a test message tells."""
    words = words_of(language)
    text = words["test_text"].format(channel=channel)
    return AlertView(delivery_id, None, "custom", (), "info", FIRING, words["test_title"], text, now)


@dataclass(frozen=True)
class _Composition:
    """One message in the making. `names`: the forms to look for, without their suffix; the first wins."""

    view: AlertView
    adapter: Adapter
    speaker: Speaker
    border: _Border
    names: Sequence[str]

    def rendered(self, facts: Facts, document: Mapping[str, Any]) -> Rendered:
        plain = self._body(PLAIN, facts)
        text, html = plain, None
        if self.adapter.format == "html" and not self.border.errors:
            html = self._body(_Form("html", self.adapter.escape), facts)
            html = None if self.border.errors else html
        elif self.adapter.format in QUOTES:
            form = _Form("md", self.adapter.escape, QUOTES[self.adapter.format])
            text = self._body(form, facts)
        message = Message(
            id=self.view.delivery_id,
            title=facts["title"],
            text=text,
            plain=plain,
            severity=severity_of(self.view.severity),
            status=self.view.status,
            html=html,
            link=facts["link"],
            thread=self.view.thread,
            document=document,
        )
        return Rendered(message, self.border.errors[0] if self.border.errors else None)

    def _body(self, form: _Form, facts: Facts) -> str:
        def fill() -> str:
            return _fill(self.names, form, {**facts, **self._frame(form)})

        return self.border.attempt(fill, lambda: self._built_in(form, facts))

    def _frame(self, form: _Form) -> Facts:
        """What forms know besides the facts."""
        over = self.view.status == RESOLVED
        return {
            "quote": _Raw(form.quote),
            "colon": self.speaker.words["colon"],
            "labels_of": self.speaker.words["labels"],
            "language": self.speaker.language,
            "colour": RESOLVED_COLOUR if over else COLOURS[severity_of(self.view.severity)],
        }

    def _built_in(self, form: _Form, facts: Facts) -> str:
        """What is told when the template fails: all that matters, a line each, and that it failed."""
        colon = self.speaker.words["colon"]
        lines = [facts["headline"], *(f"{label}{colon}{value}" for label, value in facts["head"])]
        lines += [facts["link"], facts["text"]]
        lines += [f"{label}{colon}{value}" for label, value in facts["tail"]] + list(facts["evidence"])
        for one in facts.get("alerts", ()):
            lines += [f"{one['time']} {one['title']}", one["line"]]
        lines.append(self.speaker.words["template_failed"].format(error=self.border.errors[-1][:200]))
        said = (line if isinstance(line, Link) else form.escape(str(line)) for line in lines if line)
        return "\n".join(said)[:MAX_OUTPUT]


def _told(view: AlertView, say: Speaker, border: _Border) -> Facts:
    """The facts and the words for them."""
    facts = border.attempt(lambda: facts_of(view, say), lambda: bare_facts(view, say))

    def words() -> str:
        return _fill((f"{say.language}/{view.item}", f"{say.language}/custom"), WORDS, facts)

    reason = str(facts.get("reason") or "")
    first, *rest = border.attempt(words, lambda: reason).split("\n") or [""]
    if not facts.get("advice") and rest:
        facts["advice"] = " ".join(rest)
    facts["headline"] = first
    facts["head"], facts["tail"] = rows_of(facts, HEAD, say), rows_of(facts, TAIL, say)
    return facts


def _fill(names: Sequence[str], form: _Form, facts: Mapping[str, Any]) -> str:
    """Lines that are empty at either end are left out."""
    pieces, size = [], 0
    for piece in _template(tuple(names), form, FOLDER).generate(facts):
        size += len(piece)
        if size > MAX_OUTPUT:
            raise TemplateError(f"the template gave more than {MAX_OUTPUT} characters")
        pieces.append(piece)
    return "".join(pieces).strip("\n")


@lru_cache(maxsize=1024)
def _template(names: tuple[str, ...], form: _Form, folder: str) -> Template:
    """Which of the forms there is, is looked up once."""
    return _environment(form.escape, folder).select_template([f"{name}.{form.suffix}.j2" for name in names])


class _Raw(str):
    """Markup of our own."""


@cache
def _environment(escape: Callable[[str], str], folder: str) -> ImmutableSandboxedEnvironment:
    """Every value is made literal on its way into the text; only our own links and marks pass as they are."""

    def literal(value: Any) -> str:
        if isinstance(value, Link | _Raw):
            return str(value)
        return escape("" if value is None else str(value))

    environment = ImmutableSandboxedEnvironment(
        loader=FileSystemLoader(folder),
        finalize=literal,
        undefined=ChainableUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    # What markupsafe escapes is HTML only, and what it calls safe is not safe in our dialects.
    for name in ("safe", "escape", "e", "forceescape", "xmlattr", "urlize", "tojson"):
        del environment.filters[name]
    return environment


def _document(view: AlertView, facts: Mapping[str, Any], say: Speaker) -> dict[str, Any]:
    """The `faultcast` webhook body (CONTRACT 4), less what the adapter knows from the message."""
    page = "job" if mapping(view.job).get("id") else "delivery"
    return {
        "id": view.alert_id,
        "delivery_id": view.delivery_id,
        "time": rfc3339(view.created_at),
        "created_at": rfc3339(view.created_at),
        "resolved_at": rfc3339(view.resolved_at) if view.resolved_at else None,
        "item": view.item,
        "items": list(view.items),
        "severity": str(view.severity),
        "status": view.status,
        "title": facts["title"],
        "text": str(facts["headline"] or facts["text"]),
        "job": view.job,
        "event": event_in(view.event, say),
        "labels": dict(mapping(view.labels)),
        "links": {page: str(facts["link"])} if facts["link"] else {},
    }
