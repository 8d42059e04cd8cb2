"""Phone calls that speak a template: one number at a time, in the order in which people are to be called."""

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Annotated, ClassVar

from pydantic import Field

from channels.base import Answer, ChannelConfig
from channels.fields import Whole
from channels.telecom.adapter import TelecomAdapter
from channels.telecom.base import PHONE, Order, Telecom
from channels.telecom.config import TelecomConfig, Text
from channels.transport import Network


class PhoneConfig(TelecomConfig):
    channel: ClassVar[str] = PHONE

    play_times: Annotated[Whole, Field(ge=1, le=3)] | None = None
    called_show_number: Text | None = None


class Phone(TelecomAdapter):
    kind: ClassVar[str] = PHONE
    Config: ClassVar[type[ChannelConfig]] = PhoneConfig
    format: ClassVar[str] = "speech"
    expires_after: ClassVar[timedelta] = timedelta(minutes=30)
    is_sequential: ClassVar[bool] = True

    def addressed(self, config: TelecomConfig, left: Collection[str] | None) -> tuple[str, ...]:
        return super().addressed(config, left)[:1]

    def place(
        self, one: Telecom, order: Order, config: PhoneConfig, network: Network, now: datetime
    ) -> Answer:
        return one.call(order, config, network, now)
