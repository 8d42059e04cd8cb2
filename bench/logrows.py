"""Rows for `bench/log.py`: deliveries, their alerts and attempts, and the index of their words.

Everything follows from a delivery's number. The index is what `notifier.indexing` would have written: that is
compared for a block.
"""

import json
import math
import re
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

from sqlalchemy import Engine, insert, text

from notifier import bitmaps, searchtexts, words
from notifier.ids import first_id
from notifier.model import Alert, Attempt, Delivery
from notifier.searchmodel import PLACES, SearchBits, SearchBlock, SearchSlot

BLOCK = 8192
COPIES, WINDOW_BITS, PREFIX = 204, 25, 5  # 9 hours of milliseconds: what five characters of an id count
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
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
RARE = {"quasar": 1_000_003, "meteor": 10_007, "comet": 1009}  # word: one in so many has it
RAREST = "quasar"  # every window has its own: quasar1, quasar2 …
STATES = ("failed", "expired", "merged", "suppressed", "accepted")
PRIMES = (7919, 104_729, 1_299_709, 15_485_863)  # to shuffle numbers without chance


DELIVERIES: Any = Delivery.__table__
ATTEMPTS: Any = Attempt.__table__
ALERTS: Any = Alert.__table__
SLOTS: Any = SearchSlot.__table__
BITS: Any = SearchBits.__table__


@dataclass(frozen=True)
class Plan:
    """`COPIES` windows of time with `blocks` full blocks each; of later windows only the times differ."""

    blocks: int
    first: int = (int(time.time() * 1000) >> WINDOW_BITS) - COPIES

    @classmethod
    def of(cls, rows: int) -> "Plan":
        return cls(math.ceil(rows / (COPIES * BLOCK)))

    @property
    def base(self) -> int:
        return self.blocks * BLOCK

    @property
    def rows(self) -> int:
        return self.base * COPIES

    def moment(self, n: int) -> datetime:
        window, m = divmod(n, self.base)
        return EPOCH + timedelta(
            milliseconds=((self.first + window) << WINDOW_BITS) + (m << WINDOW_BITS) // self.base
        )

    def prefix(self, window: int) -> str:
        """The part of an id by which windows differ."""
        return first_id("dlv", self.moment(window * self.base))[4 : 4 + PREFIX]


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


def rows_of(plan: Plan, span: range) -> Iterator[tuple[One, str, datetime, dict[str, Any]]]:
    for n in span:
        one, at = One.of(n), plan.moment(n)
        name = f"{first_id('dlv', at)[:14]}{n:016}"
        channel, kind = CHANNELS[one.channel]
        is_bad = one.state in ("failed", "expired")
        yield one, name, at, {
            "id": name, "alert_id": delivery_id(plan, n - n % 2).replace("dlv", "alr"),
            "job_id": f"job_{one.job:026}",
            "job_name": f"llama-pretrain-{one.job:04}", "pool": "default",
            "queue": "train" if one.job % 4 == 0 else "infer", "channel_id": f"chn_{one.channel:026}",
            "channel": channel, "kind": kind, "item": ITEMS[one.said % len(ITEMS)], "items": [],
            "severity": "error", "status": "firing", "language": "en", "timezone": "", "trigger": "alert",
            "is_digest": False, "fallback": [], "state": one.state,
            "why": "tried for a day" if one.state == "expired" else "",
            "order_key": f"job:{one.job}", "shard": one.channel % 16, "tries": 0, "attempt_count": 1,
            "created_at": at, "first_attempt_at": at, "delivered_at": None if is_bad else at,
            "expires_at": at, "mends": [],
            "message": {"title": one.title, "text": one.body, "format": "text"},
            "error_code": "310000" if is_bad else None,
            "error_message": "keywords not in content" if is_bad else None,
            "error_permanent": True if is_bad else None, "recipients": [],
        }  # fmt: skip


def attempt_of(one: One, name: str, at: datetime) -> dict[str, Any]:
    is_bad = one.state in ("failed", "expired")
    return {
        "id": one.n + 1, "delivery_id": name, "channel_id": f"chn_{one.channel:026}", "n": 1, "part": 1,
        "parts": 1, "trigger": "alert", "lease_token": "t", "claimed_at": at, "started_at": at,
        "finished_at": at, "outcome": "refused" if is_bad else "delivered", "http_status": 200,
        "provider_code": "310000" if is_bad else "0",
        "provider_message": "keywords not in content" if is_bad else "ok", "possible_duplicate": False,
        "recipients": [], "request": '{"msgtype": "markdown"}', "response": '{"errcode": 0}',
    }  # fmt: skip


def alert_of(one: One, row: dict[str, Any], at: datetime) -> dict[str, Any]:
    same = ("pool", "queue", "item", "items", "severity", "job_id", "job_name")
    return {
        "id": row["alert_id"], **{name: row[name] for name in same}, "source": "bench", "token_id": "",
        "status": "resolved", "title": one.title, "body": one.body, "labels": {}, "context": {}, "why": "",
        "repeats": 0, "created_at": at, "last_at": at,
    }  # fmt: skip


class Words:
    """The terms of a delivery, put together from those of its parts."""

    def __init__(self) -> None:
        self._known: dict[Any, frozenset[bytes]] = {}

    def parts(self, one: One, row: dict[str, Any]) -> Iterable[Any]:
        """Names of them; `of` has their terms."""
        for key, made in (
            (("said", one.said, one.state), lambda: self._said(one, row)),
            (
                ("job", one.job),
                lambda: _found(f"llama-pretrain-{one.job:04}") | {_filter("job", row["job_id"])},
            ),
            (("node", one.node), lambda: _found(f"node{one.node}")),
            (("rank", one.rank), lambda: _found(f"{one.rank}")),
            (("channel", one.channel), lambda: self._channel(row)),
            (("queue", one.job % 4 == 0), lambda: {_filter("scope", f"default/{row['queue']}")}),
        ):
            if key not in self._known:
                self._known[key] = frozenset(made())
            yield key
        for word, every in RARE.items():
            if one.n // 2 % every == 17:
                self._known["rare", word] = frozenset(_found(word))
                yield "rare", word

    def of(self, key: Any) -> frozenset[bytes]:
        return self._known[key]

    def _channel(self, row: dict[str, Any]) -> set[bytes]:
        return _found(row["channel"]) | {_filter("channel", row["channel"]), _filter("kind", row["kind"])}

    def _said(self, one: One, row: dict[str, Any]) -> set[bytes]:
        attempt = attempt_of(one, "", row["created_at"])
        own = [row["error_code"], row["error_message"], row["why"], attempt["provider_code"]]
        body = "training job on , rank : see the log of the run"
        text = " ".join(part for part in (*own, attempt["provider_message"], body, SAID[one.said]) if part)
        filters = {_filter(name, row[name]) for name in ("item", "state", "pool")}
        return _found(text) | filters


def _found(text: str) -> set[bytes]:
    return {searchtexts.word_term(one) for one in words.words(words.document([text]))}


_filter = searchtexts.filter_term


def fill(engine: Engine, plan: Plan) -> None:
    """All of it; the indexes of the big tables are made after the load."""
    tables = (DELIVERIES, ATTEMPTS, ALERTS)
    _check(plan)
    with engine.connect() as connection:
        for index in [index for table in tables for index in table.indexes]:
            index.drop(connection)
        connection.commit()
    load = _copied if engine.dialect.name == "postgresql" else _inserted
    known, lines, last = Words(), Lines() if engine.dialect.name == "postgresql" else None, ""
    for number in range(plan.blocks):
        span = range(number * BLOCK, (number + 1) * BLOCK)
        lot, last = _lot(plan, number, span, (known, lines, last))
        load(engine, lot)
        if number % 20 == 19:
            print(f"{(number + 1) * BLOCK:,} of {plan.base:,}", file=sys.stderr)
    for window in range(1, COPIES):
        with engine.execution_options(sqlite_begin="IMMEDIATE").begin() as connection:
            for statement in _copies(plan, window):
                connection.exec_driver_sql(_spoken(statement, engine))
        if window % 20 == 0:
            print(f"window {window} of {COPIES}", file=sys.stderr)
    with engine.execution_options(isolation_level="AUTOCOMMIT").connect() as connection:
        if engine.dialect.name == "postgresql":
            connection.execute(text("set maintenance_work_mem = '1GB'"))
        for index in [index for table in tables for index in table.indexes]:
            index.create(connection)
        if engine.dialect.name == "postgresql":
            connection.execute(text("vacuum analyze"))
        connection.commit()


def _spoken(statement: str, engine: Engine) -> str:
    if engine.dialect.name == "postgresql":
        return re.sub(r"x'([0-9a-f]+)'", r"'\\\\x\1'::bytea", statement)
    return statement.replace("cast(replace(cast(message as text)", "(replace(message").replace(
        " as json)", ")"
    )


def _bytes(word: str) -> str:
    return f"x'{word.encode().hex()}'"


def _copies(plan: Plan, window: int) -> Iterator[str]:
    """The first window once more, later."""
    later = (window << WINDOW_BITS) * 1000
    place = window * plan.blocks
    upto = plan.prefix(1)
    moments = (
        "created_at",
        "first_attempt_at",
        "delivered_at",
        "expires_at",
        "claimed_at",
        "started_at",
        "finished_at",
        "last_at",
    )
    new = {name: f"{name} + {later}" for name in moments}
    for name in ("id", "alert_id", "delivery_id", "last_id"):
        new[name] = f"substr({name}, 1, 4) || '{plan.prefix(window)}' || substr({name}, {5 + PREFIX})"
    new["after_id"] = (
        f"case when after_id = '' then '' else {new['last_id'].replace('last_id', 'after_id')} end"
    )
    new["message"] = f"cast(replace(cast(message as text), '{RAREST}', '{RAREST}{window}') as json)"
    new["body"] = f"replace(body, '{RAREST}', '{RAREST}{window}')"
    new["term"] = f"case when term = {_bytes(RAREST)} then {_bytes(f'{RAREST}{window}')} else term end"
    new |= {"block": f"block + {place}", "slot": f"slot + {place * PLACES}"}
    for table, which in (
        (DELIVERIES, f"id < 'dlv_{upto}'"), (ATTEMPTS, f"id <= {plan.base}"), (ALERTS, f"id < 'alr_{upto}'"),
        (SLOTS, f"slot < {plan.blocks * PLACES}"), (BITS, f"block < {plan.blocks}"),
        (SearchBlock.__table__, f"block < {plan.blocks}"),
    ):  # fmt: skip
        own = {**new, "id": f"id + {window * plan.base}"} if table is ATTEMPTS else new
        columns = [column.name for column in table.columns]
        values = ", ".join(own.get(name, f'"{name}"') for name in columns)
        quoted = ", ".join(f'"{name}"' for name in columns)
        yield f"insert into {table.name} ({quoted}) select {values} from {table.name} where {which}"  # noqa: S608  ours
    before = f"(select last_id from search_blocks where block = {place - 1})"  # noqa: S608
    yield f"update search_blocks set after_id = {before} where block = {place}"  # noqa: S608


class Lines:
    """Rows as COPY takes them: what is the same in many of them is written once."""

    def __init__(self) -> None:
        self._known: dict[Any, str] = {}

    def line(self, table: Any, key: Any, row: dict[str, Any], own: dict[str, Any]) -> str:
        """`own`: what only this row has, of `row`."""
        if (table.name, key) not in self._known:
            cells = (
                f"%({name})s" if name in own else _field(row[name]).replace("%", "%%")
                for name in names(table, row)
            )
            self._known[table.name, key] = "\t".join(cells) + "\n"
        return self._known[table.name, key] % own


def names(table: Any, row: dict[str, Any]) -> list[str]:
    return [column.name for column in table.columns if column.name in row]


@dataclass
class Lot:
    """Rows of a block, by table: as documents, or as lines for COPY with the columns' names."""

    rows: dict[Any, list[Any]] = field(default_factory=dict)
    columns: dict[Any, list[str]] = field(default_factory=dict)

    def add(self, table: Any, row: Any, columns: list[str] | None = None) -> None:
        self.rows.setdefault(table, []).append(row)
        if columns is not None:
            self.columns[table] = columns


def _lot(plan: Plan, number: int, span: range, tools: tuple[Words, Lines | None, str]) -> tuple[Lot, str]:
    known, lines, last = tools
    lot = Lot()
    by_part: dict[Any, list[int]] = {}
    name, constant = last, dict[Any, dict[str, Any]]()
    for place, n in enumerate(span):
        one, at = One.of(n), plan.moment(n)
        name = f"{_time(at)}{n:016}"
        key = (one.said, one.state, one.channel)
        if key not in constant:
            ((_, _, _, constant[key]),) = rows_of(plan, range(n, n + 1))
        row = constant[key]
        _add(lot, lines, plan, (one, name, at, row))
        slot = number * PLACES + place
        lot.add(
            SLOTS,
            f"{slot}\t{name}\n" if lines else {"slot": slot, "delivery_id": name},
            ["slot", "delivery_id"],
        )
        for part in known.parts(one, {**row, "queue": _queue(one), "job_id": f"job_{one.job:026}"}):
            by_part.setdefault(part, []).append(place)
    places: dict[bytes, list[int]] = {}
    for part, some in by_part.items():
        for term in known.of(part):
            places.setdefault(term, []).extend(some)
    for term, some in places.items():
        lot.add(BITS, {"term": term, "block": number, "bits": bitmaps.packed(some)})
    block = {
        "block": number,
        "after_id": last,
        "last_id": name,
        "used": len(span),
        "is_checked": True,
    }
    lot.add(SearchBlock.__table__, block)
    return lot, name


def _queue(one: One) -> str:
    return "train" if one.job % 4 == 0 else "infer"


def _add(lot: Lot, lines: Lines | None, plan: Plan, told: tuple[One, str, datetime, dict[str, Any]]) -> None:
    one, name, at, constant = told
    alert_id = f"{_time(plan.moment(one.n - one.n % 2))}{one.n - one.n % 2:016}".replace("dlv", "alr")
    job, is_bad = f"job_{one.job:026}", one.state in ("failed", "expired")
    title, body = one.title, one.body
    common: dict[str, Any] = {"job_id": job, "job_name": f"llama-pretrain-{one.job:04}", "queue": _queue(one)}
    own = common | {"id": name, "alert_id": alert_id, "order_key": job}
    own |= {
        "created_at": at,
        "first_attempt_at": at,
        "expires_at": at,
        "delivered_at": None if is_bad else at,
    }
    attempt: dict[str, Any] = {"id": one.n + 1, "delivery_id": name, "claimed_at": at, "started_at": at}
    attempt["finished_at"] = at
    alert = common | {"id": alert_id, "title": title, "body": body, "created_at": at, "last_at": at}
    for table, key, whole, these in (
        (DELIVERIES, (one.said, one.state, one.channel), constant, own),
        (ATTEMPTS, (one.channel, is_bad), attempt_of(one, name, at) if lines is None else {}, attempt),
        (ALERTS, (one.said,), {}, alert),
    ):
        if table is ALERTS and one.n % 2:
            continue
        if lines is None:
            row = whole | these
            if table is DELIVERIES:
                row["message"] = {"title": title, "text": body, "format": "text"}
            if table is ALERTS:
                row = alert_of(one, {**constant, **own}, at)
            lot.add(table, row)
            continue
        us = str(round(at.timestamp() * 1_000_000))
        texts = {
            name: us if value is at else "\\N" if value is None else str(value)
            for name, value in these.items()
        }
        if table is DELIVERIES:
            texts["message"] = f'{{"title": "{title}", "text": "{body}", "format": "text"}}'
        full = constant
        if table is ATTEMPTS:
            full = attempt_of(one, name, at)
        elif table is ALERTS:
            full = alert_of(one, {**constant, **own}, at)
        lot.add(
            table,
            lines.line(table, key, full, texts),
            names(table, full) if table not in lot.columns else None,
        )


@lru_cache(maxsize=8)
def _time(at: datetime) -> str:
    return first_id("dlv", at)[:14]


def _check(plan: Plan) -> None:
    """Our terms are those that a worker would find."""
    known = Words()
    for one, name, at, row in rows_of(plan, range(0, min(plan.rows, 2000), 7)):
        attempt = attempt_of(one, name, at)
        parts = [
            row["message"]["title"],
            row["job_name"],
            row["channel"],
            row["error_code"],
            row["error_message"],
        ]
        parts += [row["why"], attempt["provider_code"], attempt["provider_message"], one.body]
        found = frozenset().union(*(known.of(key) for key in known.parts(one, row)))
        assert found == searchtexts.terms(SimpleNamespace(**row), words.document(parts)), one


def _copied(engine: Engine, lot: Lot) -> None:
    raw = engine.raw_connection()
    cursor = raw.cursor()
    cursor.execute("set session_replication_role = replica")  # no foreign key is asked
    cursor.execute("set synchronous_commit = off")
    for table, rows in lot.rows.items():
        columns = lot.columns.get(table) or names(table, rows[0])
        if not isinstance(rows[0], str):
            rows = ["\t".join(_field(row[name]) for name in columns) + "\n" for row in rows]  # noqa: PLW2901
        quoted = ", ".join(f'"{name}"' for name in columns)
        with cursor.copy(f"copy {table.name} ({quoted}) from stdin") as copy:  # type: ignore[attr-defined]
            copy.write("".join(rows))
    raw.commit()
    raw.close()


def _field(value: Any) -> str:
    if value is None:
        return "\\N"
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return "\\\\x" + value.hex()
    if isinstance(value, datetime):
        return str(round(value.timestamp() * 1_000_000))
    if isinstance(value, list | dict):
        return json.dumps(value, ensure_ascii=False).replace("\\", "\\\\")
    return str(value)


def _inserted(engine: Engine, lot: Lot) -> None:
    with engine.execution_options(sqlite_begin="IMMEDIATE").begin() as connection:
        for table, rows in lot.rows.items():
            connection.execute(insert(table), rows)
