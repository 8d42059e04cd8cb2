"""The worker's ear: RQ's worker in a thread, which obeys one function of ours and refuses all else."""

import logging
import threading
import time
from collections.abc import Callable
from typing import Any

import structlog
from redis import RedisError
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError
from rq import Queue, SimpleWorker
from rq.exceptions import StopRequested
from rq.job import Job
from rq.serializers import JSONSerializer
from rq.worker import WorkerStatus

from notifier import faultpoints
from notifier.clock import utcnow
from notifier.doorbell import DRAIN, QUEUE, SHARDS, connect
from notifier.errors import kind_and_place

LISTEN_S = 1  # for one blocking pop: how soon a stop is noticed
HEARTBEAT_S = 10
AGAIN_S = 1.0  # after Redis was away
BREATH_S = 0.005  # for the claim: what RQ does around the next pop would compete for the interpreter

log = structlog.get_logger()
logging.getLogger("rq.worker").setLevel(logging.CRITICAL)  # what it says of a Redis that is away we say once


class _Bells(Queue):
    """RQ's worker would look for a lost Redis by itself, a line a second: the listener does, says it once."""

    @classmethod
    def dequeue_any(cls, *args: Any, **kwargs: Any) -> Any:
        try:
            return super().dequeue_any(*args, **kwargs)
        except (RedisConnectionError, RedisTimeoutError) as error:
            raise ConnectionResetError from error


class BellWorker(SimpleWorker):
    """Pops a job, and wakes the delivery engine if it is a bell.

    A stock RQ worker calls whatever function a job names, and the job's callbacks and webhooks. This one
    calls `on_bell` and nothing else. Nothing is relied upon of RQ's bookkeeping either (results,
    registries, commands by pub/sub, recovery of abandoned jobs), so none is done.
    """

    max_connection_wait_time = AGAIN_S
    dequeue_timeout = LISTEN_S
    queue_class = _Bells
    on_listening: Callable[[], None]
    on_bell: Callable[[int], None]

    should_run_maintenance_tasks = False

    def bootstrap(self, *_: Any, **__: Any) -> None:
        """Announce ourselves, and forget what workers popped and died with: the poll has seen to it."""
        self.register_birth()  # type: ignore[no-untyped-call]
        self.set_state(WorkerStatus.STARTED)
        for queue in self.queues:
            for job_id in queue.intermediate_queue.get_job_ids():
                self._forget(queue, job_id)
        self.on_listening()

    def heartbeat(self, *args: Any, **kwargs: Any) -> None:
        """RQ's, but not around every job. Once around every blocking pop, so a stop is noticed here."""
        if self._stop_requested:
            raise StopRequested
        now = utcnow()
        if self.last_heartbeat is None or (now - self.last_heartbeat).total_seconds() > HEARTBEAT_S:
            super().heartbeat(*args, **kwargs)

    def _install_signal_handlers(self) -> None:
        """Signals are the main thread's."""

    def execute_job(self, job: Job, queue: Queue) -> None:
        shard = _asked_for(job)
        if shard is not None:
            faultpoints.hit("rung")
        # Before the claim reads: an alert that comes during it can ring again under the same name.
        self._forget(queue, job.id)
        if shard is None:
            log.warning("job_refused", job_id=job.id)
        else:
            self.on_bell(shard)
            time.sleep(BREATH_S)

    def _forget(self, queue: Queue, job_id: str) -> None:
        with self.connection.pipeline() as pipeline:
            pipeline.lrem(queue.intermediate_queue_key, 1, job_id)
            pipeline.delete(self.job_class.key_for(job_id))
            pipeline.execute()


class Listener:
    """Keeps a `BellWorker` listening in a thread, through any failure of Redis."""

    def __init__(self, redis_url: str, on_bell: Callable[[int], None]) -> None:
        self._url = redis_url
        self._on_bell = on_bell
        self._stopped = threading.Event()
        self._worker: BellWorker | None = None
        self._is_deaf = False
        self._thread = threading.Thread(target=self._run, name="listener", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Hear no further bell; returns when the thread has ended, or is sure to do no more harm."""
        self._stopped.set()
        if self._worker is not None:
            self._worker._stop_requested = True  # noqa: SLF001  RQ's own way is a signal handler
        self._thread.join(LISTEN_S + 1.0)

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                self._listen()
            except (RedisError, OSError) as error:
                self._say(log.info, type(error).__name__)
            except BaseException as error:  # noqa: BLE001  a border: the thread must not end
                self._say(log.warning, kind_and_place(error))
            self._stopped.wait(AGAIN_S)

    def _say(self, line: Callable[..., Any], why: str) -> None:
        """Once, however often we look for a Redis that is away."""
        if not self._is_deaf:
            self._is_deaf = True
            line("bell_not_heard", why=why)

    def _listening(self) -> None:
        if self._is_deaf:
            self._is_deaf = False
            log.info("listening_again")

    def _listen(self) -> None:
        connection = connect(self._url, retries=0, timeout_s=LISTEN_S + 5.0)
        try:
            self._worker = BellWorker([QUEUE], connection=connection, serializer=JSONSerializer)
            self._worker.on_bell, self._worker.on_listening = self._on_bell, self._listening
            if not self._stopped.is_set():
                self._worker.work()
        finally:
            connection.close()


def _asked_for(job: Job) -> int | None:
    """The shard that a bell names, or None: it is no bell of ours."""
    try:
        if job.func_name == DRAIN and not job.instance and not job.kwargs:
            (shard,) = job.args
            return shard if type(shard) is int and 0 <= shard < SHARDS else None
    except Exception:  # noqa: BLE001  anything may stand in Redis, and all that is not ours is refused alike
        log.debug("job_unreadable", job_id=job.id)
    return None
