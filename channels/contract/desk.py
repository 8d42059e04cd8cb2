"""Sends one subject's messages to the played providers and tells what came of it."""

import atexit
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from ipaddress import ip_network
from typing import Any

from channels.base import Answer, ChannelConfig, Message, Part, Severity
from channels.contract.subject import Subject
from channels.standin import Received, Scripted, StandIn
from channels.transport import Network

LOOPBACK = (ip_network("127.0.0.0/8"),)


@cache
def running() -> StandIn:
    """The played providers, one set for a whole test process."""
    providers = StandIn().start()
    atexit.register(providers.stop)
    return providers


class Desk:
    """One subject before its played provider; `now` and `network` may be changed by a case."""

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self.providers = running()
        self.providers.clear()
        self.network = Network(allow=LOOPBACK, timeout_s=1.0, smtp_timeout_s=2.0)
        self.now = datetime.now(UTC)  # noqa: TID251  a played provider looks at the real clock

    def channel(self, **more: Any) -> ChannelConfig:
        return self.subject.channel(self.providers, **more)

    def parts(self, message: Message, config: ChannelConfig) -> list[Part]:
        """Templates of the config's own come out as the alert's words in one line."""
        words = " ".join(message.plain.split())
        told = replace(message, params=dict.fromkeys(config.templates(), words))
        return self.subject.adapter.parts(told, config)

    def send(self, message: Message, config: ChannelConfig) -> list[Answer]:
        return [self.send_part(part, config) for part in self.parts(message, config)]

    def send_part(self, part: Part, config: ChannelConfig) -> Answer:
        return self.subject.adapter.send(part, config, self.network, self.now)

    def answered(self, *scripted: Scripted) -> Answer:
        """What the adapter makes of a made-up answer."""
        config = self.channel()
        self.providers.script(self.subject.played, *scripted)
        return self.send_part(self.parts(make_message(), config)[0], config)

    def arrived(self) -> list[Received]:
        """What the provider took, in order."""
        return self.providers.messages(self.subject.journal or self.subject.played, accepted=True)


def make_message(**changes: Any) -> Message:
    """An alert as rendering hands it over."""
    text = changes.pop("text", "culprit: rank 3 on node-b\ndecision: restart")
    given = {
        "id": "dlv_01", "title": "llm-训练 failed", "text": text, "plain": text,
        "severity": Severity.ERROR, "html": f"<p>{text}</p>", "link": "https://faultcast.example.com/a/1",
        "thread": "alert_01", "document": {"item": "jobFailed", "labels": {"team": "nlp"}},
    }  # fmt: skip
    return Message(**{**given, **changes})
