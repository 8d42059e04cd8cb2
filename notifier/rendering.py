"""From an alert to the message of one channel. Whatever templates or data do, there is a message."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from channels import escaping
from channels.base import Adapter
from notifier import templating
from notifier.clock import rfc3339
from notifier.composing import FIRING, Composition, OwnWords, Rendered
from notifier.facts import event_in
from notifier.forms import Border, told
from notifier.gathering import gathered, headed
from notifier.heading import Told
from notifier.heading import head as head_of
from notifier.templating_child import MAX_OUTPUT
from notifier.wording import (
    RESOLVED,
    AlertView,
    Speaker,
    mapping,
    one_line,
    severity_of,
    speaker,
    words_of,
)

__all__ = ["AlertView", "OwnWords", "Rendered", "render", "render_digest", "render_params", "trial_view"]

MAX_GIST = 60


def render(
    view: AlertView,
    adapter: Adapter,
    language: str,
    timezone: str,
    public_url: str | None,
    own: OwnWords | None = None,
) -> Rendered:
    """The message of one alert."""
    say, border = speaker(language, timezone, public_url), Border()
    facts = told(view, say, border)
    composed = Composition(view, adapter, say, border, (f"{say.language}/{view.item}", "forms/alert"), own)
    return composed.rendered(facts, border.attempt(lambda: _document(view, facts, say), dict))


def render_digest(  # noqa: PLR0913, PLR0917  what is told, on what, and how
    views: Sequence[AlertView],
    delivery_id: str,
    adapter: Adapter,
    language: str,
    timezone: str,
    public_url: str | None,
    own: OwnWords | None = None,
    space: Sequence[int] = (),
) -> Rendered:
    """One message that names every alert in it, oldest first, headed by what `notifier/heading.py` says.

    `space` is the channel's (`Adapter.space`).

    Raises:
        ValueError: there is no alert to tell.
    """
    say, border = speaker(language, timezone, public_url), Border()
    known = [(view, told(view, say, border)) for view in views]
    head, head_facts = known[_head(views)]
    whole = replace(head, delivery_id=delivery_id)
    count = _count(views)
    if count > 1:
        head_facts = {**head_facts, "ack": None}  # nobody can take on several with one link
    # The same alert may be told twice in the same words: sent again on request, or by two rules.
    rows = list({(view.alert_id, one["time"], one["title"]): one for view, one in known}.values())
    facts = {
        **headed(head_facts, len(rows)), "title": _counted(say.title(whole), count, say),
        "text": "", "evidence": [], "tail": [], "count": count,
        "intro": say.words["digest_intro" if count > 1 else "digest_of_one"].format(count=count),
        "alerts": gathered(rows, say, space, adapter.escape),
    }  # fmt: skip
    document = {
        **_document(head, head_facts, say), "delivery_id": delivery_id,
        "alerts": [_document(view, one, say) for view, one in known],
    }  # fmt: skip
    composed = Composition(whole, adapter, say, border, (f"{say.language}/digest", "forms/digest"), own)
    return composed.rendered(facts, document)


def render_params(
    views: Sequence[AlertView],
    templates: Mapping[str, str],
    language: str,
    timezone: str,
    public_url: str | None,
) -> tuple[dict[str, str], str | None]:
    """A channel's own `params`, each one line of text; and what went wrong, for which a short text stands.

    Of several alerts the one that heads them is told, and how many others there are.
    """
    say, border = speaker(language, timezone, public_url), Border()
    facts = told(views[_head(views)], say, border)
    gist = one_line(f"{facts.get('what', '')} {facts.get('job', '')}", MAX_GIST)
    gist = _counted(gist, _count(views), say)
    filled = templating.fill(templates, {**facts, "title": gist})
    texts = {name: templating.written(text, escaping.clean) for name, text in filled.texts.items()}
    params = {name: one_line(texts.get(name, gist), MAX_OUTPUT) for name in templates}
    faults = [f"params.{name}: {fault}" for name, fault in filled.faults.items()]
    return params, next(iter([*faults, *border.errors]), None)


def _head(views: Sequence[AlertView]) -> int:
    return head_of(
        [
            Told(view.alert_id, severity_of(view.severity), view.status == RESOLVED, bool(view.acked_by))
            for view in views
        ]
    )


def _count(views: Sequence[AlertView]) -> int:
    """How many alerts: an alert and its end are one."""
    return len({view.alert_id for view in views})


def _counted(title: str, count: int, say: Speaker) -> str:
    if count == 1:
        return title
    return str(say.words["digest_title"].format(title=title, count=count, others=count - 1))


def trial_view(delivery_id: str, channel: str, language: str, now: datetime) -> AlertView:
    """What a test message tells."""
    words = words_of(language)
    text = words["test_text"].format(channel=channel)
    return AlertView(delivery_id, None, "custom", (), "info", FIRING, words["test_title"], text, now)


def _document(view: AlertView, facts: Mapping[str, Any], say: Speaker) -> dict[str, Any]:
    """The `faultcast` webhook body (CONTRACT 4), less what the adapter knows from the message."""
    page = "job" if mapping(view.job).get("id") else "delivery"
    ours = {name: str(link) for name, link in ((page, facts["link"]), ("ack", facts["ack"])) if link}
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
        "links": {**ours, **mapping(view.links)},
        "trigger": view.trigger,
        "incident": dict(view.incident),
    }
