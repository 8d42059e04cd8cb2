"""Rows for `bench/log.py`: deliveries, their alerts and attempts, and the index of their words.

Everything follows from a delivery's number. One window of time is written row by row and read by the index as
a worker does it; all others are copies of it that the database makes, later and under other ids.
"""

import math
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Engine, func, insert, select, text

from notifier import indexing, stretches
from notifier.ids import first_id
from notifier.indexwriting import FULL
from notifier.lots import lots
from notifier.model import Alert, Attempt, Delivery
from notifier.searchmodel import PLACES, SearchBits, SearchBlock, SearchSlot
from notifier.storage import IMMEDIATE, Store

MOST = 204  # windows
WINDOW_BITS, PREFIX = 25, 5  # 9 hours of milliseconds: what five characters of an id count
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LOT = 8192
JOBS, NODES, RANKS = 5000, 500, 512
TEAMS = ("oncall", "infra", "平台", "train", "llm", "vision", "speech", "night")
KINDS = ("dingtalk", "wecom", "feishu", "webhook", "sms")
CHANNELS = (*((f"{team}-{kind}", kind) for team in TEAMS for kind in KINDS), ("postmaster", "email"))
ITEMS = ("jobFT", "jobFailed", "jobHang", "jobRecovered", "nodeFT", "custom")
SAID = (
    "NCCL watchdog timeout in AllReduce", "通信超时，正在重启任务", "loss is NaN", "磁盘已满 /data",
    "GPU fell off the bus, Xid 79", "checkpoint saved", "heartbeat lost", "CUDA out of memory",
    "restarted after a fault", "training makes steps again", "pod evicted by the kubelet",
    "InfiniBand port down", "segmentation fault", "dataloader worker killed", "node isolated",
    "stack stands still on every rank",
)  # fmt: skip
RAREST = "quasar"  # every window has its own: quasar1, quasar2 …
RARE = {RAREST: 1_000_003, "meteor": 10_007, "comet": 1009}  # word: one in so many has it
STATES = ("failed", "expired", "merged", "suppressed", "accepted")
PRIMES = (7919, 104_729, 1_299_709, 15_485_863)  # to shuffle numbers without chance
TABLES: tuple[Any, ...] = (Delivery.__table__, Attempt.__table__, Alert.__table__)
INDEX: tuple[Any, ...] = (SearchSlot.__table__, SearchBits.__table__, SearchBlock.__table__)
MOMENTS = (
    "created_at", "first_attempt_at", "delivered_at", "expires_at", "claimed_at", "started_at", "finished_at",
    "last_at",
)  # fmt: skip


@dataclass(frozen=True)
class Plan:
    """`copies` windows of time, the first of that number, with `base` deliveries each."""

    copies: int
    base: int
    first: int

    @classmethod
    def of(cls, rows: int) -> "Plan":
        """Up to the present, at least so many rows."""
        base = math.ceil(rows / (MOST * FULL)) * FULL
        copies = math.ceil(rows / base)
        return cls(copies, base, (int(time.time() * 1000) >> WINDOW_BITS) - copies)

    @classmethod
    def found(cls, connection: Connection) -> "Plan":
        """That by which a database was filled."""
        oldest, newest = (
            select(Delivery.created_at).where(Delivery.id == select(end(Delivery.id)).scalar_subquery())
            for end in (func.min, func.max)
        )
        first, last = (_number(connection.execute(one).scalar_one()) for one in (oldest, newest))
        upto = first_id("dlv", EPOCH + timedelta(milliseconds=(first + 1) << WINDOW_BITS))
        base = connection.scalar(select(func.count()).where(Delivery.id < upto)) or 0
        return cls(last - first + 1, base, first)

    @property
    def blocks(self) -> int:
        """Of the index, for each window."""
        return math.ceil(self.base / FULL)

    @property
    def rows(self) -> int:
        return self.base * self.copies

    def moment(self, n: int) -> datetime:
        window, m = divmod(n, self.base)
        later = ((self.first + window) << WINDOW_BITS) + (m << WINDOW_BITS) // self.base
        return EPOCH + timedelta(milliseconds=later)

    def prefix(self, window: int) -> str:
        """The part of an id by which windows differ."""
        return first_id("dlv", self.moment(window * self.base))[4 : 4 + PREFIX]


def _number(moment: datetime) -> int:
    return (moment - EPOCH) // timedelta(milliseconds=1) >> WINDOW_BITS


def delivery_id(plan: Plan, n: int) -> str:
    return f"{first_id('dlv', plan.moment(n))[:14]}{n % plan.base:016}"


@dataclass(frozen=True)
class One:
    """The n-th delivery; an alert is told to two."""

    n: int
    said: int
    job: int
    node: int
    rank: int
    channel: int
    state: str

    @classmethod
    def of(cls, n: int) -> "One":
        a = n // 2
        state = STATES[n // 20 % 5] if n % 20 == 0 else "delivered"
        if state == "expired" and n % 400:
            state = "failed"
        return cls(
            n, a * PRIMES[0] // 61 % 31 % len(SAID), a * PRIMES[1] % JOBS, a * PRIMES[2] % NODES,
            a * PRIMES[3] % RANKS, (n * PRIMES[0] + n // 41) % len(CHANNELS), state,
        )  # fmt: skip

    @property
    def title(self) -> str:
        return f"{SAID[self.said]} · llama-pretrain-{self.job:04}"

    @property
    def body(self) -> str:
        more = "".join(f" {word}" for word, every in RARE.items() if self.n // 2 % every == 17)
        return f"training job on node{self.node}, rank {self.rank}: see the log of the run{more}"


def delivery_of(plan: Plan, one: One) -> dict[str, Any]:
    at, is_bad = plan.moment(one.n), one.state in ("failed", "expired")
    channel, kind = CHANNELS[one.channel]
    return {
        "id": delivery_id(plan, one.n),
        "alert_id": delivery_id(plan, one.n - one.n % 2).replace("dlv", "alr"),
        "job_id": f"job_{one.job:026}", "job_name": f"llama-pretrain-{one.job:04}", "pool": "default",
        "queue": "train" if one.job % 4 == 0 else "infer", "channel_id": f"chn_{one.channel:026}",
        "channel": channel, "kind": kind, "item": ITEMS[one.said % len(ITEMS)], "items": [],
        "severity": "error", "status": "firing", "language": "en", "timezone": "", "trigger": "alert",
        "is_digest": False, "fallback": [], "state": one.state,
        "why": "tried for a day" if one.state == "expired" else "", "order_key": f"job:{one.job}",
        "shard": one.channel % 16, "tries": 0, "attempt_count": 1, "created_at": at, "first_attempt_at": at,
        "delivered_at": None if is_bad else at, "expires_at": at, "mends": [],
        "message": {"title": one.title, "text": one.body, "format": "text"},
        "error_code": "310000" if is_bad else None,
        "error_message": "keywords not in content" if is_bad else None,
        "error_permanent": True if is_bad else None, "recipients": [],
    }  # fmt: skip


def attempt_of(one: One, row: dict[str, Any]) -> dict[str, Any]:
    at, is_bad = row["created_at"], row["error_permanent"]
    return {
        "id": one.n + 1, "delivery_id": row["id"], "channel_id": row["channel_id"], "n": 1, "part": 1,
        "parts": 1, "trigger": "alert", "lease_token": "t", "claimed_at": at, "started_at": at,
        "finished_at": at, "outcome": "refused" if is_bad else "delivered", "http_status": 200,
        "provider_code": "310000" if is_bad else "0",
        "provider_message": "keywords not in content" if is_bad else "ok", "possible_duplicate": False,
        "recipients": [], "request": '{"msgtype": "markdown"}', "response": '{"errcode": 0}',
    }  # fmt: skip


def alert_of(one: One, row: dict[str, Any]) -> dict[str, Any]:
    same = ("pool", "queue", "item", "items", "severity", "job_id", "job_name", "created_at")
    return {
        "id": row["alert_id"], **{name: row[name] for name in same}, "source": "bench", "token_id": "",
        "status": "resolved", "title": one.title, "body": one.body, "labels": {}, "context": {}, "why": "",
        "repeats": 0, "last_at": row["created_at"],
    }  # fmt: skip


def fill(engine: Engine, plan: Plan) -> None:
    """All of it; the indexes of the big tables are made after the load."""
    store = Store(engine)
    indexes = [index for table in TABLES for index in table.indexes]
    indexing.advance(store, nullcontext())  # the index begins before the first delivery
    with _writing(engine) as connection:
        for index in indexes:
            index.drop(connection)
    _write_first(store, plan)
    for window in range(1, plan.copies):
        words = {"rarest": RAREST.encode(), "own": f"{RAREST}{window}".encode()}
        with _writing(engine) as connection:
            for statement in _copied(plan, window, is_postgres=store.is_postgres):
                connection.execute(text(statement), words if ":own" in statement else {})
        if window % 20 == 0:
            print(f"window {window} of {plan.copies}", file=sys.stderr)
    with engine.execution_options(isolation_level="AUTOCOMMIT").connect() as connection:
        if store.is_postgres:
            connection.execute(text("set maintenance_work_mem = '1GB'"))
        for index in indexes:
            index.create(connection)
        connection.commit()


def join(engine: Engine) -> None:
    """What a worker does in the background, unless it is done: of each stretch of blocks."""
    store, count = Store(engine), 0
    for terms in stretches.steps(store, nullcontext):
        count += terms
    if count and store.is_postgres:
        with engine.execution_options(isolation_level="AUTOCOMMIT").connect() as connection:
            connection.execute(text("vacuum analyze"))


def _write_first(store: Store, plan: Plan) -> None:
    """The first window, and what a worker would have written of it by now."""
    for numbers in lots(range(plan.base), LOT):
        with _writing(store.engine) as connection:
            for table, rows in zip(TABLES, _rows(plan, numbers), strict=True):
                connection.execute(insert(table), rows)
    while indexing.advance(store, nullcontext(), LOT):
        pass
    with _writing(store.engine) as connection:
        connection.execute(text("update search_blocks set is_checked = true"))


@contextmanager
def _writing(engine: Engine) -> Iterator[Connection]:
    with engine.execution_options(sqlite_begin=IMMEDIATE).begin() as connection:
        if engine.dialect.name == "postgresql":
            connection.execute(
                text("set local session_replication_role = replica")
            )  # no foreign key is asked
            connection.execute(text("set local synchronous_commit = off"))
        yield connection


def _rows(plan: Plan, numbers: list[int]) -> tuple[list[dict[str, Any]], ...]:
    """Deliveries, attempts, alerts."""
    several = [One.of(n) for n in numbers]
    deliveries = [delivery_of(plan, one) for one in several]
    both = list(zip(several, deliveries, strict=True))
    attempts = [attempt_of(one, row) for one, row in both]
    return deliveries, attempts, [alert_of(one, row) for one, row in both if one.n % 2 == 0]


def _copied(plan: Plan, window: int, *, is_postgres: bool) -> Iterator[str]:
    """The first window once more, later."""
    later, place, upto = (window << WINDOW_BITS) * 1000, window * plan.blocks, plan.prefix(1)
    as_text, as_json = ("::text", "::json") if is_postgres else ("", "")
    new = {name: f"{name} + {later}" for name in MOMENTS}
    for name in ("id", "alert_id", "delivery_id", "after_id", "last_id"):
        new[name] = f"substr({name}, 1, 4) || '{plan.prefix(window)}' || substr({name}, {5 + PREFIX})"
    new["message"] = f"replace(message{as_text}, '{RAREST}', '{RAREST}{window}'){as_json}"
    new["body"] = f"replace(body, '{RAREST}', '{RAREST}{window}')"
    new |= {"term": "case when term = :rarest then :own else term end", "block": f"block + {place}"}
    new["slot"] = f"slot + {place * PLACES}"
    for table, which in (
        (TABLES[0], f"id < 'dlv_{upto}'"), (TABLES[1], f"id <= {plan.base}"),
        (TABLES[2], f"id < 'alr_{upto}'"), (INDEX[0], f"slot < {plan.blocks * PLACES}"),
        (INDEX[1], f"block < {plan.blocks}"), (INDEX[2], f"block < {plan.blocks}"),
    ):  # fmt: skip
        own = {**new, "id": f"id + {window * plan.base}"} if table is TABLES[1] else new
        names = [column.name for column in table.columns]
        values = ", ".join(own.get(name, f'"{name}"') for name in names)
        quoted = ", ".join(f'"{name}"' for name in names)
        yield f"insert into {table.name} ({quoted}) select {values} from {table.name} where {which}"  # noqa: S608  ours
    before = f"(select last_id from search_blocks where block = {place - 1})"  # noqa: S608
    yield f"update search_blocks set after_id = {before} where block = {place}"  # noqa: S608
