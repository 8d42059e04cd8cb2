"""From an alert to the message of one channel. Whatever templates or data do, there is a message."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any
from zoneinfo import ZoneInfo

from jinja2 import ChainableUndefined, FileSystemLoader, TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment

import templates
from channels import escaping
from channels.base import Adapter, Message, Severity
from notifier.clock import rfc3339
from notifier.items import most_severe
from notifier.wording import LANGUAGES, AlertView, Link, Speaker, words_of

__all__ = ["AlertView", "Rendered", "render", "render_digest", "trial_view"]

MAX_OUTPUT = 64 * 1024  # characters
QUOTES = {"markdown": "> ", "lark": ""}
FALLBACK_FACTS = (
    "headline",
    "culprit",
    "decision",
    "why",
    "recovered",
    "fault",
    "advice",
    "job",
    "time",
    "text",
)


@dataclass(frozen=True)
class Rendered:
    """`template_error`: what went wrong with the template; the message is the built-in text then."""

    message: Message
    template_error: str | None = None


@dataclass(frozen=True)
class _Form:
    """One body to be made: the template's suffix, and how values are made literal in it."""

    suffix: str
    escape: Callable[[str], str]
    quote: str = ""


def render(
    view: AlertView, adapter: Adapter, language: str, timezone: str, public_url: str | None
) -> Rendered:
    """The message of one alert."""
    speaker = _speaker(language, timezone, public_url)
    facts = speaker.facts(view)
    return _compose(
        view, adapter, speaker, facts, names=(view.item, "alert"), document=_document(view, facts, speaker)
    )


def render_digest(
    views: Sequence[AlertView],
    delivery_id: str,
    adapter: Adapter,
    language: str,
    timezone: str,
    public_url: str | None,
) -> Rendered:
    """One message that names every alert in it, oldest first, headed by the most severe.

    Raises:
        ValueError: there is no alert to tell.
    """
    speaker = _speaker(language, timezone, public_url)
    severity = most_severe(view.severity for view in views)
    head = [view for view in views if view.severity == severity][-1]
    head_facts = speaker.facts(head)
    count = {"count": len(views), "others": len(views) - 1}
    title = words_of(speaker.language)["digest_title"].format(title=head_facts["title"], **count)
    rows = [
        {**speaker.facts(view), "title": speaker.title(view), "line": _line(speaker, view)} for view in views
    ]
    facts = {**head_facts, "title": title, "alerts": rows}
    is_firing = any(view.status == "firing" for view in views)
    members = [_document(view, row, speaker) for view, row in zip(views, rows, strict=True)]
    document = {**_document(head, head_facts, speaker), "delivery_id": delivery_id, "alerts": members}
    whole = AlertView(
        delivery_id, None, head.item, head.items, severity, "firing" if is_firing else "resolved",
        title, "", head.created_at, job=head.job, thread=head.thread,
    )  # fmt: skip
    return _compose(whole, adapter, speaker, facts, names=("digest",), document=document)


def trial_view(delivery_id: str, channel: str, language: str, now: datetime) -> AlertView:
    """What a test message tells."""
    words = words_of(language)
    text = words["test_text"].format(channel=channel)
    return AlertView(delivery_id, None, "custom", (), "info", "firing", words["test_title"], text, now)


def _speaker(language: str, timezone: str, public_url: str | None) -> Speaker:
    return Speaker(language if language in LANGUAGES else LANGUAGES[0], ZoneInfo(timezone), public_url)


def _compose(
    view: AlertView,
    adapter: Adapter,
    speaker: Speaker,
    facts: Mapping[str, Any],
    *,
    names: Sequence[str],
    document: Mapping[str, Any],
) -> Rendered:
    plain_form = _Form("txt", escaping.clean)
    errors: list[str] = []

    def body(form: _Form) -> str:
        try:
            return _fill(speaker.language, names, form, facts)
        except Exception as error:  # noqa: BLE001  a border: whatever a template does, the alert is told
            errors.append(f"{type(error).__name__}: {error}"[:300])
            return _built_in(facts, form)

    plain = body(plain_form)
    text, html = plain, None
    if adapter.format == "html":
        html = body(_Form("html", adapter.escape)) if not errors else None
    elif adapter.format in QUOTES:
        text = body(_Form("md", adapter.escape, QUOTES[adapter.format]))
    message = Message(
        id=view.delivery_id,
        title=facts["title"],
        text=text,
        plain=plain,
        severity=Severity(view.severity),
        status=view.status,
        html=html,
        link=facts["link"],
        thread=view.thread,
        document=document,
    )
    return Rendered(message, errors[0] if errors else None)


def _fill(language: str, names: Sequence[str], form: _Form, facts: Mapping[str, Any]) -> str:
    environment = _environment(form.escape)
    template = environment.select_template([f"{language}/{name}.{form.suffix}.j2" for name in names])
    pieces, size = [], 0
    for piece in template.generate({**facts, "quote": Raw(form.quote)}):
        size += len(piece)
        if size > MAX_OUTPUT:
            raise TemplateError(f"the template gave more than {MAX_OUTPUT} characters")
        pieces.append(piece)
    return "".join(pieces).strip("\n")


class Raw(str):
    """Markup of our own."""


@cache
def _environment(escape: Callable[[str], str]) -> ImmutableSandboxedEnvironment:
    """Every value is made literal on its way into the text; only our own links and marks pass as they are."""

    def literal(value: Any) -> str:
        if isinstance(value, Link | Raw) or hasattr(value, "__html__"):
            return str(value)
        return escape("" if value is None else str(value))

    return ImmutableSandboxedEnvironment(
        loader=FileSystemLoader(templates.__path__[0]),
        finalize=literal,
        undefined=ChainableUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )


def _built_in(facts: Mapping[str, Any], form: _Form) -> str:
    """What is told when the template fails: all that matters, a line each."""
    lines = [form.escape(str(facts[name])) for name in FALLBACK_FACTS if facts.get(name)]
    lines += [form.escape(f"{row['time']} {row['title']}") for row in facts.get("alerts", ())]
    return "\n".join([*lines, *([facts["link"]] if facts.get("link") else [])])[:MAX_OUTPUT]


def _line(speaker: Speaker, view: AlertView) -> str:
    facts = speaker.facts(view)
    said = (facts["headline"] or facts["text"], facts["culprit"], facts["decision"], facts["recovered"])
    return " · ".join(" ".join(str(one).split()) for one in said if one)[:300]


def _document(view: AlertView, facts: Mapping[str, Any], speaker: Speaker) -> dict[str, Any]:
    """The `faultcast` webhook body (CONTRACT 4), less what the adapter knows from the message."""
    return {
        "id": view.alert_id,
        "delivery_id": view.delivery_id,
        "time": rfc3339(view.created_at),
        "created_at": rfc3339(view.created_at),
        "resolved_at": rfc3339(view.resolved_at) if view.resolved_at else None,
        "item": view.item,
        "items": list(view.items),
        "severity": view.severity,
        "status": view.status,
        "title": facts["title"],
        "text": str(facts["headline"] or facts["text"]),
        "job": view.job,
        "event": speaker.event(view.event),
        "labels": dict(view.labels),
        "links": {"job" if view.job else "delivery": str(facts["link"])} if facts["link"] else {},
    }
