"""The peer that many start with: one RQ job for each delivery, the same send, one attempt row for each try.

python bench/rqpeer.py worker REDIS DATABASE
python bench/rqpeer.py publish REDIS DATABASE FIRST LAST URL…

Nothing is left out that a delivery log needs (an intent before the send, the outcome after it, SQLite as
durable as Faultcast's) and nothing added: no rendering, no limits, no order, no lease, no HTTP API in front.
The worker is RQ's quickest, which does not fork for a job.
"""

import json
import logging
import sqlite3
import sys
import time
from functools import cache

import redis
import urllib3
from rq import Queue, SimpleWorker
from rq.serializers import JSONSerializer

QUEUE = "peer"
TABLES = """
create table if not exists deliveries (id integer primary key, url text, title text, state text, at real);
create table if not exists attempts (id integer primary key, delivery_id integer, started_at real,
    finished_at real, outcome text, http_status integer, response text);
"""


@cache
def database(path: str) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=30, isolation_level=None)
    for pragma in ("journal_mode=WAL", "synchronous=FULL"):
        connection.execute(f"PRAGMA {pragma}")
    connection.executescript(TABLES)
    return connection


@cache
def pool() -> urllib3.PoolManager:
    return urllib3.PoolManager(maxsize=4)


def deliver(path: str, delivery_id: int) -> None:
    """The job."""
    rows = database(path)
    url, title = rows.execute("select url, title from deliveries where id = ?", (delivery_id,)).fetchone()
    intent = "insert into attempts (delivery_id, started_at) values (?, ?)"
    attempt_id = rows.execute(intent, (delivery_id, time.time())).lastrowid
    body = json.dumps({"id": delivery_id, "title": title, "severity": "error", "labels": {"node": "gpu-17"}})
    answer = pool().request("POST", url, body=body, headers={"Content-Type": "application/json"})
    is_told = answer.status < 300
    rows.execute("begin immediate")
    rows.execute(
        "update attempts set finished_at = ?, outcome = ?, http_status = ?, response = ? where id = ?",
        (time.time(), "delivered" if is_told else "failed", answer.status, answer.data.decode(), attempt_id),
    )
    state = "delivered" if is_told else "failed"
    rows.execute("update deliveries set state = ? where id = ?", (state, delivery_id))
    rows.execute("commit")


def publish(url: str, path: str, numbers: range, targets: list[str]) -> None:
    """Each alert's deliveries in one commit, their jobs in one pipeline."""
    rows = database(path)
    queue = Queue(QUEUE, connection=redis.Redis.from_url(url), serializer=JSONSerializer)
    insert = "insert into deliveries (url, title, state, at) values (?, ?, 'pending', ?)"
    for n in numbers:
        rows.execute("begin immediate")
        made = [rows.execute(insert, (one, f"burst-{n}", time.time())).lastrowid for one in targets]
        rows.execute("commit")
        queue.enqueue_many(
            [Queue.prepare_data("rqpeer.deliver", args=(path, one), result_ttl=0) for one in made]
        )


def work(url: str) -> None:
    logging.disable(logging.CRITICAL)
    SimpleWorker(
        [QUEUE], connection=redis.Redis.from_url(url), serializer=JSONSerializer
    ).work(logging_level="CRITICAL")  # fmt: skip


if __name__ == "__main__":
    if sys.argv[1] == "worker":
        database(sys.argv[3])
        work(sys.argv[2])
    else:
        publish(sys.argv[2], sys.argv[3], range(int(sys.argv[4]), int(sys.argv[5])), sys.argv[6:])
