"""What all senders of a process share."""

from dataclasses import dataclass

from channels.transport import Network
from notifier.leases import Leases
from notifier.secretbox import SecretBox
from notifier.settings import Settings
from notifier.storage import Store
from notifier.writer import Writer


@dataclass(frozen=True)
class Tools:
    """One of each, for all threads."""

    store: Store
    writer: Writer
    leases: Leases
    box: SecretBox
    network: Network
    settings: Settings
