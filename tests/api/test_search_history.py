"""Whatever happens to the log and its index, a search finds what a look at every row finds.

Two workers of this release and one of the release before, which knows no joined bitmaps; each may be
stopped between reading and writing, and go on when another has been at work.
"""

import random
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from datetime import timedelta

import pytest
from sqlalchemy import func, select

from notifier import indexing, indexwriting, retention, stretches
from notifier.clock import utcnow
from notifier.expunging import expunge
from notifier.indexwriting import Found
from notifier.model import Delivery
from notifier.problems import Problem
from notifier.searchmodel import LATE, SearchBlock, SearchSlot, SearchStretch
from notifier.storage import Store
from tests.api.logbook import Log, id_of
from tests.api.test_search_agrees import agree, small

__all__ = ["small"]  # a fixture
STEPS, LOOK_EVERY, QUESTIONS = 250, 5, 5
OPEN = "sending"


@dataclass
class History:
    """What may happen next; `joined`: how often a stretch was there when the index was asked."""

    log: Log
    chance: random.Random
    monkeypatch: pytest.MonkeyPatch
    count: int = 0
    joined: int = 0
    stale: list[Found] = field(default_factory=list)
    joining: list[Iterator[int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._began = utcnow() - timedelta(hours=2)
        self.come()
        self.index()

    def come(self) -> None:
        for _ in range(self.chance.randrange(1, 12)):
            self._add(self._began + timedelta(seconds=self.count))

    def come_late(self) -> None:
        """Committed after its neighbours, in a block that was not looked through yet, nor is about to be."""
        if self.stale:
            return
        at = self._began + timedelta(seconds=self.count - self.chance.random() * 4)
        with self.log.store.read() as session:
            checked = session.scalar(select(func.max(SearchBlock.last_id)).where(SearchBlock.is_checked))
        if id_of("dlv", at, self.count) > (checked or ""):
            self._add(at)

    def _add(self, at: object) -> None:
        state = OPEN if self.chance.random() < 0.25 else None
        self.log.add(self.count, at, **({} if state is None else {"state": state}))  # type: ignore[arg-type]
        self.count += 1

    def end(self) -> None:
        with self.log.store.write() as session:
            for row in session.scalars(select(Delivery).where(Delivery.state == OPEN)).all()[:3]:
                row.state, row.attempt_count = self.chance.choice(("failed", "delivered")), 1
                row.why = "late"

    def index(self) -> None:
        indexing.advance(self.log.store, nullcontext(), self.chance.choice((3, 20, 200)))

    def index_as_before(self) -> None:
        with self.monkeypatch.context() as before:
            before.setattr(stretches, "forget", lambda *_: None)
            self.index()

    def stop_between(self) -> None:
        with self.log.store.read() as session:
            self.stale.append(indexing.look(session, 50, self.log.store.now(session)))

    def go_on(self) -> None:
        if self.stale:
            found = self.stale.pop(self.chance.randrange(len(self.stale)))
            with self.log.store.write() as session:
                indexwriting.write(session, found, self.log.store.now(session))

    def join(self) -> None:
        if len(self.joining) < 2:
            self.joining.append(stretches.steps(self.log.store, nullcontext))
        one = self.chance.choice(self.joining)
        for _ in range(self.chance.randrange(1, 30)):
            if next(one, None) is None:
                self.joining.remove(one)
                return

    def die_joining(self) -> None:
        if self.joining:
            self.joining.pop().close()  # type: ignore[attr-defined]

    def expunge(self) -> None:
        with self.log.store.write() as session:
            ids = session.scalars(select(Delivery.id)).all()
            if ids:
                with suppress(Problem):
                    expunge(session, session.get_one(Delivery, self.chance.choice(ids)))

    def remove(self) -> None:
        with self.log.store.write() as session:
            rows = session.execute(
                select(Delivery.id, Delivery.alert_id).order_by(Delivery.id).limit(5)
            ).all()
            if self.count > 60 and all(session.get_one(Delivery, row.id).state != OPEN for row in rows):
                retention._remove(session, [row.id for row in rows], {row.alert_id for row in rows})
        with self.log.store.write() as session:
            retention.sweep_index(session)
            stretches.sweep(session, 3)

    def look(self) -> None:
        """Late ones are found as soon as they are read."""
        with self.log.store.read() as session:
            read = select(func.min(SearchBlock.after_id), func.max(SearchBlock.last_id))
            after, upto = session.execute(read).one()
            placed = select(SearchSlot.delivery_id)
            unread = Delivery.id.not_in(placed), Delivery.id > after, Delivery.id <= upto
            if session.scalar(select(Delivery.id).where(*unread).limit(1)) is not None:
                return
            whole = select(SearchStretch.stretch).where(SearchStretch.term == LATE).limit(1)
            self.joined += session.scalar(whole) is not None
        agree(self.log.store, self.chance, QUESTIONS)


@pytest.mark.parametrize("seed", range(3))
def test_every_history_agrees(store: Store, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    monkeypatch.setattr(indexwriting, "FULL", 5)
    monkeypatch.setattr(stretches, "BATCH", 2)
    monkeypatch.setattr(stretches, "BATCH_SQLITE", 2)
    history = History(Log(store), random.Random(seed), monkeypatch)  # noqa: S311  no secret
    often = [history.come, history.index, history.index_as_before, history.join, history.join]
    seldom = [
        history.come_late, history.stop_between, history.go_on, history.die_joining,
        history.expunge, history.remove, history.end,
    ]  # fmt: skip
    for n in range(STEPS):
        history.chance.choice([*often, *often, *seldom])()
        if n % LOOK_EVERY == 0:
            history.look()
    history.look()
    assert history.joined > 3
