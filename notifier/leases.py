"""What this process holds: a lease for each delivery it sends, a thread for it, a fair share of them."""

import threading
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import cast

from sqlalchemy import Table, bindparam
from sqlalchemy.orm import Session

from notifier.model import Delivery

LEASE = timedelta(seconds=5)
RENEW_EVERY_S = 1.5
_D = cast(Table, Delivery.__table__)
_RENEW = (
    _D.update()
    .where(
        _D.c.id.in_(bindparam("ids", expanding=True)),
        _D.c.lease_token.in_(bindparam("tokens", expanding=True)),
        _D.c.state == "sending",
    )
    .values(lease_until=bindparam("until"), next_attempt_at=bindparam("until"))
    .returning(_D.c.id, _D.c.lease_token)
)
SHARE = 4  # a channel may hold a fourth of the senders


class Slots:
    """The sending threads. A slow provider holds a fourth of them at most, and the last fourth goes one by
    one to channels that have none, so that many slow ones do not keep the next channel waiting either."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._share = max(1, total // SHARE)
        self._reserve = total // SHARE
        self._busy: Counter[str] = Counter()
        self._sum = 0
        self._lock = threading.Lock()

    def room(self, channel_id: str, promised: int = 0) -> int:
        """How many more the channel may take. `promised`: to other channels, and not taken yet."""
        with self._lock:
            free, mine = self._total - self._sum - promised, self._busy[channel_id]
        if free > self._reserve:
            return max(0, min(self._share - mine, free - self._reserve))
        return 1 if free > 0 and mine == 0 else 0

    def take(self, channel_id: str, count: int) -> None:
        with self._lock:
            self._sum += count
            self._busy[channel_id] += count

    def give_back(self, channels: Iterable[str]) -> int:
        """One of each; answers how many are busy still."""
        with self._lock:
            for channel_id in channels:
                self._sum -= 1
                self._busy[channel_id] -= 1
                if self._busy[channel_id] <= 0:
                    del self._busy[channel_id]
            return self._sum

    @property
    def busy(self) -> int:
        return self._sum


@dataclass(frozen=True)
class Held:
    """A lease and until when it is surely ours, by this machine's monotonic clock."""

    token: str
    until: float


class Leases:
    """The leases of this process, renewed together by one statement."""

    def __init__(self) -> None:
        self._held: dict[str, Held] = {}
        self._missed: set[tuple[str, str]] = set()
        self._lock = threading.Lock()

    def hold(self, ids: Iterable[str], token: str, since: float) -> None:
        """`since`: `time.monotonic()` before the claim began."""
        with self._lock:
            self._held.update(dict.fromkeys(ids, Held(token, since + LEASE.total_seconds())))

    def let_go(self, delivery_id: str, token: str) -> None:
        with self._lock:
            if self._has(delivery_id, token):
                del self._held[delivery_id]

    def is_ours(self, delivery_id: str, token: str) -> bool:
        """Whether nobody else can have claimed it by now. A process that slept too long finds out here."""
        with self._lock:
            held = self._held.get(delivery_id)
        return held is not None and held.token == token and time.monotonic() < held.until

    def __len__(self) -> int:
        with self._lock:
            return len(self._held)

    def snapshot(self) -> Mapping[str, str]:
        """Delivery → token of all that is held."""
        with self._lock:
            return {delivery_id: held.token for delivery_id, held in self._held.items()}

    def renewed(self, renewed: Mapping[str, str], asked: Mapping[str, str], since: float) -> list[str]:
        """Take note of what the database renewed; answers what is lost.

        What was settled in these moments is not renewed either, so only the second miss counts.
        """
        with self._lock:
            for delivery_id, token in renewed.items():
                if self._has(delivery_id, token):
                    self._held[delivery_id] = Held(token, since + LEASE.total_seconds())
            missed = {
                (one, token) for one, token in asked.items() if one not in renewed and self._has(one, token)
            }
            lost = [one for one, token in missed & self._missed if self._held.pop(one, None) is not None]
            self._missed = missed
            return lost

    def _has(self, delivery_id: str, token: str) -> bool:
        held = self._held.get(delivery_id)
        return held is not None and held.token == token


def renew(session: Session, held: Mapping[str, str], now: datetime) -> dict[str, str]:
    """Renew all leases by one statement; answers those that were still ours."""
    which = {"ids": list(held), "tokens": sorted(set(held.values())), "until": now + LEASE}
    return {delivery_id: token for delivery_id, token in session.execute(_RENEW, which) if token is not None}
