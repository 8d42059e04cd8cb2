"""From a task to what an adapter sends: config opened, message rendered, mended and cut into parts."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic import ValidationError

from channels.base import Adapter, Answer, ChannelConfig, Mend, Message, Outcome, Part
from channels.cutting import shortened
from channels.registry import adapter as adapter_of
from notifier import acklinks, metrics
from notifier.channels import load_config
from notifier.composing import WITHOUT_LINK
from notifier.copies import Copies
from notifier.rendering import Rendered, render, render_digest, render_params
from notifier.secretbox import SecretBox, WrongKeyError
from notifier.settings import Settings
from notifier.tasks import Task
from notifier.usertemplates import pick

NO_ALERT = Answer(Outcome.REFUSED, code="no_alert", message="the alert is not kept any more")
UNREADABLE = Answer(
    Outcome.CHANNEL_BROKEN,
    code="unreadable_config",
    message="the channel's configuration cannot be read: save it again",
)


@dataclass(frozen=True)
class Made:
    """A message ready to be sent.

    Attributes:
        shown: what the delivery log keeps of it.
        note: what people should know about it.
    """

    adapter: Adapter
    config: Any
    parts: Sequence[Part]
    shown: dict[str, Any]
    note: str = ""


def make(
    task: Task,
    mends: Sequence[str],
    box: SecretBox,
    settings: Settings,
    config: ChannelConfig | None = None,
    copies: Copies | None = None,
) -> Made | Answer:
    """The message and its parts; or an answer, because there can be none. `config`: the channel's, if it was
    opened before. `copies`: what was made last."""
    adapter = adapter_of(task.channel.kind)
    if not task.views:
        return NO_ALERT
    try:
        config = config or load_config(task.channel, box)
    except (WrongKeyError, ValidationError):
        return UNREADABLE
    if settings.public_url is not None and adapter.format not in WITHOUT_LINK:
        task = _with_links(task, box)
    rendered = _render(task, adapter, settings, copies)
    params, params_error = _params(task, config, settings)
    message = rendered.message
    if params or message.id != task.row.id:
        message = replace(message, id=task.row.id, params=params)
    message = _mended(message, mends)
    form = "text" if message.is_plain else adapter.format
    text = message.plain if message.is_plain else message.text
    note, template_error = "", rendered.template_error or params_error
    if template_error is not None:
        metrics.TEMPLATE_ERRORS.labels(task.row.item).inc()
        note = f"told in built-in words, because the template failed: {template_error}"
    shown: dict[str, Any] = {"title": message.title, "text": acklinks.masked(text), "format": form}
    if params:
        shown["params"] = params
    return Made(adapter, config, adapter.parts(message, config), shown, note)


def _with_links(task: Task, box: SecretBox) -> Task:
    """Whoever reads it can take it on."""
    channel_id = task.row.channel_id
    views = (replace(view, ack=acklinks.token_of(view, channel_id, box)) for view in task.views)
    return replace(task, views=tuple(views))


def _render(task: Task, adapter: Adapter, settings: Settings, copies: Copies | None) -> Rendered:
    row = task.row
    language = row.language or settings.language
    how = (adapter, language, row.timezone or settings.timezone, settings.public_url)
    own = pick(task.own, language)
    if row.is_digest:
        space = adapter.space(task.channel.config)
        return render_digest(task.views, row.id, *how, own, space)
    if copies is not None and own is None:
        return copies.render(task.views[0], *how)
    return render(task.views[0], *how, own)


def _params(task: Task, config: ChannelConfig, settings: Settings) -> tuple[dict[str, str], str | None]:
    templates, row = config.templates(), task.row
    if not templates:
        return {}, None
    language, timezone = row.language or settings.language, row.timezone or settings.timezone
    return render_params(task.views, templates, language, timezone, settings.public_url)


def _mended(message: Message, mends: Iterable[str]) -> Message:
    for mend in mends:
        if mend == Mend.PLAIN_TEXT:
            message = replace(message, is_plain=True)
        elif mend == Mend.SHORTEN:
            message = shortened(message)
    return message
