"""`faultcast worker`: the delivery engine, woken by the bell, until it is told to stop."""

import gc
import sys
import threading

import structlog

from notifier import metrics
from notifier.apart import SWITCH_S
from notifier.engine import CONCURRENCY, Engine
from notifier.housekeeping import Housekeeper
from notifier.leases import Leases
from notifier.listener import Listener
from notifier.migrations import check_revision
from notifier.network import network_of
from notifier.presence import Presence
from notifier.secretbox import open_box
from notifier.settings import Settings
from notifier.storage import Store, make_engine
from notifier.tools import Tools
from notifier.writer import Writer

GARBAGE = 10_000  # new objects, a few claims' worth, before it is looked for

log = structlog.get_logger()


def run_worker(
    settings: Settings, concurrency: int = CONCURRENCY, stop: threading.Event | None = None
) -> None:
    """Send until `stop` is set, then finish what is under way."""
    stop = stop or threading.Event()
    sys.setswitchinterval(SWITCH_S)
    store = Store(make_engine(settings.sqlalchemy_url), timezone=settings.timezone)
    check_revision(store.engine)
    metrics.watch(store.engine)
    box = open_box(settings, store)
    tools = Tools(store, Writer(store), Leases(), box, network_of(settings), settings)
    engine = Engine(tools, concurrency)
    engine.start()
    keeper = Housekeeper(store, tools.writer, settings, engine.is_busy)
    keeper.start()
    listener = None
    if settings.redis_url is not None:
        listener = Listener(settings.redis_url.get_secret_value(), engine.hear)
        listener.start()
    presence = Presence(store, concurrency)
    presence.start()
    gc.collect()
    gc.freeze()  # what is there for good is not looked through again and again
    gc.set_threshold(GARBAGE)
    log.info("worker_started", concurrency=concurrency, hears_a_bell=listener is not None)
    stop.wait()
    log.info("worker_stopping")
    keeper.stop()
    engine.stop()
    presence.stop()
    if listener is not None:
        listener.stop()
    store.engine.dispose()
    log.info("worker_stopped")
