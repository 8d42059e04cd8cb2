"""What the controller works with: the store under its lease, the runtime, the doorbell."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime

from sqlalchemy.orm import Session

from master.leader import Leadership
from master.runtimes.base import Runtime
from notifier.alerts import Published
from notifier.api.deps import Rings
from notifier.storage import Store

BELL = "bell"  # Session.info: shards to ring for after the commit


@dataclass(frozen=True)
class Hands:
    """`changed` is called after each commit; `server` is the address at which agents reach the master."""

    store: Store
    bell: Rings
    runtime: Runtime
    leadership: Leadership
    changed: Callable[[], None]
    server: str
    passed_over: dict[tuple[str, int], datetime] = field(default_factory=dict)  # see judgement.judge

    @contextmanager
    def write(self) -> Iterator[Session]:
        """One transaction under the lease; the bell rings after its commit for what was published in it."""
        with self.leadership.write() as session:
            yield session
            shards = _shards(session)
        if shards:
            self.bell.ring(self.store, shards)
        self.changed()


@contextmanager
def rung(store: Store, bell: Rings) -> Iterator[Session]:
    """The same for a route: no lease is needed, the bell rings for what was published."""
    with store.write() as session:
        yield session
        shards = _shards(session)
    if shards:
        bell.ring(store, shards)


def told(session: Session, published: Iterable[Published]) -> None:
    """Remember whose bell to ring once this transaction is committed."""
    shards: set[int] = session.info.setdefault(BELL, set())
    for one in published:
        shards.update(one.shards)


def _shards(session: Session) -> frozenset[int]:
    return frozenset(session.info.get(BELL, ()))
