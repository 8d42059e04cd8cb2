"""The doorbell: one coalesced RQ job says "there is work in this shard", and nothing else.

The promise is in the database; a bell that is lost, refused or never heard costs about a second. So
nothing here waits, retries or raises for the sake of Redis.
"""

import threading
import time
import zlib
from collections.abc import Collection, Iterable, Mapping
from typing import cast

import structlog
from redis import Redis, RedisError
from redis import exceptions as redis_errors
from redis.backoff import NoBackoff
from redis.retry import Retry
from rq import Queue
from rq.exceptions import DuplicateJobError
from rq.serializers import JSONSerializer
from sqlalchemy import Table, bindparam, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from notifier import metrics
from notifier.errors import kind_and_place
from notifier.model import Shard
from notifier.storage import Store

SHARDS = 16
QUEUE = "faultcast"
DRAIN = "notifier.doorbell.drain"
BELL_TTL_S = 60  # a bell nobody heard in that time: the poll has seen to it
PATIENCE_S = 0.1  # for one answer of Redis
APART_S, APART_IN_BURST_S = 0.05, 0.15  # between two rounds: what comes in a burst rings once
MANY = 5  # commits in one round, of which workers hear enough as it is

log = structlog.get_logger()


_SHARDS = cast(Table, Shard.__table__)
_GENERATIONS = select(_SHARDS.c.shard, _SHARDS.c.generation).where(
    _SHARDS.c.shard.in_(bindparam("shards", expanding=True))
)
_MOVE_ON = {
    dialect.__name__.rpartition(".")[2]: dialect.insert(_SHARDS).on_conflict_do_update(
        index_elements=["shard"], set_={"generation": _SHARDS.c.generation + 1}
    )
    for dialect in (postgresql, sqlite)
}


def shard_of(channel_id: str) -> int:
    """The share of the work that a channel belongs to: the same in every process and release."""
    return zlib.crc32(channel_id.encode()) % SHARDS


def move_on(session: Session, shards: Iterable[int]) -> None:
    """The next bells of these shards have new names. Part of each claim's transaction.

    RQ refuses a `unique` job as long as the hash of one with the same id exists, and the hash of a bell
    whose worker was killed may exist for minutes.
    """
    rows = [{"shard": shard, "generation": 1} for shard in sorted(shards)]
    if rows:
        session.execute(_MOVE_ON[session.get_bind().dialect.name], rows)


def bell_id(shard: int, generation: int) -> str:
    """The RQ job's id."""
    return f"bell-{shard}-{generation}"


class Bell:
    """Rings from a thread of its own, so that whoever committed an alert never waits for Redis."""

    def __init__(self, redis_url: str | None) -> None:
        redis = None if redis_url is None else connect(redis_url, retries=1)
        self._queue = None if redis is None else Queue(QUEUE, connection=redis, serializer=JSONSerializer)
        self._pending: dict[int, Store] = {}
        self._count = 0  # of commits with something to ring for, since the last round
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._is_ringing = self._is_closed = False

    def ring(self, store: Store, shards: Collection[int]) -> None:
        """After the commit: there is work in these shards. Never raises, never waits."""
        if self._queue is None:
            return
        with self._changed:
            self._pending.update(dict.fromkeys(shards, store))
            self._count += bool(shards)
            if self._thread is None and not self._is_closed:
                self._thread = threading.Thread(
                    target=self._run, args=(self._queue,), name="bell", daemon=True
                )
                self._thread.start()
            self._changed.notify_all()

    def flush(self, timeout_s: float = 1.0) -> bool:
        """Wait until all that was rung so far has been tried; whether that is so."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._pending and not self._is_ringing, timeout_s)

    def close(self) -> None:
        """Ring what is pending and end."""
        if self._thread is not None:
            self.flush()
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(1.0)
        if self._queue is not None:
            self._queue.connection.close()

    def _run(self, queue: Queue) -> None:
        rung, count = 0.0, 0
        while True:
            with self._changed:
                self._is_ringing = False
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._pending or self._is_closed)
                if self._is_closed:
                    return
                self._is_ringing = True
            apart_s = APART_S if count < MANY else APART_IN_BURST_S
            time.sleep(max(0.0, rung + apart_s - time.monotonic()))
            with self._changed:
                pending, self._pending = self._pending, {}
                count, self._count = self._count, 0
            rung = time.monotonic()
            _ring_all(queue, pending)


def _ring_all(queue: Queue, pending: Mapping[int, Store]) -> None:
    try:
        for store in set(pending.values()):
            _ring(queue, store, [shard for shard in pending if pending[shard] is store])
    except (RedisError, OSError, SQLAlchemyError) as error:
        metrics.BELLS.labels("lost").inc()
        log.info("bell_not_rung", why=type(error).__name__)  # the message may name the server
    except BaseException as error:  # noqa: BLE001  a border: the thread must not end
        metrics.BELLS.labels("lost").inc()
        log.warning("bell_not_rung", why=kind_and_place(error))


def _ring(queue: Queue, store: Store, shards: Iterable[int]) -> None:
    """One bell for all of them: whoever hears it looks at every shard in which there is work."""
    shard = min(shards)
    with store.read() as session:
        found = session.execute(_GENERATIONS, {"shards": [shard]}).first()
    try:
        queue.enqueue(
            DRAIN,
            shard,
            job_id=bell_id(shard, found.generation if found else 0),
            unique=True,
            ttl=BELL_TTL_S,
            result_ttl=0,
            failure_ttl=0,
        )
    except DuplicateJobError:
        metrics.BELLS.labels("ringing").inc()  # already
    else:
        metrics.BELLS.labels("rung").inc()


def drain(_shard: int) -> None:
    """What the bell's job names. Only `faultcast worker` acts on it (`notifier/listener.py`)."""
    raise RuntimeError("the queue `faultcast` is served by `faultcast worker` alone")


def connect(url: str, *, retries: int, timeout_s: float = PATIENCE_S) -> Redis:
    """A client that never waits long."""
    # One retry mends a pooled connection that the server closed; a slow server is not asked again.
    retry = Retry(NoBackoff(), retries, supported_errors=(redis_errors.ConnectionError,))
    return Redis.from_url(url, socket_timeout=timeout_s, socket_connect_timeout=PATIENCE_S * 10, retry=retry)
