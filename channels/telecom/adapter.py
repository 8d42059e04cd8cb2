"""What texts and calls have in common as channel kinds: the provider that the config names does the rest."""

from abc import abstractmethod
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Any, ClassVar

from channels.base import Adapter, Answer, Limit, Message, Outcome, Part, Recipient, Sent
from channels.telecom.base import Order, Telecom
from channels.telecom.config import TelecomConfig, missing_sdk, provider
from channels.transport import Network

NOBODY_LEFT = Answer(Outcome.DELIVERED, code="nobody_left", message="everybody was told before")


class TelecomAdapter(Adapter):
    """A kind whose recipients are numbers; `place` tells how it asks a provider to reach them."""

    resend_when_unknown: ClassVar[bool] = False

    @abstractmethod
    def place(self, one: Telecom, order: Order, config: Any, network: Network, now: datetime) -> Answer:
        """Have this provider send a text, or place a call."""

    def parts(self, message: Message, config: TelecomConfig) -> list[Part]:  # noqa: ARG002  the same for all
        """Providers cut texts and variables themselves, each by its own rules, when they are sent."""
        text = message.plain if message.is_plain else message.text
        return [Part(1, 1, {"text": text, "params": dict(message.params)}, message)]

    def addressed(self, config: TelecomConfig, left: Collection[str] | None) -> tuple[str, ...]:
        return tuple(number for number in config.to if left is None or number in left)

    def send(
        self,
        part: Part,
        config: TelecomConfig,
        network: Network,
        now: datetime,
        only: frozenset[str] | None = None,
    ) -> Answer:
        to = self.addressed(config, only)
        if not to:
            return NOBODY_LEFT
        if (mend := missing_sdk(config.provider)) is not None:
            return Answer(Outcome.CHANNEL_BROKEN, code="no_sdk", message=mend)
        order = Order(to, part.payload["text"], part.payload["params"], part.message.id)
        return self.place(provider(config.provider), order, config, network, now)

    def limits_of(self, meter: str, now: datetime) -> tuple[Limit, ...]:
        """`meter`: `kind:provider:…`, as the config names it."""
        return provider(meter.split(":", 2)[1]).limits(self.kind, now)

    def receipt_times(self, config: TelecomConfig) -> tuple[timedelta, ...]:
        return tuple(provider(config.provider).receipts_after.get(self.kind, ()))

    def receipts(
        self, sent: Sequence[Sent], config: TelecomConfig, network: Network, now: datetime
    ) -> tuple[Recipient, ...]:
        if missing_sdk(config.provider) is not None:
            return ()
        return provider(config.provider).receipts(self.kind, sent, config, network, now)
