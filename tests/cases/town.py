"""One notifier in this process: its API, an engine, and stand-ins that play by the providers' rules."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from channels.standin import Received, Robot, Scripted, StandIn
from notifier.doorbell import SHARDS
from notifier.model import Attempt, Delivery
from tests.delivery.conftest import House, until

TOLD = {"delivered", "accepted", "merged"}


@dataclass
class Town:
    """What a user sees (`api`), and what the providers took."""

    house: House
    api: httpx.Client

    @property
    def providers(self) -> StandIn:
        return self.house.providers

    def robot(self, kind: str, **settings: Any) -> Robot:
        return self.providers.robot(kind, **settings)

    def channel(self, name: str, kind: str = "webhook", **config: Any) -> str:
        """A channel made through the API; to a played provider of its own unless an address is given."""
        limited = config.pop("limited", True)
        if kind == "email":
            config = {"to": ["ops@example.com"], "smtp_url": self.providers.smtp_url, **config}
        elif "url" not in config and "webhook_url" not in config:
            known = {key: config[key] for key in ("secret", "keyword") if key in config}
            address = "url" if kind == "webhook" else "webhook_url"
            config[address] = self.robot(kind, limited=limited, **known).url
        answer = self.api.post("/channels", json={"name": name, "kind": kind, "config": config})
        assert answer.status_code == 201, answer.text
        return name

    def publish(self, *channels: str, title: str = "it broke", **body: Any) -> list[str]:
        """An alert by the API; the ids of its deliveries."""
        given = {"title": title, "severity": "error", "channels": list(channels), **body}
        answer = self.api.post("/alerts", json=given)
        assert answer.status_code == 202, answer.text
        found: list[str] = answer.json()["deliveries"]
        return found

    def test(self, channel: str) -> dict[str, Any]:
        answer = self.api.post(f"/channels/{channel}/test")
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def delivery(self, delivery_id: str) -> dict[str, Any]:
        found: dict[str, Any] = self.api.get(f"/deliveries/{delivery_id}").json()
        return found

    def of_channel(self, channel: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.api.get("/deliveries", params={"channel": channel}).json()["items"]
        return found

    def attempts(self, delivery_id: str) -> list[Attempt]:
        return self.house.attempts(delivery_id)

    def outcomes(self, delivery_id: str) -> list[str | None]:
        return [attempt.outcome for attempt in self.attempts(delivery_id)]

    def arrived(self, kind: str | None = None) -> list[Received]:
        """What the providers show to people, in order."""
        return self.providers.messages(kind, accepted=True)

    @contextmanager
    def working(self, concurrency: int = 16) -> Iterator[None]:
        with self.house.working(concurrency) as engine:
            engine.wake(range(SHARDS))
            yield

    def settle(self, *ids: str, state: str = "delivered", timeout_s: float = 20.0) -> None:
        """Send until these are in that state."""
        with self.working():
            self.house.told(*ids, state=state, timeout_s=timeout_s)

    def settle_hastened(self, delivery_id: str, state: str, timeout_s: float = 30.0) -> None:
        """The same, without the waits between its tries."""

        def there() -> bool:
            row = self.house.row(delivery_id)
            if row.state == "retrying":
                self.house.hasten(delivery_id)
            return row.state == state

        with self.working():
            until(there, timeout_s)

    def tell_all(self, ids: Sequence[str], timeout_s: float = 60.0) -> None:
        """Until all are told, in a message of their own or in a digest that was delivered itself."""

        def told() -> bool:
            rows = [self.house.row(one) for one in ids]
            return {row.state for row in rows} <= TOLD and all(self._digest_told(row) for row in rows)

        with self.working(64):
            until(told, timeout_s)

    def _digest_told(self, row: Delivery) -> bool:
        return row.merged_into is None or self.house.row(row.merged_into).state in TOLD


def said(message: Received) -> str:
    """All that people read of it."""
    return f"{message.title}\n{message.text}"


def answers(code: int, words: str, *, status: int = 200, kind: str = "dingtalk") -> Scripted:
    """A robot's made-up answer."""
    fields = ("code", "msg") if kind == "feishu" else ("errcode", "errmsg")
    return Scripted(status, dict(zip(fields, (code, words), strict=True)))
