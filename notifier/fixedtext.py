"""How much of a message is left for the alert, once title, mentions and keyword have had their share."""

from typing import Any

from channels.base import Adapter, ChannelConfig, Message, Severity
from channels.transport import encode

LEAST = 0.6  # of a message: less room than that is worth a word
TITLE = "训" * 120
LINE = "x" * 99
LINES = 700  # longer than any message that has a limit worth a word


def fixed_text(adapter: Adapter, config: ChannelConfig) -> tuple[str, ...]:
    """Warnings for whoever saves the channel. Pure: nothing is sent."""
    return (*_keyword(config), *_room(adapter, config))


def _keyword(config: Any) -> tuple[str, ...]:
    keyword = getattr(config, "keyword", None)
    if not keyword:
        return ()
    return (f"keyword: {keyword} is added to every message, and to every part of one, that does not hold it",)


def _room(adapter: Adapter, config: ChannelConfig) -> tuple[str, ...]:
    """Measured on a message that is too long and calls everybody whom the channel names."""
    text = "\n".join([LINE] * LINES)
    message = Message("dlv_" + "0" * 26, TITLE, text, text, Severity.CRITICAL)
    first, *more = adapter.parts(message, config)
    size = len(encode(dict(first.payload)))
    left = _words(first.payload).count(LINE) * len(LINE)
    if left >= LINES * len(LINE) or left >= LEAST * size or not (more or left):
        return ()
    return (
        f"mentions: with title and keyword they leave {left} of a message's {size} bytes for the alert, which"
        " is told in more parts or cut short: mention fewer people",
    )


def _words(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return "\n".join(_words(one) for one in value.values())
    return "\n".join(_words(one) for one in value) if isinstance(value, list | tuple) else ""
