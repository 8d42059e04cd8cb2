"""What every provider of short messages and calls can do, for `channels/sms.py` and `channels/phone.py`."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, ClassVar

from channels.base import Answer, Limit, Recipient, Sent
from channels.numbers import Rules
from channels.transport import Network

SMS = "sms"
PHONE = "phone"


@dataclass(frozen=True)
class Order:
    """One text for some numbers, or one call to one number.

    Attributes:
        to: E.164 numbers.
        text: the whole text, or what is spoken; for providers without templates.
        params: for the provider's template: by name, or in this order where it counts them.
        reference: the delivery's id, given to the provider where it takes such a thing.
    """

    to: tuple[str, ...]
    text: str
    params: Mapping[str, str]
    reference: str


class Telecom(ABC):
    """One provider. Stateless; its SDK is imported when it is first used.

    Class attributes:
        name: as `provider` in a channel's config.
        kinds: `sms`, `phone` or both.
        module: of the SDK, by which its extra is known to be installed; `extra` is that extra's name.
        rules: by kind, what the values of a template's variables may be; a kind that is missing has none.
        receipts_after: by kind, as `Adapter.receipts_after`; a kind that is missing cannot be asked.
    """

    name: ClassVar[str]
    kinds: ClassVar[frozenset[str]]
    module: ClassVar[str]
    extra: ClassVar[str]
    rules: ClassVar[Mapping[str, Rules]] = {}
    receipts_after: ClassVar[Mapping[str, tuple[timedelta, ...]]] = {}

    @abstractmethod
    def check(self, kind: str, config: Any) -> None:
        """Raises ValueError that names the field and the mend where this provider needs something else."""

    @abstractmethod
    def text(self, order: Order, config: Any, network: Network, now: datetime) -> Answer:
        """Send a text; an outcome and a message id for each number. Never raises for what the network or
        the provider does."""

    def call(self, order: Order, config: Any, network: Network, now: datetime) -> Answer:
        """Place a call to the one number of the order."""
        raise NotImplementedError

    def receipts(
        self, kind: str, sent: Sequence[Sent], config: Any, network: Network, now: datetime
    ) -> tuple[Recipient, ...]:
        """As `Adapter.receipts`."""
        return ()

    @abstractmethod
    def limits(self, kind: str, now: datetime) -> tuple[Limit, ...]:
        """What one number may be sent, by default (PROVIDERS 1.5, 1.6)."""

    def counted(self, kind: str, config: Any) -> tuple[str, ...]:
        """What it counts a number's sends by, beside the account: sends that differ in it share no limit."""
        return ()
