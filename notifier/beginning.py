"""Plain deliveries of a claim begin together: their intents are written by one statement, in one commit.

Plain is a first try in built-in words, in one part, to somebody who has no limit and no name; all else is
begun by whoever sends it (`notifier/sending.py`).
"""

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import structlog
from sqlalchemy.exc import SQLAlchemyError

from channels.base import Answer, ChannelConfig
from notifier import meters
from notifier.attempts import First, intend_all
from notifier.channels import load_config
from notifier.clock import utcnow
from notifier.copies import Copies
from notifier.doubts import found_all
from notifier.errors import kind_and_place
from notifier.leases import LEASE
from notifier.messages import Made, make
from notifier.model import Channel
from notifier.secretbox import SecretBox
from notifier.settings import Settings
from notifier.storage import InDoubtError, Store
from notifier.tasks import Task
from notifier.writer import Writer

MAX_OPENED = 1000  # configs that are kept opened
AGAIN_S = 0.2  # between two looks for what may be kept

log = structlog.get_logger()


@dataclass(frozen=True)
class Begun:
    """The message of a delivery whose intent is committed. `answer`: it was sent, and this came of it."""

    made: Made
    attempt_id: int
    answer: Answer | None = None


@dataclass(frozen=True)
class Beginner:
    """Begins what is plain.

    `opened`: the configs that were opened last, by channel, each with what it was made of.
    """

    store: Store
    writer: Writer
    box: SecretBox
    settings: Settings
    opened: dict[str, tuple[tuple[Any, ...], ChannelConfig]] = field(default_factory=dict, repr=False)
    copies: Copies = field(default_factory=Copies, repr=False)

    def begin(self, tasks: Sequence[Task]) -> Mapping[str, Begun]:
        """By delivery; what is not among them has not begun."""
        configs = self._configs(tasks)
        found = [(task, self._made(task, configs)) for task in tasks if is_first(task)]
        ready = [(task, made) for task, made in found if made is not None]
        if not ready:
            return {}
        intents = [_intent(task, made) for task, made in ready]
        try:
            ids = self._written(intents)
        except BaseException as error:  # noqa: BLE001  a border: what is claimed must reach its sender, who finds out
            log.info("not_begun_together", count=len(ready), why=type(error).__name__)
            return {}
        return {
            task.row.id: Begun(made, attempt_id)
            for (task, made), attempt_id in zip(ready, ids, strict=True)
        }  # fmt: skip

    def _written(self, intents: Sequence[First]) -> Sequence[int]:
        """Their attempts; where nobody knows whether they were kept, as they are found, if they are found
        before the leases end."""
        until = time.monotonic() + LEASE.total_seconds()
        try:
            return self.writer.run(lambda session: intend_all(session, intents, self.store.now(session)))
        except InDoubtError:
            while time.monotonic() < until:
                with suppress(SQLAlchemyError), self.store.read() as session:
                    return found_all(session, intents)
                time.sleep(AGAIN_S)
            raise

    def _configs(self, tasks: Sequence[Task]) -> Mapping[str, ChannelConfig]:
        """Of each channel once; those that cannot be read are left out."""
        found = {}
        for channel in {task.channel.id: task.channel for task in tasks}.values():
            try:
                found[channel.id] = self._config(channel)
            except BaseException as error:  # noqa: BLE001  a border: what is claimed must reach its sender
                log.info("config_not_read", channel=channel.id, why=kind_and_place(error))
        return found

    def _config(self, channel: Channel) -> ChannelConfig:
        made_of = (channel.kind, channel.config, channel.secrets)
        known, config = self.opened.get(channel.id, (None, None))
        if config is None or known != made_of:
            if len(self.opened) >= MAX_OPENED:
                self.opened.clear()
            config = load_config(channel, self.box)
            self.opened[channel.id] = (made_of, config)
        return config

    def _made(self, task: Task, configs: Mapping[str, ChannelConfig]) -> Made | None:
        """Its message, if it is plain."""
        config = configs.get(task.channel.id)
        if config is None:
            return None
        try:
            if config.templates():
                return None
            made = make(task, (), self.box, self.settings, config, self.copies)
            return made if isinstance(made, Made) and is_plain(task, made) else None
        except BaseException as error:  # noqa: BLE001  a border: one message must not keep the others from being sent
            log.info("not_made", delivery=task.row.id, why=kind_and_place(error))
            return None


def is_first(task: Task) -> bool:
    """Whether nothing was done for it yet, and users' templates, which may take long, are not for it."""
    is_new = task.row.attempt_count == 0 and not task.earlier and not task.in_doubt and not task.row.mends
    return is_new and not task.own and not task.row.is_digest


def is_plain(task: Task, made: Made) -> bool:
    """Whether nobody is named, nothing is counted, and a lost answer is no reason to ask."""
    names = meters.names(made.config, task.row.channel_id)
    is_limited = any(meters.limits(made.adapter, names.values(), utcnow()).values())
    return len(made.parts) == 1 and set(names) == {""} and not is_limited and made.adapter.resend_when_unknown


def _intent(task: Task, made: Made) -> First:
    row = task.row
    return First(row.id, row.channel_id, task.token, row.trigger, made.shown, task.claimed_at)
