"""Short messages, through whichever provider the channel names."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, ClassVar

from channels.base import Adapter, Answer, ChannelConfig, Limit, Message, Outcome, Part, Recipient, Sent
from channels.telecom.base import SMS, Order
from channels.telecom.config import TelecomConfig, Text, missing_sdk, provider
from channels.transport import Network

NOBODY_LEFT = Answer(Outcome.DELIVERED, code="nobody_left", message="everybody was told before")


class SmsConfig(TelecomConfig):
    channel: ClassVar[str] = SMS

    sign_name: Text | None = None


class Sms(Adapter):
    kind: ClassVar[str] = SMS
    Config: ClassVar[type[ChannelConfig]] = SmsConfig
    format: ClassVar[str] = "sms"
    resend_when_unknown: ClassVar[bool] = False
    expires_after: ClassVar[timedelta] = timedelta(hours=24)

    def parts(self, message: Message, config: SmsConfig) -> list[Part]:  # noqa: ARG002  the same for all
        return one_part(message)

    def send(
        self,
        part: Part,
        config: SmsConfig,
        network: Network,
        now: datetime,
        only: frozenset[str] | None = None,
    ) -> Answer:
        to = tuple(number for number in config.to if only is None or number in only)
        if not to:
            return NOBODY_LEFT
        if (mend := missing_sdk(config.provider)) is not None:
            return no_sdk(mend)
        return provider(config.provider).text(order(part, to), config, network, now)

    def limits_of(self, meter: str, now: datetime) -> tuple[Limit, ...]:
        return limits_of(self.kind, meter, now)

    def receipt_times(self, config: SmsConfig) -> tuple[timedelta, ...]:
        return tuple(provider(config.provider).receipts_after.get(self.kind, ()))

    def receipts(
        self, sent: Sequence[Sent], config: SmsConfig, network: Network, now: datetime
    ) -> tuple[Recipient, ...]:
        return receipts_of(self.kind, sent, config, network, now)


def one_part(message: Message) -> list[Part]:
    """Providers cut texts and variables themselves, each by its own rules, when they are sent."""
    text = message.plain if message.is_plain else message.text
    return [Part(1, 1, {"text": text, "params": dict(message.params)}, message)]


def order(part: Part, to: tuple[str, ...]) -> Order:
    payload: dict[str, Any] = dict(part.payload)
    return Order(to, payload["text"], payload["params"], part.message.id)


def no_sdk(mend: str) -> Answer:
    return Answer(Outcome.CHANNEL_BROKEN, code="no_sdk", message=mend)


def receipts_of(
    kind: str, sent: Sequence[Sent], config: TelecomConfig, network: Network, now: datetime
) -> tuple[Recipient, ...]:
    if missing_sdk(config.provider) is not None:
        return ()
    return provider(config.provider).receipts(kind, sent, config, network, now)


def limits_of(kind: str, meter: str, now: datetime) -> tuple[Limit, ...]:
    """`meter`: `kind:provider:…`, as the config names it."""
    return provider(meter.split(":", 2)[1]).limits(kind, now)
