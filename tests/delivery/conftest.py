"""A notifier without its API: channels that lead to stand-ins, alerts put into the database, an engine."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from channels.config import split
from channels.registry import ADAPTERS
from channels.standin import StandIn
from notifier.clock import utcnow
from notifier.doorbell import shard_of
from notifier.engine import Engine
from notifier.ids import new_id
from notifier.leases import Leases
from notifier.model import Alert, Attempt, Channel, Delivery
from notifier.network import network_of
from notifier.outbox import Telling, put
from notifier.secretbox import SecretBox
from notifier.sending import Tools
from notifier.settings import Settings
from notifier.storage import Store
from notifier.writer import Writer

KEY = "a key for tests, long enough"
LOOPBACK = "127.0.0.1/32"


def until(condition: Callable[[], object], timeout_s: float = 15.0) -> None:
    """Until it is true; fails when it never was."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"waited {timeout_s} s in vain"
        time.sleep(0.01)


@dataclass
class House:
    """What a test says: there is a channel, something happened, what became of it."""

    store: Store
    providers: StandIn
    settings: Settings
    box: SecretBox
    shards: list[int] = field(default_factory=list)

    def channel(self, name: str = "ops", kind: str = "webhook", **config: Any) -> str:
        """A channel to a robot of its own; answers its id."""
        if kind == "email":
            config = {"to": ["ops@example.com"], "smtp_url": self.providers.smtp_url, **config}
        elif "url" not in config and "webhook_url" not in config:
            limited = config.pop("limited", True)
            url = self.providers.robot(kind, limited=limited).url
            config["url" if kind == "webhook" else "webhook_url"] = url
        plain, secret = split(ADAPTERS[kind].Config(**config))
        now = utcnow()
        channel_id = new_id("chn", now)
        with self.store.write() as session:
            session.add(
                Channel(
                    id=channel_id,
                    pool="default",
                    name=name,
                    kind=kind,
                    config=plain,
                    secrets=self.box.seal(secret, owner=channel_id),
                    shard=shard_of(channel_id),
                    created_at=now,
                    updated_at=now,
                )
            )
        return channel_id

    def alert(
        self,
        *channels: str,
        job: str | None = None,
        severity: str = "error",
        status: str = "firing",
        title: str = "it broke",
        fallback: Sequence[str] = (),
    ) -> list[str]:
        """Something happened and is to be told on these channels (ids); answers the deliveries."""
        now = utcnow()
        with self.store.write() as session:
            alert = Alert(
                id=new_id("alr", now), pool="default", source="test", item="custom", items=["custom"],
                severity=severity, status=status, title=title, labels={}, context={}, job_id=job,
                created_at=now, last_at=now,
            )  # fmt: skip
            session.add(alert)
            telling = Telling(item="custom", severity=severity, status=status, fallback=tuple(fallback))
            rows = [put(session, alert, session.get_one(Channel, one), telling, now) for one in channels]
            self.shards += [row.shard for row in rows]
            return [row.id for row in rows]

    def row(self, delivery_id: str) -> Delivery:
        with self.store.read() as session:
            return session.get_one(Delivery, delivery_id)

    def rows(self) -> list[Delivery]:
        with self.store.read() as session:
            return list(session.scalars(select(Delivery).order_by(Delivery.id)))

    def states(self, ids: Sequence[str]) -> list[str]:
        return [self.row(one).state for one in ids]

    def get_channel(self, channel_id: str) -> Channel:
        with self.store.read() as session:
            return session.get_one(Channel, channel_id)

    def edit_channel(self, channel_id: str, **values: object) -> None:
        with self.store.write() as session:
            row = session.get_one(Channel, channel_id)
            for name, value in values.items():
                setattr(row, name, value)

    def digest_of(self, *ids: str) -> str:
        """The one digest that tells of all of these, as soon as there is one."""
        until(lambda: len({self.row(one).merged_into for one in ids} - {None}) == 1)
        return str(self.row(ids[0]).merged_into)

    def fallback_of(self, delivery_id: str, channel_id: str) -> str:
        """The delivery that took this one's place on that channel, as soon as there is one."""
        alert_id = self.row(delivery_id).alert_id

        def found() -> list[str]:
            return [
                row.id for row in self.rows()
                if (row.alert_id, row.channel_id, row.trigger) == (alert_id, channel_id, "fallback")
            ]  # fmt: skip

        until(found)
        (one,) = found()
        return one

    def attempts(self, delivery_id: str) -> list[Attempt]:
        with self.store.read() as session:
            rows = select(Attempt).where(Attempt.delivery_id == delivery_id).order_by(Attempt.id)
            return list(session.scalars(rows))

    def edit(self, delivery_id: str, **values: object) -> None:
        """Time travel, mostly: a row as it would be later."""
        with self.store.write() as session:
            row = session.get_one(Delivery, delivery_id)
            for name, value in values.items():
                setattr(row, name, value)

    def hasten(self, *ids: str) -> None:
        """The next try of these is now."""
        for one in ids:
            self.edit(one, next_attempt_at=utcnow() - timedelta(seconds=1))

    def tools(self) -> Tools:
        writer = Writer(self.store)
        return Tools(self.store, writer, Leases(), self.box, network_of(self.settings), self.settings)

    @contextmanager
    def working(self, concurrency: int = 16) -> Iterator[Engine]:
        """An engine that sends until the block ends."""
        engine = Engine(self.tools(), concurrency)
        engine.start()
        try:
            yield engine
        finally:
            engine.stop()

    def told(self, *ids: str, state: str = "delivered", timeout_s: float = 15.0) -> None:
        """Wait until these are told (or else in that state)."""
        until(lambda: set(self.states(ids)) == {state}, timeout_s)

    def arrived(self) -> list[str]:
        """The titles of what the providers took, in order, without the sign in front."""
        return [one.title.lstrip("🔵🟠🔴🚨✅🟢 ") for one in self.providers.messages(accepted=True)]


@pytest.fixture
def providers() -> Iterator[StandIn]:
    with StandIn() as found:
        yield found


@pytest.fixture
def house(store: Store, providers: StandIn, tmp_path: Path) -> House:
    settings = Settings(data_dir=tmp_path, allow_targets=(ip_network(LOOPBACK),), language="en")
    return House(store, providers, settings, SecretBox(KEY))
