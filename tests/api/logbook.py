"""A delivery log for tests, and its index."""

from collections.abc import Callable
from contextlib import nullcontext
from datetime import datetime, timedelta
from typing import Any

import httpx
from sqlalchemy import func, select

from notifier import indexing, stretches
from notifier.clock import utcnow
from notifier.ids import first_id
from notifier.model import Alert, Attempt, Channel, Delivery
from notifier.searchmodel import SearchBlock
from notifier.storage import Store

NOW = utcnow().replace(microsecond=0) - timedelta(hours=3)
CHANNELS = ("ding", "mail", "运维群")
ATTEMPT: dict[str, Any] = {
    "channel_id": "chn_1", "n": 1, "part": 1, "parts": 1, "trigger": "alert", "lease_token": "t",
    "started_at": NOW, "recipients": [], "provider_code": "42",
}  # fmt: skip
TITLES = ("NCCL timeout on rank 7", "磁盘满 /dev/sda", "Loss is NaN · llama3-70b", "GPU fell off the bus")


def id_of(prefix: str, at: datetime, n: int) -> str:
    """An id of that very moment, although the process has made later ones."""
    return f"{first_id(prefix, at)[:-16]}{n:016}"


class Log:
    """A log and its index."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def channel(self, channel_id: str = "chn_1", **columns: Any) -> str:
        values = {
            "id": channel_id, "pool": "default", "name": channel_id, "kind": "wecom", "config": {},
            "secrets": "", "shard": 1, "health": "ok", "enabled": True, "created_at": NOW, "updated_at": NOW,
        }  # fmt: skip
        with self.store.write() as session:
            session.add(Channel(**{**values, **columns}))
        return channel_id

    def add(self, n: int, at: datetime | None = None, **columns: Any) -> str:
        """The n-th delivery: title, channel, state and pool by its number."""
        now = at or NOW + timedelta(seconds=n)
        title = TITLES[n % len(TITLES)]
        alert = Alert(
            id=id_of("alr", now, n), pool="default", source="s", item="custom", items=[], severity="error",
            status="resolved", title=title, body=f"body {n}", labels={}, context={}, created_at=now,
            last_at=now,
        )  # fmt: skip
        values: dict[str, Any] = {
            "id": id_of("dlv", now, n), "alert_id": alert.id, "pool": "default" if n % 2 else "other",
            "queue": "q" if n % 3 else "", "channel_id": "chn_1", "channel": CHANNELS[n % 3], "kind": "wecom",
            "item": "custom" if n % 5 else "jobFT", "items": [], "severity": "error", "language": "",
            "timezone": "", "fallback": [], "state": "failed" if n % 4 == 0 else "delivered", "shard": 1,
            "order_key": "k", "created_at": now, "expires_at": now + timedelta(days=1), "mends": [],
            "recipients": [],
        }  # fmt: skip
        row = Delivery(**{**values, **columns})
        with self.store.write() as session:
            session.add_all([alert, row])
        return row.id

    def attempt(self, delivery_id: str, said: str) -> None:
        with self.store.write() as session:
            session.add(Attempt(delivery_id=delivery_id, provider_message=said, **ATTEMPT))

    def change(self, delivery_id: str, **values: Any) -> None:
        with self.store.write() as session:
            row = session.get_one(Delivery, delivery_id)
            for name, value in values.items():
                setattr(row, name, value)

    def index(self, batch: int | None = None, rounds: int = 1000) -> None:
        """Until there is nothing left to read."""
        for _ in range(rounds):
            is_first = not self.count(SearchBlock)
            if not indexing.advance(self.store, nullcontext(), batch) and not is_first:
                return

    def check(self) -> None:
        """Until all blocks but the newest are looked through for late ones."""
        for _ in range(self.count(SearchBlock)):
            self.index(rounds=1)

    def join(self) -> int:
        """All stretches of blocks of which nothing changes any more; how many terms those were."""
        return sum(stretches.steps(self.store, nullcontext))

    def count(self, table: type[Any]) -> int:
        with self.store.read() as session:
            return session.scalar(select(func.count()).select_from(table)) or 0


def ids(client: httpx.Client, **params: Any) -> list[str]:
    """All pages."""
    found: list[str] = []
    while True:
        answer = client.get("/deliveries", params=params)
        assert answer.status_code == 200, answer.text
        page = answer.json()
        found += [item["id"] for item in page["items"]]
        if page["next_cursor"] is None:
            return found
        params["cursor"] = page["next_cursor"]


def wanted(rows: list[str], fits: Callable[[int], bool]) -> list[str]:
    return [row for n, row in reversed(list(enumerate(rows))) if fits(n)]
