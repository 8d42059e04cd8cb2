"""Short messages, through whichever provider the channel names."""

from datetime import datetime
from typing import ClassVar

from channels.base import Answer, ChannelConfig
from channels.telecom.adapter import TelecomAdapter
from channels.telecom.base import SMS, Order, Telecom
from channels.telecom.config import TelecomConfig, Text
from channels.transport import Network


class SmsConfig(TelecomConfig):
    channel: ClassVar[str] = SMS

    sign_name: Text | None = None


class Sms(TelecomAdapter):
    kind: ClassVar[str] = SMS
    Config: ClassVar[type[ChannelConfig]] = SmsConfig
    format: ClassVar[str] = "sms"

    def place(self, one: Telecom, order: Order, config: SmsConfig, network: Network, now: datetime) -> Answer:
        return one.text(order, config, network, now)
