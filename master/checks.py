"""What is looked at to know whether a server can do its work, and whether all is well around it.

`needed` is what this server cannot work without: a load balancer shall take it out. The rest would be no
better at another server: it is shown, and the watchdog is not called.
"""

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from redis import RedisError
from sqlalchemy import func, select
from sqlalchemy.exc import SQLAlchemyError

from master.controller import Controller
from master.model import Leader
from notifier.api.deps import Services
from notifier.clock import rfc3339
from notifier.doorbell import connect
from notifier.migrations import in_words, is_newer, is_older, revision
from notifier.model import Delivery, Meta
from notifier.presence import living
from notifier.secretbox import is_key_of
from notifier.settings import Settings
from notifier.settle import OPEN
from notifier.storage import Store

OVERDUE = timedelta(seconds=30)  # what waits for so long has no worker that cares for it
STUCK_S = 60.0  # a look of the controller takes milliseconds; starting pods may take seconds
LITTLE_DISK = 256 * 2**20
PROBE = "probe"


@dataclass(frozen=True)
class Check:
    """One thing looked at. Only what is `needed` makes us unready."""

    name: str
    ok: bool
    needed: bool
    detail: str = ""


def look(services: Services, controller: Controller | None) -> list[Check]:
    """Everything, in the order in which one thing stands on the other."""
    settings, store = services.settings, services.store
    found = [_tried("database", lambda: database(store), is_needed=True)]
    if not found[0].ok:
        return [*found, _controller(controller), disk(settings)]
    return [
        *found,
        _tried("writes", lambda: writes(store), is_needed=True),
        _tried("key", lambda: key(services), is_needed=True),
        _controller(controller),
        _tried("leader", lambda: leader(store)),
        _tried("workers", lambda: workers(store)),
        doorbell(settings),
        disk(settings),
    ]


def _tried(name: str, check: Callable[[], Check], *, is_needed: bool = False) -> Check:
    """The driver's own words may name host and user, so they are not told here."""
    try:
        return check()
    except (SQLAlchemyError, OSError) as error:
        return Check(name, ok=False, needed=is_needed, detail=type(error).__name__)


def database(store: Store) -> Check:
    """A newer release's tables will do: a server is replaced after the database is migrated."""
    with store.engine.connect() as connection:
        found = revision(connection)
    if is_older(found):
        return Check("database", ok=False, needed=True, detail=f"{in_words(found)}: run faultcast migrate")
    return Check("database", ok=True, needed=True, detail=in_words(found) if is_newer(found) else "")


def writes(store: Store) -> Check:
    """By a row of its own that is really written: a full disk or a read-only standby lets everybody read."""
    with store.write() as session:
        session.merge(Meta(key=PROBE, value=rfc3339(store.now(session))))
    return Check("writes", ok=True, needed=True)


def key(services: Services) -> Check:
    with services.store.read() as session:
        is_ours = is_key_of(session, services.box)
    detail = "" if is_ours else "FAULTCAST_SECRET_KEY is not this database's: set the one it was started with"
    return Check("key", ok=is_ours, needed=True, detail=detail)


def leader(store: Store) -> Check:
    """A server that stands by is as good as any."""
    late = leaderless(store)
    detail = f"nobody leads pool {', '.join(late)}: its jobs are not looked after" if late else ""
    return Check("leader", ok=not late, needed=False, detail=detail)


def leaderless(store: Store) -> Sequence[str]:
    """The pools that had a master and have none now."""
    with store.read() as session:
        now = store.now(session)
        return session.scalars(select(Leader.pool).where(Leader.until < now - OVERDUE)).all()


def workers(store: Store) -> Check:
    """By what they say, and by what they leave undone: it holds for workers on any machine."""
    count, late_s = at_work(store)
    said = [] if count else ["none has spoken lately: start faultcast worker"]
    if late_s is not None:
        said.append(f"a delivery is overdue by {late_s:.0f} s")
    return Check("workers", ok=not said, needed=False, detail="; ".join(said))


def at_work(store: Store) -> tuple[int, float | None]:
    """How many workers have spoken lately, and for how many seconds a delivery has been waiting for one, if
    that is too long."""
    with store.read() as session:
        now = store.now(session)
        count = len(living(session, now))
        oldest = session.scalar(select(func.min(Delivery.next_attempt_at)).where(OPEN))
    is_late = oldest is not None and now - oldest >= OVERDUE
    return count, (now - oldest).total_seconds() if oldest is not None and is_late else None


def doorbell(settings: Settings) -> Check:
    """Without it alerts are a second late; that is no outage."""
    url = settings.redis_url
    if url is None:
        return Check("doorbell", ok=True, needed=False, detail="none is set; workers look by themselves")
    client = connect(url.get_secret_value(), retries=0)
    try:
        client.ping()
    except (RedisError, OSError) as error:
        return Check("doorbell", ok=False, needed=False, detail=type(error).__name__)
    finally:
        client.close()
    return Check("doorbell", ok=True, needed=False)


def disk(settings: Settings) -> Check:
    """Where the data dir lies; with SQLite that is where everything is kept."""
    try:
        free = free_space(settings.data_dir)
    except OSError as error:
        return Check("disk", ok=False, needed=False, detail=type(error).__name__)
    detail = "" if free >= LITTLE_DISK else f"{free // 2**20} MiB are left for the data dir"
    return Check("disk", ok=not detail, needed=False, detail=detail)


def free_space(folder: Path) -> int:
    """Bytes that we may still fill."""
    return shutil.disk_usage(folder).free


def _controller(controller: Controller | None) -> Check:
    """The thread that looks after jobs: one that has ended or hangs leaves its server fit for nothing."""
    silent_s = None if controller is None else controller.silent_s()
    if silent_s is None or silent_s < STUCK_S:
        return Check("controller", ok=True, needed=True)
    return Check("controller", ok=False, needed=True, detail=f"has not looked for {silent_s:.0f} s")
