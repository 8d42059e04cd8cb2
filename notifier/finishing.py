"""Plain good news of many senders is written down together, by one statement and in one commit.

Plain is what leaves nothing to be done: told, by our own lease, nobody to be asked, nothing to be given back.
All else is settled by `notifier/settle.py`, and so is what turns out not to be ours any more.
"""

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, cast

import structlog
from sqlalchemy import Table, bindparam, func, update
from sqlalchemy.exc import InterfaceError, InternalError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.orm import Session

from notifier import faultpoints
from notifier.attempts import NotOursError, complete_all
from notifier.bulk import Bulk
from notifier.errors import kind_and_place
from notifier.model import Channel, Delivery
from notifier.recipients import TOLD, document
from notifier.settle import Settled, Settlement, has_due
from notifier.storage import Instant, Store
from notifier.writer import Writer

GATHER_S = 0.03  # while others are under way
MAX_BATCH = 200
PERSIST_S = 60.0  # how long outcomes are kept in memory for a database that does not take them
PERSIST_AGAIN_S = 0.5

log = structlog.get_logger()

_D = cast(Table, Delivery.__table__)
_TOLD = Bulk(
    _D.update()
    .where(_D.c.id == bindparam("id_"), _D.c.lease_token == bindparam("token"), _D.c.state == "sending")
    .values(
        state=bindparam("state_"),
        why=bindparam("note"),
        next_attempt_at=None,
        lease_token=None,
        lease_until=None,
        mends=bindparam("done", type_=_D.c.mends.type),
        recipients=bindparam("told", type_=_D.c.recipients.type),
        provider_message_id=func.coalesce(bindparam("named"), _D.c.provider_message_id),
        delivered_at=bindparam("at", type_=Instant),
        error_code=None,
        error_message=None,
        error_permanent=None,
    )
)


@dataclass(frozen=True)
class Told:
    """A send that ended well.

    Attributes:
        row: the delivery as it was claimed.
        is_first: nothing is known of the channel's health yet.
        careful: settles it by itself, without raising; answers the shards to wake.
        after: what else is to be done once it is settled.
        at: when the answer was read, by `time.monotonic()`.
    """

    done: Settlement
    row: Any
    is_first: bool
    careful: Callable[[], frozenset[int]]
    after: Callable[[Settled], None]
    at: float = field(default_factory=time.monotonic)


def is_plain(done: Settlement, row: Any) -> bool:
    """Whether it leaves nothing to be done but to write it down."""
    is_told = done.outcome in TOLD and done.answer.outcome is done.outcome and done.turn_at is None
    is_open = done.attempt_id is None or done.receipts_after or done.free or done.uncounted
    return is_told and not is_open and not row.is_digest


def finish(session: Session, told: Sequence[Told], now: datetime) -> frozenset[int]:
    """Write them all down; answers the shards in which there is more to do on their channels.

    Raises:
        NotOursError: one of the leases is lost, and nothing may be committed.
    """
    since = time.monotonic()
    moments = [now - timedelta(seconds=max(0.0, since - one.at)) for one in told]
    rows = [_values(one, at) for one, at in zip(told, moments, strict=True)]
    if _TOLD.run(session, rows) != len(rows):
        raise NotOursError
    answers = zip(told, moments, strict=True)
    complete_all(session, [(one.done.attempt_id or 0, one.done.answer, at) for one, at in answers])
    well = {one.row.channel_id for one in told if one.is_first}
    if well:
        session.execute(
            update(Channel).where(Channel.id.in_(well), Channel.health == "unknown").values(health="ok"),
            execution_options={"synchronize_session": False},
        )
    rows_told = [one.row for one in told]
    return frozenset(row.shard for row in rows_told) if has_due(session, rows_told, now) else frozenset()


def _values(one: Told, at: datetime) -> dict[str, Any]:
    done = one.done
    return {
        "id_": done.delivery_id,
        "token": done.token,
        "state_": done.outcome.value,
        "note": done.note,
        "done": list(done.mends),
        "told": [document(recipient) for recipient in done.recipients],
        "named": done.answer.message_id,
        "at": at,
    }


def is_away(error: BaseException) -> bool:
    """Whether it is a matter of time that the database takes what it is told."""
    return isinstance(error, OperationalError | InterfaceError | InternalError | PoolTimeoutError)


class Finisher:
    """Writes good news down, in a thread of its own: its sender is free for the next one meanwhile."""

    def __init__(self, store: Store, writer: Writer, wake: Callable[[Iterable[int]], None]) -> None:
        self._store, self._writer, self._wake = store, writer, wake
        self._told: list[Told] = []
        self._changed = threading.Condition()
        self._hurries = self._closed = False
        self._thread = threading.Thread(target=self._run, name="finisher", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def put(self, *told: Told) -> None:
        """They will be written down soon. Their leases are held until then."""
        with self._changed:
            before = len(self._told)
            self._told += told
            if before == 0 or before < MAX_BATCH <= len(self._told):
                self._changed.notify()

    def hurry(self) -> None:
        """Nobody else is under way, so there is nothing to wait for."""
        with self._changed:
            if self._told:
                self._hurries = True
                self._changed.notify()

    def close(self) -> None:
        """Write down what there is, and end."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        while batch := self._gathered():
            try:
                self._finish(batch)
            except BaseException as error:  # noqa: BLE001  a border: the leases run out, and others take over
                log.error("outcomes_not_written", count=len(batch), why=kind_and_place(error))  # noqa: TRY400

    def _gathered(self) -> list[Told]:
        """Empty: it is closed and all is written."""
        with self._changed:
            self._changed.wait_for(lambda: self._told or self._closed)
            self._changed.wait_for(
                lambda: self._hurries or self._closed or len(self._told) >= MAX_BATCH, GATHER_S
            )
            batch, self._told, self._hurries = self._told, [], False
            return batch

    def _finish(self, batch: Sequence[Told]) -> None:
        wake = self._persisted(batch)
        if wake is None:
            for one in batch:
                self._wake(one.careful())
            return
        for one in batch:
            try:
                faultpoints.hit("outcome_written")
                one.after(Settled(is_ours=True, state=one.done.outcome.value))
            except BaseException as error:  # noqa: BLE001  a border: what comes after one must not keep the others
                log.error("not_closed", delivery=one.row.id, why=kind_and_place(error))  # noqa: TRY400
        self._wake(wake)

    def _persisted(self, batch: Sequence[Told]) -> frozenset[int] | None:
        """Written, and which shards have work; None: each has to be settled by itself. Waits only for a
        database that is away: one outcome that it cannot take must not keep the others."""
        until = time.monotonic() + PERSIST_S
        while True:
            try:
                return self._writer.run(lambda session: finish(session, batch, self._store.now(session)))
            except NotOursError:
                return None
            except BaseException as error:  # noqa: BLE001  a border: their leases are renewed until they are let go
                log.warning("outcomes_wait", count=len(batch), why=kind_and_place(error))
                if not is_away(error) or time.monotonic() > until:
                    return None
            time.sleep(PERSIST_AGAIN_S)
