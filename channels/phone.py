"""Phone calls that speak a template: one number at a time, in the order in which people are to be called."""

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Annotated, ClassVar

from pydantic import Field

from channels.base import Adapter, Answer, ChannelConfig, Limit, Message, Part, Recipient, Sent
from channels.fields import Whole
from channels.sms import NOBODY_LEFT, limits_of, no_sdk, one_part, order, receipts_of
from channels.telecom.base import PHONE
from channels.telecom.config import TelecomConfig, Text, missing_sdk, provider
from channels.transport import Network


class PhoneConfig(TelecomConfig):
    channel: ClassVar[str] = PHONE

    play_times: Annotated[Whole, Field(ge=1, le=3)] | None = None
    called_show_number: Text | None = None


class Phone(Adapter):
    kind: ClassVar[str] = PHONE
    Config: ClassVar[type[ChannelConfig]] = PhoneConfig
    format: ClassVar[str] = "speech"
    resend_when_unknown: ClassVar[bool] = False
    expires_after: ClassVar[timedelta] = timedelta(minutes=30)
    is_sequential: ClassVar[bool] = True

    def parts(self, message: Message, config: PhoneConfig) -> list[Part]:  # noqa: ARG002  the same for all
        return one_part(message)

    def addressed(self, config: PhoneConfig, left: Collection[str] | None) -> tuple[str, ...]:
        return tuple(number for number in config.to if left is None or number in left)[:1]

    def send(
        self,
        part: Part,
        config: PhoneConfig,
        network: Network,
        now: datetime,
        only: frozenset[str] | None = None,
    ) -> Answer:
        to = self.addressed(config, only)
        if not to:
            return NOBODY_LEFT
        if (mend := missing_sdk(config.provider)) is not None:
            return no_sdk(mend)
        return provider(config.provider).call(order(part, to), config, network, now)

    def limits_of(self, meter: str, now: datetime) -> tuple[Limit, ...]:
        return limits_of(self.kind, meter, now)

    def receipt_times(self, config: PhoneConfig) -> tuple[timedelta, ...]:
        return tuple(provider(config.provider).receipts_after.get(self.kind, ()))

    def receipts(
        self, sent: Sequence[Sent], config: PhoneConfig, network: Network, now: datetime
    ) -> tuple[Recipient, ...]:
        return receipts_of(self.kind, sent, config, network, now)
