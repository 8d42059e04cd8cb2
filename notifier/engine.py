"""The delivery engine: one thread claims, one renews leases, one reaps, one writes, one asks for receipts;
the rest send."""

import secrets
import threading
import time
from collections.abc import Iterable, Sequence, Set
from contextlib import nullcontext
from datetime import timedelta
from functools import partial

import structlog
from sqlalchemy.exc import SQLAlchemyError

from notifier import faultpoints, metrics
from notifier.apart import LITTLE, Apart
from notifier.asking import Asker
from notifier.beginning import Beginner, Begun
from notifier.claim import ChannelError, Claim, Claiming, due_shards
from notifier.crew import Crew
from notifier.doorbell import SHARDS
from notifier.errors import kind_and_place
from notifier.finishing import Finisher
from notifier.following import Follower
from notifier.keeping import keep
from notifier.lane import Lane
from notifier.leases import Slots
from notifier.reaper import reap
from notifier.refilling import fill_meters
from notifier.sending import send
from notifier.tasks import Task, load
from notifier.tools import Tools

CONCURRENCY = 512
POLL_S = 1.0
REAP_EVERY_S = 10.0
FINISH_S = 30.0  # how long a stop waits for answers under way
DATABASE_AGAIN_S = 1.0
LOT_S = 0.02  # at least between two claims of a shard for which nobody rang
STARVED_S = 0.1  # and where all senders were busy, unless many of them are free again
LOTS = 8  # the part of the senders that makes many
MANY = 8  # sends on their way, before which other work can wait
QUIET_S = 2.0  # after which nothing more is on its way

log = structlog.get_logger()


class Engine:
    """Claims and sends in this process, until it is stopped."""

    def __init__(self, tools: Tools, concurrency: int = CONCURRENCY) -> None:
        self._tools = tools
        self._slots = Slots(concurrency)
        self._crew = Crew(concurrency)
        self._lot = max(1, concurrency // LOTS)
        self._much_at = -QUIET_S  # when there was last much to be sent
        self._freed = 0  # senders, since the last claim
        self._beginner = Beginner(tools.store, tools.writer, tools.box, tools.settings)
        self._finisher = Finisher(tools.store, tools.writer, self._wake_soon)
        self._lane = Lane(tools, self._finisher, self._submit, self._sent)
        self._claiming = threading.Lock()  # one claim at a time
        self._changed = threading.Condition()
        self._wanted: dict[int, float] = {}  # shards, and the moment from which they are to be looked at
        self._claimed_at: dict[int, float] = {}
        self._starved: set[int] = set()
        self._look_at = 0.0  # when all are looked at
        self._apart = Apart()
        self._stopping = False
        self._ended = threading.Event()
        self._asker = Asker(tools, self.wake)
        self._follower = Follower(tools, self.wake)
        self._threads = [
            threading.Thread(target=run, name=name, daemon=True)
            for name, run in (
                ("claimer", self._claim_all), ("keeper", self._keep), ("reaper", self._reap),
                ("asking", self._ask), ("follower", self._follow),
            )
        ]  # fmt: skip

    def start(self) -> None:
        with self._tools.store.write() as session:
            fill_meters(session, self._tools.box)
        self._finisher.start()
        self._lane.start()
        for thread in self._threads:
            thread.start()

    def wake(self, shards: Iterable[int]) -> None:
        """There is work in these shards. From any thread; returns at once."""
        with self._changed:
            self._wanted.update(dict.fromkeys(shards, 0.0))
            self._changed.notify_all()

    def hear(self, shard: int) -> None:
        """A bell rang: claim in this very thread wherever there is work, unless another one is about it."""
        if time.monotonic() < self._apart.until or not self._claiming.acquire(blocking=False):
            with self._changed:
                self._look_at = 0.0
                self._changed.notify_all()
            return
        try:
            self._claim_in(range(SHARDS), frozenset({shard}))
        finally:
            self._claiming.release()

    def is_busy(self) -> bool:
        """Whether much is on its way, or was just now."""
        return self._slots.busy >= MANY or time.monotonic() < self._much_at + QUIET_S

    def stop(self, timeout_s: float = FINISH_S) -> None:
        """Claim nothing more, finish what is under way, end. What takes longer is another worker's then."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        self._threads[0].join()
        self._claiming.acquire()  # for good: a bell heard now is for others
        until = time.monotonic() + timeout_s
        while self._slots.busy and time.monotonic() < until:
            time.sleep(0.01)
        if self._slots.busy:
            log.warning("stopped_with_sends_under_way", count=self._slots.busy)
        self._lane.close()
        self._crew.close(wait=self._slots.busy == 0)
        self._finisher.close()
        self._ended.set()
        self._asker.stop()
        for thread in self._threads[1:]:
            thread.join()
        self._tools.writer.close()

    def _claim_all(self) -> None:
        while (shards := self._wait()) is not None:
            with self._claiming:
                is_done = self._claim_in(shards)
            if not is_done:
                self._ended.wait(DATABASE_AGAIN_S)

    def _claim_in(self, shards: Sequence[int], rung: frozenset[int] = frozenset()) -> bool:
        """Claim in these shards, or in all that have work when none is named; whether that went well."""
        try:
            found = shards or self._due()
            if found:
                self._drain(found, rung)
        except SQLAlchemyError as error:
            log.warning("not_claimed", why=type(error).__name__)
        except BaseException:  # a border: nothing is sent any more by a thread that has ended
            log.exception("not_claimed")
        else:
            return True
        return False

    def _wait(self) -> Sequence[int] | None:
        """Shards in which there is work; none of them: time to look at all; None: stop."""
        with self._changed:
            while not self._stopping:
                now = time.monotonic()
                if now < self._apart.until:
                    self._changed.wait(self._apart.until - now)
                    continue
                if now >= self._look_at:
                    self._look_at = now + POLL_S
                    self._wanted = {}
                    return []
                ready = [shard for shard, moment in self._wanted.items() if moment <= now]
                if ready:
                    for shard in ready:
                        del self._wanted[shard]
                    return sorted(ready)
                self._changed.wait(min([self._look_at, *self._wanted.values()]) - now)
            return None

    def _due(self) -> Sequence[int]:
        with self._tools.store.read() as session:
            return due_shards(session, self._tools.store.now(session))

    def _drain(self, shards: Sequence[int], rung: frozenset[int]) -> None:
        """Claim on all channels of these shards, some at a time."""
        seen: set[str] = set()
        began = time.monotonic()
        with self._changed:
            self._claimed_at.update(dict.fromkeys(shards, began))
            self._freed = 0
        while not self._stopping:
            claim, tasks = self._claim(shards, rung, seen)
            self._launch(tasks)
            self.wake(claim.wake)
            if claim.is_starved:
                self._starve(shards)
            if not claim.is_partial:
                if 0 < len(tasks) < LITTLE and not claim.is_starved:
                    self._keep_apart(len(tasks), began)
                return
            seen |= claim.looked_at

    def _claim(
        self, shards: Sequence[int], rung: frozenset[int], but: Set[str]
    ) -> tuple[Claim, Sequence[Task]]:
        """One committed claim; a channel that makes trouble is left out, and looked at again by the poll."""
        store, left_out = self._tools.store, set(but)
        token, since = secrets.token_hex(8), time.monotonic()
        turn = nullcontext() if store.is_postgres else self._tools.writer.turn
        while True:
            try:
                # Nothing leaves before the intents are kept, and these leases with them.
                with turn, store.write(lasts=False) as session:
                    now = store.now(session)
                    claiming = Claiming(session, token, self._slots, now, frozenset(left_out), rung)
                    claim = claiming.shards(shards)
                    tasks = load(session, claim.rows, claim.channels, token, now)
            except ChannelError as error:
                left_out.add(error.channel_id)
                continue
            if claim.again_at is not None:
                self._look_in(claim.again_at - now)
            self._take(tasks, token, since)
            return claim, tasks

    def _take(self, tasks: Sequence[Task], token: str, since: float) -> None:
        if len(tasks) >= MANY:
            self._much_at = since
        if tasks:
            faultpoints.hit("claimed")
            metrics.CLAIMS.inc()
            metrics.CLAIMED.inc(len(tasks))
        self._tools.leases.hold([task.row.id for task in tasks], token, since)
        for task in tasks:
            self._slots.take(task.row.channel_id, 1)

    def _launch(self, tasks: Sequence[Task]) -> None:
        begun = self._beginner.begin(tasks) if tasks else {}
        if begun:
            self._lane.send([(task, begun[task.row.id]) for task in tasks if task.row.id in begun])
        for task in tasks:
            if task.row.id not in begun:
                self._submit(task)

    def _submit(self, task: Task, begun: Begun | None = None) -> None:
        self._crew.submit(partial(self._send, task, begun))

    def _send(self, task: Task, begun: Begun | None) -> None:
        wake: frozenset[int] = frozenset()
        try:
            wake = send(self._tools, task, self._finisher, begun)
        finally:
            self._sent([task.row.channel_id], wake)

    def _sent(self, channels: Sequence[str], shards: Set[int] = frozenset()) -> None:
        """The senders of these are free. These shards may have work, and so may those that wait for a sender:
        a long queue is claimed in lots."""
        left = self._slots.give_back(channels)
        with self._changed:
            self._freed += len(channels)
            if self._freed >= self._lot or left == 0:
                self._want(self._starved, 0.0)
                self._starved = set()
            self._want(shards, LOT_S)
        if left == 0:
            self._finisher.hurry()

    def _wake_soon(self, shards: Iterable[int]) -> None:
        with self._changed:
            self._want(shards, LOT_S)

    def _want(self, shards: Iterable[int], lot_s: float) -> None:
        """Look at these so long after their last claim; the lock is the caller's."""
        first = min(self._wanted.values(), default=self._look_at)
        for shard in shards:
            soon = self._claimed_at.get(shard, 0.0) + lot_s
            self._wanted[shard] = min(self._wanted.get(shard, soon), soon)
            if soon < first:
                first = soon
                self._changed.notify_all()

    def _starve(self, shards: Iterable[int]) -> None:
        """Look again as soon as many senders are free, and before long in any case."""
        with self._changed:
            self._starved.update(shards)
            self._want(shards, LOT_S if self._slots.busy == 0 else STARVED_S)

    def _keep_apart(self, count: int, began: float) -> None:
        """What comes next is gathered for a moment, and looked for without waiting for its bell."""
        with self._changed:
            self._apart.found(count, began)
            self._look_at = min(self._look_at, self._apart.until)

    def _look_in(self, delay: timedelta) -> None:
        with self._changed:
            self._look_at = min(self._look_at, time.monotonic() + max(0.0, delay.total_seconds()))

    def _keep(self) -> None:
        keep(self._tools, self._ended)

    def _reap(self) -> None:
        store = self._tools.store
        while not self._ended.wait(REAP_EVERY_S):
            try:
                self.wake(self._tools.writer.run(lambda session: reap(session, store.now(session))))
            except BaseException as error:  # noqa: BLE001  a border: the thread must not end
                log.warning("not_reaped", why=kind_and_place(error))

    def _ask(self) -> None:
        self._asker.run(self._ended)

    def _follow(self) -> None:
        self._follower.run(self._ended)
