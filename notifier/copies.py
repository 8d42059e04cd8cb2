"""What an alert says on several channels is rendered once: only links differ, for they name the delivery.

For the first tries of one claim, in built-in words. All else is rendered by itself (`notifier/rendering.py`).
"""

from dataclasses import dataclass, field, replace
from typing import Any

from channels.base import Adapter, Message
from notifier.composing import WITHOUT_LINK, Rendered
from notifier.rendering import render
from notifier.wording import AlertView, speaker


@dataclass(frozen=True)
class Copies:
    """Of one claim, whose alerts were read once: those of one id are the same."""

    known: dict[tuple[Any, ...], Message] = field(default_factory=dict)

    def render(
        self, view: AlertView, adapter: Adapter, language: str, timezone: str, public_url: str | None
    ) -> Rendered:
        """The same as `render` makes."""
        how = (adapter, language, timezone, public_url)
        if view.alert_id is None or adapter.format in WITHOUT_LINK:
            return render(view, *how)
        told = (view.alert_id, view.item, tuple(view.items), view.severity, view.status, view.ack is None)
        key = (how, told, view.trigger, view.open_s)
        if key in self.known:
            say = speaker(language, timezone, public_url)
            copy = copied(self.known[key], view.delivery_id, say.link(view), say.ack_link(view))
            if copy is not None:
                return Rendered(copy)
        rendered = render(view, *how)
        if rendered.template_error is None:
            self.known[key] = rendered.message
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
