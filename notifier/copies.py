"""What an alert says on several channels is rendered once: only links differ, for they name the delivery.

For first tries, in built-in words. All else is rendered by itself (`notifier/rendering.py`).
"""

from collections import OrderedDict
from dataclasses import dataclass, field, fields, replace
from operator import attrgetter
from typing import Any

from channels.base import Adapter, Message
from notifier.composing import WITHOUT_LINK, Rendered
from notifier.rendering import render
from notifier.wording import AlertView, speaker

KEPT = 512  # messages
# All that is told, but for what names the delivery.
_TOLD = attrgetter(*(one.name for one in fields(AlertView) if one.name not in ("delivery_id", "ack")))


@dataclass(frozen=True)
class Copies:
    """The messages that were made last, each with what it tells: an alert that has changed since is rendered
    anew. For one thread."""

    known: OrderedDict[tuple[Any, ...], tuple[Any, Message]] = field(default_factory=OrderedDict)

    def render(
        self, view: AlertView, adapter: Adapter, language: str, timezone: str, public_url: str | None
    ) -> Rendered:
        """The same as `render` makes."""
        how = (adapter, language, timezone, public_url)
        if view.alert_id is None or adapter.format in WITHOUT_LINK:
            return render(view, *how)
        key, told = (how, view.alert_id, view.item, view.status, view.ack is None), _TOLD(view)
        known = self.known.get(key)
        if known is not None and known[0] == told:
            say = speaker(language, timezone, public_url)
            copy = copied(known[1], view.delivery_id, say.link(view), say.ack_link(view))
            if copy is not None:
                return Rendered(copy)
        rendered = render(view, *how)
        if rendered.template_error is None:
            self.known[key] = (told, rendered.message)
            if len(self.known) > KEPT:
                self.known.popitem(last=False)
        return rendered


def copied(message: Message, delivery_id: str, link: str | None, ack_link: str | None) -> Message | None:
    """The message of another delivery of the same alert; None where more than our links names the first one.
    Pure."""
    known = ((message.link, link), (message.ack_link, ack_link))
    swaps = {old: new for old, new in known if old is not None and new is not None and old != new}

    def swapped(text: str) -> str:
        for old, new in swaps.items():
            text = text.replace(old, new)
        return text

    text, plain = swapped(message.text), swapped(message.plain)
    html = None if message.html is None else swapped(message.html)
    if any(message.id in one for one in (message.title, text, plain, html or "")):
        return None
    document = {**message.document, "delivery_id": delivery_id}
    links = message.document.get("links")
    if swaps and links:
        ours = {str(old): str(new) for old, new in swaps.items()}
        document["links"] = {
            name: ours.get(one, one) if isinstance(one, str) else one for name, one in links.items()
        }
    return replace(
        message,
        id=delivery_id,
        text=text,
        plain=plain,
        html=html,
        link=link,
        ack_link=ack_link,
        document=document,
    )
